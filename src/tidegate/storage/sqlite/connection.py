"""Connections to SQLite, each limited to its purpose. Only this module and `failures` know the driver.

Every setting is a function with its unit and its reason.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from tidegate.records.tags import fold_tag
from tidegate.storage.base import BudgetSpentError
from tidegate.storage.sqlite.failures import newer

Value = str | int | bytes | None
Row = tuple[Any, ...]  # the schema says which types

BUSY_TIMEOUT_MS = 10_000
BUSY_LOOK_MS = 0.3
SEARCH_STEPS_MAX = 20_000_000
_STEPS_PER_CHECK = 100_000

_READING = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_TRANSACTION})
_CHANGING = frozenset({apsw.SQLITE_INSERT, apsw.SQLITE_UPDATE, apsw.SQLITE_DELETE})
_FIXED: dict[int, frozenset[str]] = {
    apsw.SQLITE_INSERT: frozenset({"compartment", "audit"}),
    apsw.SQLITE_UPDATE: frozenset({"compartment", "audit"}),
    apsw.SQLITE_DELETE: frozenset({"compartment", "audit"}),
}
"""What no change may touch: the file's identity, and existing audit entries (P9)."""
_ANALYSIS = (apsw.SQLITE_UPDATE, "compartment", "analysis")
_ENTRY = (apsw.SQLITE_INSERT, "audit")
_FUNCTIONS = frozenset({"bm25", "count", "match", "substr", "tally"})
_PRAGMAS = frozenset({"data_version", "synchronous"})  # FTS5 itself asks the first
_VERSION = "user_version"  # of the schema; to be read only

apsw.config(apsw.SQLITE_CONFIG_LOG, None)  # P12: the engine's own log names files and statements


class SqliteConnection(apsw.Connection):
    """A connection. entering: whether `enter` is adding to the audit. schema: the version it was opened for, if any."""

    entering = False
    schema: int | None = None


def open_file(path: Path, *, writable: bool, synchronous: str) -> SqliteConnection:
    """Open an existing database. It never creates one: a missing file is an error (P17).

    Until the connection is confined, nothing it does changes the file.
    synchronous: NORMAL, or FULL if acknowledged writes must survive power loss.
    """
    _keep_private(path)
    if _is_sealed(path):
        connection = _open_sealed(path)
    else:
        flags = apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY
        connection = SqliteConnection(str(path), flags=flags)  # no SQLITE_OPEN_URI: a path is a path
    _leave_file_alone(connection, _size(wal_of(path)) > 0)
    _wait_for_locks(connection)
    _defend(connection)
    _keep_temporary_data_in_memory(connection)
    _plan_once(connection)
    set_synchronous(connection, synchronous)
    connection.register_fts5_function("tally", _tally)
    connection.create_scalar_function("fold", _fold, 1, deterministic=True)
    return connection


def open_foreign(path: Path) -> SqliteConnection:
    """Open another program's database for reading. If it is not in use, no file appears beside it."""
    beside = [path.with_name(f"{path.name}{suffix}") for suffix in ("-shm", "-journal")]
    if _size(wal_of(path)) == 0 and not any(each.exists() for each in beside):
        connection = _open_sealed(path)
    else:
        connection = SqliteConnection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        _leave_file_alone(connection, True)
    _wait_for_locks(connection)
    _defend(connection)
    _keep_temporary_data_in_memory(connection)
    return connection


def is_sealed(connection: SqliteConnection) -> bool:
    """Return whether the file was opened as immutable: then it must not stay open for long."""
    return bool(connection.open_flags & apsw.SQLITE_OPEN_URI)


def close(connection: SqliteConnection) -> None:
    """Close a file. Writes that the last connection cannot move into it stay in its log: nothing is lost.

    If the file has lost its name, SQLite does not touch the file with that name, nor its log.
    """
    with suppress(apsw.Error):
        connection.close()


def wal_of(path: Path) -> Path:
    """Return the path of a database's write-ahead log."""
    return beside_of(path)[0]


def beside_of(path: Path) -> tuple[Path, Path]:
    """Return the paths of a database's log and its shared memory: beside the file itself, not beside a link to it."""
    file = Path(os.path.realpath(path)) if path.is_symlink() else path
    return file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")


def _keep_private(path: Path) -> None:
    """Make a file behind a link private: it was put there by hand, and SQLite copies its mode to files beside it."""
    if path.is_symlink():
        for each in (path, *beside_of(path)):
            with suppress(OSError):  # another user's: `doctor` reports it
                each.chmod(each.stat().st_mode & 0o600)


def create_file(path: Path, script: str, bindings: tuple[Value, ...] = ()) -> None:
    """Create a database from a script of SQL statements; it is synchronised to the file on return."""
    connection = SqliteConnection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        _write_ahead(connection)
        set_synchronous(connection, "FULL")
        with connection:
            connection.execute(script, bindings)
    finally:
        connection.close()


def copy_file(connection: SqliteConnection, path: Path) -> None:
    """Copy the complete database of a connection, as of one moment, into a file."""
    target = SqliteConnection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        with target.backup("main", connection, "main") as backup:
            backup.step()
    finally:
        target.close()


