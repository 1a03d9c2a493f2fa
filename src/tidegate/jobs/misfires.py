"""Decisions about a run that waits for its time: keep waiting, start it, or store it as missed. Pure.

A machine may have slept, been off, or changed its clock. In every case at most one run is caught up, and no due time
runs twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from tidegate.jobs.schedule import Schedule, dues

MISSED_MAX = 1_000
"""The maximum number of missed times that are counted."""

_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class MisfireDecision:
    """start: run now, for the time `due_at`. missed: how many times before that passed without a run.

    due_at: otherwise, when the run is due; None: never again.
    """

    start: bool
    due_at: datetime | None
    missed: int = 0


def decide(
    schedule: Schedule, due_at: datetime, now: datetime, *, misfire_grace: timedelta, done: Collection[datetime]
) -> MisfireDecision:
    """Return the decision about a run that waits until `due_at`.

    misfire_grace: how late a run may start. done: due times that have had their run.
    """
    if now < due_at:
        due = next_due(schedule, now, done)  # earlier than `due_at` if that was set by a clock that was ahead
        return MisfireDecision(False, due_at if due is None else min(due_at, due))
    begin = due_at - _INSTANT
    missed = sum(due not in done for due in islice(dues(schedule, begin, now), MISSED_MAX))
    within = [due for due in dues(schedule, max(begin, now - misfire_grace - _INSTANT), now) if due not in done]
    if within:
        return MisfireDecision(True, within[-1], max(missed - 1, 0))
    return MisfireDecision(False, next_due(schedule, now, done), max(missed, 1))


def next_due(schedule: Schedule, now: datetime, done: Collection[datetime]) -> datetime | None:
    """Return the first time after now that has not had its run, so that a clock set back repeats none. None: never."""
    due = schedule.next_after(now)
    while due is not None and due in done:
        due = schedule.next_after(due)
    return due
