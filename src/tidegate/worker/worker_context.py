"""What all workers of one process share."""

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
    """Have it run on a thread that holds up nobody, not even the end of the process."""
    threading.Thread(target=run, name="run", daemon=True).start()


class Failures:
    """What went wrong, told to the owner in a line each.

    It goes by `tell` and into no log, since a job's name is a key (P12). count: of those that are failures for good.
    """

    def __init__(self, tell: Callable[[str], object] = lambda _: None) -> None:
        self._tell = tell
        self.count = 0

    def add(self, agent: str, level: Level, run: Run, what: str, *, for_good: bool = True) -> None:
        """Something went wrong with a run. what: in our own words."""
        self.count += for_good
        name = name_of(run.group)
        # The name comes last, where nothing after it could be forged.
        self._tell(f"{agent} at {level}: {what}: {f'job {name}' if name else 'the trigger'}")


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """model: opens one; each run has its own, on its own loop. ticks: seconds of a clock that nobody can set.

    clock, ids: as the store's. spawn: gives a run a thread of its own. holder: this process, among all that work here.
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
        """How late a run may start."""
        return timedelta(minutes=self.settings.run.grace_minutes)

    @property
    def lease_seconds(self) -> float:
        """How long a run may show no sign of life."""
        return self.settings.run.lease_seconds

    @property
    def channels(self) -> Mapping[str, ChannelSettings]:
        """Where results may go, by name."""
        return self.settings.channels

    def host(self, agent: str, level: Level) -> Session:
        """A session for our own work on runs: at exactly this level, which it cannot leave."""
        return self.store.session(agent, level=level, ceiling=level)

    def gateway(self, session: Session) -> Gateway | None:
        """Foreign tools for a session; None when there are none."""
        if not self.settings.servers:
            return None
        from tidegate.gateway.gateway import Gateway
        from tidegate.gateway.pins import Pins

        return Gateway(self.store, session, self.settings.servers, Pins(self.home))

    def agent(self, session: Session, gateway: Gateway | None) -> Agent:
        """The agent that answers in a session. Raises: InvalidArgument (model), StorageError."""
        chat = self.settings.chat
        settings = AgentSettings(chat.model_clearance, chat.history_chars_max, chat.context_chars_max)
        return open_agent(
            session, self.model(), self.home, clock=self.clock, ids=self.ids, gateway=gateway, settings=settings
        )
