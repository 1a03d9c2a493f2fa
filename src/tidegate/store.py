"""A store: the memory of one home, for any number of agents and sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tidegate.config.settings import DEFAULT_LEVEL
from tidegate.core.audit_log import AuditLog
from tidegate.core.gate import Gate
from tidegate.core.maintenance import MaintainedViews
from tidegate.core.sessions import Sessions
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.limits import Limits
from tidegate.records.record import Origin
from tidegate.records.validation import check_agent
from tidegate.session import CallableTool, Session
from tidegate.storage.base import StorageProvider
from tidegate.storage.base import fresh_id as fresh_id
from tidegate.storage.control import SessionRow

if TYPE_CHECKING:
    from tidegate.core.flow import FlowChecks
    from tidegate.owner.context import OwnerContext
    from tidegate.owner.owner import Owner
    from tidegate.transfer.transfer import Transfer


def utc_now() -> datetime:
    """Return the time of the system's clock."""
    return datetime.now(UTC)


def _in_utc(clock: Callable[[], datetime]) -> Callable[[], datetime]:
    """Return the same clock in UTC, whatever its zone: times are returned as stored."""
    return lambda: clock().astimezone(UTC)


class Store:
    """Opens sessions. Safe to share between threads. As a context manager it closes at the end."""

    def __init__(
        self,
        provider: StorageProvider,
        *,
        toolset: Mapping[str, CallableTool],
        clock: Callable[[], datetime] = utc_now,
        ids: Callable[[], str] = fresh_id,
        limits: Limits | None = None,
        audit_reads: bool = False,
        expiry: Expiry | None = None,
        default_level: Level = DEFAULT_LEVEL,
    ) -> None:
        clock = _in_utc(clock)
        self._provider = provider
        self._toolset = toolset
        self._limits = limits or Limits()
        self._clock = clock
        self._audit_reads = audit_reads
        self._audit_log = audit_log = AuditLog(provider, clock)
        self.sessions = Sessions(provider, audit_log, ids, self._limits, default_level)
        self._ids = ids
        self._expiry = expiry or Expiry()
        self._gate = Gate(
            MaintainedViews(provider, self._expiry, clock),
            self.sessions,
            audit_log,
            clock=clock,
            ids=ids,
            audit_reads=audit_reads,
        )

    def session(
        self,
        agent: str,
        name: str | None = None,
        level: Level | None = None,
        *,
        ceiling: Level | None = None,
        parent: Session | None = None,
        origin: Origin = Origin.AGENT,
        generation: int = 0,
    ) -> Session:
        """Open or resume a session, and return it.

        level: raises an existing session that is lower; without one, it stays at its taint. A new session without a
        level starts at its parent's taint, or at `defaults.level` in config.toml, which is INTERNAL unless set.
        name: survives restarts; without one the session is ephemeral, with nothing stored about it. It stays in memory
        until it ends, so a host that opens many must end them.
        ceiling: the highest taint that it may reach; for a new session only. By default its parent's, else RESTRICTED.
        parent: makes a child, at or above its parent's taint and under its parent's ceiling (P15).
        origin: the mark on the session's memories. generation: the length of the chain of jobs that created it.
        Raises: InvalidArgument, Refused (ended, ceiling), StorageError.
        """
        row = self.sessions.open(agent, name, level, ceiling, parent.id if parent else None)
        return self._session(row, origin, generation)

    def resume(self, agent: str, name: str, *, origin: Origin = Origin.AGENT) -> Session:
        """Return the active session of this name. Raises: Refused when it does not exist or has ended."""
        return self._session(self.sessions.find(agent, name), origin)

    def transfer(self, agent: str) -> Transfer:
        """Return export, import, backup and restore of one agent's memories, for its owner. Raises: InvalidArgument."""
        from tidegate.transfer.transfer import Transfer  # sessions do not need it

        return Transfer(self._owner_context(agent), self._limits, audit_reads=self._audit_reads)

    def owner(self, agent: str) -> Owner:
        """Return the owner commands on one agent's memory, at every level. Never for a model.

        Raises: InvalidArgument.
        """
        from tidegate.owner.owner import Owner

        return Owner(self._owner_context(agent), self._limits)

    @property
    def flow(self) -> FlowChecks:
        """Return the gate's checks of flows to and from servers and channels, for code that builds on them."""
        return self._gate.flow

    def agents(self) -> list[str]:
        """Return all agents with stored data, by name. For the owner. Raises: StorageError."""
        return self._provider.agents()

    def close(self) -> None:
        """Close every file and connection. Acknowledged changes stay."""
        self._provider.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _owner_context(self, agent: str) -> OwnerContext:
        from tidegate.owner.context import OwnerContext

        agent, audit_log = check_agent(agent), self._audit_log
        return OwnerContext(self._provider, agent, self._clock, self._ids, self._expiry, self.sessions, audit_log)

    def tidy_runs(self, agent: str, level: Level) -> int:
        """Permanently remove old runs of jobs; return the number of removed versions. Raises: StorageError."""
        from tidegate.jobs.retention import purge_old_runs

        return purge_old_runs(self._provider, self._clock, check_agent(agent), level)

    def _session(self, row: SessionRow, origin: Origin, generation: int = 0) -> Session:
        gate, sessions, toolset = self._gate, self.sessions, self._toolset
        return Session(row, gate, sessions, toolset, self._limits, origin, self._ids, generation=generation)
