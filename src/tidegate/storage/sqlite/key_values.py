"""A table of keys and values in another program's SQLite file, read and never written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import InvalidArgument
from tidegate.storage.sqlite.connection import Row, confine, open_foreign
from tidegate.storage.sqlite.failures import DriverError

_TABLE = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'kv'"
_ROWS = "SELECT key, value FROM kv WHERE key >= ? AND key < ? ORDER BY key"


def read_pairs(path: Path, first: str, end: str) -> Iterator[tuple[str, object] | None]:
    """Yield the rows of the table `kv` with keys from `first` up to, not including, `end`: all as of one moment.

    None stands for a row that is not UTF-8.
    Raises: InvalidArgument when the file is not a database with such a table, or cannot be read.
    """
    try:
        connection = open_foreign(path)
        try:
            confine(connection, writable=False)
            if connection.execute(_TABLE).fetchone() is None:
                raise _unreadable("has no table of keys and values")
            rows = connection.execute(_ROWS, (first, end))
            while row := _next(rows):
                yield (str(row[0]), row[1]) if len(row) > 1 else None
        finally:
            connection.close()
    except DriverError:
        raise _unreadable("cannot be read as a database; check that it and the files beside it are complete") from None


def _next(rows: Iterator[Row]) -> Row:
    """Return the next row: without values if they are not text, empty at the end."""
    try:
        return next(rows, ())
    except UnicodeDecodeError:
        return (None,)


def _unreadable(reason: str) -> InvalidArgument:
    return InvalidArgument(f"file: {reason}", argument="file")
