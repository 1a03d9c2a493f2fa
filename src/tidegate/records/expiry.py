"""Expiry: how long memories live after their last save. Only the owner's configuration decides, never a model."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level, read_label
from tidegate.records.record import Record, RecordKind
from tidegate.records.tags import fold_tag, found_under
from tidegate.records.times import read_duration


@dataclass(frozen=True, slots=True)
class Bygone:
    """Memories last saved at or before a time. all: any memory; tags: those with that tag, folded. None: no memory."""

    all: datetime | None = None
    tags: Mapping[str, datetime] = field(default_factory=dict)

    def holds(self, record: Record) -> bool:
        """Return whether the record is one of them."""
        return self._reaches(found_under(record.kind, record.tags), record.updated_at)

    def reaches(self, tags: Collection[str], saved_at: datetime) -> bool:
        """Return whether a memory with these tags that was last saved at that time is one of them."""
        return self._reaches(found_under(RecordKind.MEMORY, tags), saved_at)

    def _reaches(self, tags: Collection[str], saved_at: datetime) -> bool:
        times = (self.all, *(self.tags.get(tag) for tag in tags))
        return any(time is not None and saved_at <= time for time in times)


NONE_BYGONE = Bygone()


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rules by tag and by level; the shortest that applies counts. Without rules nothing expires.

    tags: as the owner wrote them. folded: as tags are compared.
    """

    tags: Mapping[str, timedelta] = field(default_factory=dict)
    levels: Mapping[Level, timedelta] = field(default_factory=dict)
    folded: Mapping[str, timedelta] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        folded: dict[str, timedelta] = {}
        for tag, ttl in self.tags.items():
            folded[fold_tag(tag)] = min(ttl, folded.get(fold_tag(tag), ttl))
        object.__setattr__(self, "folded", folded)

    def __bool__(self) -> bool:
        return bool(self.tags or self.levels)

    def expires_at(self, record: Record) -> datetime | None:
        """Return when a live memory expires, counted from its last save; None for never, and for other records.

        A time too late to be written counts as never.
        """
        if not record.live or record.kind is not RecordKind.MEMORY:
            return None
        ttls = [self.folded[tag] for tag in found_under(record.kind, record.tags) if tag in self.folded]
        ttls += [self.levels[record.level]] if record.level in self.levels else []
        try:
            return record.updated_at + min(ttls) if ttls else None
        except OverflowError:
            return None

    def bygone(self, level: Level, now: datetime) -> Bygone:
        """Return which memories of a level have expired at a time, exactly as `seen_at` decides."""
        tags = {tag: before for tag, ttl in self.folded.items() if (before := _before(now, ttl)) is not None}
        return Bygone(_before(now, self.levels[level]) if level in self.levels else None, tags)

    def newly_covers(self, record: Record) -> set[str]:
        """Return the tags of a memory that a rule covers only because tags are compared folded."""
        folded = {tag for tag in record.tags if fold_tag(tag) in self.folded}
        exact = {fold_tag(tag) for tag in folded if tag in self.tags}
        return {tag for tag in folded if fold_tag(tag) not in exact}

    def seen_at(self, record: Record, now: datetime) -> Record:
        """Return the record as of a time. An expired one looks as if it was deleted when it expired."""
        expires_at = self.expires_at(record)
        return (
            record if expires_at is None or expires_at > now else replace(record, deleted_at=expires_at, pinned=False)
        )


def _before(now: datetime, ttl: timedelta) -> datetime | None:
    """Return the time of the last save that has expired by now; None when that is too early to be a time."""
    try:
        return now - ttl
    except OverflowError:
        return None


def read_tags(table: Mapping[str, object]) -> dict[str, timedelta]:
    """Read the rules by tag, with tags in their stored form. Raises: InvalidArgument."""
    return {unicodedata.normalize("NFC", tag).strip(): _ttl(age, "expiry.tags") for tag, age in table.items()}


def read_levels(table: Mapping[str, object]) -> dict[Level, timedelta]:
    """Read the rules by level. Raises: InvalidArgument."""
    return {_level(name): _ttl(age, "expiry.levels") for name, age in table.items()}


def _level(name: str) -> Level:
    level = read_label(name)
    if level is None:
        raise InvalidArgument(f"expiry.levels: must be one of {', '.join(map(str, Level))}", argument="expiry.levels")
    return level


def _ttl(age: object, argument: str) -> timedelta:
    ttl = read_duration(age, argument)
    if not ttl:
        raise InvalidArgument(f"{argument}: must be longer than 0", argument=argument)
    return ttl
