"""A record: one key of one kind in one compartment, with its versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.policy.levels import Level


class RecordKind(StrEnum):
    """The kind of a record. Kinds never mix: a key names one record in each."""

    MEMORY = "memory"
    TODO = "todo"
    MESSAGE = "message"
    JOB = "job"
    RUN = "run"


class Origin(StrEnum):
    """Where a record came from (P18). The surface sets it; a model cannot."""

    AGENT = "agent"
    OWNER = "owner"
    TOOL = "tool"
    IMPORT = "import"

    @property
    def from_outside(self) -> bool:
        """Return whether anyone but the owner and the agent may have written it: a prompt gets it only as data."""
        return self in (Origin.TOOL, Origin.IMPORT)


_BY_TRUST = (Origin.OWNER, Origin.AGENT, Origin.IMPORT, Origin.TOOL)


def least_trusted(origins: Iterable[Origin]) -> Origin:
    """Return the least trusted of the origins, for something made of all of them (P18); AGENT without any."""
    return max(origins, key=_BY_TRUST.index, default=Origin.AGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One version of a record, before a compartment stores it. It has no level: the compartment stamps its own (P2).

    tags: NFC, trimmed, distinct when folded, in code-point order.
    version: counts from 1, and on after a deletion.
    nonce: the random part of the audit commitment, from `audit.chain.nonce_of`; a purge removes it with the text.
    pinned: the owner's mark on a live memory; see `keeps_pin`.
    """

    kind: RecordKind
    key: str
    content: str
    tags: tuple[str, ...]
    origin: Origin
    version: int
    nonce: str
    created_at: datetime
    updated_at: datetime
    pinned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Draft):
    """The newest version under a key, live or deleted, as a compartment returns it.

    agent, level: read from the place of storage, never from the call; P1 is checked against these.
    """

    agent: str
    level: Level
    deleted_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.deleted_at is None


def keeps_pin(before: Record | None, origin: Origin) -> bool:
    """Return whether a new version from this origin stays pinned: it must be trusted as much as the version before.

    Nothing else that is saved is ever pinned, so no model can pin (P18).
    """
    return (
        before is not None and before.live and before.pinned and least_trusted((before.origin, origin)) == before.origin
    )


# Keys of numbered records: the messages of a session, and the runs of a job, sort together and in order.
_DIGITS = 12


def key_of(session: str, number: int) -> str:
    """Return the key of a message. That of number 0, which no message has, sorts before all of the session's."""
    return f"{session}/{number:0{_DIGITS}}"


def number_of(key: str) -> int:
    """Return a message's place in its conversation, from 1."""
    return int(key[-_DIGITS:])


def session_of(key: str) -> str:
    """Return the id of the session whose message it is."""
    return key[: -_DIGITS - 1]


def is_of(key: str, session: str) -> bool:
    """Return whether a message is this session's, not that of another session whose id begins in the same way (P6)."""
    return session_of(key) == session
