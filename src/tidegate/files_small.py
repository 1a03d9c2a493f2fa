"""Small files that the owner writes: read whole, and neither waited for nor read without end."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_small(path: Path, bytes_max: int) -> bytes:
    """All of a plain file; of one that is larger than `bytes_max`, so much of it that this can be seen.

    Raises: OSError, also for what is no plain file: a pipe would keep its reader waiting, a device never ends.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(bytes_max + 1)
    finally:
        os.close(descriptor)
