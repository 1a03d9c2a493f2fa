"""The control store in one file, always fully synchronised."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.errors import StorageError
from tidegate.policy.levels import Level, read_label
from tidegate.storage.base import ControlStore, SessionRow
from tidegate.storage.sqlite_connection import Connection, DriverError, Row, Value, storage_error
from tidegate.storage.sqlite_files import HomeFiles, open_control

_SELECT = "SELECT id, agent, name, taint, ceiling, parent, ended FROM sessions"


class SqliteControlStore(ControlStore):
    """Sessions in `control.db`. Without the file there are none; the first transaction makes it."""

    def __init__(self, files: HomeFiles) -> None:
        self._files = files
        self._lock = threading.RLock()
        self._connection: Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        with self._lock:
            self._files.make_control()
            db = self._open()
            try:
                db.execute("BEGIN IMMEDIATE")
                yield
                db.execute("COMMIT")
            except DriverError as error:
                raise storage_error(error) from None
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def read(self, session: str) -> SessionRow | None:
        return next(iter(self._rows("WHERE id = ?", (session,))), None)

    def find(self, agent: str, name: str) -> SessionRow | None:
        return next(iter(self._rows("WHERE agent = ? AND name = ?", (agent, name))), None)

    def sessions(self, agent: str) -> list[SessionRow]:
        return self._rows("WHERE agent = ? ORDER BY name", (agent,))

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
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _rows(self, where: str, bindings: tuple[Value, ...]) -> list[SessionRow]:
        with self._lock:
            if self._connection is None and not self._files.control.exists():
                return []
            try:
                return [_row(values) for values in self._open().execute(f"{_SELECT} {where}", bindings)]
            except DriverError as error:
                raise storage_error(error) from None

    def _change(self, statement: str, bindings: tuple[Value, ...]) -> None:
        """Inside a transaction only, which also wraps what the driver raises."""
        self._open().execute(statement, bindings)

    def _open(self) -> Connection:
        if self._connection is None:
            self._connection = open_control(self._files.control)
        return self._connection


def _row(values: Row) -> SessionRow:
    session, agent, name, taint_label, ceiling_label, parent, ended = values
    taint, ceiling = read_label(taint_label), read_label(ceiling_label)
    if taint is None or ceiling is None:
        raise StorageError("a session has an unknown level; run `tidegate doctor`")  # P17
    return SessionRow(session, agent, name, taint, ceiling, parent, ended != 0)
