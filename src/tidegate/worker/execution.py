"""One run: a new session with its task, watched until it ends, on its own thread and event loop.

When the session rises, the run ends at that moment for the level at which it began, without anything that follows: its
worker is free, and the run continues in the compartment of the higher level (P5, P16).
"""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import replace
from datetime import datetime

from tidegate.agent.channel import Silent
from tidegate.agent.loop import Ended, Outcome
from tidegate.errors import TidegateError
from tidegate.jobs.job import TEXT_CHARS_MAX, DeliveryState, Run, RunState, has_risen
from tidegate.jobs.runs import ClaimedRun
from tidegate.policy.levels import Level
from tidegate.records.excerpt import cut
from tidegate.session import Session
from tidegate.worker.quiet_answer import is_quiet
from tidegate.worker.task import WakeupTask
from tidegate.worker.worker_context import WorkerContext

_log = logging.getLogger(__name__)
_CANCEL_SECONDS = 5
"""How long to wait for a cancelled answer."""

_ENDS = {Ended.COMPLETE: RunState.DONE, Ended.STOPPED: RunState.STOPPED}


class Execution:
    """A claimed run, from its start to its end. free: its worker can continue. over: no part of it still runs."""

    def __init__(
        self, context: WorkerContext, host: Session, level: Level, claimed: ClaimedRun, task: WakeupTask
    ) -> None:
        self._context = context
        self._host = host
        self._level = level
        self._claimed = claimed
        self._task = task
        self._limit_seconds = task.time_limit_seconds or context.settings.run.time_limit_minutes * 60
        self._rose_at: datetime | None = None
        self.free = threading.Event()
        self.over = threading.Event()
        self._stop = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._called = asyncio.Event()

    @property
    def key(self) -> str:
        """Return the key of the run's record at its current level."""
        return self._claimed.record.key

    def start(self) -> None:
        """Begin, on its own thread. Without a thread the lease expires, and the run is stored as interrupted."""
        try:
            self._context.spawn(self.run)
        except Exception as error:  # noqa: BLE001  as below
            reason = f"a run could not begin ({type(error).__name__})"
            self._context.failures.add(self._host.agent, self._level, self._claimed.run, reason)
            self.free.set()
            self.over.set()

    def stop(self) -> None:
        """Ask the run to end soon: it will be stored as interrupted."""
        self._stop.set()
        self._wake()

    def run(self) -> None:
        """Carry out the run, from start to end. Raises nothing: the worker must continue in any case."""
        try:
            asyncio.run(self._main())
        except Exception as error:  # noqa: BLE001
            _log.error("a run ended without a result: %s", type(error).__name__)
            reason = "a run ended without a result"
            self._context.failures.add(self._host.agent, self._level, self._claimed.run, reason)
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
        agent, task = self._host.agent, self._task
        try:
            session = self._context.store.session(
                agent, level=self._level, ceiling=task.ceiling, generation=task.generation
            )
        except TidegateError as error:
            self._close(RunState.FAILED, reason=error.message)
            return
        sessions = self._context.store.sessions
        sessions.on_raise(session.id, self._note_raise)
        answering = asyncio.create_task(self._answer(session))
        try:
            reason = await self._watch(answering, session)
            if reason is not None:
                answering.cancel()
                await asyncio.wait({answering}, timeout=_CANCEL_SECONDS)
            self._promote(session)
            self._conclude(answering, reason)
        finally:
            sessions.on_raise(session.id, None)
            session.end()

    async def _answer(self, session: Session) -> Outcome:
        gateway = self._context.gateway(session)
        try:
            agent = self._context.agent(session, gateway)
            return await agent.answer(self._task.text, Silent(), origin=self._task.origin, about=self._task.about)
        finally:
            if gateway is not None:
                await gateway.close()

    # Watching

    async def _watch(self, answering: asyncio.Task[Outcome], session: Session) -> RunState | None:
        """Return why the run must end; None when it has ended; MISSED when the run is no longer ours."""
        left, heartbeat = float(self._limit_seconds), self._context.lease_seconds / 3
        while True:
            pause = min(heartbeat, left)
            slept = await self._wait_for_first(answering, pause)
            if answering.done():
                return None
            self._promote(session)
            if not self._claimed.run.open:  # too many rose before it
                return RunState.MISSED
            if self._stop.is_set():
                return RunState.INTERRUPTED
            if not slept:
                continue
            left -= pause
            if left <= 0:
                return RunState.STOPPED
            if not self._heartbeat():
                return RunState.MISSED

    async def _wait_for_first(self, answering: asyncio.Task[Outcome], pause: float) -> bool:
        """Wait for the answer, a call or the end of the pause, and return whether the pause ended."""
        sleeping = asyncio.ensure_future(self._context.sleep(pause))
        called = asyncio.ensure_future(self._called.wait())
        await asyncio.wait({answering, sleeping, called}, return_when=asyncio.FIRST_COMPLETED)
        self._called.clear()
        slept = sleeping.done()
        for each in (sleeping, called):
            each.cancel()
        return slept

    def _note_raise(self, _: Level) -> None:
        """Note that the session has risen, before it reads anything at the new level. Called on any thread."""
        self._rose_at = self._context.clock()
        self.free.set()
        self._wake()

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._called.set)

    # Storing

    def _heartbeat(self) -> bool:
        """Store a sign of life, and return whether the run is still ours."""
        alive = self._host.runs.heartbeat(self._claimed)
        self._claimed = alive or self._claimed
        return alive is not None

    def _promote(self, session: Session) -> None:
        """Follow the risen session: the run is stored as risen below, and becomes a run of the level above."""
        level = session.taint
        if level is self._level or not self._claimed.run.open:
            return
        run, at = self._claimed.run, self._rose_at or self._context.clock()
        reason = "it read something above this level, and continued there"
        self._host.runs.close(self._claimed, replace(run, state=RunState.RISEN, ended_at=at, reason=reason))
        self._host = self._context.host(self._host.agent, level)
        self._claimed = self._host.runs.promote(run, self._level)
        self._level = level
        if not self._claimed.run.open:
            self._host.runs.note(self._claimed, to_deliver(self._claimed.run, self._context.clock()))
            self._failed(self._claimed.run)

    def _conclude(self, answering: asyncio.Task[Outcome], reason: RunState | None) -> None:
        if not self._claimed.run.open:
            return  # it was stopped when it was promoted
        match reason:
            case RunState.MISSED:
                return  # another process has stored its end
            case RunState.INTERRUPTED:
                again = may_try_again(self._context, self._claimed)
                self._close(RunState.INTERRUPTED, reason="the process was stopped", again=again)
            case RunState.STOPPED:
                self._close(RunState.STOPPED, reason=f"stopped at its time limit of {self._limit_seconds} seconds")
            case _:
                self._close_by_answer(answering)

    def _close_by_answer(self, answering: asyncio.Task[Outcome]) -> None:
        error = answering.exception()
        if isinstance(error, TidegateError):
            self._close(RunState.FAILED, reason=error.message)
        elif error is not None:  # P12: only its name leaves
            self._close(RunState.FAILED, reason=f"unexpected failure ({type(error).__name__})")
        else:
            outcome = answering.result()
            self._close(_ENDS.get(outcome.ended, RunState.FAILED), text=outcome.answer, reason=outcome.reason)

    def _close(self, state: RunState, *, text: str = "", reason: str = "", again: bool = False) -> None:
        now = self._context.clock()
        text = cut(text, TEXT_CHARS_MAX)
        run = replace(self._claimed.run, state=state, ended_at=now, text=text, reason=reason, event=None)
        closed = self._host.runs.close(self._claimed, run if again else to_deliver(run, now), again=again)
        if closed is not None and state is not RunState.DONE:
            self._failed(run, for_good=not again)

    def _failed(self, run: Run, *, for_good: bool = True) -> None:
        reason = f"run {run.number} {run.state}: {run.reason}"
        self._context.failures.add(self._host.agent, self._level, run, reason, for_good=for_good)


def to_deliver(run: Run, now: datetime) -> Run:
    """Return the run with its result due for delivery, if it has a channel and a result worth delivering."""
    worth_it = run.state is not RunState.DONE or not is_quiet(run.text)
    if run.channel is None or not worth_it:
        return run
    return replace(run, delivery=DeliveryState.PENDING, next_attempt_at=now)


def may_try_again(context: WorkerContext, claimed: ClaimedRun) -> bool:
    """Return whether an interrupted run gets another attempt: once, and only if its time is recent.

    A risen run gets none: it would restart below, because of data read above.
    """
    run = claimed.run
    if not context.settings.run.rerun_interrupted or run.attempt > 1 or has_risen(run.group):
        return False
    return run.queued or context.clock() - run.due_at <= context.misfire_grace
