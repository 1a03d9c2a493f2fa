"""Fixtures of the tests of the agent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.scene import Scene


@pytest.fixture
def scene(home: Path) -> Iterator[Scene]:
    """A home, and agents on it."""
    made = Scene(home)
    yield made
    made.store.close()
