"""The jobs of an agent: records like any other, created at a session's own level, visible there and above (P16).

Unlike memories they do not shadow each other: two jobs of one name at two levels are two jobs, and both run.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tidegate.core import variants as records
from tidegate.core.gate import Act, Answer, Gate, SessionHandle
from tidegate.core.variants import NewRecord
from tidegate.errors import InvalidArgument, LimitExceeded, NotFound
from tidegate.jobs import runs
from tidegate.jobs.job import (
    JOBS_MAX,
    QUEUE_MAX,
    TIME_LIMIT_SECONDS_MAX,
    TRIGGER,
    Job,
    Plan,
    Run,
    group_of,
    read_plan,
    write_plan,
)
from tidegate.jobs.misfires import next_due
from tidegate.jobs.schedule import read_schedule
from tidegate.policy.levels import Level
from tidegate.records.limits import Limits
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.records.validation import check_content, check_key, check_number
from tidegate.storage.base import CompartmentReader, View, WritableView

_BATCH = 100


class SessionJobs:
    """The jobs that one session sees and creates."""

    def __init__(self, gate: Gate, handle: SessionHandle, limits: Limits, origin: Origin, generation: int) -> None:
        self._gate = gate
        self._handle = handle
        self._limits = limits
        self._origin = origin
        self._generation = generation

    def create(
        self,
        name: str,
        schedule: str,
        prompt: str,
        *,
        timezone: str | None = None,
        ceiling: Level | None = None,
        channel: str | None = None,
        time_limit_seconds: int | None = None,
    ) -> Job:
        """Create a job at the session's live taint, or replace the one of this name at this level, and return it.

        schedule: as `jobs.schedule` reads it, in `timezone`, by default UTC. ceiling: of its sessions, by default and
        at most the session's own. channel: where its results go. Both are for the owner, never for a model.
        Raises: InvalidArgument, LimitExceeded (64 jobs at a level), Refused (ended, ceiling, depth), StorageError.
        """
        generation = self._generation + 1
        plan = Plan(
            schedule=schedule,
            timezone=timezone or "UTC",
            prompt=check_content(prompt, self._limits, "prompt"),
            ceiling=self._gate.flow.check_scheduling(self._handle.id, ceiling, generation),
            generation=generation,
            channel=None if channel is None else check_key(channel, self._limits, "channel"),
            time_limit_seconds=time_limit_seconds
            and check_number("time_limit", time_limit_seconds, default=1, most=TIME_LIMIT_SECONDS_MAX),
        )
        read_schedule(schedule, plan.timezone)
        name = check_key(name, self._limits, "name")
        verb = partial(_create, name=name, plan=plan, origin=self._origin)
        return self._gate.write(self._handle, "cron_create", verb)

    def delete(self, name: str) -> Job:
        """Delete a job at the session's own level, and return it. A running run continues; a waiting one is cancelled.

        Raises: NotFound (with `visible_at` if a lower one is visible), InvalidArgument, Refused, StorageError.
        """
        name = check_key(name, self._limits, "name")
        return self._gate.write(self._handle, "cron_delete", partial(_delete, name=name))

    def history(self, name: str | None, *, limit: int | None = None) -> list[tuple[Run, Level]]:
        """Return the visible runs of a job, even a deleted one, the latest start or due time first. limit: 1 to 200.

        name: None means the trigger.

        Raises: InvalidArgument, Refused, StorageError.
        """
        most = check_number("limit", limit, default=20, most=200)
        group = TRIGGER if name is None else group_of(check_key(name, self._limits, "name"))
        verb = partial(_history, group=group, limit=most)
        return self._gate.read(self._handle, "cron_history", verb)

    def post(self, name: str | None, event: str | None = None, *, event_id: str | None = None) -> Run:
        """Queue a run, and return it. It runs when its worker is free and earlier queued runs are done.

        The schedule stays. name: None means the trigger, which wakes at one level only; at any other the run never
        starts. event: data for the run. event_id: one id never runs twice; without an id, an event that already waits
        is not queued again.

        Raises: NotFound (own level only), LimitExceeded, InvalidArgument, Refused, StorageError.
        """
        event = None if event is None else check_content(event, self._limits, "event")
        event_id = None if event_id is None else check_key(event_id, self._limits, "event_id")
        name = None if name is None else check_key(name, self._limits, "name")
        verb = partial(_post, name=name, event=event, event_id=event_id)
        return self._gate.write(self._handle, "cron_post", verb)

    def list(self) -> list[Job]:
        """Return all visible jobs, by name, then the highest first. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "cron_list", _list)


