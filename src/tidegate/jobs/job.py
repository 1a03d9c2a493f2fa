"""Jobs and their runs, as values and as the text in which each is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tidegate.errors import StorageError
from tidegate.policy.levels import Level, read_label
from tidegate.records import excerpt
from tidegate.records.fields import check_types
from tidegate.records.jsonl import read_flat
from tidegate.records.message_keys import key_of
from tidegate.records.record import Origin, Record
from tidegate.records.timestamps import read_time, write_time

JOBS_MAX = 64
"""Jobs of one agent at one level."""

QUEUE_MAX = 64
"""Runs of one job that wait."""

RISEN_MAX = 16
"""Runs of one agent that go on at a level at once, having started below it."""

TIME_LIMIT_SECONDS_MAX = 24 * 3600

TRIGGER = "trigger"
"""The group of the trigger's runs. Those of jobs have a slash in it."""

TEXT_CHARS_MAX = 100_000
"""What is kept of an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a job is to do, and when.

    ceiling: how high its sessions may rise. generation: how many jobs led to it, one having made the other.
    channel: where its results go; None: where the configuration says. time_limit_seconds: None likewise.
    """

    schedule: str
    timezone: str
    prompt: str
    ceiling: Level
    generation: int = 1
    channel: str | None = None
    time_limit_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a session sees it. level: of the session that made it, and at which its runs start."""

    name: str
    plan: Plan
    level: Level
    origin: Origin
    created_at: datetime
    updated_at: datetime
    next_run_at: datetime | None


class RunState(StrEnum):
    """How far a run is."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # at its time limit
    INTERRUPTED = "interrupted"  # its process ended in the middle
    MISSED = "missed"
    RISEN = "risen"  # it read something above this level, and went on there


class DeliveryState(StrEnum):
    """How far a result is on its way to a channel."""

    NONE = "none"  # there is nothing to hand over, or nowhere
    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, in one compartment, from waiting to done.

    group: of what it is a run. number: its place there, from 1. due_at: for which time; a queued one: since when.
    event: what came with it, for one that was asked for; event_id: under what name. queued: it was asked for.
    attempt: 2 after an interruption. holder: who runs it. missed: how many times passed before it, or with it.
    text: its result. reason: why it is not done, in our own words.
    """

    group: str
    number: int
    due_at: datetime
    state: RunState = RunState.WAITING
    attempt: int = 1
    queued: bool = False
    event: str | None = None
    event_id: str | None = None
    holder: str = ""
    missed: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None
    text: str = ""
    reason: str = ""
    channel: str | None = None
    handing: DeliveryState = DeliveryState.NONE
    handing_reason: str = ""
    attempts: int = 0
    next_attempt_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in (RunState.WAITING, RunState.RUNNING)

    @property
    def key(self) -> str:
        """The key of its record."""
        return key_of(self.group, self.number)

    @property
    def tags(self) -> tuple[str, ...]:
        """What its record can be found and known by, without its text."""
        state = (OPEN,) if self.open else (UNDELIVERED,) if self.handing is DeliveryState.PENDING else ()
        spent = not self.queued and self.state not in (RunState.WAITING, RunState.MISSED)
        had = (f"{_HAD}{write_time(self.due_at)}",) if spent else ()
        named = () if self.event_id is None else (event_tag(self.event_id),)
        return tuple(sorted((*state, *had, *named)))


_MARKS_MAX = 4096
_GROUP = re.compile(rf"(?:known/)?(?:risen/(?:{'|'.join(Level.__members__)})/)*(?:{TRIGGER}|job/[^/]+)")

OPEN, UNDELIVERED = "open", "undelivered"
_HAD, _EVENT, _KNOWN = "had:", "event:", "known/"


def had(tags: Iterable[str]) -> Iterator[datetime]:
    """The due time that had its run, by the tags of the run's record."""
    return (read_time(tag.removeprefix(_HAD)) for tag in tags if tag.startswith(_HAD))


