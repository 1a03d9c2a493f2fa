"""The control store in one file, always fully synchronised."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import StorageError
from tidegate.policy.levels import Level, read_label
from tidegate.storage.base import ControlStore, SessionRow
from tidegate.storage.sqlite_connection import Connection, DriverError, Row, Value, storage_error
from tidegate.storage.sqlite_files import HomeFiles, open_control

_SELECT = "SELECT id, agent, name, taint, ceiling, parent, ended FROM sessions"
_BY_ID = f"{_SELECT} WHERE id = ?"


class SqliteControlStore(ControlStore):
    """Sessions in `control.db`. Without the file there are none; the first transaction makes it.

    Reads have a connection of their own: a save looks its session up while it holds its compartment, and a raise
    enters its audit while it holds the control store, so neither may wait for the other.
    """

    def __init__(self, files: HomeFiles) -> None:
        self._files = files
        self._writing = threading.RLock()
        self._writer: Connection | None = None
        self._owner: int | None = None  # the thread that is in a transaction: it reads what it has written
        self._reading = threading.RLock()
        self._reader: Connection | None = None
        self._process = os.getpid()
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._require_own_process()
        with self._writing:
            self._files.make_control()
            db = self._open_writer()
            try:
                db.execute("BEGIN IMMEDIATE")
                self._owner = threading.get_ident()
                yield
                db.execute("COMMIT")
            except DriverError as error:
                raise storage_error(error) from None
            finally:
                self._owner = None
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def read(self, session: str) -> SessionRow | None:
        for row in self._rows(_BY_ID, (session,)):
            return row
        return None

    def find(self, agent: str, name: str) -> SessionRow | None:
        return next(iter(self._rows(f"{_SELECT} WHERE agent = ? AND name = ?", (agent, name))), None)

    def sessions(self, agent: str) -> list[SessionRow]:
        return self._rows(f"{_SELECT} WHERE agent = ? ORDER BY name", (agent,))

    def insert(self, row: SessionRow) -> None:
        values = (row.id, row.agent, row.name, row.taint.name, row.ceiling.name, row.parent, int(row.ended))
        self._change("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def set_taint(self, session: str, taint: Level) -> None:
        self._change("UPDATE sessions SET taint = ? WHERE id = ?", (taint.name, session))

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        self._change("UPDATE sessions SET ceiling = ? WHERE id = ?", (ceiling.name, session))

    def end(self, session: str) -> None:
        self._change("UPDATE sessions SET ended = 1 WHERE id = ?", (session,))

    def close(self) -> None:
        """Give back the file."""
        with self._writing, self._reading:
            self._closed = True
            for connection in (self._reader, self._writer):
                if connection is not None:
                    connection.close()
            self._reader = self._writer = None

    def _rows(self, statement: str, bindings: tuple[Value, ...]) -> list[SessionRow]:
        self._require_own_process()
        if self._owner == threading.get_ident():
            return [_row(values) for values in self._open_writer().execute(statement, bindings)]
        with self._reading:
            if self._reader is None and not self._files.has_control():
                return []
            try:
                return [_row(values) for values in self._open_reader().execute(statement, bindings)]
            except DriverError as error:
                raise storage_error(error) from None

    def _change(self, statement: str, bindings: tuple[Value, ...]) -> None:
        """Inside a transaction only, which also wraps what the driver raises."""
        self._open_writer().execute(statement, bindings)

    def _require_own_process(self) -> None:
        """A fork inherits connections but not their locks: using them would damage the store."""
        if os.getpid() != self._process:
            raise StorageError("the store was opened before this process was forked; open it again")

    def _open_writer(self) -> Connection:
        self._require_open()
        if self._writer is None:
            self._writer = open_control(self._files.control, writable=True)
        return self._writer

    def _open_reader(self) -> Connection:
        self._require_open()
        if self._reader is None:
            self._reader = open_control(self._files.control, writable=False)
        return self._reader

    def _require_open(self) -> None:
        if self._closed:
            raise StorageError("the store is closed")


def _row(values: Row) -> SessionRow:
    session, agent, name, taint_label, ceiling_label, parent, ended = values
    taint, ceiling = read_label(taint_label), read_label(ceiling_label)
    if taint is None or ceiling is None:
        raise StorageError("a session has an unknown level; run `tidegate doctor`")  # P17
    return SessionRow(session, agent, name, taint, ceiling, parent, ended != 0)