def _create(view: WritableView, act: Act, name: str, plan: Plan, origin: Origin) -> Answer[Job]:
    before, group = _own(view, name), group_of(name)
    if (
        before is None
        and len(view.own.page(RecordKind.JOB, after="", tag=None, limit=JOBS_MAX, chars_max=0)) >= JOBS_MAX
    ):
        limit = f"name: there are already {JOBS_MAX} jobs at this level; delete one first"
        raise LimitExceeded(limit, argument="name", limit=JOBS_MAX, actual=JOBS_MAX + 1)
    waiting = [each for each in runs.waiting(view.own, group) if not each.run.queued]
    same = before is not None and _timing(read_plan(before.content)) == _timing(plan)
    if not (same and waiting):
        due = next_due(read_schedule(plan.schedule, plan.timezone), act.at, runs.had_dues(view.own, group))
        if due is None:
            raise InvalidArgument("schedule: that time has passed; choose a later one", argument="schedule")
        for each in waiting:
            records.hide(view, act, each.record)
        runs.put_next(view, act, group, due)
    records.save(view, act, NewRecord(RecordKind.JOB, name, write_plan(plan), (), origin))
    made = records.variants((view.own,), RecordKind.JOB, name)
    return Answer(_job(view.own, made[0]), made)


def _delete(view: WritableView, act: Act, name: str) -> Answer[Job]:
    record = _require(view, name)
    job = _job(view.own, record)
    records.hide(view, act, record)
    for each in runs.waiting(view.own, group_of(name)):
        records.hide(view, act, each.record)
        runs.unlearn_event(view, act, each.run)
    return Answer(replace(job, next_run_at=None), [record])


def _post(view: WritableView, act: Act, name: str | None, event: str | None, event_id: str | None) -> Answer[Run]:
    drawn_on = [] if name is None else [_require(view, name)]
    group = TRIGGER if name is None else group_of(name)
    waiting = [each for each in runs.waiting(view.own, group) if each.run.queued]
    if event_id is not None:
        known = runs.find_event(view.own, group, event_id)
        if known is not None:
            return Answer(known, drawn_on)
    else:
        for each in waiting:
            if (each.run.event, each.run.event_id) == (event, None):
                return Answer(each.run, drawn_on)
    if len(waiting) >= QUEUE_MAX:
        limit = f"event: {QUEUE_MAX} runs of this job already wait; try again later"
        raise LimitExceeded(limit, argument="event", limit=QUEUE_MAX, actual=QUEUE_MAX + 1)
    number = runs.next_number(view.own, group)
    run = Run(group=group, number=number, due_at=act.at, queued=True, event=event, event_id=event_id)
    if event_id is not None:
        run = runs.remember_event(view, act, run)
    runs.put(view, act, run)
    return Answer(run, drawn_on)


def _list(view: View) -> Answer[list[Job]]:
    found = [
        (each, record)
        for each in view.visible
        for record in records.every(each, RecordKind.JOB, batch=_BATCH, chars_max=records.WHOLE)
    ]
    jobs = [_job(compartment, record) for compartment, record in found]
    return Answer(sorted(jobs, key=lambda job: (job.name, -job.level)), [record for _, record in found])


def _history(view: View, group: str, limit: int) -> Answer[list[tuple[Run, Level]]]:
    found = [runs.whole_record(each, listed) for each in view.visible for listed in runs.history(each, group)[-limit:]]
    read = [(runs.read(record), record.level) for record in found]
    return Answer(sorted(read, key=_newest)[:limit], found)


def _newest(at_level: tuple[Run, Level]) -> tuple[float, int, int]:
    run, level = at_level
    at = run.started_at or run.due_at
    return (-at.timestamp(), -run.number, -level)


def _own(view: WritableView, name: str) -> Record | None:
    record = view.own.read(RecordKind.JOB, name)
    return record if record is not None and record.live else None


def _require(view: WritableView, name: str) -> Record:
    record = _own(view, name)
    if record is None:
        lower = records.variants(view.visible[1:], RecordKind.JOB, name)
        where = {"visible_at": lower[0].level.name} if lower else {}
        hint = "" if lower else "; see cron_list"
        raise NotFound(f"name: no job at this session's level has this name{hint}", argument="name", **where)
    return record


def _job(compartment: CompartmentReader, record: Record) -> Job:
    waiting = [each.run.due_at for each in runs.waiting(compartment, group_of(record.key))]
    return Job(
        name=record.key,
        plan=read_plan(record.content),
        level=record.level,
        origin=record.origin,
        created_at=record.created_at,
        updated_at=record.updated_at,
        next_run_at=min(waiting, default=None),
    )


def _timing(plan: Plan) -> tuple[str, str]:
    return plan.schedule, plan.timezone
