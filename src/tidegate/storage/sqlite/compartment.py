"""One compartment in one file."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime, timedelta

from tidegate.audit.chain import Action, AuditEvent, Entry, Pen
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.expiry import NONE_BYGONE, Bygone
from tidegate.records.record import Draft, Origin, Record, RecordKind
from tidegate.records.tags import as_compared, fold_tag, found_under
from tidegate.search.analysis import ANALYSIS_VERSION, Columns, analyse
from tidegate.search.ranking import COLUMN_WEIGHTS, FREQUENCY_MAX, Match, Statistics
from tidegate.search.spelling import words_of
from tidegate.storage.base import Candidate, Compartment
from tidegate.storage.sqlite.connection import (
    Row,
    SqliteConnection,
    bounded_work,
    close,
    enter,
    is_sealed,
    set_synchronous,
    transaction,
)
from tidegate.storage.sqlite.failures import DriverError, damaged

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER, _ALWAYS = -(1 << 63), (1 << 63) - 1  # before and after all times
_UNDECODABLE = (KeyError, TypeError, ValueError, OverflowError)  # raw SQL can write these; this program never does
_ORIGINS = {origin.value: origin for origin in Origin}
_write_json = json.JSONEncoder(ensure_ascii=False).encode
_read_json = json.JSONDecoder().raw_decode

_KEPT = "key, tags, origin, version, nonce, created_at, updated_at, deleted_at"
_FIELDS = f"{_KEPT}, pinned"
VERSION = f"content, {_FIELDS}"
"""The columns of a newest version, in the order in which `_record` takes them."""
SUPERSEDED = f"content, {_KEPT}, 0"
"""The same of a superseded version, which is never pinned."""
_READ = f"SELECT {VERSION} FROM records WHERE kind = ? AND key = ? AND level = ?"
_READ_SHORT = f"SELECT substr(content, 1, ?), {_FIELDS} FROM records WHERE kind = ? AND key = ? AND level = ?"
_READ_SEVERAL = f"""
SELECT substr(content, 1, ?), {_FIELDS} FROM records
WHERE kind = ? AND key IN (SELECT value FROM json_each(?)) AND level = ?
"""
_LIVE = """
SELECT key FROM records
WHERE kind = ? AND key IN (SELECT value FROM json_each(?)) AND level = ? AND deleted_at IS NULL
"""
_LASTING = """updated_at > ? AND NOT EXISTS (
    SELECT 1 FROM json_each(?) AS rule CROSS JOIN tagged AS own
    WHERE own.kind = records.kind AND own.tag = rule.key AND own.key = records.key AND records.updated_at <= rule.value
)"""
_PAGE = f"""
SELECT substr(content, 1, ?), {_FIELDS} FROM records
WHERE kind = ? AND key > ? AND level = ? AND deleted_at IS NULL AND {_LASTING} ORDER BY key LIMIT ?
"""
_PAGE_OF_TAG = f"""
SELECT substr(content, 1, ?), {_FIELDS} FROM tagged CROSS JOIN records USING (kind, key)
WHERE kind = ? AND tag = ? AND key > ? AND level = ? AND deleted_at IS NULL AND {_LASTING} ORDER BY key LIMIT ?
"""
_LATEST = f"""
SELECT substr(content, 1, ?), {_FIELDS} FROM tagged CROSS JOIN records USING (kind, key)
WHERE kind = 'memory' AND tag = ? AND saved_at <= ? AND NOT (saved_at = ? AND key <= ?) AND saved_at > ? AND level = ?
AND deleted_at IS NULL AND {_LASTING} ORDER BY saved_at DESC, key LIMIT ?
"""
_PINNED = f"""
SELECT substr(content, 1, ?), {_FIELDS} FROM records INDEXED BY pinned
WHERE pinned AND kind = 'memory' AND level = ? AND deleted_at IS NULL ORDER BY updated_at DESC, key
"""
_BEST_FIRST = f"""
SELECT records.key, updated_at, key_terms, tags_terms, content_terms, tally(terms)
FROM terms JOIN records ON id = terms.rowid
WHERE terms MATCH ? AND level = ? AND rank MATCH 'bm25({", ".join(map(str, COLUMN_WEIGHTS))})' ORDER BY rank
"""
_NEWEST_FIRST = """
SELECT records.key, updated_at FROM terms JOIN records ON id = terms.rowid
WHERE terms MATCH ? AND level = ? ORDER BY terms.rowid DESC
"""
_HOLDERS = "SELECT records.key FROM terms JOIN records ON id = terms.rowid WHERE terms MATCH ? AND level = ? LIMIT ?"
_FREQUENCY = f"SELECT count(*) FROM (SELECT 1 FROM terms WHERE terms MATCH ? LIMIT {FREQUENCY_MAX})"
_VOCABULARY = "SELECT word FROM vocabulary WHERE word >= ? AND word < ? ORDER BY word LIMIT ?"
_STATISTICS = "SELECT documents, key_terms, tags_terms, content_terms FROM statistics"
_ENTRIES = "SELECT sequence, at, session, action, detail, commitment, previous_hash, hash FROM audit"

_INSERT = """
INSERT INTO records (kind, key, level, version, content, tags, origin, nonce, created_at, updated_at, deleted_at,
                     pinned, key_terms, tags_terms, content_terms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL, ?, ?, ?, ?)
