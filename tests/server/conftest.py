"""A store in memory, with the tools on it, and a session: what the tests of the server connect to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import TOOLS


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(InMemoryProvider(), toolset=TOOLS, default_level=Level.PUBLIC) as store:
        yield store


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("assistant", "main")
