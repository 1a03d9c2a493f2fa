"""Compartments without expired memories: an expired memory reads as if it was deleted when it expired.

A session that reads down cannot write there, so each read compares times; only the level itself deletes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from tidegate.audit.chain import AuditEvent, Entry
from tidegate.records.expiry import NONE_BYGONE, Bygone, Expiry
from tidegate.records.record import Draft, Record, RecordKind
from tidegate.search.analysis import Columns
from tidegate.search.ranking import Statistics
from tidegate.storage.base import BudgetSpentError, Candidate, Compartment, CompartmentReader

PASSED_MAX = 500
"""Expired memories that one index lookup skips; then it ends, and the search is reported as incomplete."""


class ExpiringReader(CompartmentReader):
    """A compartment as of one moment. Statistics and holders count expired memories until these are deleted."""

    def __init__(self, inner: CompartmentReader, expiry: Expiry, now: datetime) -> None:
        self.agent = inner.agent
        self.level = inner.level
        self.id = inner.id
        self._inner = inner
        self._expiry = expiry
        self._now = now

    def read(self, kind: RecordKind, key: str, *, chars_max: int | None = None) -> Record | None:
        record = self._inner.read(kind, key, chars_max=chars_max)
        return None if record is None else self._expiry.seen_at(record, self._now)

    def read_several(self, kind: RecordKind, keys: Collection[str], *, chars_max: int) -> dict[str, Record]:
        found = self._inner.read_several(kind, keys, chars_max=chars_max)
        return {key: self._expiry.seen_at(record, self._now) for key, record in found.items()}

    def live(self, kind: RecordKind, keys: Collection[str]) -> set[str]:
        return {key for key, record in self.read_several(kind, keys, chars_max=0).items() if record.live}

    def page(
        self, kind: RecordKind, *, after: str, tag: str | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        if kind is RecordKind.MEMORY:
            bygone = self._expiry.bygone(self.level, self._now)
        return self._inner.page(kind, after=after, tag=tag, limit=limit, chars_max=chars_max, bygone=bygone)

    def latest(
        self, tag: str, *, after: Record | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        bygone = self._expiry.bygone(self.level, self._now)
        return self._inner.latest(tag, after=after, limit=limit, chars_max=chars_max, bygone=bygone)

    def pinned(self, *, chars_max: int) -> list[Record]:
        found = self._inner.pinned(chars_max=chars_max)
        return [record for record in found if self._expiry.seen_at(record, self._now).live]

    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        return self._living(self._inner.candidates(terms))

    def snapshot(self) -> AbstractContextManager[None]:
        return self._inner.snapshot()

    def statistics(self) -> Statistics:
        return self._inner.statistics()

    def newest(self, groups: Sequence[Sequence[str]]) -> Iterator[Candidate]:
        return self._living(self._inner.newest(groups))

    def vocabulary(self, first: str, below: str, *, limit: int) -> list[str]:
        return self._inner.vocabulary(first, below, limit=limit)

    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        return self._inner.frequencies(terms)

    def holders(self, terms: Sequence[str], *, limit: int) -> list[str]:
        return self._inner.holders(terms, limit=limit)

    def index_whole(self) -> bool:
        return self._inner.index_whole()

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return self._inner.entries(after=after)

    def last_entry(self) -> Entry | None:
        return self._inner.last_entry()

    def _living(self, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        passed = 0
        for each in candidates:
            record = self.read(RecordKind.MEMORY, each.key, chars_max=0)
            if record is not None and record.live:
                yield each
            elif passed == PASSED_MAX:
                raise BudgetSpentError
            else:
                passed += 1


class ExpiringCompartment(ExpiringReader, Compartment):
    """The same, writable."""

    def __init__(self, inner: Compartment, expiry: Expiry, now: datetime) -> None:
        super().__init__(inner, expiry, now)
        self._own = inner

    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        return self._own.transaction(durable=durable)

    def put(self, draft: Draft, columns: Columns | None) -> None:
        self._own.put(draft, columns)

    def touch(self, kind: RecordKind, key: str, updated_at: datetime) -> None:
        self._own.touch(kind, key, updated_at)

    def soft_delete(self, kind: RecordKind, key: str, deleted_at: datetime) -> None:
        self._own.soft_delete(kind, key, deleted_at)

    def append(self, event: AuditEvent) -> None:
        self._own.append(event)
