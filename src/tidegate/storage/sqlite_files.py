"""The files of a home: where each compartment lies, how it is made, and whether it is what it should be."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from tidegate.domain.text import ANALYSIS_VERSION
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.sqlite_connection import Connection, confine, create_file, driver_errors, open_file
from tidegate.storage.sqlite_schema import COMPARTMENT, CONTROL, SCHEMA_VERSION

FOLDER_MODE = 0o700
FILE_MODE = 0o600


class HomeFiles:
    """The paths of a home, and the one place that makes files there."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def control(self) -> Path:
        return self._home / "control.db"

    def compartment(self, agent: str, level: Level) -> Path:
        return self._home / "agents" / agent / f"{level.name.lower()}.db"

    def agents(self) -> list[str]:
        """Agents whose compartments are there, by name."""
        folder = self._home / "agents"
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError:
            raise StorageError("home: cannot be read") from None
        return [name for name in names if self.has_compartments(name)]

    def has_compartments(self, agent: str) -> bool:
        """Whether the agent's files are there. Raises: StorageError when only some are, with something in them."""
        paths = [self.compartment(agent, level) for level in Level]
        there = [path for path in paths if path.exists()]
        if there and len(there) < len(paths):
            # A kill while they were made leaves some, untouched; anything else is a loss, and never papered over.
            if not all(map(_is_pristine, there)):
                raise StorageError("a file of this agent is missing; run `tidegate doctor`")
            return False
        return bool(there)

    def make_compartments(self, agent: str) -> None:
        """All four files, each whole from the moment it is there. Another process may do the same at the same time."""
        for level in Level:
            self._make(self.compartment(agent, level), COMPARTMENT, (agent, level.name, ANALYSIS_VERSION))

    def make_control(self) -> None:
        """The control store's file."""
        self._make(self.control, CONTROL, ())

    def _make(self, path: Path, script: str, bindings: tuple[str | int, ...]) -> None:
        if path.exists():
            return
        new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
        try:
            _make_folder(path.parent)
            # Made before SQLite opens it, so that nobody else can ever read it; -wal and -shm get the same mode.
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
            with driver_errors():
                create_file(new, script, bindings)
            _publish(new, path)
        except OSError:
            raise StorageError("home: cannot be written; nothing was changed") from None
        finally:
            new.unlink(missing_ok=True)


def open_compartment(path: Path, agent: str, level: Level, *, writable: bool, synchronous: str) -> Connection:
    """A confined connection to a compartment's file, which must be what its name says (P17)."""
    with driver_errors():
        connection = open_file(path, writable=writable, synchronous=synchronous)
        try:
            _require_version(connection)
            found = connection.execute("SELECT agent, level FROM compartment").fetchall()
            if found != [(agent, level.name)]:
                raise StorageError("a file of this agent is not its own; run `tidegate doctor`")
            confine(connection, writable=writable)
        except BaseException:
            connection.close()
            raise
    return connection


def open_control(path: Path, *, writable: bool) -> Connection:
    """A confined connection to the control store's file."""
    with driver_errors():
        connection = open_file(path, writable=writable, synchronous="FULL")
        try:
            _require_version(connection)
            confine(connection, writable=writable)
        except BaseException:
            connection.close()
            raise
    return connection


def _require_version(connection: Connection) -> None:
    version = connection.pragma("user_version")
    if version == 0:
        raise StorageError("the store is damaged: a file is empty; run `tidegate doctor`")
    if version != SCHEMA_VERSION:
        raise StorageError("the store was written by a newer version of Tidegate; upgrade to open it")


def _is_pristine(path: Path) -> bool:
    with driver_errors():
        connection = open_file(path, writable=False, synchronous="NORMAL")
        try:
            _require_version(connection)
            return connection.execute("SELECT 1 FROM audit LIMIT 1").fetchone() is None
        finally:
            connection.close()


def _publish(new: Path, path: Path) -> None:
    """Give a finished file its name, unless another process was first; the folder's entry survives power loss."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_folder(path: Path) -> None:
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
