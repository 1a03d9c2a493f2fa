"""The doctor on one file: can SQLite trust it, and are its contents consistent?"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from tidegate.policy.levels import Level, read_label
from tidegate.records.finding import Finding, Remedy, error, warning
from tidegate.records.record import RecordKind
from tidegate.search.analysis import ANALYSIS_VERSION
from tidegate.storage.control import ControlStore
from tidegate.storage.sqlite.connection import Row, SqliteConnection, open_file
from tidegate.storage.sqlite.failures import DriverError, driver_errors, is_busy, is_cut_short, obstacle
from tidegate.storage.sqlite.schema import (
    COMPARTMENT,
    COMPARTMENT_VERSION,
    CONTROL,
    CONTROL_VERSION,
    UNCONFIRMED,
)

_RESTORE = "Copy the file elsewhere, erase the agent with `tidegate agent erase`, and restore it from a backup."
_FOREIGN = "Put the right file back. Without it, erase the agent and restore it from a backup."
_LOST_SESSIONS = (
    "Move the file elsewhere and put back a copy. Without a copy, restore the agents from backups into a new home."
)
_REINDEX = "Run `tidegate reindex` or `tidegate doctor --repair`."
_REPAIR = "Run `tidegate doctor --repair`."
_RESET = (
    "Stop everything that uses the home, then correct `taint` and `ceiling` in its row of the table `sessions` in "
    "control.db, with any SQLite tool."
)
_LOOK = "Inspect these rows with any SQLite tool, and correct or delete them."

_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
_FOREIGN_ROWS = """
SELECT count(*) FROM (SELECT level, kind FROM records UNION ALL SELECT level, kind FROM versions)
WHERE level NOT IN (SELECT level FROM compartment) OR kind NOT IN (SELECT value FROM json_each(?))
"""
_OURS = "deleted_at IS NULL AND level IN (SELECT level FROM compartment)"
_LIVE = f"SELECT id FROM records WHERE kind = 'memory' AND {_OURS}"
_INDEX = (
    f"SELECT count(*) FROM ({_LIVE} EXCEPT SELECT id FROM terms_docsize)",
    f"SELECT count(*) FROM (SELECT id FROM terms_docsize EXCEPT {_LIVE})",
)
_TAGS_OF_RECORDS = f"""
SELECT DISTINCT records.kind, iif(records.kind = 'memory', fold(json_each.value), json_each.value), records.key,
       records.updated_at
FROM records, json_each(records.tags) WHERE {_OURS}
"""
_TAGS = (
    f"SELECT count(*) FROM ({_TAGS_OF_RECORDS} EXCEPT SELECT kind, tag, key, saved_at FROM tagged)",
    f"SELECT count(*) FROM (SELECT kind, tag, key, saved_at FROM tagged EXCEPT {_TAGS_OF_RECORDS})",
)
_STATISTICS = "SELECT documents, key_terms, tags_terms, content_terms FROM statistics"
_SUMS = f"""
SELECT count(*), coalesce(sum(key_terms), 0), coalesce(sum(tags_terms), 0), coalesce(sum(content_terms), 0)
FROM records WHERE kind = 'memory' AND {_OURS}
"""
_TOTALS = (
    f"SELECT count(*) FROM ({_SUMS} EXCEPT {_STATISTICS})",
    f"SELECT count(*) FROM ({_STATISTICS} EXCEPT {_SUMS})",
)


def examine_compartment(
    path: Path, where: str, agent: str, level: Level, control: ControlStore | None
) -> list[Finding]:
    """Return the reasons why a compartment's file cannot be used, without changing it.

    where: its name in findings. control: to know which file belongs there; None if it is unsound.
    """

    def identity(db: SqliteConnection) -> Iterator[Finding]:
        rows = db.execute("SELECT agent, level, id FROM compartment").fetchall()
        if [row[:2] for row in rows] != [(agent, level.name)]:
            yield error(where, "it says that it belongs to another agent or another level", _RESTORE)
        elif control is not None:
            found, own = str(rows[0][2]), control.compartment(agent, level)
            if own is None:
                if not found.startswith(UNCONFIRMED):
                    yield error(
                        where, "control.db does not list this file; one of the two may be an older copy", _FOREIGN
                    )
            elif found.removeprefix(UNCONFIRMED) != own:
                yield error(where, "it is not the file that belongs here", _FOREIGN)

    return _reading(path, where, _RESTORE, lambda db: [*_soundness(db, where, COMPARTMENT, _RESTORE)] or identity(db))


def examine_rows(path: Path, where: str) -> list[Finding]:
    """Return the disagreements between the rows of a usable compartment's file, without changing it."""
    return _reading(path, where, _RESTORE, lambda db: [*_rows(db, where), *_index(db, where)])


