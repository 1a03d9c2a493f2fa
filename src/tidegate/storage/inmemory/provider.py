"""The in-memory provider: the executable specification of storage. Nothing outlives the process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from tidegate.audit.chain import STATE_ACTIONS, Action, AuditEvent, Entry, Pen, Place
from tidegate.policy.levels import Level
from tidegate.records.expiry import NONE_BYGONE, Bygone
from tidegate.records.record import Draft, Record, RecordKind
from tidegate.records.tags import as_compared, fold_tag, found_under
from tidegate.search import ranking
from tidegate.search.analysis import ANALYSIS_VERSION, Columns
from tidegate.search.ranking import Match, Statistics
from tidegate.search.spelling import is_word
from tidegate.storage.base import (
    Candidate,
    CompartmentReader,
    OwnerCompartment,
    StorageProvider,
    VersionId,
    View,
    Witness,
    WritableView,
    fresh_id,
    not_its_own,
)
from tidegate.storage.inmemory.control_store import InMemoryControlStore
from tidegate.storage.inmemory.tables import Transactional


class InMemoryCompartment(Transactional, OwnerCompartment):
    """Dicts: the newest version by kind and key, older versions, the index, the audit chain."""

    def __init__(self, agent: str, level: Level, id: str = "", secret: bytes | None = None) -> None:  # noqa: A002
        super().__init__()
        self.agent = agent
        self.level = level
        self.id = id
        self._pen = Pen(self.place, secret)
        self._records: dict[tuple[RecordKind, str], Record] = {}
        self._versions: dict[tuple[RecordKind, str, int], Record] = {}
        self._columns: dict[str, Columns] = {}
        self._entries: dict[int, Entry] = {}
        self._analysis: dict[str, int] = {"started": ANALYSIS_VERSION, "whole": ANALYSIS_VERSION}

    def read(self, kind: RecordKind, key: str, *, chars_max: int | None = None) -> Record | None:
        record = self._records.get((kind, key))
        return record and replace(record, content=record.content[:chars_max])

    def read_several(self, kind: RecordKind, keys: Collection[str], *, chars_max: int) -> dict[str, Record]:
        found = ((key, self.read(kind, key, chars_max=chars_max)) for key in keys)
        return {key: record for key, record in found if record is not None}

    def live(self, kind: RecordKind, keys: Collection[str]) -> set[str]:
        return {key for key in keys if (record := self.read(kind, key)) is not None and record.live}

    def page(
        self, kind: RecordKind, *, after: str, tag: str | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        with self._lock:
            records = sorted(self._records.values(), key=lambda record: record.key)
        wanted = (
            record
            for record in records
            if record.kind is kind
            and record.live
            and record.key > after
            and (tag is None or as_compared(kind, tag) in found_under(kind, record.tags))
            if not bygone.holds(record)
        )
        return [replace(record, content=record.content[:chars_max]) for record in itertools.islice(wanted, limit)]

    def latest(
        self, tag: str, *, after: Record | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        tagged = (each for each in self._latest(chars_max) if fold_tag(tag) in found_under(each.kind, each.tags))
        lasting = (record for record in tagged if not bygone.holds(record))
        rest = [record for record in lasting if after is None or _newest_first(record) > _newest_first(after)]
        return rest[:limit]

    def pinned(self, *, chars_max: int) -> list[Record]:
        return [record for record in self._latest(chars_max) if record.pinned]

    def _latest(self, chars_max: int) -> list[Record]:
        with self._lock:
            live = [record for (kind, _), record in self._records.items() if kind is RecordKind.MEMORY and record.live]
        return [replace(record, content=record.content[:chars_max]) for record in sorted(live, key=_newest_first)]

    def statistics(self) -> Statistics:
        return sum((Statistics(1, columns.lengths) for columns in self._columns.values()), Statistics())

    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        held = [columns.terms for columns in self._columns.values()]
        return {term: min(sum(term in words for words in held), ranking.FREQUENCY_MAX) for term in terms}

    def vocabulary(self, first: str, below: str, *, limit: int) -> list[str]:
        held = {term for columns in self._columns.values() for term in columns.terms}
        return sorted(term for term in held if is_word(term) and first <= term < below)[:limit]

    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        statistics, frequencies = self.statistics(), self.frequencies(terms)
        found: list[tuple[float, Candidate]] = []
        for key, columns in self._columns.items():
            counts = _counts(columns, terms)
            weight = sum(ranking.idf(frequencies[terms[place]], statistics) for place in counts[::4])
            if counts:
                match = Match(counts, columns.lengths)
                found.append((weight, Candidate(key, self._records[RecordKind.MEMORY, key].updated_at, match)))
        found.sort(key=lambda item: -item[0])
        return (candidate for _, candidate in found)

    def newest(self, groups: Sequence[Sequence[str]]) -> Iterator[Candidate]:
        for kind, key in reversed(self._records):
            columns = self._columns.get(key) if kind is RecordKind.MEMORY else None
            if columns is None:
                continue
            if not any(columns.terms.isdisjoint(group) for group in groups):
                yield Candidate(key, self._records[kind, key].updated_at)

    def holders(self, terms: Sequence[str], *, limit: int) -> list[str]:
        return [key for key, columns in self._columns.items() if not columns.terms.isdisjoint(terms)][:limit]

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return (entry for sequence, entry in list(self._entries.items()) if sequence > after)

    def last_entry(self) -> Entry | None:
        return self._entries.get(len(self._entries))

    def put(self, draft: Draft, columns: Columns | None) -> None:
        fields = {name: getattr(draft, name) for name in Draft.__slots__}
        record = Record(agent=self.agent, level=self.level, **fields)
        before = self._records.get((draft.kind, draft.key))
        if before is not None:
            self._set(self._versions, (draft.kind, draft.key, before.version), replace(before, pinned=False))
        self._set(self._records, (draft.kind, draft.key), record)
        if columns is not None:
            self._set(self._columns, draft.key, columns)

    def touch(self, kind: RecordKind, key: str, updated_at: datetime) -> None:
        self._set(self._records, (kind, key), replace(self._records[kind, key], updated_at=updated_at))

    def soft_delete(self, kind: RecordKind, key: str, deleted_at: datetime) -> None:
        record = replace(self._records[kind, key], deleted_at=deleted_at, pinned=False)
        self._set(self._records, (kind, key), record)
        if kind is RecordKind.MEMORY:
            self._remove(self._columns, key)

    def append(self, event: AuditEvent) -> None:
        entry = self._pen.write(event, self.last_entry())
        self._set(self._entries, entry.sequence, entry)

    # For the owner and for maintenance

    def versions(self, kind: RecordKind, key: str) -> list[Record]:
        found = [record for record, _ in self.every_version() if (record.kind, record.key) == (kind, key)]
        return sorted(found, key=lambda record: -record.version)

    def every_version(self) -> Iterator[tuple[Record, bool]]:
        with self._lock:
            newest, replaced = list(self._records.values()), list(self._versions.values())
        return ((record, at < len(newest)) for at, record in enumerate(newest + replaced))

    def purgeable(self, before: datetime) -> list[VersionId]:
        found = (record for record, _ in self.every_version() if self._died(record, before))
        return [VersionId(record.kind, record.key, record.version) for record in found]

    def purge_version(self, version: VersionId) -> Record | None:
        name = (version.kind, version.key, version.version)
        found = self._versions.get(name)
        if found is not None:
            self._remove(self._versions, name)
            return found
        record = self._records.get(name[:2])
        if record is None or record.live or record.version != version.version:
            return None
        self._remove(self._records, name[:2])
        return record

    def import_entry(self, entry: Entry) -> None:
        self._set(self._entries, entry.sequence, entry)

    def import_version(self, record: Record, columns: Columns | None, *, newest: bool) -> None:
        own = replace(record, agent=self.agent, level=self.level)
        if newest:
            self._set(self._records, (own.kind, own.key), own)
        else:
            self._set(self._versions, (own.kind, own.key, own.version), own)
        if columns is not None:
            self._set(self._columns, own.key, columns)

    def set_pinned(self, key: str, *, pinned: bool) -> None:
        name = (RecordKind.MEMORY, key)
        self._set(self._records, name, replace(self._records[name], pinned=pinned))

    def oldest(self, *, tag: str | None, limit: int) -> list[Record]:
        live = (record for (kind, _), record in self._records.items() if kind is RecordKind.MEMORY and record.live)
        carrying = (record for record in live if tag is None or fold_tag(tag) in found_under(record.kind, record.tags))
        return sorted(carrying, key=lambda record: (record.updated_at, record.key))[:limit]

    def index_whole(self) -> bool:
        return self._analysis["whole"] == ANALYSIS_VERSION

    def index_started(self) -> bool:
        return self._analysis["started"] == ANALYSIS_VERSION

    def clear_index(self) -> None:
        for key in list(self._columns):
            self._remove(self._columns, key)
        self._set(self._analysis, "started", ANALYSIS_VERSION)
        self._set(self._analysis, "whole", 0)

    def unindexed(self, *, after: str, limit: int) -> list[Record]:
        live = (record for (kind, _), record in self._records.items() if kind is RecordKind.MEMORY and record.live)
        lacking = (record for record in live if record.key not in self._columns and record.key > after)
        return sorted(lacking, key=lambda record: record.key)[:limit]

    def index(self, record: Record, columns: Columns) -> None:
        present = self._records.get((record.kind, record.key))
        if present is not None and present.live and present.version == record.version:
            self._set(self._columns, record.key, columns)

    def mark_index_complete(self) -> None:
        self._set(self._analysis, "whole", ANALYSIS_VERSION)

    def _died(self, version: Record, before: datetime) -> bool:
        """Return whether it was deleted by then, or superseded by a version saved by then."""
        newest = self._records.get((version.kind, version.key), version)
        if any(r.deleted_at is not None and r.deleted_at <= before for r in (version, newest)):
            return True
        followers = (r for r in self.versions(version.kind, version.key) if r.version > version.version)
        return any(follower.updated_at <= before for follower in followers)


class InMemoryWitness(Witness):
    """The chain of one compartment, searched entry by entry: the executable specification of a witness."""

    def __init__(self, compartment: CompartmentReader) -> None:
        self.level = compartment.level
        self._entries = compartment.entries

    def state_actions(self, session: str) -> Set[Action]:
        return STATE_ACTIONS & {entry.event.action for entry in self._entries() if entry.event.session == session}

    def opened(self) -> Iterator[tuple[str, int]]:
        opened = [entry for entry in self._entries() if entry.event.action is Action.OPEN]
        return ((entry.event.session, entry.sequence) for entry in reversed(opened))

    def heard(self, session: str, *, after: int) -> bool:
        return any(entry.event.session == session for entry in self._entries(after=after))


class InMemoryProvider(StorageProvider):
    """Compartments in one dict. Every open of the same provider sees the same data."""

    def __init__(self, *, secret: bytes | None = None, ids: Callable[[], str] = fresh_id) -> None:
        self.control = InMemoryControlStore()
        self.audit_secret = secret
        self._ids = ids
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

    @contextmanager
    def witnesses(self, agent: str) -> Iterator[Sequence[Witness]]:
        yield [InMemoryWitness(each) for (of, _), each in sorted(self._compartments.items()) if of == agent]

    @contextmanager
    def owner_compartment(self, agent: str, level: Level) -> Iterator[OwnerCompartment]:
        self._own(agent, level)
        yield self._compartments[agent, level]

    def make_with_ids(self, agent: str, ids: Mapping[Level, str]) -> bool:
        with self._lock:
            there = [each for level in ids if (each := self._compartments.get((agent, level))) is not None]
            others = [each for each in there if each.id != ids[each.level]]
            if any(each.last_entry() for each in others):
                return False
            with self.control.transaction():
                for level, id_ in ids.items():
                    self.control.set_compartment(agent, level, id_)
            for each in others:
                del self._compartments[agent, each.level]
        self._make(agent)
        return True

    def compact(self, agent: str, level: Level) -> bool:
        return True  # removed data is gone

    def erase(self, agent: str, *, dry_run: bool) -> list[Level]:
        with self._lock:
            there = [level for level in Level if (agent, level) in self._compartments]
            for level in () if dry_run else there:
                del self._compartments[agent, level]
        return there

    def erase_unused(self, agent: str) -> None:
        self.erase(agent, dry_run=False)

    def has(self, agent: str) -> bool:
        return agent in self.agents()

    def agents(self) -> list[str]:
        with self._lock:
            return sorted({agent for agent, _ in self._compartments})

    def close(self) -> None:
        pass

    def _visible(self, agent: str, taint: Level) -> tuple[InMemoryCompartment, ...]:
        levels = (level for level in reversed(Level) if level.can_flow_to(taint))
        return tuple(self._own(agent, level) or InMemoryCompartment(agent, level) for level in levels)

    def _own(self, agent: str, level: Level) -> InMemoryCompartment | None:
        """Return that compartment, if any. Raises: StorageError when it does not belong there (P17)."""
        found = self._compartments.get((agent, level))
        if found is not None and found.place != Place(agent, level, self.control.compartment(agent, level) or ""):
            raise not_its_own()
        return found

    def _make(self, agent: str) -> None:
        with self._lock:
            for level in Level:
                if (agent, level) not in self._compartments:
                    self._compartments[agent, level] = self._made(agent, level)

    def _made(self, agent: str, level: Level) -> InMemoryCompartment:
        own = self.control.compartment(agent, level)
        if own is None:
            own = self._ids()
            with self.control.transaction():
                self.control.set_compartment(agent, level, own)
        return InMemoryCompartment(agent, level, own, self.audit_secret)


def _newest_first(record: Record) -> tuple[float, str]:
    """Return what puts records in order: last saved first, then by key."""
    return -record.updated_at.timestamp(), record.key


def _counts(columns: Columns, terms: Sequence[str]) -> list[int]:
    """Return the place of each term that occurs, and how often it does in each column."""
    held, parts = columns.terms, (columns.key, columns.tags, columns.content)
    found = ((place, *(part.count(term) for part in parts)) for place, term in enumerate(terms) if term in held)
    return list(itertools.chain.from_iterable(found))
