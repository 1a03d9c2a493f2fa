"""Compaction: remove every trace of purged text from a file. Only here are connections not confined."""

from __future__ import annotations

import os
from pathlib import Path

from tidegate.errors import StorageError
from tidegate.storage.sqlite.connection import SqliteConnection, beside_of, open_file
from tidegate.storage.sqlite.failures import DriverError, driver_errors, is_busy, is_full
from tidegate.storage.sqlite.migration import copies_of

COMPACT_WAIT_MS = 5_000
"""How long compaction waits for readers and writers before it gives up."""


def compact(path: Path) -> bool:
    """Clear removed text from the file, its free pages, its index and its log; return whether none remains.

    False when others were reading or writing, or the disk is full: then some may remain, and nothing else is lost.
    It takes about the file's size in memory, and as much on disk for a while. Raises: StorageError.
    """
    with driver_errors(path):
        connection = open_file(path, writable=True, synchronous="FULL")
        try:
            _unlink_copies(path)
            return _compact(connection, path)
        finally:
            connection.close()


def erase(path: Path) -> None:
    """Remove a file, in any state. Whoever has it open fails from then on, and reads nothing.

    Raises: StorageError when others are writing, or it cannot be removed; then it can be run again.
    """
    try:
        if path.exists():
            _wipe(path)
        unlink(path)
    except OSError:
        raise StorageError(
            "home: cannot be written; the erasure is incomplete; check its permissions and free space, and run it again"
        ) from None


def unlink(path: Path) -> None:
    """Remove a file's name, and its copies. Whoever has it open fails from then on. Raises: OSError."""
    _unlink_copies(path)
    # The log first: a later file must not take it for its own. Of a link, its target as well.
    for each in (*beside_of(path), Path(os.path.realpath(path)), path):
        each.unlink(missing_ok=True)


def _unlink_copies(path: Path) -> None:
    for copy in copies_of(path):
        copy.unlink(missing_ok=True)


def _wipe(path: Path) -> None:
    """Empty the file, tables too, before its name is removed. A damaged one just loses its name."""
    connection: SqliteConnection | None = None
    try:
        connection = open_file(path, writable=True, synchronous="FULL")
        connection.set_busy_timeout(COMPACT_WAIT_MS)
        _drop_all(connection)
        _rewrite(connection)
    except DriverError as error:
        if is_busy(error):
            raise StorageError("the store is busy; the erasure is incomplete; run it again") from None
    finally:
        if connection is not None:
            connection.close()


def _compact(connection: SqliteConnection, path: Path) -> bool:
    connection.set_busy_timeout(COMPACT_WAIT_MS)
    try:
        _scrub(connection)
        _merge_index(connection)
        return _rewrite(connection)
    except DriverError as error:
        if is_busy(error) or is_full(error, path):  # the removal itself, with its entries, is done already
            return False
        raise


def _scrub(connection: SqliteConnection) -> None:
    """Overwrite freed space with zeros from now on, in memory and so in the file."""
    connection.pragma("secure_delete", "ON")


def _merge_index(connection: SqliteConnection) -> None:
    """Merge all segments of the index into one: before that, they keep the terms of deleted rows."""
    connection.execute("INSERT INTO terms (terms) VALUES ('optimize')")


def _rewrite(connection: SqliteConnection) -> bool:
    """Rewrite every page, without free ones, then empty the log. False while another connection needs the log."""
    connection.execute("VACUUM")
    ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy


def _drop_all(connection: SqliteConnection) -> None:
    _scrub(connection)
    with connection:
        tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%fts5%'")
        for (name,) in [("terms",), *tables.fetchall()]:
            if not str(name).startswith("terms_"):  # the index removes its own
                connection.execute(f'DROP TABLE IF EXISTS "{name}"')
        connection.pragma("user_version", 0)
