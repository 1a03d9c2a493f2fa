"""Turns: a conversation answers one message at a time, whichever thread or process the next one comes to.

The lock is a file with the session's random id as its name, apart from the store: nobody waits for it but who sends a
message to this very session (P5, P6), and no lock of the store is held meanwhile. If its process is killed, it is gone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tidegate.errors import StorageError

_PAUSE_SECONDS = 0.1


class BusyError(Exception):
    """Another message to the conversation is still being answered."""


@asynccontextmanager
async def turn(
    home: Path, session: str, *, sleep: Callable[[float], Awaitable[None]], seconds: float
) -> AsyncIterator[bool]:
    """Wait for the session's turn, at most so many seconds, and hold it. Yield whether there was another before it.

    Raises: BusyError, StorageError.
    """
    path = home / "turns" / session
    descriptor, waited = _take(path), False
    for _ in range(round(seconds / _PAUSE_SECONDS)):
        if descriptor is not None:
            break
        waited = True
        await sleep(_PAUSE_SECONDS)
        descriptor = _take(path)
    if descriptor is None:
        raise BusyError
    try:
        yield waited
    finally:
        with suppress(OSError):
            path.unlink()  # before it is free: whoever waits for this file sees that it is gone
        os.close(descriptor)


def _take(path: Path) -> int | None:
    """Return the descriptor of the locked file; None if it is taken. Raises: StorageError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        raise StorageError("turns: cannot be written; check the permissions and free space of the home") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:
        return descriptor  # some file systems have no locks
    if _is_at(path, descriptor):
        return descriptor
    os.close(descriptor)  # its last holder has removed it meanwhile
    return None


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