"""
_KEEP_VERSION = """
INSERT INTO versions SELECT kind, key, version, level, content, tags, origin, nonce, created_at, updated_at, deleted_at
FROM records WHERE id = ?
"""
_REPLACE = """
UPDATE records SET version = ?, content = ?, tags = ?, origin = ?, nonce = ?, created_at = ?, updated_at = ?,
                   deleted_at = NULL, pinned = ?, key_terms = ?, tags_terms = ?, content_terms = ? WHERE id = ?
"""
_FIND = """
SELECT id, level, deleted_at, content, tags, key_terms, tags_terms, content_terms FROM records
WHERE kind = ? AND key = ?
"""
_TOUCH = "UPDATE records SET updated_at = ? WHERE kind = ? AND key = ? RETURNING tags"
_TOUCH_TAG = "UPDATE tagged SET saved_at = ? WHERE kind = ? AND tag = ? AND key = ?"
_BURY = "UPDATE records SET deleted_at = ?, pinned = 0 WHERE id = ?"
_TAG = "INSERT INTO tagged VALUES (?, ?, ?, ?)"
UNTAG = "DELETE FROM tagged WHERE kind = ? AND tag = ? AND key = ?"
_INSERT_TERMS = "INSERT INTO terms (rowid, key, tags, content) VALUES (?, ?, ?, ?)"
_IS_INDEXED = "SELECT 1 FROM terms_docsize WHERE id = ?"
_DELETE_TERMS = "DELETE FROM terms WHERE rowid = ?"
_APPEND = "INSERT INTO audit VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_HELD = "SELECT 1 FROM terms WHERE terms MATCH ? LIMIT 1"
_UNLEARN = "DELETE FROM vocabulary WHERE word IN (SELECT value FROM json_each(?))"
_LEARN = "INSERT OR IGNORE INTO vocabulary SELECT value FROM json_each(?)"
# One row by its number, so that it is one step: before a multi-step statement, FTS5 writes out its pending terms, and a
# transaction of many saves would leave an index segment for each.
_ADD_STATISTICS = """
UPDATE statistics SET documents = documents + ?, key_terms = key_terms + ?, tags_terms = tags_terms + ?,
                      content_terms = content_terms + ? WHERE rowid = 1
