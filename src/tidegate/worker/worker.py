"""One worker for one agent and level: what is due there runs, one by one. No other level's jobs count (P16)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from tidegate.errors import InvalidArgument, Refused, StorageError, TidegateError
from tidegate.jobs.job import TRIGGER, DeliveryState, Run, RunState, back_off, name_of
from tidegate.jobs.misfires import MisfireDecision, decide, following
from tidegate.jobs.runs import ClaimedRun
from tidegate.jobs.schedule import Every, Schedule, read_quiet, read_schedule, read_zone
from tidegate.policy.levels import Level
from tidegate.worker.delivery import ATTEMPTS_MAX, DeliveryError, Notification
from tidegate.worker.execution import Execution, handing, may_try_again
from tidegate.worker.task import WakeupTask, has_trigger, job_task, read_trigger, trigger_task
from tidegate.worker.worker_context import WorkerContext

_log = logging.getLogger(__name__)
POLL_SECONDS = 5.0
"""How soon it is noticed what others have written into the store."""

_TIDY_TICKS = 500
_T = TypeVar("_T")


class Worker:
    """The worker of one agent at one level, in one process."""

    def __init__(self, shop: WorkerContext, agent: str, level: Level) -> None:
        self._shop = shop
        self._agent = agent
        self._level = level
        self._host = shop.host(agent, level)
        self._running: list[Execution] = []
        self._watched: dict[str, tuple[tuple[int, datetime], float]] = {}
        self._living: set[str] = set()
        self._complained: set[str] = set()
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
            except Exception as error:  # noqa: BLE001  a level without its worker is a level of which nothing runs
                _log.error("%s at %s: unexpected failure (%s)", self._agent, self._level, type(error).__name__)
                pause = POLL_SECONDS
            self._stopping.wait(pause)
        self._settle_down()

    def stop(self) -> None:
        """End soon; what runs is down as interrupted."""
        self._stopping.set()
        for execution in self._running:
            execution.stop()

    def finish(self) -> None:
        """Wait for what has risen and goes on, then hand over what there is. Raises: StorageError."""
        for execution in self._running:
            execution.over.wait()
        self._deliver()

    def make_sure(self, sleep: Callable[[float], object]) -> int:
        """Wait for a sign of life of what others run, a lease at most, and try again what is dead; how many runs.

        Raises: StorageError.
        """
        if not self._doubts():
            return 0
        lease, until = self._shop.lease_seconds, self._shop.ticks() + 2 * self._shop.lease_seconds
        while self._doubts() and self._shop.ticks() < until:
            sleep(lease / 8)
            self._look_after_others()
        return self.tick()

    def _doubts(self) -> bool:
        """Whether something runs of which no sign of life was seen yet."""
        return any(key not in self._living for key in self._watched)

    def tick(self) -> int:
        """Do all that is to be done now; how many runs there were. Raises: StorageError."""
        done = 0
        self._arm_trigger()
        self._look_after_others()
        while not self._stopping.is_set() and (execution := self._next()) is not None:
            execution.start()
            execution.free.wait()
            done += 1
            self._deliver()
        self._running = [each for each in self._running if not each.over.is_set()]
        self._deliver()
        self._ticks += 1
        if done or self._ticks % _TIDY_TICKS == 0:  # what has risen to here is no run of ours
            self._shop.store.tidy_runs(self._agent, self._level)
        return done

    def pause_seconds(self) -> float:
        """How long there is nothing to do, as far as one can know. Raises: StorageError."""
        waiting = [each.run.due_at for each in self._host.runs.open() if each.run.state is RunState.WAITING]
        left = (min(waiting) - self._shop.clock()).total_seconds() if waiting else POLL_SECONDS
        often = min(POLL_SECONDS, self._shop.lease_seconds / 2) if self._watched else POLL_SECONDS
        return min(max(left, 0.1), often)

    def _settle_down(self) -> None:
        for execution in self._running:
            execution.stop()
            execution.over.wait(2 * POLL_SECONDS)

    # What waits

    def _next(self) -> Execution | None:
        """What is to run now, taken."""
        for ticket in self._host.runs.open():
            waits = ticket.run.state is RunState.WAITING
            execution = self._apart(ticket.run, partial(self._consider, ticket)) if waits else None
            if execution is not None:
                return execution
        return None

    def _apart(self, run: Run, act: Callable[[], _T]) -> _T | None:
        """What an act about one run gives. Whatever is wrong with that run, no other has to wait for it."""
        try:
            return act()
        except InvalidArgument as error:  # its time zone is gone, or the calendar
            self._complain(run, error.message)
        except TidegateError:
            raise
        except Exception as error:  # noqa: BLE001  nothing of it leaves but its name (P12)
            self._complain(run, f"unexpected failure ({type(error).__name__})")
        return None

    def _complain(self, run: Run, message: str) -> None:
        if run.key not in self._complained:
            self._complained.add(run.key)
            self._failed(run, f"cannot run: {message}")

    def _failed(self, run: Run, what: str, *, for_good: bool = True) -> None:
        self._shop.failures.add(self._agent, self._level, run, what, for_good=for_good)

    def _consider(self, ticket: ClaimedRun) -> Execution | None:
        run, now = ticket.run, self._shop.clock()
        schedule = self._schedule(run)
        if schedule is None:
            self._host.runs.drop(ticket)
            return None
        if run.queued or run.attempt > 1:
            return self._take(ticket, run, None)
        had = self._host.runs.had(run.group)
        verdict = decide(schedule, run.due_at, now, misfire_grace=self._shop.misfire_grace, done=had)
        if verdict.start and verdict.due_at is not None:
            taken = replace(run, due_at=verdict.due_at, missed=verdict.missed)
            return self._take(ticket, taken, following(schedule, now, had | {verdict.due_at}))
        self._put_off(ticket, verdict, now)
        return None

    def _put_off(self, ticket: ClaimedRun, verdict: MisfireDecision, now: datetime) -> None:
        if verdict.missed:
            reason = "nobody was there at its time"
            missed = replace(ticket.run, state=RunState.MISSED, missed=verdict.missed, ended_at=now, reason=reason)
            self._host.runs.take(ticket, missed, verdict.due_at)
        elif verdict.due_at is not None and verdict.due_at != ticket.run.due_at:
            self._host.runs.move(ticket, verdict.due_at)

    def _take(self, ticket: ClaimedRun, run: Run, next_at: datetime | None) -> Execution | None:
        now = self._shop.clock()
        try:
            errand = self._errand(run)
        except StorageError as error:
            failed = replace(run, state=RunState.FAILED, started_at=now, ended_at=now, reason=error.message)
            if self._host.runs.take(ticket, failed, next_at) is not None:
                self._failed(failed, f"run {failed.number} {failed.state}: {failed.reason}")
            return None
        channel = errand.channel or self._shop.settings.run.channel
        running = replace(run, state=RunState.RUNNING, holder=self._shop.holder, started_at=now, channel=channel)
        taken = self._host.runs.take(ticket, running, next_at)
        if taken is None:
            return None  # another process was first
        execution = Execution(self._shop, self._host, self._level, taken, errand)
        self._running.append(execution)
        return execution

    def _schedule(self, run: Run) -> Schedule | None:
        """When it is due; None when there is no such job any more."""
        if run.group == TRIGGER:
            return self._trigger_schedule()
        job = self._host.runs.job(name_of(run.group))
        return None if job is None else read_schedule(job.plan.schedule, job.plan.timezone)

    def _errand(self, run: Run) -> WakeupTask:
        trigger = self._shop.settings.trigger
        if run.group == TRIGGER:
            text = read_trigger(self._shop.home, self._agent)
            return trigger_task(text, run.event, self._shop.ids, ceiling=trigger.ceiling, channel=trigger.channel)
        job = self._host.runs.job(name_of(run.group))
        if job is None:
            raise StorageError("the job is gone")
        return job_task(job, run.event, self._shop.ids)

    # The trigger

    def _trigger_schedule(self) -> Every | None:
        trigger = self._shop.settings.trigger
        if trigger.level is not self._level or not has_trigger(self._shop.home, self._agent):
            return None
        quiet = read_quiet(trigger.quiet, read_zone(trigger.timezone)) if trigger.quiet else None
        return Every(trigger.every_minutes, quiet)

    def _arm_trigger(self) -> None:
        """A run waits for the agent's next waking, where it has a TRIGGER.md."""
        schedule = self._trigger_schedule()
        if schedule is None or any(each.run.group == TRIGGER for each in self._host.runs.open()):
            return
        due = following(schedule, self._shop.clock(), self._host.runs.had(TRIGGER))
        if due is not None:
            self._host.runs.begin(TRIGGER, due)

    # What others have begun

    def _look_after_others(self) -> None:
        """Whatever runs, and has shown no sign of life for so long that its process cannot live, was interrupted."""
        ours = {execution.key for execution in self._running if not execution.over.is_set()}
        others = [
            each for each in self._host.runs.open() if each.run.state is RunState.RUNNING and each.run.key not in ours
        ]
        now = self._shop.ticks()
        before, self._watched = self._watched, {}
        for ticket in others:
            pulse, since = before.get(ticket.run.key, (None, now))
            if pulse != ticket.pulse:
                since = now
                if pulse is not None:
                    self._living.add(ticket.run.key)
            if now - since > self._shop.lease_seconds:
                self._apart(ticket.run, partial(self._interrupt, ticket))
            else:
                self._watched[ticket.run.key] = (ticket.pulse, since)

    def _interrupt(self, ticket: ClaimedRun) -> None:
        again = may_try_again(self._shop, ticket)
        now = self._shop.clock()
        reason = "its process ended in the middle" + ("; it is tried once more" if again else "")
        closed = replace(ticket.run, state=RunState.INTERRUPTED, ended_at=now, reason=reason, event=None)
        if self._host.runs.close(ticket, closed if again else handing(closed, now), again=again) is not None:
            self._failed(closed, f"run {closed.number} {closed.state}: {reason}", for_good=not again)

    # What has a result

    def _deliver(self) -> None:
        now = self._shop.clock()
        for ticket in self._host.runs.undelivered():
            at = ticket.run.next_attempt_at
            # One that is further away than any back-off was set by a clock that was ahead.
            if at is None or at <= now or at > now + back_off(ATTEMPTS_MAX) + timedelta(minutes=1):
                self._apart(ticket.run, partial(self._attempt, ticket, now))

    def _attempt(self, ticket: ClaimedRun, now: datetime) -> None:
        """Written down before it is tried, so that of two processes one tries."""
        attempts = ticket.run.attempts + 1
        tried = replace(ticket.run, attempts=attempts, next_attempt_at=now + back_off(attempts))
        noted = self._host.runs.note(ticket, tried)
        if noted is None:
            return
        try:
            self._send(noted.run)
        except DeliveryError as error:
            given_up = attempts >= ATTEMPTS_MAX
            state = DeliveryState.GIVEN_UP if given_up else DeliveryState.PENDING
            self._host.runs.note(noted, replace(noted.run, handing=state, handing_reason=str(error)))
            what = f"run {noted.run.number}: its result is not delivered, {state}: {error}"
            self._failed(noted.run, what, for_good=given_up or error.lasting)
        else:
            delivered = replace(noted.run, handing=DeliveryState.DELIVERED, handing_reason="", next_attempt_at=None)
            self._host.runs.note(noted, delivered)

    def _send(self, run: Run) -> None:
        channel = self._shop.channels.get(run.channel or "")
        if channel is None:
            raise DeliveryError("config.toml has no channel of this name", lasting=True)
        try:
            # PRE_OUTPUT: this session stands where the result lies.
            self._host.check_output(channel.clearance, channel=channel.name)
        except Refused:
            reason = "held back: the channel's clearance in config.toml does not reach the level of this result"
            raise DeliveryError(reason, lasting=True) from None
        text = run.text if run.state is RunState.DONE else "\n\n".join(filter(None, (run.text, f"({run.reason})")))
        at = run.ended_at or self._shop.clock()
        self._shop.send(channel, Notification(self._agent, name_of(run.group), text, self._level, at))
