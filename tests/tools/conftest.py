"""A store in memory, with the tools on it and a clock that ticks a second at each look."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from tidegate.session import Session
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

START = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def store() -> Iterator[Store]:
    seconds, numbers = count(), count()
    with Store(
        InMemoryProvider(),
        toolset=TOOLS,
        clock=lambda: START + timedelta(seconds=next(seconds)),
        ids=lambda: f"{next(numbers):032x}",
    ) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("assistant", "main")
