"""The level of a session for which none was given: chosen once, when it is made, and never for one that exists."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.yardstick.backends import Backend

import tidegate
from tidegate import InvalidArgument, Level, Refused, Store
from tidegate.core import sessions
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.tools import AGENT_TOOLS

AGENT = "assistant"
PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level


@pytest.fixture
def store(backend: Backend) -> Iterator[Store]:
    """A store of which nobody has said at which level its sessions start."""
    backend.erase()
    with Store(backend.provider(), toolset=AGENT_TOOLS) as made:
        yield made


def at(level: Level) -> Store:
    return Store(InMemoryProvider(), toolset=AGENT_TOOLS, default_level=level)


@pytest.mark.parametrize("name", [None, "main"])
def test_what_nobody_gave_a_level_is_internal(store: Store, name: str | None) -> None:
    session = store.session(AGENT, name)
    assert (session.taint, session.ceiling) == (INTERNAL, RESTRICTED)
    assert session.memory.save("k", "c").classification is INTERNAL
    assert store.session(AGENT, level=PUBLIC).memory.get("k") is None


def test_a_store_for_tests_starts_there_too() -> None:
    with tidegate.open_in_memory() as store:
        assert store.session(AGENT).taint is INTERNAL
        assert store.sessions.new(AGENT, "main").taint is INTERNAL


@pytest.mark.parametrize("level", Level)
def test_each_level_can_be_the_default(level: Level) -> None:
    store = at(level)
    assert store.session(AGENT).taint is level
    assert store.session(AGENT, "named").taint is level
    assert store.sessions.new(AGENT, "new").taint is level
    assert [store.session(AGENT, level=given).taint for given in Level] == list(Level)


@pytest.mark.parametrize("level", Level)
def test_p4_a_session_that_exists_is_opened_at_its_taint_whatever_the_default(store: Store, level: Level) -> None:
    store.session(AGENT, "main", level)
    before = len(list(store.owner(AGENT).find_audit_lines(tidegate.AuditFilter())))
    assert store.session(AGENT, "main").taint is level
    assert store.session(AGENT, "main", None).taint is level
    assert len(list(store.owner(AGENT).find_audit_lines(tidegate.AuditFilter()))) == before


def test_a_level_that_is_given_still_raises_one_that_exists(store: Store) -> None:
    store.session(AGENT, "main", PUBLIC)
    assert store.session(AGENT, "main", CONFIDENTIAL).taint is CONFIDENTIAL
    assert store.session(AGENT, "main", INTERNAL).taint is CONFIDENTIAL


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("name", [None, "child"])
def test_p15_a_child_without_a_level_starts_at_its_parents_taint(store: Store, level: Level, name: str | None) -> None:
    parent = store.session(AGENT, level=level)
    assert store.session(AGENT, name, parent=parent).taint is level


def test_p15_a_parent_that_rises_while_its_child_is_opened_takes_the_child_with_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = store.session(AGENT, level=PUBLIC)
    real, overtaking = sessions.starting_level, [CONFIDENTIAL]

    def start(*given: object) -> Level:
        level: Level = real(*given)  # type: ignore[arg-type]
        while overtaking:
            parent.raise_taint(overtaking.pop())
        return level

    monkeypatch.setattr(sessions, "starting_level", start)
    assert store.session(AGENT, parent=parent).taint is CONFIDENTIAL


def test_p15_a_child_that_exists_rises_to_its_parent_alone(store: Store) -> None:
    parent = store.session(AGENT, "parent", PUBLIC)
    child = store.session(AGENT, "child", parent=parent)
    assert store.session(AGENT, "child", parent=parent).taint is PUBLIC
    parent.raise_taint(CONFIDENTIAL)
    assert store.session(AGENT, "child").taint is PUBLIC
    assert store.session(AGENT, "child", parent=parent).taint is CONFIDENTIAL
    assert child.taint is CONFIDENTIAL


@pytest.mark.parametrize("opened", [lambda store: store.session, lambda store: store.sessions.new])
def test_a_default_above_the_ceiling_that_was_given_is_an_error_that_says_what_to_do(
    store: Store, opened: Callable[[Store], Callable[..., object]]
) -> None:
    with pytest.raises(
        InvalidArgument, match=r"^ceiling: is below INTERNAL, .* \(defaults\.level .*; give a level too$"
    ):
        opened(store)(AGENT, "low", ceiling=PUBLIC)
    assert store.sessions.list(AGENT) == []
    assert opened(store)(AGENT, "low", PUBLIC, ceiling=PUBLIC)
    with pytest.raises(Refused, match="would start above its ceiling"):
        opened(store)(AGENT, "high", CONFIDENTIAL, ceiling=PUBLIC)


def test_p16_a_job_that_a_model_makes_is_at_the_taint_of_its_session_and_not_at_the_default(store: Store) -> None:
    for level in Level:
        made = store.session(AGENT, level=level).call_tool(
            "cron_create", {"name": "digest", "schedule": "@daily", "prompt": "Sum up.", "level": "PUBLIC"}
        )
        assert made["classification"] == str(level)
