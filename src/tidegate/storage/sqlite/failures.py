"""What fails in the driver or the file system, as errors that a caller may see: no engine text, no SQL, no path (P12).

Only what nothing else explains is called damage: a check that cannot run proves nothing about a file.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import apsw

from tidegate.errors import StorageError
from tidegate.files import REASONS

DriverError = apsw.Error

PATH_BYTES_MAX = 512
"""The longest path of a file that SQLite opens on any platform."""

_DAMAGED = "a database is damaged; run `tidegate doctor`"
_BUSY = "the store is busy; try again"
_SPARE_BYTES = 64 * 1024
"""Less free space than this is none: a log's shared memory alone takes 32 KiB."""
_DESCRIPTORS = 3
"""How many files SQLite opens for one database."""


class UnavailableError(StorageError):
    """The machine lacks something just now, for whatever file: the same call may work later."""


class DiskFullError(UnavailableError):
    """The disk is full: the same call may work when there is space."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a file cannot be used, though it may be sound.

    advice: what helps, without destroying anything. kind: of the error. more: advice for callers other than the doctor.
    """

    reason: str
    advice: str
    kind: type[StorageError] = StorageError
    more: str = ""

    def error(self) -> StorageError:
        """Return the error for a caller."""
        return self.kind(f"{self.reason}; nothing was changed; {self.advice}{self.more}")


_FULL = Obstacle(REASONS[errno.ENOSPC], "free some space", DiskFullError, ", or run `tidegate purge --older-than AGE`")
_READ_ONLY = Obstacle("the home is read-only", "check its permissions")
_FORBIDDEN = Obstacle("this user may not use a file or folder of the home", "check the permissions")
_TOO_LONG = Obstacle("the path of the home is too long", "move the home to a shorter path", UnavailableError)
_TOO_MANY = Obstacle(REASONS[errno.EMFILE], "end other programs, or raise `ulimit -n`", UnavailableError)
_NO_MEMORY = Obstacle(REASONS[errno.ENOMEM], "end other programs", UnavailableError)
_FAILED = Obstacle(REASONS[errno.EIO], "check the disk", more=", and run `tidegate doctor`")

_BY_NUMBER = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.ENAMETOOLONG: _TOO_LONG,
    errno.EMFILE: _TOO_MANY,
    errno.ENFILE: _TOO_MANY,
    errno.ENOMEM: _NO_MEMORY,
    errno.EIO: _FAILED,
}


def obstacle(error: Exception, path: Path | None = None) -> Obstacle | None:
    """Return what was in the way; None if nothing is known but that the file may be damaged.

    error: of the driver, or of the file system. path: of the database, to look for the cause.
    """
    if isinstance(error, OSError):
        return _BY_NUMBER.get(error.errno or 0)
    if isinstance(error, apsw.FullError) or getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_SHMSIZE:
        return _FULL  # the second: for the log's shared memory, which every read needs
    if isinstance(error, MemoryError | apsw.NoMemError):
        return _NO_MEMORY
    if isinstance(error, apsw.ReadOnlyError):
        return _READ_ONLY
    if not isinstance(error, apsw.IOError | apsw.CantOpenError | apsw.PermissionsError):
        return None
    found = None if path is None else _look_around(path)
    return found or (_FAILED if isinstance(error, apsw.IOError) else None)


def _look_around(path: Path) -> Obstacle | None:
    """Return why no file could be opened or extended at this place, whatever is in it."""
    if len(os.fsencode(path)) + len("-journal") > PATH_BYTES_MAX:
        return _TOO_LONG
    descriptors: list[int] = []
    try:
        disk = os.statvfs(path.parent)
        if disk.f_bavail * disk.f_frsize < _SPARE_BYTES or (disk.f_files and not disk.f_favail):
            return _FULL
        for _ in range(_DESCRIPTORS):
            descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return None if os.access(path.parent, os.W_OK) else _FORBIDDEN
    except OSError as error:
        return obstacle(error)
    finally:
        for each in descriptors:
            os.close(each)


def storage_error(error: Exception, path: Path | None = None) -> StorageError:
    """Return the error that a caller may see. path: of the database, to look for the cause."""
    if is_busy(error):
        return StorageError(_BUSY)
    if (found := obstacle(error, path)) is not None:
        return found.error()
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return damaged()
    if isinstance(error, apsw.CantOpenError):
        return StorageError("a database cannot be opened; check the permissions of the home, or run `tidegate doctor`")
    return StorageError("the store failed; nothing was changed; run `tidegate doctor`")


def os_error(error: OSError, otherwise: str) -> StorageError:
    """Return the error for a file of the home. otherwise: its text, if only the permissions can be the cause."""
    found = obstacle(error)
    return StorageError(otherwise) if found in (None, _FORBIDDEN) else found.error()


def is_busy(error: Exception) -> bool:
    """Return whether others were in the way: the same call may work later."""
    return isinstance(error, apsw.BusyError | apsw.LockedError | apsw.ProtocolError)


def is_full(error: Exception, path: Path) -> bool:
    """Return whether the disk was full: for a page, or for the log's shared memory, which every read needs."""
    return obstacle(error, path) is _FULL


def is_cut_short(report: str) -> bool:
    """Return whether an integrity check could not read the file: then what it reports proves no damage."""
    codes = [int(code) & 0xFF for code in re.findall(r"error code=(\d+)", report)]
    return bool(codes) and apsw.SQLITE_CORRUPT not in codes


def damaged() -> StorageError:
    """Return the error for file content that this program cannot have written."""
    return StorageError(_DAMAGED)


def newer() -> StorageError:
    """Return the error for a file whose schema this program does not know."""
    return StorageError("a newer version of Tidegate wrote this home; upgrade Tidegate to open it")


@contextmanager
def driver_errors(path: Path | None = None) -> Iterator[None]:
    """Turn any error of the driver inside into a `StorageError`. path: of the database, to look for the cause."""
    try:
        yield
    except (apsw.Error, MemoryError) as error:
        raise storage_error(error, path) from None
