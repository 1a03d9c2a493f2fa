"""The in-memory provider: the executable specification of storage. Nothing outlives the process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from tidegate.domain import rank
from tidegate.domain.audit import Entry, Event, chain
from tidegate.domain.rank import Match, Statistics
from tidegate.domain.record import Draft, Kind, Record
from tidegate.domain.text import Columns
from tidegate.policy.levels import Level
from tidegate.storage.base import Candidate, Compartment, ControlStore, SessionRow, StorageProvider, View, WritableView

K = TypeVar("K")
V = TypeVar("V")


class _Transactional:
    """One lock, and a list of what to undo when a transaction fails."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo: list[Callable[[], object]] = []

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._lock:
            yield

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._lock:
            self._undo.clear()
            try:
                yield
            except BaseException:
                for undo in reversed(self._undo):
                    undo()
                raise

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        self._remember(table, key)
        table[key] = value

    def _remove(self, table: dict[K, V], key: K) -> None:
        self._remember(table, key)
        table.pop(key, None)

    def _remember(self, table: dict[K, V], key: K) -> None:
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.pop(key))


class InMemoryCompartment(_Transactional, Compartment):
    """Dicts: the newest version by kind and key, older versions, the index, the audit chain."""

    def __init__(self, agent: str, level: Level, secret: bytes | None) -> None:
        super().__init__()
        self.agent = agent
        self.level = level
        self._secret = secret
        self._records: dict[tuple[Kind, str], Record] = {}
        self._versions: dict[tuple[Kind, str, int], Record] = {}
        self._columns: dict[str, Columns] = {}
        self._entries: dict[int, Entry] = {}

    def read(self, kind: Kind, key: str, *, chars_max: int | None = None) -> Record | None:
        record = self._records.get((kind, key))
        return record and replace(record, content=record.content[:chars_max])

    def has_live(self, kind: Kind, key: str) -> bool:
        record = self.read(kind, key)
        return record is not None and record.live

    def page(self, kind: Kind, *, after: str, tag: str | None, limit: int, chars_max: int) -> list[Record]:
        with self._lock:
            records = sorted(self._records.values(), key=lambda record: record.key)
        wanted = (
            record
            for record in records
            if record.kind is kind and record.live and record.key > after and (tag is None or tag in record.tags)
        )
        return [replace(record, content=record.content[:chars_max]) for record in itertools.islice(wanted, limit)]

    def statistics(self) -> Statistics:
        return sum((Statistics(1, _lengths(columns)) for columns in self._columns.values()), Statistics())

    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        held = [set(columns.key + columns.tags + columns.content) for columns in self._columns.values()]
        return {term: sum(term in words for words in held) for term in terms}

    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        statistics, frequencies = self.statistics(), self.frequencies(terms)
        found: list[tuple[float, Candidate]] = []
        for key, columns in self._columns.items():
            counts = _counts(columns, set(terms))
            weight = sum(rank.idf(frequencies[term], statistics) for term in counts)
            if counts:
                match = Match(counts, _lengths(columns))
                found.append((weight, Candidate(key, self._records[Kind.MEMORY, key].updated_at, match)))
        found.sort(key=lambda item: -item[0])
        return (candidate for _, candidate in found)

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return (entry for sequence, entry in list(self._entries.items()) if sequence > after)

    def last_entry(self) -> Entry | None:
        return self._entries.get(len(self._entries))

    def put(self, draft: Draft, columns: Columns | None) -> None:
        fields = {name: getattr(draft, name) for name in Draft.__slots__}
        record = Record(agent=self.agent, level=self.level, **fields)
        self._set(self._records, (draft.kind, draft.key), record)
        self._set(self._versions, (draft.kind, draft.key, draft.version), record)
        if columns is not None:
            self._set(self._columns, draft.key, columns)

    def touch(self, kind: Kind, key: str, updated_at: datetime) -> None:
        self._set(self._records, (kind, key), replace(self._records[kind, key], updated_at=updated_at))

    def bury(self, kind: Kind, key: str, deleted_at: datetime) -> None:
        self._set(self._records, (kind, key), replace(self._records[kind, key], deleted_at=deleted_at))
        if kind is Kind.MEMORY:
            self._remove(self._columns, key)

    def append(self, event: Event) -> None:
        entry = chain(event, self.last_entry(), self._secret)
        self._set(self._entries, entry.sequence, entry)


class InMemoryControlStore(_Transactional, ControlStore):
    """A dict of rows. Also holds the sessions that nothing is stored about."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, SessionRow] = {}

    def read(self, session: str) -> SessionRow | None:
        return self._rows.get(session)

    def find(self, agent: str, name: str) -> SessionRow | None:
        return next((row for row in self.sessions(agent) if row.name == name), None)

    def sessions(self, agent: str) -> list[SessionRow]:
        with self._lock:
            rows = [row for row in self._rows.values() if row.agent == agent]
        return sorted(rows, key=lambda row: (row.name or "", row.id))

    def insert(self, row: SessionRow) -> None:
        self._set(self._rows, row.id, row)

    def set_taint(self, session: str, taint: Level) -> None:
        self._set(self._rows, session, replace(self._rows[session], taint=taint))

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        self._set(self._rows, session, replace(self._rows[session], ceiling=ceiling))

    def end(self, session: str) -> None:
        self._set(self._rows, session, replace(self._rows[session], ended=True))

    def close(self) -> None:
        pass


class InMemoryProvider(StorageProvider):
    """Compartments in one dict. Every open of the same provider sees the same data."""

    def __init__(self, *, secret: bytes | None = None) -> None:
        self.control = InMemoryControlStore()
        self._secret = secret
        self._lock = threading.Lock()
        self._compartments: dict[tuple[str, Level], InMemoryCompartment] = {}

    @contextmanager
    def view(self, agent: str, taint: Level) -> Iterator[View]:
        yield View(self._visible(agent, taint))

    @contextmanager
    def writable_view(self, agent: str, taint: Level) -> Iterator[WritableView]:
        self._make(agent)
        visible = self._visible(agent, taint)
        yield WritableView(visible, visible[0])

    def agents(self) -> list[str]:
        with self._lock:
            return sorted({agent for agent, _ in self._compartments})

    def close(self) -> None:
        pass

    def _visible(self, agent: str, taint: Level) -> tuple[InMemoryCompartment, ...]:
        levels = (level for level in reversed(Level) if level.can_flow_to(taint))
        return tuple(
            self._compartments.get((agent, level)) or InMemoryCompartment(agent, level, None) for level in levels
        )

    def _make(self, agent: str) -> None:
        with self._lock:
            for level in Level:
                self._compartments.setdefault((agent, level), InMemoryCompartment(agent, level, self._secret))


def _lengths(columns: Columns) -> tuple[int, int, int]:
    return len(columns.key), len(columns.tags), len(columns.content)


def _counts(columns: Columns, terms: set[str]) -> dict[str, tuple[int, int, int]]:
    held = terms.intersection(columns.key + columns.tags + columns.content)
    return {term: (columns.key.count(term), columns.tags.count(term), columns.content.count(term)) for term in held}
