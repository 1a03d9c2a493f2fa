"""A compartment's file for owner commands and for maintenance: every version, purging, a new index."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

from tidegate.audit.chain import Entry
from tidegate.records.record import Record, RecordKind
from tidegate.records.tags import fold_tag, found_under
from tidegate.search.analysis import ANALYSIS_VERSION, Columns
from tidegate.storage.base import OwnerCompartment, VersionId
from tidegate.storage.sqlite.compartment import SUPERSEDED, UNTAG, VERSION, SqliteCompartment, stamp
from tidegate.storage.sqlite.connection import Row
from tidegate.storage.sqlite.failures import damaged

_VERSIONS = f"""
SELECT {VERSION} FROM records WHERE kind = ?1 AND key = ?2 AND level = ?3 UNION ALL
SELECT {SUPERSEDED} FROM versions WHERE kind = ?1 AND key = ?2 AND level = ?3 ORDER BY version DESC
"""
_EVERY_VERSION = f"""
SELECT 1, kind, {VERSION} FROM records WHERE level = ?1 UNION ALL
SELECT 0, kind, {SUPERSEDED} FROM versions WHERE level = ?1
"""
# Times under one key never run backwards, so any later version saved by then is enough.
_DEAD = """
SELECT kind, key, version FROM records WHERE level = ?1 AND deleted_at <= ?2 UNION ALL
SELECT kind, key, version FROM versions AS old WHERE level = ?1 AND (
    deleted_at <= ?2
    OR EXISTS (SELECT 1 FROM versions AS later
               WHERE later.kind = old.kind AND later.key = old.key
                     AND later.version > old.version AND later.updated_at <= ?2)
    OR EXISTS (SELECT 1 FROM records
               WHERE records.kind = old.kind AND records.key = old.key
                     AND (records.updated_at <= ?2 OR records.deleted_at <= ?2)))
"""
_REMOVE = (
    f"""
    DELETE FROM versions WHERE kind = ? AND key = ? AND version = ? AND level = ? RETURNING {SUPERSEDED}
    """,
    f"""
    DELETE FROM records WHERE kind = ? AND key = ? AND version = ? AND level = ? AND deleted_at IS NOT NULL
    RETURNING {VERSION}
    """,
)
_OLDEST = f"""
SELECT {VERSION} FROM records
WHERE kind = 'memory' AND level = ? AND deleted_at IS NULL ORDER BY updated_at, key LIMIT ?
"""
_OLDEST_OF_TAG = f"""
SELECT {VERSION} FROM tagged CROSS JOIN records USING (kind, key)
WHERE kind = 'memory' AND tag = ? AND level = ? AND deleted_at IS NULL ORDER BY updated_at, key LIMIT ?
"""
_UNINDEXED = f"""
SELECT {VERSION} FROM records WHERE kind = 'memory' AND key > ? AND level = ? AND deleted_at IS NULL
AND NOT EXISTS (SELECT 1 FROM terms_docsize WHERE terms_docsize.id = records.id) ORDER BY key LIMIT ?
"""
_TO_INDEX = """
SELECT id FROM records WHERE kind = 'memory' AND key = ? AND version = ? AND level = ? AND deleted_at IS NULL
AND NOT EXISTS (SELECT 1 FROM terms_docsize WHERE terms_docsize.id = records.id)
"""
_ADOPT_VERSION = """
INSERT INTO versions (kind, key, version, level, content, tags, origin, nonce, created_at, updated_at, deleted_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_PIN = "UPDATE records SET pinned = ? WHERE kind = 'memory' AND key = ? AND level = ? AND deleted_at IS NULL"
_HIDE = "UPDATE records SET deleted_at = ? WHERE kind = ? AND key = ?"
_SET_LENGTHS = "UPDATE records SET key_terms = ?, tags_terms = ?, content_terms = ? WHERE id = ?"


class SqliteOwnerCompartment(SqliteCompartment, OwnerCompartment):
    """One file through its own connection, as confined as a session's."""

    def versions(self, kind: RecordKind, key: str) -> list[Record]:
        return [self._record(kind, row) for row in self._db.execute(_VERSIONS, (kind, key, self.level.name))]

    def every_version(self) -> Iterator[tuple[Record, bool]]:
        try:
            for newest, label, *row in self._db.execute(_EVERY_VERSION, (self.level.name,)):
                yield self._record(RecordKind(label), tuple(row)), bool(newest)
        except ValueError:  # an unknown kind, or not text
            raise damaged() from None

    def purgeable(self, before: datetime) -> list[VersionId]:
        rows = self._db.execute(_DEAD, (self.level.name, stamp(before)))
        return [VersionId(RecordKind(kind), key, version) for kind, key, version in rows]

    def purge_version(self, version: VersionId) -> Record | None:
        name = (version.kind, version.key, version.version, self.level.name)
        for statement in _REMOVE:
            removed = self._db.execute(statement, name).fetchall()
            if removed:
                return self._record(version.kind, removed[0])
        return None

    def import_entry(self, entry: Entry) -> None:
        self._enter(entry)

    def import_version(self, record: Record, columns: Columns | None, *, newest: bool) -> None:
        if newest:
            self.put(record, columns)
            if record.deleted_at is not None:
                self._db.executemany(
                    UNTAG, [(record.kind, tag, record.key) for tag in found_under(record.kind, record.tags)]
                )
                self._db.execute(_HIDE, (stamp(record.deleted_at), record.kind, record.key))
            return
        version = (record.version, self.level.name, record.content, json.dumps(record.tags, ensure_ascii=False))
        times = (stamp(record.created_at), stamp(record.updated_at))
        deleted_at = None if record.deleted_at is None else stamp(record.deleted_at)
        fields = (*version, record.origin, record.nonce, *times, deleted_at)
        self._db.execute(_ADOPT_VERSION, (record.kind, record.key, *fields))

    def set_pinned(self, key: str, *, pinned: bool) -> None:
        self._db.execute(_PIN, (pinned, key, self.level.name))

    def oldest(self, *, tag: str | None, limit: int) -> list[Record]:
        if tag is None:
            rows = self._db.execute(_OLDEST, (self.level.name, limit))
        else:
            rows = self._db.execute(_OLDEST_OF_TAG, (fold_tag(tag), self.level.name, limit))
        return [self._record(RecordKind.MEMORY, row) for row in rows]

    def index_started(self) -> bool:
        return self._analysis() in (ANALYSIS_VERSION, -ANALYSIS_VERSION)

    def clear_index(self) -> None:
        self._db.execute("INSERT INTO terms (terms) VALUES ('delete-all')")
        self._db.execute("DELETE FROM vocabulary")
        self._db.execute("DELETE FROM statistics")
        self._db.execute("INSERT INTO statistics VALUES (0, 0, 0, 0)")
        self._db.execute("UPDATE compartment SET analysis = ?", (-ANALYSIS_VERSION,))

    def unindexed(self, *, after: str, limit: int) -> list[Record]:
        rows = self._db.execute(_UNINDEXED, (after, self.level.name, limit))
        return [self._record(RecordKind.MEMORY, row) for row in rows]

    def index(self, record: Record, columns: Columns) -> None:
        found: list[Row] = self._db.execute(_TO_INDEX, (record.key, record.version, self.level.name)).fetchall()
        for (row,) in found:
            self._db.execute(_SET_LENGTHS, (*columns.lengths, row))
            self._index(row, columns)

    def mark_index_complete(self) -> None:
        self._db.execute("UPDATE compartment SET analysis = ?", (ANALYSIS_VERSION,))
