"""The files of a home: the path of each compartment, its creation, and the check of its identity."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, TypeVar

from tidegate.errors import StorageError
from tidegate.files import sync_folder
from tidegate.policy.levels import Level
from tidegate.search.analysis import ANALYSIS_VERSION
from tidegate.storage.base import not_its_own
from tidegate.storage.sqlite.connection import (
    SqliteConnection,
    close,
    confine,
    create_file,
    open_file,
    schema_version,
    wal_of,
)
from tidegate.storage.sqlite.disk import OPENING_BYTES, Reserve
from tidegate.storage.sqlite.failures import DiskFullError, driver_errors, newer, os_error
from tidegate.storage.sqlite.migration import migrate, migrate_control
from tidegate.storage.sqlite.schema import COMPARTMENT, COMPARTMENT_VERSION, CONTROL, CONTROL_VERSION

_T = TypeVar("_T")

FOLDER_MODE = 0o700
FILE_MODE = 0o600

MAKING = ".making"

_UNREADABLE = "home: cannot be read; check its permissions"
UNWRITABLE = "home: cannot be written; nothing was changed; check its permissions and free space"

CHECK_SECONDS = 0.5
"""How long an open file may be read before its name is checked again. Writes are always checked."""


class HomeFiles:
    """The paths of a home, and the only code that creates files there."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.control = home / "control.db"
        self.reserve = Reserve(home)

    def with_room(self, open_it: Callable[[], _T]) -> _T:
        """Open something, if necessary with some of the reserved disk space; never bypass the log."""
        try:
            return open_it()
        except DiskFullError:
            if not self.reserve.give(OPENING_BYTES):
                raise
            try:
                return open_it()
            finally:
                self.reserve.make()  # reclaim the rest at once: no save may use it

    def compartment(self, agent: str, level: Level) -> Path:
        return _compartment(self._home, agent, level)

    def owns_path(self, path: Path) -> bool:
        """Return whether a path is in the home, is one of its files under another name, or leads there."""
        real = Path(os.path.realpath(path))
        named = Path(os.path.realpath(path.parent)) / path.name  # for a link: the link itself
        if any(_is_same(self._home, each) for file in (real, named) for each in (file, *file.parents)):
            return True
        own = (each for each in self._home.rglob("*") if each.is_file())  # P17: by hard links, and links out of it
        return any(_is_same(each, real) for each in own)

    def agents(self) -> list[str]:
        """Return the agents whose compartments exist, by name, and those whose folder cannot be read (P6)."""
        folder = self._home / "agents"
        try:
            names = sorted(entry.name for entry in folder.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise os_error(error, _UNREADABLE) from None
        return [name for name in names if self._may_have_compartments(name)]

    def _may_have_compartments(self, agent: str) -> bool:
        try:
            return self.has_compartments(agent)
        except StorageError:
            return True

    def has_compartments(self, agent: str) -> bool:
        """Return whether the agent's files exist, or existed.

        A kill during their creation leaves some of them, and a mark: then the rest are created, since nothing is used
        before all exist. Without the mark a missing file is a loss: it is never replaced, and every view that includes
        it fails. This opens no file, since some are above the caller (P5).
        """
        there = [exists(self.compartment(agent, level)) for level in Level]
        return all(there) or (any(there) and not exists(self._making(agent)))

    def settle_making(self, agent: str) -> None:
        """Remove a mark that a kill left after the last file was created: a file lost later was in use."""
        if exists(self._making(agent)) and all(exists(self.compartment(agent, level)) for level in Level):
            self.end_making(agent)

    def end_making(self, agent: str) -> None:
        """Remove the mark that the agent's files are being created. Raises: StorageError."""
        try:
            self._making(agent).unlink(missing_ok=True)
        except OSError:
            raise StorageError(
                "home: cannot be written; check its permissions and free space, and run it again"
            ) from None

    def make_compartments(self, agent: str, ids: Mapping[Level, str]) -> None:
        """Create all four files, each complete as soon as it exists. Another process may do so at the same time.

        The mark that they are being created exists from before the first until after the last. Once all exist it means
        nothing: a process that was overtaken may leave it.

        The control store's file comes first: if it is missing beside compartments, it was lost.
        """
        self.make_control()
        if not any(exists(self.compartment(agent, level)) for level in Level):
            self.begin_making(agent)
        for level in Level:
            identity = (agent, level.name, ids[level], ANALYSIS_VERSION)
            self._make(self.compartment(agent, level), COMPARTMENT, identity)
        self.end_making(agent)

    def make_control(self) -> None:
        """Create the control store's file. Raises: StorageError when it was lost, and the taints with it (P4, P17)."""
        if not self.has_control():
            self._make(self.control, CONTROL, ())
            self.reserve.make_first()

    def has_control(self) -> bool:
        """Return whether the control store's file exists. Raises: StorageError when only compartments do."""
        if exists(self.control):
            return True
        if self.agents() and not exists(self.control):
            raise StorageError("control.db is missing, with all sessions; run `tidegate doctor`")
        return False

    def _making(self, agent: str) -> Path:
        return self._home / "agents" / agent / MAKING

    def begin_making(self, agent: str) -> None:
        mark = self._making(agent)
        try:
            _make_folder(mark.parent)
            os.close(os.open(mark, os.O_CREAT | os.O_WRONLY, FILE_MODE))
            sync_folder(mark.parent)
        except OSError as error:
            raise os_error(error, UNWRITABLE) from None

    def _make(self, path: Path, script: str, bindings: tuple[str | int, ...]) -> None:
        if exists(path):
            return
        new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
        try:
            _make_folder(path.parent)
            # Created before SQLite opens it, so that no other user can ever read it; -wal and -shm get the same mode.
            os.close(os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE))
            with driver_errors(new):
                create_file(new, script, bindings)
            _publish(new, path)
        except OSError as error:
            raise os_error(error, UNWRITABLE) from None
        finally:
            for suffix in ("", "-wal", "-shm"):
                new.with_name(new.name + suffix).unlink(missing_ok=True)


