"""Fixtures of the tests of wake-ups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worker.scene import Scene

from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.storage.sqlite.provider import SqliteProvider


@pytest.fixture(params=["inmemory", "sqlite"])
def scene(request: pytest.FixtureRequest, home: Path) -> Iterator[Scene]:
    """A store with its clock, on each provider."""
    on_disk = request.param == "sqlite"
    made = Scene(home, SqliteProvider(home, durability="normal") if on_disk else InMemoryProvider())
    yield made
    made.store.close()
