"""What the owner commands on history return."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.memory import Status
from tidegate.records.record import Origin


class VersionState(StrEnum):
    """The state of a version."""

    LIVE = "live"
    EXPIRED = "expired"
    DELETED = "deleted"
    SUPERSEDED = "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Version(JsonObject):
    """One version of a memory at one level.

    deleted_at: when it was deleted or expired, even if a later version followed. pinned: it is live, and pinned.
    """

    key: str
    classification: Level
    version: int
    state: VersionState
    content: str
    tags: tuple[str, ...]
    origin: Origin
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
    pinned: bool


@dataclass(frozen=True, slots=True)
class Restored(JsonObject):
    """A restore that is stored and audited. restored_version: the version whose content is live again."""

    key: str
    classification: Level
    version: int
    status: Status
    restored_version: int


@dataclass(frozen=True, slots=True)
class Relabelled(JsonObject):
    """A memory that was copied to another level, or would be. copied_from: the level where the original stays (P3)."""

    key: str
    copied_from: Level
    classification: Level
    version: int | None = None
    status: Status | None = None

    @property
    def lowers(self) -> bool:
        """Return whether it makes something known at a lower level, which cannot be undone."""
        return not self.copied_from.can_flow_to(self.classification)


@dataclass(frozen=True, slots=True)
class Pinned(JsonObject):
    """A pin or unpin that is stored and audited. status: updated, or unchanged if it already was so."""

    key: str
    classification: Level
    version: int
    status: Status


@dataclass(frozen=True, slots=True)
class Purged(JsonObject):
    """What a purge removed at one level, or would remove.

    memories: removed with all their versions. versions: the number of all removed versions.
    complete: false when others were reading, so that a file may still hold some of it: purge again.
    """

    classification: Level
    memories: int
    versions: int
    complete: bool
