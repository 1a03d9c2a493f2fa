"""The owner's way to the compartments of one agent: all levels, no session, never from a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime

from tidegate.core.expiry import FadingCompartment
from tidegate.core.gate import Act
from tidegate.domain.arguments import check_level
from tidegate.domain.audit import OWNER
from tidegate.domain.expiry import Expiry
from tidegate.errors import NotFound
from tidegate.policy.levels import Level
from tidegate.storage.base import Archive, StorageProvider, WritableView


@dataclass(frozen=True, slots=True)
class Door:
    """What the owner's acts need: compartments, one at a time, the clock and fresh ids."""

    provider: StorageProvider
    agent: str
    clock: Callable[[], datetime]
    ids: Callable[[], str]
    expiry: Expiry

    def levels(self, level: Level | None) -> tuple[Level, ...]:
        """That level, or all of them, the highest first. Raises: NotFound when the agent has nothing."""
        if self.agent not in self.provider.agents():  # acts on what is there make no files
            raise NotFound("agent: nothing was ever saved for it", argument="agent")
        return (check_level(level),) if level is not None else tuple(reversed(Level))

    def archive(self, level: Level) -> AbstractContextManager[Archive]:
        """One compartment, with all it keeps."""
        return self.provider.archive(self.agent, level)

    def act(self, session: str = OWNER) -> Act:
        """The owner's act at this moment. session: the id of the one that it is done in, if any."""
        return Act(session, self.clock(), self.ids)

    @contextmanager
    def writing(self, archive: Archive, act: Act) -> Iterator[WritableView]:
        """A durable transaction in one compartment, seen as a session of its level would see it."""
        with archive.transaction(durable=True):
            own = FadingCompartment(archive, self.expiry, act.at)
            yield WritableView((own,), own)
