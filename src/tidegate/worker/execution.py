"""One run: a fresh session that is told its errand, watched until it ends, on a thread and a loop of its own.

When the session rises, the run is over for the level at which it began, at that moment and with nothing of what
follows: its worker is free, and the run goes on in the compartment of the higher level (P5, P16).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable
from dataclasses import replace
from datetime import datetime

from tidegate.agent.channel import Silent
from tidegate.agent.loop import Ended, Outcome
from tidegate.errors import TidegateError
from tidegate.jobs.job import DeliveryState, Run, RunState, cut, has_risen
from tidegate.jobs.runs import ClaimedRun
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.worker.task import WakeupTask, is_nothing
from tidegate.worker.worker_context import WorkerContext

_log = logging.getLogger(__name__)
_PATIENCE_SECONDS = 5  # for something that was cancelled

_ENDS = {Ended.COMPLETE: RunState.DONE, Ended.STOPPED: RunState.STOPPED}


class Execution:
    """A run in the making. free: its level can go on to the next. over: there is nothing left of it."""

    def __init__(
        self, shop: WorkerContext, host: Session, level: Level, ticket: ClaimedRun, errand: WakeupTask
    ) -> None:
        self._shop = shop
        self._host = host
        self._level = level
        self._ticket = ticket
        self._errand = errand
        self._rose_at: datetime | None = None
        self.free = threading.Event()
        self.over = threading.Event()
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._called = asyncio.Event()

    @property
    def key(self) -> str:
        """The key of the run's record, where it is now."""
        return self._ticket.record.key

    def start(self) -> None:
        """Begin, on a thread of its own. Where none can be had, its lease runs out, and it is down as interrupted."""
        try:
            self._shop.spawn(self.run)
        except Exception as error:  # noqa: BLE001  as below
            what = f"a run could not begin ({type(error).__name__})"
            self._shop.failures.add(self._host.agent, self._level, self._ticket.run, what)
            self.free.set()
            self.over.set()

    def stop(self) -> None:
        """Ask it to end, soon: it will be down as interrupted."""
        self._stop.set()
        self._wake()

    def run(self) -> None:
        """The whole of it. Raises nothing: whatever it is, the worker must go on."""
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001
            _log.error("a run ended without a word: %s", type(error).__name__)
            self._shop.failures.add(self._host.agent, self._level, self._ticket.run, "a run ended without a word")
        finally:
            self.free.set()
            self.over.set()

    async def _main(self) -> None:
        self._loop, self._called = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._carry_out()
        finally:
            self.free.set()  # before the loop waits for its threads

    async def _carry_out(self) -> None:
        agent, errand = self._host.agent, self._errand
        try:
            session = self._shop.store.session(
                agent, level=self._level, ceiling=errand.ceiling, generation=errand.generation
            )
        except TidegateError as error:
            self._close(RunState.FAILED, reason=error.message)
            return
        sessions = self._shop.store.sessions
        sessions.on_raise(session.id, self._told)
        task = asyncio.create_task(self._answer(session))
        try:
            reason = await self._watch(task, session)
            if reason is not None:
                await self._cancel(task)
            self._go_up(session)
            self._conclude(task, reason)
        finally:
            sessions.on_raise(session.id, None)
            session.end()

    async def _answer(self, session: Session) -> Outcome:
        gateway = self._shop.gateway(session)
        try:
            agent = self._shop.agent(session, gateway)
            return await agent.answer(self._errand.text, Silent(), origin=self._errand.origin)
        finally:
            if gateway is not None:
                await gateway.close()

    # Watching

    async def _watch(self, task: asyncio.Task[Outcome], session: Session) -> RunState | None:
        """None when it has ended by itself, else why it must end; MISSED stands for: it is ours no more."""
        limit = self._errand.time_limit_seconds or self._shop.settings.run.time_limit_minutes * 60
        left, beat = float(limit), self._shop.lease_seconds / 3
        while True:
            pause = min(beat, left)
            slept = await self._first(task, pause)
            self._go_up(session)
            if not self._ticket.run.open:  # too many had risen before it
                return RunState.MISSED
            if task.done():
                return None
            if self._stop.is_set():
                return RunState.INTERRUPTED
            if not slept:
                continue
            left -= pause
            if left <= 0:
                return RunState.STOPPED
            if not self._beat():
                return RunState.MISSED

    async def _first(self, task: asyncio.Task[Outcome], pause: float) -> bool:
        """Wait for whatever comes first; whether it was the pause that ended."""
        sleeping = asyncio.ensure_future(_awaited(self._shop.sleep(pause)))
        called = asyncio.ensure_future(self._called.wait())
        await asyncio.wait({task, sleeping, called}, return_when=asyncio.FIRST_COMPLETED)
        self._called.clear()
        slept = sleeping.done()
        for each in (sleeping, called):
            each.cancel()
        return slept

    async def _cancel(self, task: asyncio.Task[Outcome]) -> None:
        task.cancel()
        await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)

    def _told(self, _: Level) -> None:
        """The session has risen; it has not read anything up there yet. On whatever thread that is."""
        self._rose_at = self._shop.clock()
        self.free.set()
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._called.set)

    # What is written down

    def _beat(self) -> bool:
        beaten = self._host.runs.beat(self._ticket)
        self._ticket = beaten or self._ticket
        return beaten is not None

    def _go_up(self, session: Session) -> None:
        """Where the session has risen: down as risen below, and from here on it is a run of the level above."""
        level = session.taint
        if level is self._level or not self._ticket.run.open:
            return
        run, at = self._ticket.run, self._rose_at or self._shop.clock()
        reason = "it read something above this level, and went on there"
        self._host.runs.close(self._ticket, replace(run, state=RunState.RISEN, ended_at=at, reason=reason))
        self._host = self._shop.host(self._host.agent, level)
        self._ticket = self._host.runs.arrive(run, self._level)
        self._level = level
        if not self._ticket.run.open:
            self._host.runs.note(self._ticket, handing(self._ticket.run, self._shop.clock()))
            self._failed(self._ticket.run)

    def _conclude(self, task: asyncio.Task[Outcome], reason: RunState | None) -> None:
        if not self._ticket.run.open:
            return  # it ended when it arrived above
        match reason:
            case RunState.MISSED:
                return  # somebody else has written down what became of it
            case RunState.INTERRUPTED:
                self._close(
                    RunState.INTERRUPTED,
                    reason="the process was stopped",
                    again=may_try_again(self._shop, self._ticket),
                )
            case RunState.STOPPED:
                limit = self._errand.time_limit_seconds or self._shop.settings.run.time_limit_minutes * 60
                self._close(RunState.STOPPED, reason=f"stopped at its time limit of {limit} seconds")
            case _:
                self._close_by(task)

    def _close_by(self, task: asyncio.Task[Outcome]) -> None:
        error = task.exception()
        if isinstance(error, TidegateError):
            self._close(RunState.FAILED, reason=error.message)
        elif error is not None:  # P12: nothing of it leaves but its name
            self._close(RunState.FAILED, reason=f"unexpected failure ({type(error).__name__})")
        else:
            outcome = task.result()
            self._close(_ENDS.get(outcome.ended, RunState.FAILED), text=outcome.answer, reason=outcome.reason)

    def _close(self, state: RunState, *, text: str = "", reason: str = "", again: bool = False) -> None:
        run = replace(
            self._ticket.run, state=state, ended_at=self._shop.clock(), text=cut(text), reason=reason, event=None
        )
        closed = self._host.runs.close(self._ticket, run if again else handing(run, self._shop.clock()), again=again)
        if closed is not None and state is not RunState.DONE:
            self._failed(run, for_good=not again)

    def _failed(self, run: Run, *, for_good: bool = True) -> None:
        what = f"run {run.number} {run.state}: {run.reason}"
        self._shop.failures.add(self._host.agent, self._level, run, what, for_good=for_good)


def handing(run: Run, now: datetime) -> Run:
    """The run, with its result on the way to its channel, if it has both."""
    worth_it = run.state is not RunState.DONE or not is_nothing(run.text)
    if run.channel is None or not worth_it:
        return run
    return replace(run, handing=DeliveryState.PENDING, next_attempt_at=now)


def may_try_again(shop: WorkerContext, ticket: ClaimedRun) -> bool:
    """Whether an interrupted run gets another attempt: once, and not when its time is long past.

    What has risen does not: it would begin anew below, on the word of what was read above.
    """
    run = ticket.run
    if not shop.settings.run.rerun_interrupted or run.attempt > 1 or has_risen(run.group):
        return False
    return run.queued or shop.clock() - run.due_at <= shop.misfire_grace


async def _awaited(waiting: Awaitable[None]) -> None:
    await waiting
