"""Runs as a worker sees them: claim one, keep it alive, end it. All at one level, in one compartment (P16).

A run is one record from waiting to done. A process claims it in one transaction, so only one of two processes gets it.
While it runs, its process touches the record regularly, so that others see that the process is alive.
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
from tidegate.jobs.misfires import next_due
from tidegate.jobs.schedule import read_schedule
from tidegate.policy.levels import Level
from tidegate.records.record import Origin, Record, RecordKind, is_of, key_of, number_of
from tidegate.storage.base import CompartmentReader, View, WritableView

_BATCH = 200
_INSTANT = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class ClaimedRun:
    """A run as last read. A change is stored only if its record is untouched since."""

    run: Run
    record: Record

    @property
    def pulse(self) -> tuple[int, datetime]:
        """Return a value that changes while the run's process is alive."""
        return self.record.version, self.record.updated_at


class SessionRuns:
    """The runs at one session's level. None as an answer means that another process was first."""

    def __init__(self, gate: Gate, handle: SessionHandle) -> None:
        self._gate = gate
        self._handle = handle

    def open(self) -> list[ClaimedRun]:
        """Return the waiting and the running runs, by due time. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", _open)

    def undelivered(self) -> list[ClaimedRun]:
        """Return the runs whose result must still be delivered, oldest first. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", _undelivered)

    def had(self, group: str) -> frozenset[datetime]:
        """Return the due times of a group that have had their run. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "runs", lambda view: Answer(had_dues(view.visible[0], group), ()))

    def find_job(self, group: str) -> tuple[Job | None, frozenset[datetime]]:
        """Return the live job of a group at this level, or None, and the due times that have had their run.

        Raises: Refused, StorageError.
        """
        return self._gate.read(self._handle, "runs", partial(_find_job, group=group))

    def begin(self, group: str, due_at: datetime) -> ClaimedRun | None:
        """Store a first run for a group without an open one. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_begin, group=group, due_at=due_at))

    def move(self, claimed: ClaimedRun, due_at: datetime) -> ClaimedRun | None:
        """Move a run to another time. Raises: Refused, StorageError."""
        return self.note(claimed, replace(claimed.run, due_at=due_at))

    def claim(self, claimed: ClaimedRun, run: Run, next_at: datetime | None) -> ClaimedRun | None:
        """Store a run as claimed, and the next one as waiting, in one transaction. Raises: Refused, StorageError.

        run: running, missed or failed. next_at: when the next one is due; None: never.
        """
        return self._gate.write(self._handle, "runs", partial(_claim, claimed=claimed, run=run, next_at=next_at))

    def cancel(self, claimed: ClaimedRun) -> None:
        """Cancel a waiting run whose job no longer exists. Raises: Refused, StorageError."""
        self._gate.write(self._handle, "runs", partial(_cancel, claimed=claimed))

    def heartbeat(self, claimed: ClaimedRun) -> ClaimedRun | None:
        """Touch a run's record, as a sign of life. Its text does not change. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_heartbeat, claimed=claimed))

    def close(self, claimed: ClaimedRun, closed: Run, *, again: bool = False) -> ClaimedRun | None:
        """Store a run that has ended; with `again`, another attempt waits. A job without further times ends.

        Raises: Refused, StorageError.
        """
        return self._gate.write(self._handle, "runs", partial(_close, claimed=claimed, closed=closed, again=again))

    def promote(self, run: Run, below: Level) -> ClaimedRun:
        """Store a run that started at a lower level and continues here; as stopped if too many already do.

        Raises: Refused, StorageError.
        """
        return self._gate.write(self._handle, "runs", partial(_promote, run=run, below=below))

    def note(self, claimed: ClaimedRun, run: Run) -> ClaimedRun | None:
        """Store a run with changed notes, such as those on its delivery. Raises: Refused, StorageError."""
        return self._gate.write(self._handle, "runs", partial(_note, claimed=claimed, run=run))


# Reading, in one compartment


def had_dues(compartment: CompartmentReader, group: str) -> frozenset[datetime]:
    """Return the due times that have had their run, according to the kept runs."""
    return frozenset(due for record in _listed(compartment, group) for due in had(record.tags))


def next_number(compartment: CompartmentReader, group: str) -> int:
    """Return the number of the next run of a group."""
    return max((number_of(record.key) for record in _listed(compartment, group)), default=0) + 1


def waiting(compartment: CompartmentReader, group: str) -> list[ClaimedRun]:
    """Return the waiting runs of a group, in order."""
    return [each for each in _tagged(compartment) if each.run.group == group and each.run.state is RunState.WAITING]


def history(compartment: CompartmentReader, group: str) -> list[Record]:
    """Return the records of a group's runs in order, without texts, including those that rose to this level."""
    groups = [group]
    for below in Level:
        if below < compartment.level:
            groups += [risen_group(each, below) for each in groups]
    found = [record for each in groups for record in _listed(compartment, each)]
    return sorted(found, key=lambda record: record.created_at)


