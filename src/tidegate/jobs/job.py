"""Jobs and their runs, as values and in their stored text form."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tidegate.errors import StorageError
from tidegate.policy.levels import Level, read_label
from tidegate.records.fields import check_types
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonable import jsonable
from tidegate.records.jsonl import read_flat
from tidegate.records.record import Origin, Record, key_of
from tidegate.records.times import read_timestamp, write_timestamp

JOBS_MAX = 64
"""The maximum number of jobs of one agent at one level."""

QUEUE_MAX = 64
"""The maximum number of waiting runs of one job."""

RISEN_MAX = 16
"""The maximum number of runs of one agent that started below a level and continue there at the same time."""

TIME_LIMIT_SECONDS_MAX = 24 * 3600

TRIGGER = "trigger"
"""The group of the trigger's runs. Groups of jobs have a slash in their names."""

TEXT_CHARS_MAX = 100_000
"""How much of an answer is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(JsonObject):
    """A job's prompt, schedule and bounds.

    ceiling: of its sessions. generation: the length of the chain of jobs that created it.
    channel: where its results go. channel, time_limit_seconds: None means as configured.
    """

    schedule: str
    timezone: str
    prompt: str
    ceiling: Level
    generation: int = 1
    channel: str | None = None
    time_limit_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Job(JsonObject):
    """A job as a session sees it. level: of the session that created it; its runs start there."""

    name: str
    plan: Plan
    level: Level
    origin: Origin
    created_at: datetime
    updated_at: datetime
    next_run_at: datetime | None


class RunState(StrEnum):
    """The state of a run."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"  # at its time limit
    INTERRUPTED = "interrupted"  # its process ended before it did
    MISSED = "missed"
    RISEN = "risen"  # it read something above this level, and continued there


class DeliveryState(StrEnum):
    """The state of the delivery of a result to a channel."""

    NONE = "none"  # no result to deliver, or no channel
    PENDING = "pending"
    DELIVERED = "delivered"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run(JsonObject):
    """One run, in one compartment, from waiting to done.

    group: of one job, or the trigger. number: its place there, from 1. due_at: its time; if queued, since when.
    queued: it was requested. event: the data of the request; event_id: its name, from the sender. attempt: 2 after an
    interruption. holder: the process that runs it. missed: how many times passed without a run, up to this one. text:
    its result. reason: why it is not done, in our own words. delivery_progress: how much of the result was delivered.
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
    delivery: DeliveryState = DeliveryState.NONE
    delivery_reason: str = ""
    delivery_progress: str = ""
    attempts: int = 0
    next_attempt_at: datetime | None = None

    @property
    def open(self) -> bool:
        """Return whether it waits or runs."""
        return self.state in (RunState.WAITING, RunState.RUNNING)

    @property
    def key(self) -> str:
        """Return the key of its record."""
        return key_of(self.group, self.number)

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags that find and describe its record without reading its text."""
        state = (OPEN,) if self.open else (UNDELIVERED,) if self.delivery is DeliveryState.PENDING else ()
        spent = not self.queued and self.state not in (RunState.WAITING, RunState.MISSED)
        had = (f"{_HAD}{write_timestamp(self.due_at)}",) if spent else ()
        named = () if self.event_id is None else (event_tag(self.event_id),)
        return tuple(sorted((*state, *had, *named)))


_MARKS_MAX = 4096
_STORED_NAMES = {"delivery": "handing", "delivery_reason": "handing_reason"}
# To the stored names and back. A field's own name maps to no field, so that stored text has one reading only.
_SWAPPED = {**_STORED_NAMES, **{stored: name for name, stored in _STORED_NAMES.items()}}
_GROUP = re.compile(rf"(?:known/)?(?:risen/(?:{'|'.join(Level.__members__)})/)*(?:{TRIGGER}|job/[^/]+)")

