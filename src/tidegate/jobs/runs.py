"""Runs, as whoever carries them out sees them: take one, keep it, end it. All at one level, in one compartment (P16).

A run is one record from waiting to done. Whoever takes it writes that down in one transaction, so that of two processes
one is first; while it runs its record is touched again and again, so that others see that its process lives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile

from tidegate.core import variants as records
from tidegate.core.gate import Act, Answer, Gate, SessionHandle
from tidegate.core.variants import NewRecord
from tidegate.errors import StorageError
from tidegate.jobs.job import (
    OPEN,
    RISEN_MAX,
    UNDELIVERED,
    Job,
    Run,
    RunState,
    event_tag,
    group_of,
    had,
    has_risen,
    known_group,
    name_of,
    read_plan,
    read_run,
    risen_group,
    write_run,
)
from tidegate.jobs.misfires import following
from tidegate.jobs.schedule import read_schedule
from tidegate.policy.levels import Level
from tidegate.records.record import Origin, Record, RecordKind, is_of, key_of, number_of
from tidegate.storage.base import CompartmentReader, View, WritableView

_BATCH = 200
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run as it was last seen: what is done with it holds only if nobody has touched it since."""

    run: Run
    record: Record

    @property
    def pulse(self) -> tuple[int, datetime]:
        """What changes as long as its process lives."""
        return self.record.version, self.record.updated_at


class SessionRuns:
    """The runs at one session's level. None as an answer: somebody else was first."""

    def __init__(self, gate: Gate, seat: SessionHandle) -> None:
        self._gate = gate
        self._handle = seat

    def open(self) -> list[ClaimedRun]:
        """What waits or runs, by due time. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", _open)

    def undelivered(self) -> list[ClaimedRun]:
        """What has a result that must still be handed over, the oldest first. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", _undelivered)

    def had(self, group: str) -> frozenset[datetime]:
        """The due times of a group that have had their run. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", lambda view: Answer(had_dues(view.visible[0], group), ()))

    def job(self, name: str) -> Job | None:
        """The live job of this name at this level; None when there is none. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", partial(_job, name=name))

    def begin(self, group: str, due_at: datetime) -> ClaimedRun | None:
        """A first run of a group that has nothing open. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_begin, group=group, due_at=due_at))

    def move(self, ticket: ClaimedRun, due_at: datetime) -> ClaimedRun | None:
        """The same run, for another time. Raises: Refused, StorageError."""
        return self._change(ticket, replace(ticket.run, due_at=due_at))

    def take(self, ticket: ClaimedRun, taken: Run, next_at: datetime | None) -> ClaimedRun | None:
        """The run as it is now taken; in the same transaction the next one waits. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_take, ticket=ticket, taken=taken, next_at=next_at))

    def drop(self, ticket: ClaimedRun) -> None:
        """What waits is not run: there is no job any more. Raises: Refused, StorageError."""
        self._gate.write(self._handle, "runs", partial(_drop, ticket=ticket))

    def beat(self, ticket: ClaimedRun) -> ClaimedRun | None:
        """The same run, seen to live. No text of it changes. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_beat, ticket=ticket))

    def close(self, ticket: ClaimedRun, closed: Run, *, again: bool = False) -> ClaimedRun | None:
        """The run, ended; with `again`, another attempt at it waits. A job that has no more times is over.

        Raises: Refused, StorageError.
        """
        return self._gate.write(self._handle, "runs", partial(_close, ticket=ticket, closed=closed, again=again))

    def arrive(self, run: Run, below: Level) -> ClaimedRun:
        """A run that started at a lower level, as it goes on at this one; stopped where too many do so already.

        Raises: Refused, StorageError.
        """
        return self._gate.write(self._handle, "runs", partial(_arrive, run=run, below=below))

    def note(self, ticket: ClaimedRun, noted: Run) -> ClaimedRun | None:
        """The same run, with something noted of its result's way. Raises: Refused, StorageError."""
        return self._change(ticket, noted)

    def _change(self, ticket: ClaimedRun, changed: Run) -> ClaimedRun | None:
        return self._gate.write(self._handle, "runs", partial(_change, ticket=ticket, changed=changed))