def find_event(compartment: CompartmentReader, group: str, event_id: str) -> Run | None:
    """Return a group's run for this event, or what remains of it; None if the event never came."""
    found = _tagged(compartment, event_tag(event_id))
    by_group = {each.run.group: each.run for each in found}
    known = by_group.get(group) or by_group.get(known_group(group))
    return known and replace(known, group=group)


def remember_event(view: WritableView, act: Act, run: Run) -> Run:
    """Store the id of an event, which outlives its run; return the run, numbered like the id."""
    group = known_group(run.group)
    numbered = replace(run, number=max(run.number, next_number(view.own, group)))
    put(view, act, replace(numbered, group=group, state=RunState.DONE, event=None))
    return numbered


def unlearn_event(view: WritableView, act: Act, run: Run) -> None:
    """Allow the event of a cancelled run, if it had one, to come again."""
    known = view.own.read(RecordKind.RUN, key_of(known_group(run.group), run.number))
    if known is not None and known.live and run.event_id is not None and event_tag(run.event_id) in known.tags:
        records.hide(view, act, known)


def whole_record(compartment: CompartmentReader, record: Record) -> Record:
    """Return the run's record with its text."""
    return compartment.read(RecordKind.RUN, record.key) or record


def read(record: Record) -> Run:
    """Return the run of a record; the key decides its group. Raises: StorageError."""
    run = read_run(record)
    if run.key != record.key:
        raise StorageError("a job cannot be read; run `tidegate doctor`")
    return run


def put(view: WritableView, act: Act, run: Run) -> ClaimedRun:
    """Store a run, and return it as stored."""
    records.save(view, act, NewRecord(RecordKind.RUN, run.key, write_run(run), run.tags, Origin.AGENT))
    return ClaimedRun(run, records.variants((view.own,), RecordKind.RUN, run.key)[0])


def put_next(view: WritableView, act: Act, group: str, due_at: datetime) -> ClaimedRun:
    """Store a new run of a group, which waits until `due_at`, and return it."""
    return put(view, act, Run(group=group, number=next_number(view.own, group), due_at=due_at))


def _listed(compartment: CompartmentReader, group: str) -> Iterator[Record]:
    found = records.every(compartment, RecordKind.RUN, batch=_BATCH, chars_max=0, after=key_of(group, 0))
    return takewhile(lambda record: is_of(record.key, group), found)


def _tagged(compartment: CompartmentReader, tag: str = OPEN) -> list[ClaimedRun]:
    found = records.every(compartment, RecordKind.RUN, tag=tag, batch=_BATCH, chars_max=records.WHOLE)
    return [ClaimedRun(read(record), record) for record in found]


# The verbs


def _open(view: View) -> Answer[list[ClaimedRun]]:
    found = sorted(_tagged(view.visible[0]), key=lambda each: (each.run.due_at, each.record.key))
    return Answer(found, [each.record for each in found])


def _undelivered(view: View) -> Answer[list[ClaimedRun]]:
    found = sorted(_tagged(view.visible[0], UNDELIVERED), key=lambda each: each.record.created_at)
    return Answer(found, [each.record for each in found])