"""


class SqliteCompartment(Compartment):
    """Reads and writes one file through one connection. Its holder wraps the driver's errors."""

    def __init__(
        self,
        connection: SqliteConnection,
        agent: str,
        level: Level,
        id: str,  # noqa: A002 - the field's name
        *,
        lock: threading.Lock,
        synchronous: str,
        secret: bytes | None,
    ) -> None:
        self.agent = agent
        self.level = level
        self.id = id
        self._label = level.name
        self._db = connection
        self._lock = lock
        self._synchronous = synchronous
        self._pen = Pen(self.place, secret)

    # Reading

    def snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._db, "BEGIN")

    def read(self, kind: RecordKind, key: str, *, chars_max: int | None = None) -> Record | None:
        if chars_max is None:
            rows = self._db.execute(_READ, (kind, key, self._label))
        else:
            rows = self._db.execute(_READ_SHORT, (chars_max, kind, key, self._label))
        for row in rows:
            return self._record(kind, row)
        return None

    def read_several(self, kind: RecordKind, keys: Collection[str], *, chars_max: int) -> dict[str, Record]:
        rows = self._db.execute(_READ_SEVERAL, (chars_max, kind, _write_json(tuple(keys)), self._label))
        return {record.key: record for record in (self._record(kind, row) for row in rows)}

    def live(self, kind: RecordKind, keys: Collection[str]) -> set[str]:
        return {key for (key,) in self._db.execute(_LIVE, (kind, _write_json(tuple(keys)), self._label))}

    def page(
        self, kind: RecordKind, *, after: str, tag: str | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        tag = None if tag is None else as_compared(kind, tag)
        before, by_tag = _passed(bygone, tag)
        rest = (after, self._label, before, by_tag, limit)
        if tag is None:
            rows = self._db.execute(_PAGE, (chars_max, kind, *rest))
        else:
            rows = self._db.execute(_PAGE_OF_TAG, (chars_max, kind, tag, *rest))
        return [self._record(kind, row) for row in rows]

    def latest(
        self, tag: str, *, after: Record | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        tag = fold_tag(tag)
        before, by_tag = _passed(bygone, tag)
        saved_at, key = (_ALWAYS, "") if after is None else (stamp(after.updated_at), after.key)
        place = (saved_at, saved_at, key, before, self._label)
        rows = self._db.execute(_LATEST, (chars_max, tag, *place, before, by_tag, limit))
        return [self._record(RecordKind.MEMORY, row) for row in rows]

    def pinned(self, *, chars_max: int) -> list[Record]:
        rows = self._db.execute(_PINNED, (chars_max, self._label))
        return [self._record(RecordKind.MEMORY, row) for row in rows]

    def statistics(self) -> Statistics:
        for documents, *lengths in self._db.execute(_STATISTICS):
            return Statistics(documents, (lengths[0], lengths[1], lengths[2]))
        raise StorageError("a database is damaged: it has no statistics; run `tidegate doctor`")

    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        # Counted, not stored: storing a count for each term would double the time of a save.
        return {term: count for term in terms for (count,) in self._db.execute(_FREQUENCY, (_quoted(term),))}

    def vocabulary(self, first: str, below: str, *, limit: int) -> list[str]:
        return [word for (word,) in self._db.execute(_VOCABULARY, (first, below, limit))]

    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        with bounded_work(self._db):
            rows = self._db.execute(_BEST_FIRST, (_any_of(terms), self._label))
            for key, updated_at, in_key, in_tags, in_content, tally in rows:
                yield Candidate(key, _time(updated_at), Match(tally, (in_key, in_tags, in_content)))

    def newest(self, groups: Sequence[Sequence[str]]) -> Iterator[Candidate]:
        expression = " AND ".join(f"({_any_of(group)})" for group in groups)
        with bounded_work(self._db):
            for key, updated_at in self._db.execute(_NEWEST_FIRST, (expression, self._label)):
                yield Candidate(key, _time(updated_at))

    def holders(self, terms: Sequence[str], *, limit: int) -> list[str]:
        return [key for (key,) in self._db.execute(_HOLDERS, (_any_of(terms), self._label, limit))]

    def index_whole(self) -> bool:
        return self._analysis() == ANALYSIS_VERSION

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return map(_entry, self._db.execute(f"{_ENTRIES} WHERE sequence > ? ORDER BY sequence", (after,)))

    def last_entry(self) -> Entry | None:
        row = self._db.execute(f"{_ENTRIES} ORDER BY sequence DESC LIMIT 1").fetchone()
        return row and _entry(row)

    @property
    def sealed(self) -> bool:
        """Return whether the file was opened as immutable."""
        return is_sealed(self._db)

    def close(self) -> None:
        """Close the file."""
        close(self._db)

    # Writing

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._lock, self._synchronised(durable), transaction(self._db):
            yield  # the lock: threads of one process wait without polling

    @contextmanager
    def _synchronised(self, durable: bool) -> Iterator[None]:
        if not durable or self._synchronous == "FULL":
            yield
            return
        try:
            set_synchronous(self._db, "FULL")
            yield
        finally:
            with suppress(DriverError):  # after some interrupts it is still in a transaction, and is about to be closed
                set_synchronous(self._db, self._synchronous)

    def put(self, draft: Draft, columns: Columns | None) -> None:
        lengths = columns.lengths if columns else (0, 0, 0)
        version = (draft.version, draft.content, _write_json(draft.tags), draft.origin, draft.nonce)
        saved_at = stamp(draft.updated_at)
        rest = (stamp(draft.created_at), saved_at, draft.pinned, *lengths)
        row = self._withdraw(draft.kind, draft.key)
        if row is None:
            self._db.execute(_INSERT, (draft.kind, draft.key, self._label, *version, *rest))
            row = self._db.last_insert_rowid()
        else:
            self._db.execute(_KEEP_VERSION, (row,))
            self._db.execute(_REPLACE, (*version, *rest, row))
        tags = found_under(draft.kind, draft.tags)
        self._db.executemany(_TAG, [(draft.kind, tag, draft.key, saved_at) for tag in tags])
        if columns is not None:
            self._index(row, columns)

    def touch(self, kind: RecordKind, key: str, updated_at: datetime) -> None:
        saved_at = stamp(updated_at)
        touched: list[Row] = self._db.execute(_TOUCH, (saved_at, kind, key)).fetchall()
        found_by = [tag for (tags,) in touched for tag in found_under(kind, _tags(tags))]
        self._db.executemany(_TOUCH_TAG, [(saved_at, kind, tag, key) for tag in found_by])

    def soft_delete(self, kind: RecordKind, key: str, deleted_at: datetime) -> None:
        row = self._withdraw(kind, key)
        self._db.execute(_BURY, (stamp(deleted_at), row))

    def append(self, event: AuditEvent) -> None:
        self._enter(self._pen.write(event, self.last_entry()))

    def _enter(self, entry: Entry) -> None:
        event = entry.event
        fields = (event.session, event.action, event.detail, event.commitment, entry.previous, entry.hash)
        enter(self._db, _APPEND, (entry.sequence, stamp(event.at), *fields))

    def _withdraw(self, kind: RecordKind, key: str) -> int | None:
        """Remove the live record of a key, if any, from tags, index and statistics; return the row's id."""
        found = self._db.execute(_FIND, (kind, key)).fetchone()
        if found is None:
            return None
        row, level, deleted_at, content, tags, *lengths = found
        if level != self._label:  # P17: never overwritten, never read
            raise StorageError("key: has data of an unknown level; run `tidegate doctor`")
        if deleted_at is None:
            self._db.executemany(UNTAG, [(kind, tag, key) for tag in found_under(kind, _tags(tags))])
            if (
                kind is RecordKind.MEMORY and self._db.execute(_IS_INDEXED, (row,)).fetchone()
            ):  # not so during a rebuild
                self._unindex(row, analyse(key, _tags(tags), content), lengths)
        return int(row)

    def _analysis(self) -> int:
        """Return the version of the text analysis behind the index; negative while the index is being built."""
        rows: list[Row] = self._db.execute("SELECT analysis FROM compartment").fetchall()
        return int(rows[0][0]) if rows else 0

    def _index(self, row: int, columns: Columns) -> None:
        texts = (" ".join(columns.key), " ".join(columns.tags), " ".join(columns.content))
        self._db.execute(_INSERT_TERMS, (row, *texts))
        self._db.execute(_LEARN, (_write_json(_words(columns)),))
        self._db.execute(_ADD_STATISTICS, (1, *columns.lengths))

    def _unindex(self, row: int, columns: Columns, lengths: Sequence[int]) -> None:
        self._db.execute(_DELETE_TERMS, (row,))
        # P8: spelling knows only words of live memories. The index holds no text, so it is analysed again.
        held = ((word, self._db.execute(_HELD, (_quoted(word),)).fetchone()) for word in _words(columns))
        self._db.execute(_UNLEARN, (_write_json([word for word, found in held if found is None]),))
        self._db.execute(_ADD_STATISTICS, (-1, *(-length for length in lengths)))

    def _record(self, kind: RecordKind, row: Row) -> Record:
        content, key, tags, origin, version, nonce, created_at, updated_at, deleted_at, pinned = row
        try:
            return Record(
                kind=kind,
                key=key,
                content=content,
                tags=tuple(_read_json(tags)[0]),
                origin=_ORIGINS[origin],
                version=version,
                nonce=nonce,
                created_at=_EPOCH + created_at * _MICROSECOND,
                updated_at=_EPOCH + updated_at * _MICROSECOND,
                pinned=bool(pinned),
                agent=self.agent,
                level=self.level,
                deleted_at=None if deleted_at is None else _time(deleted_at),
            )
        except _UNDECODABLE:
            raise damaged() from None


def _passed(bygone: Bygone, tag: str | None) -> tuple[int, str]:
    """Return the time up to which all of a page are bygone, and the times by tag as JSON: bindings of `_LASTING`."""
    times = (bygone.all, bygone.tags.get(tag) if tag is not None else None)
    before = max((stamp(time) for time in times if time is not None), default=_NEVER)
    return before, _write_json({each: stamp(time) for each, time in bygone.tags.items()})


def _any_of(terms: Sequence[str]) -> str:
    return " OR ".join(map(_quoted, terms))


def _quoted(term: str) -> str:
    """Return a full-text expression for exactly this term, without syntax."""
    return '"' + term.replace('"', '""') + '"'


def _words(columns: Columns) -> list[str]:
    # In order: neighbours in the tree are written together, and the file depends on the text alone.
    return words_of(" ".join((*columns.key, *columns.tags, *columns.content)))


def _entry(row: Row) -> Entry:
    sequence, at, session, action, detail, commitment, previous, digest = row
    try:
        time = _time(at)
    except OverflowError:
        time = _EPOCH  # a forged time, which breaks the chain there: `verify` must be able to report it
    try:
        return Entry(sequence, AuditEvent(time, session, Action(action), detail, commitment), previous, digest)
    except _UNDECODABLE:
        raise damaged() from None


def _tags(text: str) -> tuple[str, ...]:
    tags, _ = _read_json(text)
    return tuple(tags)


def stamp(time: datetime) -> int:
    """Return whole microseconds since 1970, as the file stores times."""
    return (time - _EPOCH) // _MICROSECOND


def _time(stamp: int) -> datetime:
    return _EPOCH + stamp * _MICROSECOND