def examine_control(path: Path, where: str) -> list[Finding]:
    """Return the faults of the control store's file, without changing it."""

    def inside(db: SqliteConnection) -> Iterable[Finding]:
        return [*_soundness(db, where, CONTROL, _LOST_SESSIONS)] or _sessions(db, where)

    return _reading(path, where, _LOST_SESSIONS, inside)


def restore_tags(path: Path) -> None:
    """Rebuild the table of tags from the records. Raises: StorageError."""
    with driver_errors(path), closing(open_file(path, writable=True, synchronous="FULL")) as db, db:
        db.execute("DELETE FROM tagged")
        db.execute(f"INSERT INTO tagged {_TAGS_OF_RECORDS}")


def _reading(
    path: Path, where: str, advice: str, examine: Callable[[SqliteConnection], Iterable[Finding]]
) -> list[Finding]:
    """Return the findings of an examination, as of one moment."""
    if not os.access(path, os.R_OK):
        return [error(where, "this user cannot read it", "Make the user that runs Tidegate its owner.")]
    try:
        with closing(open_file(path, writable=False, synchronous="NORMAL")) as db:
            db.execute("BEGIN")
            return list(examine(db))
    except (DriverError, OSError, MemoryError) as failure:
        if is_busy(failure):
            return [error(where, "it was busy and could not be examined", "Run this again later.")]
        if (found := obstacle(failure, path)) is not None:
            again = f"{found.advice[0].upper()}{found.advice[1:]}, and run this again."
            return [error(where, f"it could not be examined: {found.reason}", again)]
        return [error(where, "it is damaged: it cannot be read as a database", advice)]


def _soundness(db: SqliteConnection, where: str, script: str, advice: str) -> Iterator[Finding]:
    version = db.pragma("user_version")
    known = COMPARTMENT_VERSION if script is COMPARTMENT else CONTROL_VERSION
    if isinstance(version, int) and 0 < version < known:
        yield warning(where, "an earlier version of Tidegate wrote it", "Do nothing: its next use upgrades it.")
    elif version != known:
        newer = isinstance(version, int) and version > known
        yield error(
            where,
            f"its schema has version {version}; this program knows version {known}",
            "Upgrade Tidegate." if newer else advice,
        )
    elif db.execute(_SCHEMA).fetchall() != _fresh_schema(script):
        yield error(where, "its tables are not those of its version: another program changed them", advice)
    elif (report := _integrity(db)) != "ok":
        if is_cut_short(report):
            yield error(where, "it could not be examined: the disk failed", "Check the disk, and run this again.")
        else:
            yield error(where, "it is damaged: pages or indexes disagree", advice)


def _integrity(db: SqliteConnection) -> str:
    return str(db.pragma("integrity_check"))


def _fresh_schema(script: str) -> list[Row]:
    with closing(SqliteConnection(":memory:")) as db:
        db.execute(script, ("", "", "", 0) if script is COMPARTMENT else ())
        return db.execute(_SCHEMA).fetchall()


def _rows(db: SqliteConnection, where: str) -> Iterator[Finding]:
    if foreign := _count(db, _FOREIGN_ROWS, json.dumps(list(RecordKind))):
        yield error(where, f"{foreign} of its rows cannot be read: unknown level or kind", _LOOK)
    if any(_count(db, query) for query in _TAGS):
        yield error(where, "the table of tags disagrees with the memories", _REPAIR, remedy=Remedy.TAGS)


def _index(db: SqliteConnection, where: str) -> Iterator[Finding]:
    analysis = db.execute("SELECT analysis FROM compartment").fetchall()[0][0]
    if analysis == -ANALYSIS_VERSION:
        yield warning(where, "the search index is being rebuilt and is incomplete", _REINDEX, remedy=Remedy.INDEX)
        return
    if analysis != ANALYSIS_VERSION:
        yield warning(where, "another version of Tidegate built the search index", _REINDEX, remedy=Remedy.INDEX)
    lacking, surplus = (_count(db, query) for query in _INDEX)
    if lacking or surplus:
        yield error(
            where,
            f"the search index does not match the memories: {lacking} missing, {surplus} too many",
            _REINDEX,
            remedy=Remedy.INDEX,
        )
    elif any(_count(db, query) for query in _TOTALS):
        yield error(
            where, "the statistics of the search index are wrong, and so are scores", _REINDEX, remedy=Remedy.INDEX
        )


def _sessions(db: SqliteConnection, where: str) -> Iterator[Finding]:
    for session, taint, ceiling in db.execute("SELECT id, taint, ceiling FROM sessions").fetchall():
        level, limit = read_label(taint), read_label(ceiling)
        if level is None or limit is None:
            yield error(where, f"session {session!a} has an unknown level and cannot be used", _RESET)
        elif not level.can_flow_to(limit):
            yield error(where, f"session {session!a} is above its ceiling, so no backup can be made", _RESET)


def _count(db: SqliteConnection, query: str, *bindings: str) -> int:
    rows: list[Row] = db.execute(query, bindings).fetchall()
    return int(rows[0][0])
