"""The control store in one file, always fully synchronised."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from tidegate.errors import StorageError
from tidegate.policy.levels import Level, read_label
from tidegate.storage.control import ControlStore, SessionRow
from tidegate.storage.sqlite import files as sqlite_files
from tidegate.storage.sqlite.connection import Row, Value, close, is_sealed, transaction
from tidegate.storage.sqlite.disk import RESERVE_BYTES
from tidegate.storage.sqlite.failures import DriverError, storage_error
from tidegate.storage.sqlite.files import FileIdentity, HomeFiles, open_control

# A session opened in an earlier life of its agent has ended, whatever its row says (P7).
_OUTLIVED = "EXISTS (SELECT 1 FROM lives WHERE lives.agent = sessions.agent AND lives.life <> sessions.life)"
_SELECT = f"SELECT id, agent, name, taint, ceiling, parent, ended OR {_OUTLIVED}, life FROM sessions"
_BY_ID = f"{_SELECT} WHERE id = ?"
_RENEWED = """
INSERT INTO renewals SELECT agent, name, ? FROM sessions WHERE id = ?
ON CONFLICT (agent, name) DO UPDATE SET number = excluded.number
"""
_LIFE = "SELECT life FROM lives WHERE agent = ?"
_COMPARTMENT = "SELECT id FROM compartments WHERE agent = ? AND level = ?"


class SqliteControlStore(ControlStore):
    """Sessions in `control.db`. Without the file there are none; the first transaction creates it.

    Reads have their own connection: a save looks up its session while it holds its compartment, and a raise enters its
    audit while it holds the control store, so neither may wait for the other.
    """

    def __init__(self, files: HomeFiles) -> None:
        self._files = files
        self._writing = threading.RLock()
        self._writer: _Held | None = None
        self._owner: int | None = None  # the thread in a transaction: it reads its own writes
        self._reading = threading.RLock()
        self._reader: _Held | None = None
        self._process = os.getpid()
        self._closed = False
        self._known = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._require_own_process()
        with self._writing:
            if not self._exists():
                self._files.make_control()
            before, self._writer = self._writer, None
            held = self._writer = self._current(before, writable=True)
            try:
                with transaction(held.db):
                    self._owner = threading.get_ident()
                    yield
            except BaseException as error:  # also an interrupt: keep a connection only after success
                self._writer = None
                held.close()
                if isinstance(error, DriverError):
                    raise storage_error(error, self._files.control) from None
                raise
            finally:
                self._owner = None
            if not held.is_named():
                self._writer = None
                held.close()
                raise StorageError(
                    "control.db was removed while in use; the last change is lost; put the file back, or run "
                    "`tidegate doctor`"
                )

    def read(self, session: str) -> SessionRow | None:
        rows = self._rows(_BY_ID, (session,))
        return _row(rows[0]) if rows else None

    def find(self, agent: str, name: str) -> SessionRow | None:
        return next(map(_row, self._rows(f"{_SELECT} WHERE agent = ? AND name = ?", (agent, name))), None)

    def sessions(self, agent: str) -> list[SessionRow]:
        return list(map(_row, self._rows(f"{_SELECT} WHERE agent = ? ORDER BY name", (agent,))))

    def insert(self, row: SessionRow) -> None:
        values = (row.id, row.agent, row.name, row.taint.name, row.ceiling.name, row.parent, int(row.ended))
        self._change("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*values, row.life))

    def set_taint(self, session: str, taint: Level) -> None:
        self._change("UPDATE sessions SET taint = ? WHERE id = ?", (taint.name, session))

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        self._change("UPDATE sessions SET ceiling = ? WHERE id = ?", (ceiling.name, session))

    def end(self, session: str) -> None:
        self._change("UPDATE sessions SET ended = 1 WHERE id = ?", (session,))

    def rename(self, session: str, name: str) -> None:
        self._change(_RENEWED, (self.renewals_count() + 1, session))
        self._change("UPDATE sessions SET name = ? WHERE id = ?", (name, session))

    def renewals_count(self) -> int:
        return self._number("SELECT number FROM renewals ORDER BY number DESC LIMIT 1", ())

    def last_renewal(self, agent: str, name: str) -> int:
        return self._number("SELECT number FROM renewals WHERE agent = ? AND name = ?", (agent, name))

    def life(self, agent: str) -> int:
        return self._number(_LIFE, (agent,))

    def end_life(self, agent: str) -> None:
        self._change("UPDATE sessions SET ended = 1 WHERE agent = ?", (agent,))
        self._change("INSERT INTO lives VALUES (?, 1) ON CONFLICT (agent) DO UPDATE SET life = life + 1", (agent,))
        self._change("DELETE FROM compartments WHERE agent = ?", (agent,))

    def compartment(self, agent: str, level: Level) -> str | None:
        for (found,) in self._rows(_COMPARTMENT, (agent, level.name)):
            return str(found)
        return None

    def set_compartment(self, agent: str, level: Level, id: str) -> None:  # noqa: A002 - the field's name
        self._change("INSERT OR REPLACE INTO compartments VALUES (?, ?, ?)", (agent, level.name, id))

    def close(self) -> None:
        """Close the file."""
        with self._writing, self._reading:
            self._closed = True
            for held in (self._reader, self._writer):
                _close(held)
            self._reader = self._writer = None

    def _rows(self, statement: str, bindings: tuple[Value, ...]) -> list[Row]:
        self._require_own_process()
        if self._owner == threading.get_ident() and self._writer is not None:
            return self._writer.db.execute(statement, bindings).fetchall()
        with self._reading:
            if self._reader is None and not self._exists():
                return []
            before, self._reader = self._reader, None
            held = self._reader = self._current(before, writable=False)
            try:
                return held.db.execute(statement, bindings).fetchall()
            except BaseException as error:  # as above
                self._reader = None
                held.close()
                if isinstance(error, DriverError):
                    raise storage_error(error, self._files.control) from None
                raise
            finally:
                if held.sealed:
                    self._reader = None
                    held.close()

    def _number(self, statement: str, bindings: tuple[Value, ...]) -> int:
        """Return the number that the statement finds; 0 if it finds none."""
        rows = self._rows(statement, bindings)
        return int(rows[0][0]) if rows else 0

    def _change(self, statement: str, bindings: tuple[Value, ...]) -> None:
        """Run a change, only inside a transaction, which also wraps the driver's errors."""
        if self._writer is None or self._owner != threading.get_ident():
            raise StorageError("the control store is changed in transactions only")
        self._writer.db.execute(statement, bindings)

    def _require_own_process(self) -> None:
        """Raise StorageError after a fork: it inherits connections without their locks, and using them does damage."""
        if os.getpid() != self._process:
            raise StorageError("the store was opened before this process was forked; open it again")

    def _exists(self) -> bool:
        """Return whether the file exists. Raises: StorageError when it was lost: a new one cannot replace it (P4)."""
        known = self._known  # read first: another thread may be creating it
        if not self._files.has_control():
            if known:
                raise StorageError("control.db is missing, with all sessions; run `tidegate doctor`")
            return False
        self._known = True
        return True

    def _current(self, held: _Held | None, *, writable: bool) -> _Held:
        """Return a connection to the file that now has the name: the one held, or a new one."""
        if self._closed:
            raise StorageError("the store is closed")
        if held is not None and held.was_named():
            return held
        _close(held)
        # A home of an earlier version has no reserve, and a killed purge leaves less. Leave room for others' files.
        self._files.reserve.make(leaving=RESERVE_BYTES)
        return self._files.with_room(lambda: _Held(self._files.control, writable=writable))