@lru_cache(maxsize=1024)  # every view asks for the paths of its files
def _compartment(home: Path, agent: str, level: Level) -> Path:
    return home / "agents" / agent / f"{level.name.lower()}.db"


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
    except OSError as error:
        raise os_error(error, _UNREADABLE) from None


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """Which file has a name. An open file without its name is lost: writes to it are never read."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """Return the identity of the file with this name. Raises: StorageError when it is missing or empty."""
        try:
            found = path.stat()
        except FileNotFoundError:
            raise StorageError("a database is missing; run `tidegate doctor`") from None
        except OSError as error:
            raise os_error(error, _UNREADABLE) from None
        if found.st_size == 0:  # SQLite would treat it as new and discard its log
            raise StorageError("a database is damaged: its file is empty; run `tidegate doctor`")
        return cls(path, found.st_dev, found.st_ino)

    @classmethod
    def of_log(cls, path: Path) -> Self | None:
        """Return the identity of an open database's write-ahead log; None without a log, as in a read-only folder."""
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
    """Open a compartment's file, confined; its agent and level must match its name (P17).

    Only the control store knows whether it is the file that belongs there.
    """
    with _opened(path, COMPARTMENT_VERSION, migrate, writable=writable, synchronous=synchronous) as connection:
        if connection.execute("SELECT agent, level FROM compartment").fetchall() != [(agent, level.name)]:
            raise not_its_own()
        confine(connection, writable=writable)
        return connection


def open_audit(path: Path, agent: str, level: Level) -> SqliteConnection:
    """Open a compartment's file to read only the audit. The last connection to close removes the log.

    So a read from below leaves no file in a folder that the next process may be unable to write.
    """
    connection = open_compartment(path, agent, level, writable=True, synchronous="NORMAL")
    confine(connection, writable=False, table="audit")
    return connection


def open_whole(path: Path) -> SqliteConnection:
    """Open a compartment's file without confining the connection, to set its id."""
    with _opened(path, COMPARTMENT_VERSION, migrate, writable=True, synchronous="FULL") as connection:
        return connection


def open_control(path: Path, *, writable: bool) -> SqliteConnection:
    """Open the control store's file, confined. A reader that closes last removes the log too."""
    with _opened(path, CONTROL_VERSION, migrate_control, writable=True, synchronous="FULL") as connection:
        confine(connection, writable=writable)
        return connection


@contextmanager
def _opened(
    path: Path, version: int, update: Callable[[Path], None], *, writable: bool, synchronous: str
) -> Iterator[SqliteConnection]:
    """Open a file of our schema, migrated if necessary; close it if the next steps fail."""
    FileIdentity.of(path)
    with driver_errors(path):
        connection = open_file(path, writable=writable, synchronous=synchronous)
        try:
            if _is_earlier(connection, version):
                connection.close()
                update(path)
                connection = open_file(path, writable=writable, synchronous=synchronous)
            connection.schema = version
            yield connection
        except BaseException:
            close(connection)
            raise


def _is_earlier(connection: SqliteConnection, version: int) -> bool:
    found = schema_version(connection)
    if found <= 0:
        raise StorageError("a database is damaged: its file is empty; run `tidegate doctor`")
    if found > version:
        raise newer()
    return found < version


def _publish(new: Path, path: Path) -> None:
    """Give a finished file its name, unless another process was first; the folder entry survives power loss."""
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
