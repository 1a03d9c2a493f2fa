"""The owner's view of the audit: entries of all levels by time, with the keys of versions still kept."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice

from tidegate.audit.chain import Action, Entry, commitment_of
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.record import RecordKind
from tidegate.storage.base import OwnerCompartment

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries to show; None means any. sessions: ids; "" stands for owner commands outside any session."""

    level: Level | None = None
    sessions: Collection[str] | None = None
    actions: Collection[Action] | None = None
    since: datetime | None = None
    until: datetime | None = None

    def accepts(self, entry: Entry) -> bool:
        """Return whether to show an entry."""
        event = entry.event
        return (
            (self.sessions is None or event.session in self.sessions)
            and (self.actions is None or event.action in self.actions)
            and (self.since is None or event.at >= self.since)
            and (self.until is None or event.at <= self.until)
        )


@dataclass(frozen=True, slots=True)
class AuditLine(JsonObject):
    """One entry at one level. kind, key: of its record, while that version is kept; for the owner only."""

    level: Level
    entry: Entry
    kind: RecordKind | None
    key: str | None


def find_audit_lines(context: OwnerContext, wanted: AuditFilter) -> Iterator[AuditLine]:
    """Yield the entries, oldest first. Raises: NotFound (agent), StorageError."""
    with ExitStack() as opened:
        compartments = [
            opened.enter_context(context.owner_compartment(level)) for level in context.levels(wanted.level)
        ]
        lines = [_lines(compartment, wanted) for compartment in compartments]
        yield from heapq.merge(*lines, key=lambda line: (line.entry.event.at, line.level, line.entry.sequence))


def _lines(compartment: OwnerCompartment, wanted: AuditFilter) -> Iterator[AuditLine]:
    keys = _Keys(compartment)
    after = 0
    while batch := list(islice(compartment.entries(after=after), _BATCH)):  # short reads: a slow reader holds no lock
        for entry in batch:
            if wanted.accepts(entry):
                yield AuditLine(compartment.level, entry, *keys.of(entry.event.commitment))
        after = batch[-1].sequence


class _Keys:
    """The kind and key behind each commitment, computed on first use."""

    def __init__(self, compartment: OwnerCompartment) -> None:
        self._compartment = compartment

    def of(self, commitment: str) -> tuple[RecordKind, str] | tuple[None, None]:
        return self._by_commitment.get(commitment, (None, None)) if commitment else (None, None)

    @cached_property
    def _by_commitment(self) -> Mapping[str, tuple[RecordKind, str]]:
        place = self._compartment.place
        return {commitment_of(each, place): (each.kind, each.key) for each, _ in self._compartment.every_version()}
