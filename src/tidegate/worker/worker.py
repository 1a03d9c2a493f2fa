"""One worker for one agent and level: it runs the jobs due there, one by one, and no other level's (P16)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from tidegate.errors import InvalidArgument, Refused, StorageError, TidegateError
from tidegate.jobs.job import TRIGGER, DeliveryState, Job, Run, RunState, name_of
from tidegate.jobs.misfires import MisfireDecision, decide, next_due
from tidegate.jobs.runs import ClaimedRun, SessionRuns
from tidegate.jobs.schedule import Every, Schedule, read_quiet, read_schedule, read_zone
from tidegate.policy.levels import Level
from tidegate.worker.delivery import ATTEMPTS_MAX, DeliveryError, Notification, back_off
from tidegate.worker.execution import Execution, may_try_again, to_deliver
from tidegate.worker.task import WakeupTask, has_trigger, job_task, read_trigger, trigger_task
from tidegate.worker.worker_context import WorkerContext

_log = logging.getLogger(__name__)
POLL_SECONDS = 5.0
"""How soon a worker notices changes by others in the store."""

_RETENTION_TICKS = 500
_T = TypeVar("_T")


class Worker:
    """The worker of one agent at one level, in one process."""

    def __init__(self, context: WorkerContext, agent: str, level: Level) -> None:
        self._context = context
        self._agent = agent
        self._level = level
        self._host = context.host(agent, level)
        self._open: list[ClaimedRun] | None = None  # as read in this tick; None once one has changed
        self._running: list[Execution] = []
        self._watched: dict[str, tuple[tuple[int, datetime], float]] = {}
        self._living: set[str] = set()
        self._warned: set[str] = set()
        self._ticks = 0
        self._stopping = threading.Event()

    def work(self) -> None:
        """Work until stopped."""
        while not self._stopping.is_set():
            try:
                self.tick()
                pause = self.pause_seconds()
            except TidegateError as error:
                _log.error("%s at %s: %s", self._agent, self._level, error.message)
                pause = POLL_SECONDS
            except Exception as error:  # noqa: BLE001  without its worker nothing runs at this level
                _log.error("%s at %s: unexpected failure (%s)", self._agent, self._level, type(error).__name__)
                pause = POLL_SECONDS
            self._stopping.wait(pause)
        for execution in self._running:
            execution.stop()
            execution.over.wait(2 * POLL_SECONDS)

    def stop(self) -> None:
        """End soon; a running run is stored as interrupted."""
        self._stopping.set()
        for execution in self._running:
            execution.stop()

    def tick(self) -> int:
        """Do all that is due now, and return the number of runs. Raises: StorageError.

        It reads the open runs once, and again only after one has changed.
        """
        done = 0
        self._open = None
        self._arm_trigger()
        self._look_after_others()
        while not self._stopping.is_set() and (execution := self._next()) is not None:
            execution.start()
            execution.free.wait()
            self._open = None
            done += 1
            self._deliver()
        self._running = [each for each in self._running if not each.over.is_set()]
        if not done:
            self._deliver()
        self._ticks += 1
        if done or self._ticks % _RETENTION_TICKS == 0:  # a run that rose to this level is not counted
            self._context.store.tidy_runs(self._agent, self._level)
        return done

    def make_sure(self, sleep: Callable[[float], object]) -> int:
        """Wait, at most one lease, for signs of life from other processes' runs; retry dead ones; return their number.

        Raises: StorageError.
        """
        if not self._doubts():
            return 0
        lease, until = self._context.lease_seconds, self._context.ticks() + 2 * self._context.lease_seconds
        while self._doubts() and self._context.ticks() < until:
            sleep(lease / 8)
            self._look_again()
        return self.tick()

    def finish(self) -> None:
        """Wait for runs that rose and continue above, then deliver. Raises: StorageError."""
        for execution in self._running:
            execution.over.wait()
        self._deliver()

    def pause_seconds(self) -> float:
        """Return how long nothing is due, as of the last tick. Raises: StorageError."""
        waiting = [each.run.due_at for each in self._open_runs() if each.run.state is RunState.WAITING]
        left = (min(waiting) - self._context.clock()).total_seconds() if waiting else POLL_SECONDS
        often = min(POLL_SECONDS, self._context.lease_seconds / 2) if self._watched else POLL_SECONDS
        return min(max(left, 0.1), often)

    def _open_runs(self) -> list[ClaimedRun]:
        if self._open is None:
            self._open = self._host.runs.open()
        return self._open

    def _changing(self) -> SessionRuns:
        """Return the verbs that change runs; after any of them the open runs are read again."""
        self._open = None
        return self._host.runs

    # The trigger

    def _arm_trigger(self) -> None:
        """Store a waiting run for the agent's next wakeup, if it has a TRIGGER.md."""
        schedule = self._trigger_schedule()
        if schedule is None or any(each.run.group == TRIGGER for each in self._open_runs()):
            return
        due = next_due(schedule, self._context.clock(), self._host.runs.had(TRIGGER))
        if due is not None:
            self._changing().begin(TRIGGER, due)

    def _trigger_schedule(self) -> Every | None:
        trigger = self._context.settings.trigger
        if trigger.level is not self._level or not has_trigger(self._context.home, self._agent):
            return None
        quiet = read_quiet(trigger.quiet, read_zone(trigger.timezone)) if trigger.quiet else None
        return Every(trigger.every_minutes, quiet)

    # Runs of other processes

    def _look_again(self) -> None:
        self._open = None
        self._look_after_others()

    def _look_after_others(self) -> None:
        """Interrupt every run without a sign of life for so long that its process must be dead."""
        ours = {execution.key for execution in self._running if not execution.over.is_set()}
        others = [each for each in self._open_runs() if each.run.state is RunState.RUNNING and each.run.key not in ours]
        now = self._context.ticks()
        before, self._watched = self._watched, {}
        for seen in others:
            pulse, since = before.get(seen.run.key, (None, now))
            if pulse != seen.pulse:
                since = now
                if pulse is not None:
                    self._living.add(seen.run.key)
            if now - since > self._context.lease_seconds:
                self._isolated(seen.run, partial(self._interrupt, seen))
            else:
                self._watched[seen.run.key] = (seen.pulse, since)

    def _doubts(self) -> bool:
        """Return whether some running run has shown no sign of life yet."""
        return any(key not in self._living for key in self._watched)

    def _interrupt(self, seen: ClaimedRun) -> None:
        again = may_try_again(self._context, seen)
        now = self._context.clock()
        reason = "its process ended before the run was done" + ("; the run is tried once more" if again else "")
        closed = replace(seen.run, state=RunState.INTERRUPTED, ended_at=now, reason=reason, event=None)
        if self._changing().close(seen, closed if again else to_deliver(closed, now), again=again) is not None:
            self._failed(closed, f"run {closed.number} {closed.state}: {reason}", for_good=not again)

    # Runs that wait

    def _next(self) -> Execution | None:
        """Claim the first run that is due, and return its execution."""
        for waiting in self._open_runs():
            if waiting.run.state is RunState.WAITING:
                execution = self._isolated(waiting.run, partial(self._consider, waiting))
                if execution is not None:
                    return execution
        return None

    def _consider(self, waiting: ClaimedRun) -> Execution | None:
        """Claim a run if it is due. Otherwise put it off, cancel it, or store it as missed."""
        run, now = waiting.run, self._context.clock()
        job, had = self._host.runs.find_job(run.group)
        schedule: Schedule | None = self._trigger_schedule() if run.group == TRIGGER else None
        if job is not None:
            schedule = read_schedule(job.plan.schedule, job.plan.timezone)
        if schedule is None:
            self._changing().cancel(waiting)
            return None
        if run.queued or run.attempt > 1:
            return self._claim(waiting, run, job, None)
        decision = decide(schedule, run.due_at, now, misfire_grace=self._context.misfire_grace, done=had)
        if decision.start and decision.due_at is not None:
            due = replace(run, due_at=decision.due_at, missed=decision.missed)
            return self._claim(waiting, due, job, next_due(schedule, now, had | {decision.due_at}))
        self._put_off(waiting, decision, now)
        return None

    def _put_off(self, waiting: ClaimedRun, decision: MisfireDecision, now: datetime) -> None:
        if decision.missed:
            reason = "no `tidegate run` was running at that time"
            missed = replace(waiting.run, state=RunState.MISSED, missed=decision.missed, ended_at=now, reason=reason)
            self._changing().claim(waiting, missed, decision.due_at)
        elif decision.due_at is not None and decision.due_at != waiting.run.due_at:
            self._changing().move(waiting, decision.due_at)

    def _claim(self, waiting: ClaimedRun, run: Run, job: Job | None, next_at: datetime | None) -> Execution | None:
        """Claim a run, and return its execution; None if another process was first, or it failed at once."""
        now = self._context.clock()
        try:
            task = self._task(run, job)
        except StorageError as error:
            failed = replace(run, state=RunState.FAILED, started_at=now, ended_at=now, reason=error.message)
            if self._changing().claim(waiting, failed, next_at) is not None:
                self._failed(failed, f"run {failed.number} {failed.state}: {failed.reason}")
            return None
        channel = task.channel or self._context.settings.run.channel
        running = replace(run, state=RunState.RUNNING, holder=self._context.holder, started_at=now, channel=channel)
        claimed = self._changing().claim(waiting, running, next_at)
        if claimed is None:
            return None
        execution = Execution(self._context, self._host, self._level, claimed, task)
        self._running.append(execution)
        return execution

    def _task(self, run: Run, job: Job | None) -> WakeupTask:
        """Return the task of a run: its job, or TRIGGER.md without one. Raises: StorageError."""
        if job is not None:
            return job_task(job, run.event, self._context.ids)
        trigger = self._context.settings.trigger
        text = read_trigger(self._context.home, self._agent)
        return trigger_task(text, run.event, self._context.ids, ceiling=trigger.ceiling, channel=trigger.channel)

    # Results

    def _deliver(self) -> None:
        now = self._context.clock()
        for undelivered in self._host.runs.undelivered():
            at = undelivered.run.next_attempt_at
            # A time beyond every back-off was set by a clock that was ahead.
            if at is None or at <= now or at > now + back_off(ATTEMPTS_MAX) + timedelta(minutes=1):
                self._isolated(undelivered.run, partial(self._attempt, undelivered, now))

    def _attempt(self, undelivered: ClaimedRun, now: datetime) -> None:
        """Try to deliver a result. The attempt is stored first, so that only one of two processes makes it."""
        attempts = undelivered.run.attempts + 1
        tried = replace(undelivered.run, attempts=attempts, next_attempt_at=now + back_off(attempts))
        noted = self._host.runs.note(undelivered, tried)
        if noted is None:
            return
        run = noted.run
        try:
            self._send(run)
        except DeliveryError as error:
            given_up = error.final or attempts >= ATTEMPTS_MAX
            state = DeliveryState.GIVEN_UP if given_up else DeliveryState.PENDING
            progress = error.progress or run.delivery_progress
            self._host.runs.note(
                noted, replace(run, delivery=state, delivery_reason=str(error), delivery_progress=progress)
            )
            reason = f"run {run.number}: its result was not delivered ({state}): {error}"
            self._failed(run, reason, for_good=given_up or error.lasting)
        else:
            done = replace(run, delivery=DeliveryState.DELIVERED, delivery_reason="", delivery_progress="")
            self._host.runs.note(noted, replace(done, next_attempt_at=None))

    def _send(self, run: Run) -> None:
        channel = self._context.channels.get(run.channel or "")
        if channel is None:
            raise DeliveryError(
                "config.toml has no channel of this name; add it, or give the job another channel", lasting=True
            )
        try:
            # PRE_OUTPUT: this session has the level of the result.
            self._host.check_output(channel.clearance, channel=channel.name)
        except Refused:
            reason = "held back: the channel's clearance in config.toml is below the level of this result"
            raise DeliveryError(reason, lasting=True) from None
        text = run.text if run.state is RunState.DONE else "\n\n".join(filter(None, (run.text, f"({run.reason})")))
        at = run.ended_at or self._context.clock()
        name, progress = name_of(run.group), run.delivery_progress
        self._context.send(channel, Notification(self._agent, name, text, self._level, at, progress))

    # Failures

    def _isolated(self, run: Run, act: Callable[[], _T]) -> _T | None:
        """Return the result of an act on one run. A failure of that run does not delay others."""
        try:
            return act()
        except InvalidArgument as error:  # its time zone or the calendar library is gone
            self._warn_once(run, error.message)
        except TidegateError:
            raise
        except Exception as error:  # noqa: BLE001  only its type is shown (P12)
            self._warn_once(run, f"unexpected failure ({type(error).__name__})")
        return None

    def _warn_once(self, run: Run, message: str) -> None:
        if run.key not in self._warned:
            self._warned.add(run.key)
            self._failed(run, f"cannot run: {message}")

    def _failed(self, run: Run, reason: str, *, for_good: bool = True) -> None:
        self._context.failures.add(self._agent, self._level, run, reason, for_good=for_good)
