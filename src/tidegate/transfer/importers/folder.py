"""A folder of Markdown notes, walked without leaving it: no link is followed, nothing hidden or installed is read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tidegate.errors import InvalidArgument
from tidegate.files import decoded
from tidegate.transfer.importers.markdown import SUFFIXES, read_note
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

_INSTALLED = frozenset({"node_modules", "site-packages", "venv"})  # what a program put there, and nobody noted
NOTE_BYTES_MAX = 16 * 1024 * 1024


def read_folder(folder: Path) -> Iterator[RawMemory | Rejected]:
    """The notes of a folder and those below it, in the order of their names. Raises: InvalidArgument."""
    try:
        yield from _walk(os.path.realpath(folder))  # the folder that was named may be a link; none in it is followed
    except OSError:
        raise InvalidArgument("file: a folder cannot be read; nothing was changed", argument="file") from None


def _walk(folder: str) -> Iterator[RawMemory | Rejected]:
    # By descriptor: a folder that is renamed or replaced by a link meanwhile is still the one that was entered.
    for place, below, names, descriptor in os.fwalk(folder, follow_symlinks=False, onerror=_fail):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _INSTALLED)
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in sorted(names):
            if name.lower().endswith(SUFFIXES) and not name.startswith("."):
                yield _note(name if relative == "." else f"{relative}/{name}", name, descriptor)


def _note(path: str, name: str, folder: int) -> RawMemory | Rejected:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Rejected(path, "is not a plain file")
            if status.st_size > NOTE_BYTES_MAX:
                return Rejected(path, f"is longer than {NOTE_BYTES_MAX} bytes")
            return read_note(path, path, decoded(file.read()), status.st_mtime)
    except OSError as error:
        link = error.errno == errno.ELOOP
        return Rejected(path, "is a link, and links are not followed" if link else "cannot be read")
    except InvalidArgument:
        return Rejected(path, "is neither UTF-8 nor UTF-16")


def _fail(error: OSError) -> None:
    raise error
