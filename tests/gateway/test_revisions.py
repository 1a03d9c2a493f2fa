"""Servers of older revisions: found whatever they do at the probe of the newest, and known at once the next time."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.conftest import hostile

from tidegate.config.servers import Server
from tidegate.gateway import gateway as gateways
from tidegate.gateway.connections import McpConnection, look
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Pins
from tidegate.gateway.replies import Result
from tidegate.gateway.revisions import Revisions, revisions_of
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
AT_THE_PROBE = [
    "ends-at-the-probe",
    "hangs-at-the-probe",
    "garbles-at-the-probe",
    "confused-by-the-probe",
    "answers-nonsense-to-the-probe",
]


def call(store: Store, session: Session, server: Server, pins: Pins) -> Result:
    async def act() -> Result:
        async with Gateway(store, session, {server.name: server}, pins, ids=lambda: "NONCE") as gateway:
            return await gateway.call("hostile__echo", {"text": "hello"})

    return asyncio.run(act())


def heard(record: Path) -> list[str]:
    """The methods of the messages since the last time."""
    lines = record.read_text().splitlines()
    record.write_text("")
    return [json.loads(line)["method"] for line in lines]


@pytest.mark.parametrize("how", AT_THE_PROBE)
def test_whatever_an_old_server_does_at_the_probe_it_is_addressed_in_the_old_revision(
    store: Store, session: Session, pins: Pins, tmp_path: Path, how: str
) -> None:
    record = tmp_path / "record"
    server = replace(hostile(how, RECORD=str(record)), timeout_seconds=2)
    assert "hello" in call(store, session, server, pins).text
    assert heard(record)[0] == "server/discover"
    assert "hello" in call(store, session, server, pins).text
    assert heard(record)[0] == "initialize", "at once the next time"


def test_an_old_server_that_answers_the_probe_is_not_started_again(
    store: Store, session: Session, pins: Pins, tmp_path: Path
) -> None:
    record = tmp_path / "record"
    call(store, session, hostile("behaves", RECORD=str(record)), pins)
    assert heard(record)[:3] == ["server/discover", "initialize", "notifications/initialized"]
    call(store, session, hostile("behaves", RECORD=str(record)), pins)
    assert heard(record)[0] == "initialize"


def test_a_server_that_was_old_and_now_speaks_only_the_newest_revision_is_found(
    store: Store, session: Session, pins: Pins
) -> None:
    server = hostile("newest-only")
    revisions_of(store).note_old("ada", server, PUBLIC)
    assert "hello" in call(store, session, server, pins).text


def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long each start of a server may take, in seconds."""
    allowed: list[float] = []
    real = McpConnection._during

    async def during(connection: McpConnection, check: Any, act: Any, seconds: float) -> Any:
        allowed.append(seconds)
        return await real(connection, check, act, seconds)

    monkeypatch.setattr(McpConnection, "_during", during)
    return allowed


def test_both_starts_of_a_silent_server_share_one_time(
    store: Store, session: Session, pins: Pins, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = waits(monkeypatch)
    result = call(store, session, replace(hostile("never-starts"), timeout_seconds=1), pins)
    assert result.reason == "the server did not answer within 1 seconds"
    assert allowed[0] == 1
    assert allowed[1] <= 0.5, "the probe has taken half"
    assert len(allowed) == 2


def test_a_silent_server_that_was_old_is_started_once(
    store: Store, session: Session, pins: Pins, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = waits(monkeypatch)
    server = replace(hostile("never-starts"), timeout_seconds=1)
    revisions_of(store).note_old("ada", server, PUBLIC)
    assert call(store, session, server, pins).reason == "the server did not answer within 1 seconds"
    assert allowed == [1]


def test_a_server_that_ends_at_once_has_the_rest_of_the_time(
    store: Store, session: Session, pins: Pins, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = waits(monkeypatch)
    assert "hello" in call(store, session, hostile("ends-at-the-probe"), pins).text
    first, second, *calls = allowed
    assert first > second > 0
    assert calls == [first, first]


def test_the_owner_lists_the_tools_of_an_old_server_too() -> None:
    assert set(asyncio.run(look(hostile("ends-at-the-probe"))).definitions) == {"echo"}


def test_p5_a_lower_session_learns_nothing_from_what_a_higher_one_saw(store: Store, pins: Pins, tmp_path: Path) -> None:
    record = tmp_path / "record"
    server = hostile("behaves", PUBLIC, RESTRICTED, RECORD=str(record))
    call(store, store.session("ada", "high", CONFIDENTIAL), server, pins)
    heard(record)
    call(store, store.session("ada", "low", INTERNAL), server, pins)
    assert heard(record)[0] == "server/discover"
    call(store, store.session("ada", "high", CONFIDENTIAL), server, pins)
    assert heard(record)[0] == "initialize"


def test_p5_a_memory_over_all_levels_would_be_found(
    store: Store, pins: Pins, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The seeded leak: what a higher session saw decides the first message of a lower one. The test above finds it.
    monkeypatch.setattr(Revisions, "is_old", lambda self, agent, server, level: bool(self._seen))
    with pytest.raises(AssertionError):
        test_p5_a_lower_session_learns_nothing_from_what_a_higher_one_saw(store, pins, tmp_path)


def test_p6_what_one_agent_saw_another_does_not_know() -> None:
    seen, server = Revisions(), Server("x", command=("x",))
    seen.note_old("ada", server, PUBLIC)
    assert seen.is_old("ada", server, PUBLIC)
    assert not seen.is_old("bob", server, RESTRICTED)


def test_the_lowest_level_counts_and_another_server_of_the_same_name_is_another() -> None:
    seen, server = Revisions(), Server("x", command=("x",))
    seen.note_old("ada", server, CONFIDENTIAL)
    seen.note_old("ada", server, INTERNAL)
    seen.note_old("ada", server, RESTRICTED)
    assert [seen.is_old("ada", server, level) for level in Level] == [False, True, True, True]
    assert not seen.is_old("ada", replace(server, command=("y",)), RESTRICTED)


def test_stores_share_nothing(store: Store) -> None:
    assert revisions_of(store) is revisions_of(store)
    assert gateways.revisions_of is revisions_of
