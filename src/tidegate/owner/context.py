"""The owner's way to the compartments of one agent: all levels, no session, never from a tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate import files
from tidegate.audit.chain import OWNER
from tidegate.core.audit_log import AuditLog
from tidegate.core.expiry import ExpiringCompartment
from tidegate.core.gate import Act
from tidegate.core.sessions import Sessions
from tidegate.errors import InvalidArgument, NotFound
from tidegate.policy.decisions import Deny
from tidegate.policy.events import OwnerAct
from tidegate.policy.levels import Level
from tidegate.policy.rules import UNKNOWN_SESSION, decide
from tidegate.records.expiry import Expiry
from tidegate.records.validation import check_level
from tidegate.storage.base import Compartment, OwnerCompartment, StorageProvider, WritableView
from tidegate.storage.control import SessionRow, state_of


class _UndoneError(Exception):
    """A write is rolled back: the session that it was to be done in does not stand there any more."""

    def __init__(self, row: SessionRow | None, deny: Deny) -> None:
        super().__init__()
        self.row = row
        self.deny = deny


@dataclass(frozen=True, slots=True)
class OwnerContext:
    """What the owner's acts need: compartments, one at a time, the clock and fresh ids."""

    provider: StorageProvider
    agent: str
    clock: Callable[[], datetime]
    ids: Callable[[], str]
    expiry: Expiry
    sessions: Sessions
    audit_log: AuditLog

    def outside(self, path: str | Path) -> Path:
        """A path to write to. Raises: InvalidArgument when it is one of the store's own, by whatever name."""
        path = files.named(path)
        if self.provider.owns_path(path):
            raise InvalidArgument("file: lies in the home, or is one of its files; name another", argument="file")
        return path

    def levels(self, level: Level | None) -> tuple[Level, ...]:
        """That level, or all of them, the highest first. Raises: NotFound when the agent has nothing."""
        if not self.provider.has(self.agent):  # acts on what is there make no files
            raise NotFound("agent: nothing was ever saved for it", argument="agent")
        return (check_level(level),) if level is not None else tuple(reversed(Level))

    def owner_compartment(self, level: Level) -> AbstractContextManager[OwnerCompartment]:
        """One compartment, with all it keeps."""
        return self.provider.owner_compartment(self.agent, level)

    def act(self, session: str = OWNER) -> Act:
        """The owner's act at this moment. session: the id of the one that it is done in, if any."""
        return Act(session, self.clock(), self.ids)

    @contextmanager
    def writing(self, owner_compartment: OwnerCompartment, act: Act, what: str) -> Iterator[WritableView]:
        """A transaction in one compartment, seen as a session of its level would see it. Raises: as `transaction`."""
        with self.transaction(owner_compartment, act, what):
            own = ExpiringCompartment(owner_compartment, self.expiry, act.at)
            yield WritableView((own,), own)

    @contextmanager
    def transaction(self, own: Compartment, act: Act, what: str) -> Iterator[None]:
        """A durable transaction, undone unless the act's session, if any, stands at this level when all is written.

        what: the act, for the audit. Raises: Refused (unknown, ended, raised).
        """
        try:
            with own.transaction(durable=True):
                yield
                self._require_standing(act.session, own.level)  # P4, P13: inside the transaction that it classifies
        except _UndoneError as undone:
            self.audit_log.refuse(undone.row, undone.deny, what)

    def _require_standing(self, session: str, level: Level) -> None:
        if session == OWNER:
            return
        row = self.sessions.read(session)
        if row is None or row.agent != self.agent:  # P6
            raise _UndoneError(None, UNKNOWN_SESSION)
        decision = decide(OwnerAct(state_of(row), level))
        if isinstance(decision, Deny):
            raise _UndoneError(row, decision)
