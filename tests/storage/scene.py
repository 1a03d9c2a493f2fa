"""What the storage tests share: drafts, stores with a clock and ids of their own, the bytes of a home."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from tidegate.audit.chain import Action, AuditEvent, Place, version_event
from tidegate.policy.levels import Level
from tidegate.records.record import Draft, Origin, RecordKind
from tidegate.search.analysis import Columns, analyse
from tidegate.storage.base import Compartment
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

START = datetime(2030, 1, 1, tzinfo=UTC)
DEEP = bool(os.environ.get("TIDEGATE_TEST_DEEP") or os.environ.get("TIDEGATE_DEEP"))
"""Whether loops run as long as they are worth: `make test-deep`."""


def ticking(start: datetime = START) -> Callable[[], datetime]:
    """A clock that goes on by a second at each look."""
    seconds = count()
    return lambda: start + timedelta(seconds=next(seconds))


def numbered(prefix: str = "") -> Callable[[], str]:
    """Ids in order."""
    numbers = count()
    return lambda: f"{prefix}{next(numbers):032x}"


def opened(home: Path, *, prefix: str = "", **settings: object) -> Store:
    """A store on a home, with a clock and ids of its own."""
    provider = SqliteProvider(home, **settings)  # type: ignore[arg-type]
    return Store(provider, toolset=TOOLS, clock=ticking(), ids=numbered(prefix), default_level=Level.PUBLIC)


def draft(key: str, content: str = "some words", tags: Iterable[str] = (), *, version: int = 1, at: int = 0) -> Draft:
    """A version of a memory, saved `at` seconds after the start."""
    time = START + timedelta(seconds=at)
    return Draft(
        kind=RecordKind.MEMORY,
        key=key,
        content=content,
        tags=tuple(sorted(tags)),
        origin=Origin.AGENT,
        version=version,
        nonce=f"nonce of {key} {version}",
        created_at=time,
        updated_at=time,
    )


def columns_of(version: Draft) -> Columns:
    """What the index holds of a version."""
    return analyse(version.key, version.tags, version.content)


def event_of(place: Place, version: Draft, action: Action = Action.SAVE) -> AuditEvent:
    """The entry that a change of a version makes."""
    return version_event(place, version.updated_at, "session", action, version)


def put(compartment: Compartment, *versions: Draft) -> None:
    """Store versions with their entries, in one transaction."""
    with compartment.transaction():
        for version in versions:
            compartment.put(version, columns_of(version))
            compartment.append(event_of(compartment.place, version))


def database(home: Path, level: Level = Level.PUBLIC, agent: str = "assistant") -> Path:
    """Where a compartment's file lies."""
    return home / "agents" / agent / f"{level.name.lower()}.db"


def raw(path: Path, *statements: str, bindings: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """What plain SQL answers, by way of another SQLite than the program's."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        rows: list[tuple[object, ...]] = []
        for statement in statements:
            rows = connection.execute(statement, bindings).fetchall()
        return rows


def bytes_of(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, by its path there."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}