class _Held:
    """A connection to the control store's file, and which file that is."""

    def __init__(self, path: Path, *, writable: bool) -> None:
        self._file = FileIdentity.of(path)
        self.db = open_control(path, writable=writable)
        self.sealed = is_sealed(self.db)
        self._log = FileIdentity.of_log(path)
        self._checked_at = time.monotonic()

    def is_named(self) -> bool:
        """Return whether the file and its log still have their names."""
        return self._file.holds() and (self._log is None or self._log.holds())

    def was_named(self) -> bool:
        """Return whether they had their names at the last, recent check."""
        now = time.monotonic()
        if now - self._checked_at < sqlite_files.CHECK_SECONDS:
            return True
        self._checked_at = now
        return self.is_named()

    def close(self) -> None:
        """Close the file."""
        close(self.db)


def _close(held: _Held | None) -> None:
    if held is not None:
        held.close()


@lru_cache
def _row(values: Row) -> SessionRow:
    session, agent, name, taint_label, ceiling_label, parent, ended, life = values
    taint, ceiling = read_label(taint_label), read_label(ceiling_label)
    if taint is None or ceiling is None:
        raise StorageError("a session has an unknown level; run `tidegate doctor`")  # P17
    return SessionRow(session, agent, name, taint, ceiling, parent, ended != 0, life)