# Looking, in one compartment


def had_dues(compartment: CompartmentReader, group: str) -> frozenset[datetime]:
    """The due times that have had their run, as far as runs are kept."""
    return frozenset(due for record in _listed(compartment, group) for due in had(record.tags))


def next_number(compartment: CompartmentReader, group: str) -> int:
    """The number of the next run of a group."""
    return max((number_of(record.key) for record in _listed(compartment, group)), default=0) + 1


def waiting(compartment: CompartmentReader, group: str) -> list[ClaimedRun]:
    """The runs of a group that wait, in order."""
    return [each for each in _opened(compartment) if each.run.group == group and each.run.state is RunState.WAITING]


def begun_as(compartment: CompartmentReader, group: str) -> list[Record]:
    """The runs of a group in order, without their texts: here, and gone on here from below."""
    groups = [group]
    for below in Level:
        if below < compartment.level:
            groups += [risen_group(each, below) for each in groups]
    found = [record for each in groups for record in _listed(compartment, each)]
    return sorted(found, key=lambda record: record.created_at)


def of_event(compartment: CompartmentReader, group: str, event_id: str) -> Run | None:
    """The run of a group that this event has had, or what is known of it; None when it never came."""
    tag = event_tag(event_id)
    found = [each.run for each in _opened(compartment, tag) if each.run.group in (group, known_group(group))]
    by_group = {run.group: run for run in found}
    known = by_group.get(group) or by_group.get(known_group(group))
    return known and replace(known, group=group)


def remember(view: WritableView, act: Act, run: Run) -> Run:
    """The run of an event, under a number at which its id is remembered, also when the run is kept no more."""
    group = known_group(run.group)
    numbered = replace(run, number=max(run.number, next_number(view.own, group)))
    put(view, act, replace(numbered, group=group, state=RunState.DONE, event=None))
    return numbered


def unlearn(view: WritableView, act: Act, run: Run) -> None:
    """The event of a run that is not to be, if it had one, may come again."""
    known = view.own.read(RecordKind.RUN, key_of(known_group(run.group), run.number))
    if known is not None and known.live and run.event_id is not None and event_tag(run.event_id) in known.tags:
        records.hide(view, act, known)


def whole_record(compartment: CompartmentReader, record: Record) -> Record:
    """The run's record with its text."""
    return compartment.read(RecordKind.RUN, record.key) or record


def read(record: Record) -> Run:
    """The run that was stored; its key decides whose it is. Raises: StorageError."""
    run = read_run(record)
    if run.key != record.key:
        raise StorageError("a job cannot be read; run `tidegate doctor`")
    return run


def put(view: WritableView, act: Act, run: Run) -> ClaimedRun:
    """The run as it is now stored."""
    records.save(view, act, NewRecord(RecordKind.RUN, run.key, write_run(run), run.tags, Origin.AGENT))
    return ClaimedRun(run, records.variants((view.own,), RecordKind.RUN, run.key)[0])


def _listed(compartment: CompartmentReader, group: str) -> Iterator[Record]:
    found = records.every(compartment, RecordKind.RUN, batch=_BATCH, chars_max=0, after=key_of(group, 0))
    return takewhile(lambda record: is_of(record.key, group), found)


def _opened(compartment: CompartmentReader, tag: str = OPEN) -> list[ClaimedRun]:
    found = records.every(compartment, RecordKind.RUN, tag=tag, batch=_BATCH, chars_max=records.WHOLE)
    return [ClaimedRun(read(record), record) for record in found]


# The verbs


def _open(view: View) -> Answer[list[ClaimedRun]]:
    found = sorted(_opened(view.visible[0]), key=lambda ticket: (ticket.run.due_at, ticket.record.key))
    return Answer(found, [ticket.record for ticket in found])


def _undelivered(view: View) -> Answer[list[ClaimedRun]]:
    found = sorted(_opened(view.visible[0], UNDELIVERED), key=lambda ticket: ticket.record.created_at)
    return Answer(found, [ticket.record for ticket in found])


