"""The files of a home: where each compartment lies, how it is made, and whether it is what it should be."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TypeVar

from tidegate.errors import StorageError
from tidegate.files import sync_folder
from tidegate.policy.levels import Level
from tidegate.search.analysis import ANALYSIS_VERSION
from tidegate.storage.base import not_its_own
from tidegate.storage.sqlite.connection import (
    DiskFull,
    SqliteConnection,
    close,
    confine,
    create_file,
    driver_errors,
    open_file,
    wal_of,
)
from tidegate.storage.sqlite.disk import OPENING_BYTES, Reserve
from tidegate.storage.sqlite.migration import migrate, migrate_control
from tidegate.storage.sqlite.schema import COMPARTMENT, COMPARTMENT_VERSION, CONTROL, CONTROL_VERSION

_T = TypeVar("_T")

FOLDER_MODE = 0o700
FILE_MODE = 0o600

MAKING = ".making"

CHECK_SECONDS = 0.5
"""How long an open file may be read before its name is checked again. Writes always are checked."""


class HomeFiles:
    """The paths of a home, and the one place that makes files there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.reserve = Reserve(home)

    def with_room(self, open_it: Callable[[], _T]) -> _T:
        """Open something, if need be with some of the disk space kept in reserve: never by a way past the log."""
        try:
            return open_it()
        except DiskFull:
            if not self.reserve.give(OPENING_BYTES):
                raise
            try:
                return open_it()
            finally:
                self.reserve.make()  # the rest is taken back at once: no save may have it

    @property
    def control(self) -> Path:
        return self._home / "control.db"

    def compartment(self, agent: str, level: Level) -> Path:
        return self._home / "agents" / agent / f"{level.name.lower()}.db"

    def owns_path(self, path: Path) -> bool:
        """Return whether a path lies in the home, is one of its files under another name, or leads there."""
        real = Path(os.path.realpath(path))
        named = Path(os.path.realpath(path.parent)) / path.name  # of a link: where the link itself lies
        if any(_is_same(self._home, each) for file in (real, named) for each in (file, *file.parents)):
            return True
        own = (each for each in self._home.rglob("*") if each.is_file())  # P17: by hard links, and links out of it
        return any(_is_same(each, real) for each in own)

    def agents(self) -> list[str]:
        """Return the agents whose compartments exist, by name, with those whose folder cannot be looked up (P6)."""
        folder = self._home / "agents"
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError:
            raise StorageError("home: cannot be read") from None
        return [name for name in names if self._may_have_compartments(name)]

    def _may_have_compartments(self, agent: str) -> bool:
        try:
            return self.has_compartments(agent)
        except StorageError:
            return True

    def has_compartments(self, agent: str) -> bool:
        """Return whether the agent's files exist, or existed.

        A kill while they were made leaves some of them, and the mark that they are being made: then the rest are made,
        since nothing is used before all exist. Without the mark a missing file is a loss, never papered over, and met
        by those whose view it is part of. No file is opened for this, since some lie above the caller (P5).
        """
        there = [exists(self.compartment(agent, level)) for level in Level]
        return all(there) or (any(there) and not exists(self._making(agent)))

    def settle_making(self, agent: str) -> None:
        """Take the mark away that a kill left after the last file was made: what is lost later was used."""
        if exists(self._making(agent)) and all(exists(self.compartment(agent, level)) for level in Level):
            self.end_making(agent)

    def end_making(self, agent: str) -> None:
        """Take the mark away that the agent's files are being made. Raises: StorageError."""
        try:
            self._making(agent).unlink(missing_ok=True)
        except OSError:
            raise StorageError("home: cannot be written; run it again") from None

    def make_compartments(self, agent: str, ids: Mapping[Level, str]) -> None:
        """Make all four files, each whole from the moment it exists. Another process may do the same at the same time.

        The mark that they are being made exists before the first of them, and until the last. Once all exist it means
        nothing: a process that was overtaken may leave it.

        The control store's file comes first, so that its absence beside compartments is a loss.
        """
        self.make_control()
        if not any(exists(self.compartment(agent, level)) for level in Level):
            self.begin_making(agent)
        for level in Level:
            identity = (agent, level.name, ids[level], ANALYSIS_VERSION)
            self._make(self.compartment(agent, level), COMPARTMENT, identity)
        self.end_making(agent)

    def make_control(self) -> None:
        """Make the control store's file. Raises: StorageError when it was lost, and the taints with it (P4, P17)."""
        if not self.has_control():
            self._make(self.control, CONTROL, ())
            self.reserve.make()

    def has_control(self) -> bool:
        """Return whether the control store's file exists. Raises: StorageError when only compartments do."""
        if exists(self.control):
            return True
        if self.agents() and not exists(self.control):
            raise StorageError("control.db is missing, and with it all sessions; run `tidegate doctor`")
        return False

    def _making(self, agent: str) -> Path:
        return self._home / "agents" / agent / MAKING

    def begin_making(self, agent: str) -> None:
        mark = self._making(agent)
        try:
            _make_folder(mark.parent)
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, FILE_MODE))
            sync_folder(mark.parent)
        except OSError:
            raise StorageError("home: cannot be written; nothing was changed") from None

    def _make(self, path: Path, script: str, bindings: tuple[str | int, ...]) -> None:
        if exists(path):
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
            for suffix in ("", "-wal", "-shm"):
                new.with_name(new.name + suffix).unlink(missing_ok=True)


