"""Room that a home keeps back, so that a full disk can still be read, and be made emptier by its owner."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVE_BYTES = 2 * 1024 * 1024
OPENING_BYTES = 256 * 1024
"""What the memory of the logs of a view and of the control store takes, and some for entries in folders."""


class Reserve:
    """A file of fixed size with nothing in it. It is shortened when there is no other room, and made long again."""

    def __init__(self, home: Path) -> None:
        self._path = home / "reserve"

    def make(self) -> None:
        """Make it as long as it should be, or as there is room for. That there is none is no failure."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                disk, size = os.fstatvfs(descriptor), os.fstat(descriptor).st_size
                wanted = min(RESERVE_BYTES, size + disk.f_bavail * disk.f_frsize)
                os.pwrite(descriptor, bytes(max(0, wanted - size)), size)  # written: a hole keeps no room
            finally:
                os.close(descriptor)

    def give(self, amount: int = RESERVE_BYTES) -> bool:
        """Give up some of the reserve, at most so many bytes; return whether any was there."""
        with suppress(OSError):
            descriptor = os.open(self._path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                size = os.fstat(descriptor).st_size
                os.ftruncate(descriptor, max(0, size - amount))
                return size > 0
            finally:
                os.close(descriptor)
        return False
