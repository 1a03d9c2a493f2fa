"""What SQLite alone takes for the same work: the floors that the figures are set against."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import apsw

from benchmarks.corpus import Item
from tidegate.search.analysis import analyse

_SCHEMA = """
CREATE TABLE bare_records (id INTEGER PRIMARY KEY, key TEXT UNIQUE, content TEXT, tags TEXT, version INTEGER,
                           nonce TEXT, created_at INTEGER, updated_at INTEGER);
CREATE TABLE bare_audit (sequence INTEGER PRIMARY KEY, at INTEGER, hash TEXT, commitment TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS
terms USING fts5(key, tags, content, content = '', contentless_delete = 1, tokenize = 'ascii');
"""
_HASH = "0" * 64

Columns = tuple[str, str, str]


def bare_store(path: Path, like: Path | None = None) -> apsw.Connection:
    """Open a database with the settings of the product: empty, or with all the content of another one.

    FTS5 merges what it writes into what is there, so an insert into a large index costs more, whoever does it.
    """
    connection = apsw.Connection(str(path))
    if like is not None:
        with connection.backup("main", apsw.Connection(str(like), flags=apsw.SQLITE_OPEN_READONLY), "main") as copy:
            copy.step()
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "normal")
    connection.execute(_SCHEMA)
    return connection


def bare_save(connection: apsw.Connection) -> Callable[[Item, Columns], None]:
    """Insert the rows and the terms of one memory in a transaction; the terms were made beforehand."""
    numbers = itertools.count(1_000_000_000)

    def save(item: Item, columns: Columns) -> None:
        number = next(numbers)
        connection.execute("BEGIN IMMEDIATE")
        record = (number, item[0], item[1], "[]", 1, "0" * 32, 1, 1)
        connection.execute("INSERT INTO bare_records VALUES (?, ?, ?, ?, ?, ?, ?, ?)", record)
        connection.execute("INSERT INTO terms (rowid, key, tags, content) VALUES (?, ?, ?, ?)", (number, *columns))
        connection.execute("INSERT INTO bare_audit VALUES (?, 1, ?, ?)", (number, _HASH, _HASH))
        connection.execute("COMMIT")

    return save


def terms_of(item: Item) -> Columns:
    """Return the index columns of a memory, as the product makes them."""
    columns = analyse(item[0], tuple(item[2]), item[1])
    return " ".join(columns.key), " ".join(columns.tags), " ".join(columns.content)