def _is_same(one: Path, other: Path) -> bool:
    """Return whether both paths exist and are one file or folder, as the file system sees it."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def exists(path: Path) -> bool:
    """Return whether the file exists. Raises: StorageError when that cannot be looked up."""
    try:
        return path.exists()
    except OSError:
        raise StorageError("home: cannot be read") from None


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file has a name. An open file that has lost its name is lost: nobody reads what is written there."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the identity of the file with this name. Raises: StorageError when none has it, or an empty one."""
        try:
            found = path.stat()
        except FileNotFoundError:
            raise StorageError("a file of the store is missing; run `tidegate doctor`") from None
        except OSError:
            raise StorageError("home: cannot be read") from None
        if found.st_size == 0:  # SQLite would take it for new, and throw its log away
            raise StorageError("the store is damaged: a file is empty; run `tidegate doctor`")
        return cls(path, found.st_dev, found.st_ino)

    @classmethod
    def of_log(cls, path: Path) -> Self | None:
        """Return that of the write-ahead log of an open database; None without a log, as in a read-only folder."""
        log = wal_of(path)
        try:
            found = log.stat()
        except OSError:
            return None
        return cls(log, found.st_dev, found.st_ino)

    def holds(self) -> bool:
        """Return whether that file still has the name."""
        try:
            found = self.path.stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == (self.device, self.inode)


def open_compartment(path: Path, agent: str, level: Level, *, writable: bool, synchronous: str) -> SqliteConnection:
    """Open a compartment's file, confined; it must be the agent's and level's that its name says (P17).

    Only the control store knows whether it is the one that belongs there.
    """
    with _opened(path, COMPARTMENT_VERSION, migrate, writable=writable, synchronous=synchronous) as connection:
        if connection.execute("SELECT agent, level FROM compartment").fetchall() != [(agent, level.name)]:
            raise not_its_own()
        confine(connection, writable=writable)
        return connection


def open_audit(path: Path, agent: str, level: Level) -> SqliteConnection:
    """Open a compartment's file to read the audit and nothing else. The last connection puts the log away.

    So a look from below leaves no file behind, in a folder that the next process may not be able to write.
    """
    connection = open_compartment(path, agent, level, writable=True, synchronous="NORMAL")
    confine(connection, writable=False, table="audit")
    return connection


def open_whole(path: Path) -> SqliteConnection:
    """Open a compartment's file without confining the connection, to set its id."""
    with _opened(path, COMPARTMENT_VERSION, migrate, writable=True, synchronous="FULL") as connection:
        return connection


def open_control(path: Path, *, writable: bool) -> SqliteConnection:
    """Open the control store's file, confined. If the last connection only reads, it puts the log away too."""
    with _opened(path, CONTROL_VERSION, migrate_control, writable=True, synchronous="FULL") as connection:
        confine(connection, writable=writable)
        return connection


@contextmanager
def _opened(
    path: Path, version: int, update: Callable[[Path], None], *, writable: bool, synchronous: str
) -> Iterator[SqliteConnection]:
    """Open a file of our schema, migrated if need be; close it again when the next steps fail."""
    FileIdentity.of(path)
    with driver_errors():
        connection = open_file(path, writable=writable, synchronous=synchronous)
        try:
            if _is_earlier(connection, version):
                connection.close()
                update(path)
                connection = open_file(path, writable=writable, synchronous=synchronous)
            yield connection
        except BaseException:
            close(connection)
            raise


def _is_earlier(connection: SqliteConnection, version: int) -> bool:
    found = int(str(connection.pragma("user_version")))
    if found <= 0:
        raise StorageError("the store is damaged: a file is empty; run `tidegate doctor`")
    if found > version:
        raise StorageError("the store was written by a newer version of Tidegate; upgrade to open it")
    return found < version


def _publish(new: Path, path: Path) -> None:
    """Give a finished file its name, unless another process was first; the folder's entry survives power loss."""
    try:
        os.link(new, path)
    except FileExistsError:
        return
    sync_folder(path.parent)


def _make_folder(path: Path) -> None:
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            folder.mkdir(mode=FOLDER_MODE, exist_ok=True)
            sync_folder(folder.parent)
