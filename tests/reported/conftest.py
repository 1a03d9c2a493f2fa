"""A session with the tools on it, and a clock that ticks a second at each look."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

import pytest

from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.base import StorageProvider
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

START = datetime(2030, 1, 1, tzinfo=UTC)


@contextmanager
def ticking(provider: StorageProvider) -> Iterator[Store]:
    seconds, numbers = count(), count()
    with Store(
        provider,
        toolset=TOOLS,
        clock=lambda: START + timedelta(seconds=next(seconds)),
        ids=lambda: f"{next(numbers):032x}",
        default_level=Level.PUBLIC,
    ) as store:
        yield store


@pytest.fixture
def store() -> Iterator[Store]:
    with ticking(InMemoryProvider()) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("assistant", "main")


@pytest.fixture(params=["inmemory", "sqlite"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Session]:
    """A session of each provider in turn, where both must answer alike to what their engines might read."""
    sqlite = request.param == "sqlite"
    with ticking(SqliteProvider(tmp_path / "home", durability="normal") if sqlite else InMemoryProvider()) as store:
        yield store.session("assistant", "main")