OPEN, UNDELIVERED = "open", "undelivered"
_HAD, _EVENT, _KNOWN = "had:", "event:", "known/"


def had(tags: Iterable[str]) -> Iterator[datetime]:
    """Yield the due time that this run used up, from the tags of the run's record."""
    return (read_timestamp(tag.removeprefix(_HAD)) for tag in tags if tag.startswith(_HAD))


def event_tag(event_id: str) -> str:
    """Return the tag of the records of this event."""
    return f"{_EVENT}{event_id}"


def group_of(name: str) -> str:
    """Return the group of a job's runs. Slashes in the name are escaped, so that a group's keys are adjacent."""
    return f"job/{name.replace('%', '%25').replace('/', '%2F')}"


def risen_group(group: str, level: Level) -> str:
    """Return the group of runs that started at a lower level and continued here."""
    return f"risen/{level}/{group}"


def known_group(group: str) -> str:
    """Return the group that remembers the ids of a group's events, each under its run's number."""
    return f"{_KNOWN}{group}"


def is_known_group(group: str) -> bool:
    """Return whether this group remembers ids of events."""
    return group.startswith(_KNOWN)


def has_risen(group: str) -> bool:
    """Return whether the group's runs started at a lower level and continued here."""
    return group.startswith("risen/")


def name_of(group: str) -> str:
    """Return the job's name; "" for the trigger, at any level."""
    group = group.removeprefix(_KNOWN)
    while has_risen(group):
        group = group.split("/", 2)[2]
    return group[4:].replace("%2F", "/").replace("%25", "%") if group.startswith("job/") else ""


def began_at(group: str, here: Level) -> Level:
    """Return the level at which the runs of this group started: their job's. P5: never one above `here`."""
    while has_risen(group):
        _, label, group = group.split("/", 2)
        level = read_label(label)
        here = here if level is None else min(level, here)
    return here


def is_group(group: str) -> bool:
    """Return whether this is a valid group of runs."""
    if _GROUP.fullmatch(group) is None:  # before anything parses it
        return False
    name = name_of(group)
    return group.endswith(group_of(name) if name else TRIGGER)


def write_plan(plan: Plan) -> str:
    """Return a plan in its stored form."""
    return json.dumps(jsonable(plan), ensure_ascii=False)


def read_plan(text: str) -> Plan:
    """Return the plan from its stored form. Raises: StorageError."""
    stored = _loaded(text, Plan)
    ceiling = read_label(stored.get("ceiling"))
    if ceiling is None:  # P17
        raise _damaged()
    plan: Plan = _made(Plan, {**stored, "ceiling": ceiling})
    return plan


def write_run(run: Run) -> str:
    """Return a run in its stored form."""
    named = {
        _SWAPPED.get(name, name): value for name, value in jsonable(run).items() if value not in (None, "", 0, False)
    }
    return json.dumps(named, ensure_ascii=False)


def read_run(record: Record) -> Run:
    """Return the run of a record. Raises: StorageError."""
    stored = _loaded(record.content, Run)
    try:
        times = {
            name: read_timestamp(stored[name]) for name in stored if name.endswith("_at") and stored[name] is not None
        }
        run: Run = _made(Run, {**stored, **times})
        return replace(run, state=RunState(run.state), delivery=DeliveryState(run.delivery))
    except ValueError:
        raise _damaged() from None


def _loaded(text: str, kind: type[Plan] | type[Run]) -> dict[str, Any]:
    try:
        loaded = {_SWAPPED.get(name, name): value for name, value in read_flat(text, _MARKS_MAX).items()}
        check_types(loaded, kind)
    except (ValueError, TypeError, AttributeError):
        raise _damaged() from None
    return loaded


def _made(kind: Any, values: Mapping[str, Any]) -> Any:
    try:
        return kind(**values)
    except TypeError:
        raise _damaged() from None


def _damaged() -> StorageError:
    return StorageError("a job cannot be read; run `tidegate doctor`")
