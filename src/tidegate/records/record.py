"""A record: one key of one kind in one compartment, and the versions it went through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.policy.levels import Level


class RecordKind(StrEnum):
    """What a record is. Kinds never mix: a key names one record in each."""

    MEMORY = "memory"
    TODO = "todo"
    MESSAGE = "message"
    JOB = "job"
    RUN = "run"


class Origin(StrEnum):
    """Where a record came from (P18). Set by the surface; the model cannot write it."""

    AGENT = "agent"
    OWNER = "owner"
    TOOL = "tool"
    IMPORT = "import"

    @property
    def from_outside(self) -> bool:
        """Whether it may say what neither the owner nor the agent thought of: a prompt has it as data alone."""
        return self in (Origin.TOOL, Origin.IMPORT)


_BY_TRUST = (Origin.OWNER, Origin.AGENT, Origin.IMPORT, Origin.TOOL)


def least_trusted(origins: Iterable[Origin]) -> Origin:
    """Where something came from that is made of all these: from the least trusted of them (P18). Of nothing: agent."""
    return max(origins, key=_BY_TRUST.index, default=Origin.AGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One version of a record, before a compartment takes it in. It has no level: the compartment stamps its own (P2).

    tags: NFC, trimmed, distinct, in code-point order.
    version: counts from 1, for ever, also over deletions.
    nonce: the random part of the version's audit commitment, from `audit.nonce_of`; it is purged with the text.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Record(Draft):
    """The newest version under a key, live or deleted, as a compartment vouches for it.

    agent, level: read from where the data is stored, never from the call; P1 is checked against these.
    """

    agent: str
    level: Level
    deleted_at: datetime | None = None

    @property
    def live(self) -> bool:
        return self.deleted_at is None
