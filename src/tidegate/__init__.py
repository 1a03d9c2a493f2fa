"""Tidegate: persistent memory for AI agents that cannot leak downward."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path

    from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError, TidegateError
    from tidegate.policy.levels import Level
    from tidegate.records.memory import Deleted, Hit, Hits, Memory, Page, Saved, Status
    from tidegate.records.record import Origin
    from tidegate.session import Session
    from tidegate.store import Store

    __version__: str
else:
    # Loaded when first asked for: `tidegate --help` imports this package and must not wait for the engine.
    _NAMES = {
        "tidegate.session": ("Session",),
        "tidegate.store": ("Store",),
        "tidegate.records.memory": ("Deleted", "Hit", "Hits", "Memory", "Page", "Saved", "Status"),
        "tidegate.records.record": ("Origin",),
        "tidegate.errors": (
            "InvalidArgument",
            "LimitExceeded",
            "NotFound",
            "Refused",
            "StorageError",
            "TidegateError",
        ),
        "tidegate.policy.levels": ("Level",),
    }
    _MODULES = {name: module for module, names in _NAMES.items() for name in names}

    def __getattr__(name: str) -> object:
        value: object
        if name == "__version__":
            value = import_module("importlib.metadata").version("tidegate")
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, "__version__"})


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


def open(  # noqa: A001 - the name of the contract; read `tidegate.open`
    home: str | Path | None = None,
    *,
    clock: Callable[[], datetime] | None = None,
    ids: Callable[[], str] | None = None,
) -> Store:
    """Open the store in a folder, which is made at the first save.

    home: by default $TIDEGATE_HOME, else the user's data folder.
    clock: returns the time, aware; by default the system's. ids: returns a fresh string at each call, from which every
    id and nonce comes; by default random.
    Raises: InvalidArgument (home, settings), StorageError.
    """
    from tidegate.config import home as homes
    from tidegate.storage.base import fresh_id
    from tidegate.storage.sqlite.provider import SqliteProvider
    from tidegate.store import Store, utc_now
    from tidegate.tools import AGENT_TOOLS

    folder = homes.find(home)
    settings = homes.load(folder)
    ids = ids or fresh_id
    provider = SqliteProvider(folder, durability=settings.durability, secret=settings.audit_secret(), ids=ids)
    return Store(
        provider,
        toolset=AGENT_TOOLS,
        clock=clock or utc_now,
        ids=ids,
        limits=settings.limits,
        audit_reads=settings.audit_reads,
        expiry=settings.expiry,
    )
