"""Jobs and runs are stored in the same words as in the last version, whatever their fields are called here."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tidegate.errors import StorageError
from tidegate.jobs.job import DeliveryState, Plan, Run, RunState, read_plan, read_run, write_plan, write_run
from tidegate.policy.levels import Level
from tidegate.records.record import Origin, Record, RecordKind

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
RUN = Run(
    group="job/digest",
    number=3,
    due_at=NOON,
    state=RunState.FAILED,
    queued=True,
    event="e",
    event_id="i",
    holder="h",
    missed=2,
    started_at=NOON,
    ended_at=NOON,
    text="é",
    reason="r",
    channel="c",
    delivery=DeliveryState.PENDING,
    delivery_reason="later",
    attempts=1,
    next_attempt_at=NOON,
)
TIME = '"2026-03-02T12:00:00.000000Z"'
RUN_TEXT = (
    f'{{"group": "job/digest", "number": 3, "due_at": {TIME}, "state": "failed", "attempt": 1, "queued": true, '
    f'"event": "e", "event_id": "i", "holder": "h", "missed": 2, "started_at": {TIME}, "ended_at": {TIME}, '
    f'"text": "é", "reason": "r", "channel": "c", "handing": "pending", "handing_reason": "later", "attempts": 1, '
    f'"next_attempt_at": {TIME}}}'
)
PLAN = Plan(schedule="@daily", timezone="UTC", prompt="do it", ceiling=Level.INTERNAL, channel="c")
PLAN_TEXT = (
    '{"schedule": "@daily", "timezone": "UTC", "prompt": "do it", "ceiling": "INTERNAL", "generation": 1, '
    '"channel": "c", "time_limit_seconds": null}'
)


def stored(content: str) -> Record:
    return Record(
        kind=RecordKind.RUN,
        key="job/digest/000000000003",
        content=content,
        tags=(),
        origin=Origin.AGENT,
        version=1,
        nonce="n",
        created_at=NOON,
        updated_at=NOON,
        agent="assistant",
        level=Level.PUBLIC,
        deleted_at=None,
    )


def test_a_run_is_stored_in_the_words_of_the_last_version_and_read_from_them() -> None:
    assert write_run(RUN) == RUN_TEXT
    assert read_run(stored(RUN_TEXT)) == RUN


def test_a_plan_is_stored_in_the_words_of_the_last_version_and_read_from_them() -> None:
    assert write_plan(PLAN) == PLAN_TEXT
    assert read_plan(PLAN_TEXT) == PLAN


@pytest.mark.parametrize("more", ['"delivery": "pending"', '"delivery_reason": "x"', '"attempt": 1'])
def test_p17_a_run_in_other_words_is_not_read(more: str) -> None:
    with pytest.raises(StorageError):
        read_run(stored(f"{RUN_TEXT[:-1]}, {more}}}"))
