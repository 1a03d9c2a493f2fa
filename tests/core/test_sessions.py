"""A session's levels, as the host's own code gives them."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate import InvalidArgument, Level, Store
from tidegate.storage.inmemory import InMemoryProvider
from tidegate.tools import TOOLS

NO_LEVELS = ["PUBLIC", "SECRET", 0, 3, 7, -1, True, 1.5]


@pytest.fixture
def store() -> Store:
    return Store(InMemoryProvider(), toolset=TOOLS)


@pytest.mark.parametrize("value", NO_LEVELS)
@pytest.mark.parametrize("argument", ["level", "ceiling"])
@pytest.mark.parametrize("name", [None, "main"])
def test_what_is_no_level_opens_no_session(store: Store, name: str | None, argument: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{argument}: must be a Level, such as Level\.PUBLIC$"):
        store.session("ada", name, **{argument: value})
    assert store.sessions.list("ada") == []


@pytest.mark.parametrize("value", [*NO_LEVELS, None])
def test_what_is_no_level_raises_no_taint(store: Store, value: Any) -> None:
    session = store.session("ada", "main", Level.INTERNAL)
    with pytest.raises(InvalidArgument, match=r"^level: must be a Level"):
        session.raise_taint(value)
    assert session.taint is Level.INTERNAL