def _job(view: View, name: str) -> Answer[Job | None]:
    record = view.visible[0].read(RecordKind.JOB, name)
    if record is None or not record.live:
        return Answer(None, ())
    job = Job(name, read_plan(record.content), record.level, record.origin, record.created_at, record.updated_at, None)
    return Answer(job, [record])


def _begin(view: WritableView, act: Act, group: str, due_at: datetime) -> Answer[ClaimedRun | None]:
    if any(each.run.group == group for each in _opened(view.own)):
        return Answer(None, ())
    return Answer(put(view, act, Run(group=group, number=next_number(view.own, group), due_at=due_at)), ())


def _change(view: WritableView, act: Act, ticket: ClaimedRun, changed: Run) -> Answer[ClaimedRun | None]:
    if not _untouched(view, ticket):
        return Answer(None, ())
    return Answer(put(view, act, changed), ())


def _take(
    view: WritableView, act: Act, ticket: ClaimedRun, taken: Run, next_at: datetime | None
) -> Answer[ClaimedRun | None]:
    if not _untouched(view, ticket):
        return Answer(None, ())
    if next_at is not None:
        group = ticket.run.group
        put(view, act, Run(group=group, number=next_number(view.own, group), due_at=next_at))
    took = put(view, act, taken)
    if not taken.open:  # it was missed
        _retire(view, act, taken.group)
    return Answer(took, ())


def _drop(view: WritableView, act: Act, ticket: ClaimedRun) -> Answer[None]:
    if _untouched(view, ticket):
        records.hide(view, act, ticket.record)
        unlearn(view, act, ticket.run)
    return Answer(None, ())


def _beat(view: WritableView, act: Act, ticket: ClaimedRun) -> Answer[ClaimedRun | None]:
    stored = view.own.read(RecordKind.RUN, ticket.run.key)
    if stored is None or not stored.live or stored.version != ticket.record.version:
        return Answer(None, ())
    # It always moves, also when the clock was set back.
    at = max(act.at, stored.updated_at + _INSTANT)
    view.own.touch(RecordKind.RUN, stored.key, at)
    return Answer(ClaimedRun(ticket.run, replace(stored, updated_at=at)), ())


def _close(view: WritableView, act: Act, ticket: ClaimedRun, closed: Run, again: bool) -> Answer[ClaimedRun | None]:
    if not _untouched(view, ticket):
        return Answer(None, ())
    done = put(view, act, closed)
    if again:
        run = ticket.run
        number = next_number(view.own, run.group)
        anew = replace(
            run, number=number, state=RunState.WAITING, attempt=run.attempt + 1, holder="", missed=0, started_at=None
        )
        put(view, act, anew)
    else:
        _retire(view, act, closed.group)
    return Answer(done, ())


def _arrive(view: WritableView, act: Act, run: Run, below: Level) -> Answer[ClaimedRun]:
    """P5: what is too much is counted and ended here, above; below, the run was over when it rose."""
    group = risen_group(run.group, below)
    arrived = replace(run, group=group, number=next_number(view.own, group))
    if sum(has_risen(each.run.group) for each in _opened(view.own)) >= RISEN_MAX:
        reason = f"{RISEN_MAX} runs that started below go on at this level already"
        arrived = replace(arrived, state=RunState.STOPPED, ended_at=act.at, reason=reason, event=None)
    return Answer(put(view, act, arrived), ())


def _untouched(view: WritableView, ticket: ClaimedRun) -> bool:
    stored = view.own.read(RecordKind.RUN, ticket.record.key)
    return stored is not None and stored.live and ClaimedRun(ticket.run, stored).pulse == ticket.pulse


def _retire(view: WritableView, act: Act, group: str) -> None:
    """A job of which nothing waits any more is over; unless it has more times, whatever has become of its next run."""
    record = view.own.read(RecordKind.JOB, name_of(group)) if group == group_of(name_of(group)) else None
    if record is None or not record.live or any(each.run.group == group for each in _opened(view.own)):
        return
    plan = read_plan(record.content)
    due = following(read_schedule(plan.schedule, plan.timezone), act.at, had_dues(view.own, group))
    if due is None:
        records.hide(view, act, record)
    else:
        put(view, act, Run(group=group, number=next_number(view.own, group), due_at=due))
