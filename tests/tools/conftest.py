"""A store in memory, with the tools on it and a clock that ticks a second at each look."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.reported.conftest import ticking

from tidegate.session import Session
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store


@pytest.fixture
def store() -> Iterator[Store]:
    with ticking(InMemoryProvider()) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("assistant", "main")