def _find_job(view: View, group: str) -> Answer[tuple[Job | None, frozenset[datetime]]]:
    own = view.visible[0]
    dues, record = had_dues(own, group), own.read(RecordKind.JOB, name_of(group))
    if record is None or not record.live:
        return Answer((None, dues), ())
    plan = read_plan(record.content)
    job = Job(record.key, plan, record.level, record.origin, record.created_at, record.updated_at, None)
    return Answer((job, dues), [record])


def _begin(view: WritableView, act: Act, group: str, due_at: datetime) -> Answer[ClaimedRun | None]:
    if any(each.run.group == group for each in _tagged(view.own)):
        return Answer(None, ())
    return Answer(put_next(view, act, group, due_at), ())


def _note(view: WritableView, act: Act, claimed: ClaimedRun, run: Run) -> Answer[ClaimedRun | None]:
    return Answer(put(view, act, run) if _untouched(view, claimed) else None, ())


def _claim(
    view: WritableView, act: Act, claimed: ClaimedRun, run: Run, next_at: datetime | None
) -> Answer[ClaimedRun | None]:
    if not _untouched(view, claimed):
        return Answer(None, ())
    if next_at is not None:
        put_next(view, act, claimed.run.group, next_at)
    stored = put(view, act, run)
    if not run.open:  # missed, or failed at once
        _retire(view, act, run.group)
    return Answer(stored, ())


def _cancel(view: WritableView, act: Act, claimed: ClaimedRun) -> Answer[None]:
    if _untouched(view, claimed):
        records.hide(view, act, claimed.record)
        unlearn_event(view, act, claimed.run)
    return Answer(None, ())


def _heartbeat(view: WritableView, act: Act, claimed: ClaimedRun) -> Answer[ClaimedRun | None]:
    stored = view.own.read(RecordKind.RUN, claimed.run.key)
    if stored is None or not stored.live or stored.version != claimed.record.version:
        return Answer(None, ())
    # The time always advances, even if the clock was set back.
    at = max(act.at, stored.updated_at + _INSTANT)
    view.own.touch(RecordKind.RUN, stored.key, at)
    return Answer(ClaimedRun(claimed.run, replace(stored, updated_at=at)), ())


def _close(view: WritableView, act: Act, claimed: ClaimedRun, closed: Run, again: bool) -> Answer[ClaimedRun | None]:
    if not _untouched(view, claimed):
        return Answer(None, ())
    stored, run = put(view, act, closed), claimed.run
    if again:
        number, attempt = next_number(view.own, run.group), run.attempt + 1
        fresh = replace(run, number=number, state=RunState.WAITING, attempt=attempt, holder="", missed=0)
        put(view, act, replace(fresh, started_at=None))
    else:
        _retire(view, act, closed.group)
    return Answer(stored, ())


def _promote(view: WritableView, act: Act, run: Run, below: Level) -> Answer[ClaimedRun]:
    """Store a run that rose to this level. P5: the limit applies here, above; below, the run ended when it rose."""
    group = risen_group(run.group, below)
    promoted = replace(run, group=group, number=next_number(view.own, group))
    if sum(has_risen(each.run.group) for each in _tagged(view.own)) >= RISEN_MAX:
        reason = f"{RISEN_MAX} runs that rose to this level are already running"
        promoted = replace(promoted, state=RunState.STOPPED, ended_at=act.at, reason=reason, event=None)
    return Answer(put(view, act, promoted), ())


def _untouched(view: WritableView, claimed: ClaimedRun) -> bool:
    stored = view.own.read(RecordKind.RUN, claimed.record.key)
    return stored is not None and stored.live and ClaimedRun(claimed.run, stored).pulse == claimed.pulse


def _retire(view: WritableView, act: Act, group: str) -> None:
    """Store the next run of a job without open runs, or hide the job if none is due."""
    record = view.own.read(RecordKind.JOB, name_of(group)) if group == group_of(name_of(group)) else None
    if record is None or not record.live or any(each.run.group == group for each in _tagged(view.own)):
        return
    plan = read_plan(record.content)
    due = next_due(read_schedule(plan.schedule, plan.timezone), act.at, had_dues(view.own, group))
    if due is None:
        records.hide(view, act, record)
    else:
        put_next(view, act, group, due)
