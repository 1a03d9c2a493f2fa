"""Waking agents: a worker for each agent and level, each on its own thread, until the process must stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.records.validation import check_agent
from tidegate.worker.worker import POLL_SECONDS, Worker
from tidegate.worker.worker_context import WorkerContext

_STOP_SECONDS = 8

Done = TypeVar("Done")


class Supervisor:
    """All workers of one process. agent: work for this one only; None: for all agents, even later ones."""

    def __init__(self, context: WorkerContext, agent: str | None = None) -> None:
        self._context = context
        self._only = agent
        self._workers: dict[tuple[str, Level], Worker] = {}
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()

    def run(self) -> bool:
        """Work until stopped, and return whether everything ended."""
        while not self._stopping.is_set():
            for worker in self._start_workers():
                thread = threading.Thread(target=worker.work, daemon=True)
                self._threads.append(thread)
                thread.start()
            self._stopping.wait(POLL_SECONDS)
        for worker in self._workers.values():
            worker.stop()
        for thread in self._threads:
            thread.join(_STOP_SECONDS / max(len(self._threads), 1))
        return not any(thread.is_alive() for thread in self._threads)

    def run_once(self) -> int:
        """Do all that is due now, level by level, and return the number of runs. Raises: StorageError.

        If a run is stored as running, wait for a sign of life, at most one lease: no one checks it later.
        A failure for one agent does not stop the runs of others (P6): it is raised at the end.
        """
        failed = list[Exception]()
        list(self._start_workers())
        done = sum(self._each(Worker.tick, failed))
        # The lowest first, each alone: its timing does not depend on those above (P5).
        done += sum(self._each(lambda worker: worker.make_sure(time.sleep), failed))
        list(self._each(Worker.finish, failed))  # the lowest first, so that risen runs are handed over above
        if failed:
            raise failed[0]
        return done

    def _each(self, act: Callable[[Worker], Done], failed: list[Exception]) -> Iterator[Done]:
        for worker in self._workers.values():
            try:
                yield act(worker)
            except Exception as error:  # noqa: BLE001  any failure
                failed.append(error)

    def stop(self) -> None:
        """End soon. May be called from anywhere, even a signal handler."""
        self._stopping.set()

    def _start_workers(self) -> Iterator[Worker]:
        for agent in self._agents():
            for level in Level:
                if (agent, level) not in self._workers:
                    self._workers[agent, level] = Worker(self._context, agent, level)
                    yield self._workers[agent, level]

    def _agents(self) -> list[str]:
        if self._only is not None:
            return [check_agent(self._only)]
        folder = self._context.home / "agents"
        triggered = [path.parent.name for path in folder.glob("*/TRIGGER.md")]
        return sorted(filter(_is_agent, {*self._context.store.agents(), *triggered}))


def _is_agent(name: str) -> bool:
    try:
        return bool(check_agent(name))
    except InvalidArgument:
        return False