def confine(connection: SqliteConnection, *, writable: bool, table: str | None = None) -> None:
    """Allow only plain reads from now on, and changes if `writable`; of one table, if given: the second wall (P17).

    No ATTACH, so no other file can be reached; no schema change; no other pragma. The check runs once per prepared
    statement, not for each row.
    """
    allowed = _READING | _CHANGING if writable else _READING

    def authorize(action: int, first: str | None, second: str | None, _database: str | None, _view: str | None) -> int:
        if action == apsw.SQLITE_FUNCTION:
            ok = (second or "").lower() in _FUNCTIONS
        elif action == apsw.SQLITE_PRAGMA:
            ok = first in _PRAGMAS or (first == _VERSION and second is None)
        else:
            free = (action, first, second) == _ANALYSIS or (connection.entering and (action, first) == _ENTRY)
            ok = action in allowed and (free or not _is_fixed(action, first or ""))
            ok = ok and (action != apsw.SQLITE_READ or table in (None, first))
        return apsw.SQLITE_OK if ok else apsw.SQLITE_DENY

    connection.authorizer = authorize
    _leave_file_alone(connection, False)


def enter(connection: SqliteConnection, statement: str, bindings: tuple[Value, ...]) -> None:
    """Add to the audit (P9). An authorizer cannot distinguish REPLACE from INSERT, so only this statement may."""
    connection.entering = True
    try:
        connection.execute(statement, bindings)
    finally:
        connection.entering = False


def _is_fixed(action: int, table: str) -> bool:
    return action in _CHANGING and (table.lower().startswith("sqlite_") or table.lower() in _FIXED[action])


def set_synchronous(connection: SqliteConnection, synchronous: str) -> None:
    """Set what power loss may cost. NORMAL: the last transactions, each in full. FULL: nothing."""
    connection.execute(f"PRAGMA synchronous = {synchronous}")


@contextmanager
def transaction(connection: SqliteConnection, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Make all the changes inside, or none; with a plain BEGIN, let all the reads inside see one moment.

    A signal's exception may come right after a statement, such as BEGIN: so BEGIN is inside the `try` too.
    Raises: StorageError when a newer program upgraded the file since it was opened.
    """
    try:
        connection.execute(begin)
        if connection.schema is not None and schema_version(connection) > connection.schema:
            raise newer()
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(apsw.ConnectionClosedError):  # its holder closed it first
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def schema_version(connection: SqliteConnection) -> int:
    """Return the version of the file's schema; 0 for a file that is not one of ours."""
    rows: list[Row] = connection.execute(f"PRAGMA {_VERSION}").fetchall()
    return int(rows[0][0])


@contextmanager
def bounded_work(connection: SqliteConnection) -> Iterator[None]:
    """End a search after `SEARCH_STEPS_MAX` virtual machine steps: the same point for the same data.

    Raises: BudgetSpentError.
    """
    left = SEARCH_STEPS_MAX // _STEPS_PER_CHECK

    def spent() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    try:
        connection.set_progress_handler(spent, _STEPS_PER_CHECK)
        yield
    except apsw.InterruptError:
        raise BudgetSpentError from None
    finally:
        with suppress(apsw.ConnectionClosedError):  # as above
            connection.set_progress_handler(None)


def _is_sealed(path: Path) -> bool:
    """Return whether the folder is read-only and has no log: then WAL has no place for its shared memory."""
    if os.access(path.parent, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        return False
    log, memory = beside_of(path)
    return _size(log) == 0 and not memory.exists()


def _open_sealed(path: Path) -> SqliteConnection:
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return SqliteConnection(f"file:{quote(str(path))}?immutable=1", flags=flags)


def _size(path: Path) -> int:
    """Return a file's size in bytes; 0 for a missing file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _leave_file_alone(connection: SqliteConnection, alone: bool) -> None:
    """Set whether the last connection to close leaves the log as it is instead of writing it into the file."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(alone))


def _wait_for_locks(connection: SqliteConnection) -> None:
    """Wait up to `BUSY_TIMEOUT_MS` when another process is writing, never fail at once.

    SQLite's own handler retries ever less often, up to 100 ms apart: newcomers starve the longest waiter.
    """
    started = 0.0

    def wait(looks_before: int) -> bool:
        nonlocal started
        now = time.monotonic()
        if looks_before == 0:
            started = now
        if (now - started) * 1000 >= BUSY_TIMEOUT_MS:
            return False
        time.sleep(BUSY_LOOK_MS / 1000)
        return True

    connection.set_busy_handler(wait)


def _write_ahead(connection: SqliteConnection) -> None:
    """Use a write-ahead log: readers never wait for a writer, and a commit is one append. The file keeps this mode."""
    connection.pragma("journal_mode", "wal")


def _defend(connection: SqliteConnection) -> None:
    """Forbid writes to the schema or to shadow tables, functions from a schema, and strings in double quotes."""
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_DQS_DML, 0)


def _keep_temporary_data_in_memory(connection: SqliteConnection) -> None:
    """Keep sorting from spilling content into temporary files, which have no level (P11)."""
    connection.pragma("temp_store", "memory")


def _plan_once(connection: SqliteConnection) -> None:
    """Keep one plan per statement for all values: otherwise some, also of FTS5, are compiled at each run."""
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)


def _fold(*tag: Any) -> Any:
    """Return a tag as tags are compared. Not for confined connections: only checks and upgrades fold in SQL."""
    return fold_tag(tag[0]) if isinstance(tag[0], str) else tag[0]


def _tally(api: apsw.FTS5ExtensionApi, *_arguments: object) -> bytes:
    """Return the place of each phrase that occurs in the current row, and how often in each column: a byte each.

    255 for more, which no phrase has as its place.
    """
    found: list[int] = []
    for phrase in range(api.phrase_count):
        columns = api.phrase_columns(phrase)
        if columns == (2,):  # as most that occur at all, and this is cheaper than to look everywhere
            found += (phrase, 0, 0, len(api.phrase_column_offsets(phrase, 2)))
        elif columns:
            found += (phrase, *map(len, api.phrase_locations(phrase)))
    try:
        return bytes(found)
    except ValueError:
        return bytes(min(count, 255) for count in found)
