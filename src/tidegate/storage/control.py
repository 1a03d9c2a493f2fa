"""The control store: the reference monitor's own state, as an interface of every provider."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import lru_cache

from tidegate.policy.levels import Level
from tidegate.policy.session_state import SessionState
from tidegate.records.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class SessionRow(JsonObject):
    """Everything the control store knows about a session. No content, no counters, no times."""

    id: str
    agent: str
    name: str | None
    taint: Level
    ceiling: Level
    parent: str | None
    ended: bool = False
    life: int = 0
    """How often its agent was erased before it was opened. After another erasure it has ended."""

    @property
    def state(self) -> SessionState:
        """Return the part that the policy decides by."""
        return _state(self.taint, self.ceiling, self.ended)


_state = lru_cache(SessionState)  # there are few, and each call needs two


def state_of(row: SessionRow | None) -> SessionState | None:
    """Return the part of a row that the policy decides by; None when there is no such session."""
    return None if row is None else _state(row.taint, row.ceiling, row.ended)


class ControlStore(ABC):
    """The reference monitor's own state. Fully synchronised, so that a raised taint survives power loss (P4)."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Exclude other processes and threads; writes inside are durable on return."""

    @abstractmethod
    def read(self, session: str) -> SessionRow | None:
        """Return the session with this id, also if it has ended, as of now."""

    @abstractmethod
    def find(self, agent: str, name: str) -> SessionRow | None:
        """Find the session that has, or had, this name."""

    @abstractmethod
    def sessions(self, agent: str) -> list[SessionRow]:
        """Return all sessions of an agent, by name."""

    @abstractmethod
    def insert(self, row: SessionRow) -> None:
        """Insert a new session."""

    @abstractmethod
    def set_taint(self, session: str, taint: Level) -> None:
        """Raise a session."""

    @abstractmethod
    def set_ceiling(self, session: str, ceiling: Level) -> None:
        """Change a session's ceiling."""

    @abstractmethod
    def end(self, session: str) -> None:
        """Mark a session as ended. Nothing reopens it."""

    @abstractmethod
    def rename(self, session: str, name: str) -> None:
        """Give a session another name, which no session has or had, and count a renewal of the one that it had."""

    @abstractmethod
    def renewals_count(self) -> int:
        """Return how many renewals there were, of any name, as of now."""

    @abstractmethod
    def last_renewal(self, agent: str, name: str) -> int:
        """Return which of all renewals was the last of this name; 0 if it was never renewed."""

    @abstractmethod
    def life(self, agent: str) -> int:
        """Return how often the agent was erased, as of now."""

    @abstractmethod
    def end_life(self, agent: str) -> None:
        """End every session of the agent in every process, and forget which compartments are its own.

        From then on their remains are refused.
        """

    @abstractmethod
    def compartment(self, agent: str, level: Level) -> str | None:
        """Return the id of the compartment that belongs there, or None before one is recorded."""

    @abstractmethod
    def set_compartment(self, agent: str, level: Level, id: str) -> None:  # noqa: A002 - the field's name
        """Set the id of the compartment that belongs there."""

    @abstractmethod
    def close(self) -> None:
        """Close every file and connection."""
