"""The context that all workers of one process share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.agent.loop import Agent, AgentSettings, open_agent
from tidegate.agent.model_request import Sleep
from tidegate.agent.prompt import Model
from tidegate.config.channels import ChannelSettings
from tidegate.config.settings import Settings
from tidegate.jobs.job import Run, name_of
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store, fresh_id, utc_now
from tidegate.worker.delivery import Send, send

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway


def on_a_thread(run: Callable[[], None]) -> None:
    """Run it on a thread that delays nothing, not even the end of the process."""
    threading.Thread(target=run, name="run", daemon=True).start()


class Failures:
    """The failures of a process, each reported to the owner in one line.

    They go to `tell` and into no log, because a job's name is a key (P12). count: of the final ones.
    """

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        self._tell = tell
        self.count = 0

    def add(self, agent: str, level: Level, run: Run, reason: str, *, for_good: bool = True) -> None:
        """Report a failure of a run. reason: in our own words."""
        self.count += for_good
        name = name_of(run.group)
        # The name comes last, so that it can forge nothing after it.
        self._tell(f"{agent} at {level}: {reason}: {f'job {name}' if name else 'the trigger'}")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The store, the configuration and all else that workers need.

    model: opens one; each run has its own, on its own loop. ticks: seconds of a monotonic clock.
    clock, ids: as the store's. spawn: starts a run on its own thread. holder: the name of this process in runs.
    """

    store: Store
    home: Path
    settings: Settings
    model: Callable[[], Model]
    clock: Callable[[], datetime] = utc_now
    ids: Callable[[], str] = fresh_id
    ticks: Callable[[], float] = time.monotonic
    sleep: Sleep = asyncio.sleep
    send: Send = send
    spawn: Callable[[Callable[[], None]], None] = on_a_thread
    holder: str = field(default_factory=fresh_id)
    failures: Failures = field(default_factory=Failures)

    @property
    def misfire_grace(self) -> timedelta:
        """Return how late a run may start."""
        return timedelta(minutes=self.settings.run.grace_minutes)

    @property
    def lease_seconds(self) -> float:
        """Return how long a run may go without a sign of life."""
        return self.settings.run.lease_seconds

    @property
    def channels(self) -> Mapping[str, ChannelSettings]:
        """Return the channels that results may go to, by name."""
        return self.settings.channels

    def host(self, agent: str, level: Level) -> Session:
        """Return a session for the worker's own use, fixed at exactly this level."""
        return self.store.session(agent, level=level, ceiling=level)

    def gateway(self, session: Session) -> Gateway | None:
        """Return the foreign tools for a session; None without servers."""
        if not self.settings.servers:
            return None
        from tidegate.gateway.gateway import Gateway
        from tidegate.gateway.pins import Pins

        return Gateway(self.store, session, self.settings.servers, Pins(self.home))

    def agent(self, session: Session, gateway: Gateway | None) -> Agent:
        """Return the agent that answers in a session. Raises: InvalidArgument (model), StorageError."""
        chat = self.settings.chat
        settings = AgentSettings(chat.model_clearance, chat.history_chars_max, chat.context_chars_max)
        return open_agent(
            session, self.model(), self.home, clock=self.clock, ids=self.ids, gateway=gateway, settings=settings
        )
