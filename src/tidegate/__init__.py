"""Tidegate: persistent memory for AI agents that cannot leak downward."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tidegate.core.session import Session
from tidegate.core.store import Store, fresh_id, utc_now
from tidegate.domain.memory import Deleted, Hit, Hits, Memory, Page, Saved, Status
from tidegate.domain.record import Origin
from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError, TidegateError
from tidegate.policy.levels import Level

__all__ = [
    "Deleted",
    "Hit",
    "Hits",
    "InvalidArgument",
    "Level",
    "LimitExceeded",
    "Memory",
    "NotFound",
    "Origin",
    "Page",
    "Refused",
    "Saved",
    "Session",
    "Status",
    "StorageError",
    "Store",
    "TidegateError",
    "open",
]


def open(
    home: str | Path | None = None,
    *,
    clock: Callable[[], datetime] = utc_now,
    ids: Callable[[], str] = fresh_id,
) -> Store:
    """The store in a folder, made when something is first saved; by default in `$TIDEGATE_HOME` or the user's data folder.

    clock: gives the time, aware. ids: gives a fresh string at each call; ids and nonces come from it.
    Raises: InvalidArgument (home, settings), StorageError.
    """
    from tidegate import home as homes
    from tidegate.storage.sqlite import SqliteProvider
    from tidegate.tools import TOOLS

    folder = homes.find(home)
    settings = homes.load(folder)
    provider = SqliteProvider(folder, durability=settings.durability, secret=settings.audit_secret())
    return Store(
        provider, toolset=TOOLS, clock=clock, ids=ids, limits=settings.limits, audit_reads=settings.audit_reads
    )