def event_tag(event_id: str) -> str:
    """The tag of the records of this event."""
    return f"{_EVENT}{event_id}"


def group_of(name: str) -> str:
    """The group of a job's runs. No slash of the name is in it, so that the runs of one group stand together."""
    return f"job/{name.replace('%', '%25').replace('/', '%2F')}"


def risen_group(group: str, level: Level) -> str:
    """The group of runs that went on here, having started at a lower level."""
    return f"risen/{level}/{group}"


def known_group(group: str) -> str:
    """The group in which the ids of a group's events are remembered, each under its run's number."""
    return f"{_KNOWN}{group}"


def is_known_group(group: str) -> bool:
    """Whether in this group ids of events are remembered."""
    return group.startswith(_KNOWN)


def has_risen(group: str) -> bool:
    """Whether the group is of runs that went on where they are, having started at a lower level."""
    return group.startswith("risen/")


def name_of(group: str) -> str:
    """The job's name; "" for the trigger, at whatever level it goes on."""
    group = group.removeprefix(_KNOWN)
    while has_risen(group):
        group = group.split("/", 2)[2]
    return group[4:].replace("%2F", "/").replace("%25", "%") if group.startswith("job/") else ""


def began_at(group: str, here: Level) -> Level:
    """The level of the job whose runs are in this group at a level: where they started. P5: never one above."""
    while has_risen(group):
        _, label, group = group.split("/", 2)
        level = read_label(label)
        here = here if level is None else min(level, here)
    return here


def is_group(group: str) -> bool:
    """Whether runs can be of such a group."""
    name = name_of(group)
    return _GROUP.fullmatch(group) is not None and group.endswith(group_of(name) if name else TRIGGER)


def back_off(attempts: int) -> timedelta:
    """How long to wait after so many attempts that failed: a minute, then twice as long each time, up to six hours."""
    return min(timedelta(minutes=2 ** min(attempts - 1, 12)), timedelta(hours=6))


def cut(text: str) -> str:
    """Return as much of an answer as is stored."""
    return excerpt.cut(text, TEXT_CHARS_MAX, "\n[cut: the first {kept} characters of {all}]")


def write_plan(plan: Plan) -> str:
    """A plan as it is stored."""
    return json.dumps({**asdict(plan), "ceiling": str(plan.ceiling)}, ensure_ascii=False)


def read_plan(text: str) -> Plan:
    """The plan that was stored. Raises: StorageError."""
    stored = _loaded(text, Plan)
    ceiling = read_label(stored.get("ceiling"))
    if ceiling is None:  # P17
        raise _damaged()
    plan: Plan = _made(Plan, {**stored, "ceiling": ceiling})
    return plan


def write_run(run: Run) -> str:
    """A run as it is stored."""
    named = {name: value for name, value in asdict(run).items() if value not in (None, "", 0, False)}
    shown = {name: write_time(value) if isinstance(value, datetime) else value for name, value in named.items()}
    return json.dumps(shown, ensure_ascii=False)


def read_run(record: Record) -> Run:
    """The run that was stored. Raises: StorageError."""
    stored = _loaded(record.content, Run)
    try:
        times = {name: read_time(stored[name]) for name in stored if name.endswith("_at") and stored[name] is not None}
        run: Run = _made(Run, {**stored, **times})
        return replace(run, state=RunState(run.state), handing=DeliveryState(run.handing))
    except ValueError:
        raise _damaged() from None


def _loaded(text: str, kind: type[Plan] | type[Run]) -> dict[str, Any]:
    try:
        stored = read_flat(text, _MARKS_MAX)
        check_types(stored, kind)
    except (ValueError, TypeError, AttributeError):
        raise _damaged() from None
    loaded: dict[str, Any] = stored
    return loaded


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError:
        raise _damaged() from None


def _damaged() -> StorageError:
    return StorageError("a job cannot be read; run `tidegate doctor`")
