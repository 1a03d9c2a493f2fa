"""The owner's access to the compartments of one agent: all levels, no session, never from a tool."""

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
from tidegate.core.judgement import allowed
from tidegate.core.sessions import Sessions
from tidegate.errors import InvalidArgument, NotFound
from tidegate.policy.events import OwnerAct
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.records.expiry import Expiry
from tidegate.records.validation import check_level
from tidegate.storage.base import Compartment, OwnerCompartment, StorageProvider, WritableView
from tidegate.storage.control import state_of


def nothing_saved(agent: str, check: str = "--agent") -> NotFound:
    """Return the error for an agent without files. check: where the owner named it, or could have named another."""
    return NotFound(f"nothing is saved yet for the agent {agent}; check {check} and --home", argument="agent")


@dataclass(frozen=True, slots=True)
class OwnerContext:
    """What owner commands need: one agent's compartments, opened one at a time, the clock and fresh ids."""

    provider: StorageProvider
    agent: str
    clock: Callable[[], datetime]
    ids: Callable[[], str]
    expiry: Expiry
    sessions: Sessions
    audit_log: AuditLog

    def outside(self, path: str | Path) -> Path:
        """Return a path to write to. Raises: InvalidArgument when it leads to a file of the store."""
        path = files.named(path)
        if self.provider.owns_path(path):
            raise InvalidArgument("file: is in the home, or is one of its files; choose another file", argument="file")
        return path

    def levels(self, level: Level | None) -> tuple[Level, ...]:
        """Return that level, or all levels, highest first. Raises: NotFound when the agent has no files."""
        if not self.provider.has(self.agent):  # commands on existing memories create no files
            raise nothing_saved(self.agent)
        return (check_level(level),) if level is not None else tuple(reversed(Level))

    def owner_compartment(self, level: Level) -> AbstractContextManager[OwnerCompartment]:
        """Open one compartment with every version it keeps."""
        return self.provider.owner_compartment(self.agent, level)

    def act(self, session: str = OWNER) -> Act:
        """Return an act of the owner at this moment. session: the id of the acting session, if any."""
        return Act(session, self.clock(), self.ids)

    @contextmanager
    def writing(self, compartment: OwnerCompartment, act: Act, what: str) -> Iterator[WritableView]:
        """Begin a transaction and yield the view of a session at the compartment's level. Raises: as `transaction`."""
        with self.transaction(compartment, act, what):
            own = ExpiringCompartment(compartment, self.expiry, act.at)
            yield WritableView((own,), own)

    @contextmanager
    def transaction(self, own: Compartment, act: Act, what: str) -> Iterator[None]:
        """Begin a durable transaction; undo it unless the act's session, if any, is at this level at the end.

        what: the act, for the audit. Raises: Refused (unknown, ended, raised).
        """
        with self.audit_log.refusing(what), own.transaction(durable=True):
            yield
            if act.session != OWNER:  # P4, P13: inside the transaction that it classifies
                row = self.sessions.read(act.session)
                row = row if row is not None and row.agent == self.agent else None  # P6
                allowed(row, decide(OwnerAct(state_of(row), own.level)))
