"""Fixtures of the tests of core."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.core.scene import Open, Scene, scenes
from tests.yardstick.backends import BACKENDS


@pytest.fixture(params=sorted(BACKENDS))
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens scenes on one provider, each on a home of its own."""
    yield from scenes(request, tmp_path)


@pytest.fixture
def scene(opening: Open) -> Scene:
    """One scene, on each provider in turn."""
    return opening()
