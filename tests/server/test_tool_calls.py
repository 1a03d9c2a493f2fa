"""The labels of the memory tools' results: the level at the release, and whose words they are."""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
import pytest

from tidegate.audit.chain import Action
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.record import Origin
from tidegate.server.served_session import ServedSession
from tidegate.server.tool_calls import MemoryTools
from tidegate.session import Session
from tidegate.store import Store

AGENT = "assistant"


def call(session: Session, name: str, **arguments: Any) -> types.CallToolResult:
    return asyncio.run(MemoryTools(ServedSession(lambda: session)).call(name, arguments))


def label(level: str, integrity: str = "untrusted") -> dict[str, object]:
    confidentiality = "public" if level == "PUBLIC" else "private"
    return {"com.tidegate/level": level, "ifc": {"integrity": integrity, "confidentiality": confidentiality}}


@pytest.mark.parametrize("level", Level)
def test_every_result_says_the_sessions_level(store: Store, level: Level) -> None:
    session = store.session(AGENT, level=level)
    for name, arguments in (
        ("memory_save", {"key": "k", "content": "x"}),
        ("memory_get", {"key": "k"}),
        ("memory_search", {"query": "x"}),
        ("memory_list", {}),
        ("memory_delete", {"key": "k"}),
        ("memory_get", {}),
        ("nobody_knows", {}),
    ):
        assert call(session, name, **arguments).meta == label(str(level)), name


def test_the_level_is_that_of_the_session_and_not_of_the_memory(store: Store) -> None:
    store.session(AGENT).memory.save("k", "x")
    assert call(store.session(AGENT, level=Level.INTERNAL), "memory_get", key="k").meta == label("INTERNAL")


@pytest.mark.parametrize("origin", Origin)
def test_p18_a_result_is_trusted_only_if_it_is_the_owners(store: Store, session: Session, origin: Origin) -> None:
    store.session(AGENT, origin=origin).memory.save("k", "x")
    integrity = "trusted" if origin is Origin.OWNER else "untrusted"
    for name, arguments in (("memory_get", {"key": "k"}), ("memory_search", {"query": "x"}), ("memory_list", {})):
        assert call(session, name, **arguments).meta == label("PUBLIC", integrity), name


@pytest.mark.parametrize("origin", [Origin.AGENT, Origin.TOOL, Origin.IMPORT])
def test_p18_one_memory_of_another_makes_the_whole_result_untrusted(
    store: Store, session: Session, origin: Origin
) -> None:
    store.session(AGENT, origin=Origin.OWNER).memory.save("a", "x")
    store.session(AGENT, origin=origin).memory.save("b", "x")
    assert call(session, "memory_list").meta == label("PUBLIC")
    assert call(session, "memory_list", limit=1).meta == label("PUBLIC", "trusted")


def test_p18_what_holds_no_memory_is_not_the_owners(store: Store, session: Session) -> None:
    store.session(AGENT, origin=Origin.OWNER).memory.save("k", "x")
    for name, arguments in (
        ("memory_get", {"key": "other"}),
        ("memory_search", {"query": "other"}),
        ("memory_save", {"key": "k", "content": "y"}),
        ("memory_delete", {"key": "other"}),
    ):
        assert call(session, name, **arguments).meta == label("PUBLIC"), name


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [("memory_get", {"key": "first"}), ("memory_search", {"query": "x"}), ("memory_list", {})],
)
def test_p18_a_copy_of_what_was_read_is_no_more_trusted_than_it(
    store: Store, session: Session, origin: Origin, name: str, arguments: dict[str, Any]
) -> None:
    store.session(AGENT, origin=origin).memory.save("first", "x")
    tools = MemoryTools(ServedSession(lambda: session))
    for called, given in ((name, arguments), ("memory_save", {"key": "copy", "content": "x"})):
        asyncio.run(tools.call(called, given))
    copy = session.memory.get("copy")
    assert copy is not None
    assert copy.origin is (origin if origin.from_outside else Origin.AGENT)


def test_an_error_without_a_session_has_no_label() -> None:
    def opener() -> Session:
        raise StorageError("the store is busy; try again")

    answer = asyncio.run(MemoryTools(ServedSession(opener)).call("memory_list", {}))
    assert (answer.is_error, answer.meta) == (True, None)


def test_p7_an_error_of_an_ended_session_has_no_label_and_is_entered_once(store: Store, session: Session) -> None:
    store.sessions.reset(session.id)
    tools = MemoryTools(ServedSession(lambda: session))
    assert asyncio.run(tools.call("memory_list", {})).meta is None
    with store._provider.view(AGENT, Level.PUBLIC) as view:
        actions = [entry.event.action for entry in view.visible[0].entries()]
    assert actions.count(Action.REFUSE) == 1


def test_p7_a_result_is_not_released_if_the_session_ends_before_its_label_is_known(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = session.call_tool

    def ending(*given: Any) -> dict[str, object]:
        result = real(*given)
        store.sessions.reset(session.id)
        return result

    monkeypatch.setattr(session, "call_tool", ending)
    answer = call(session, "memory_save", key="k", content="x")
    assert answer.is_error
    assert answer.structured_content["error"]["message"].startswith("session ended")


def test_an_error_whose_level_cannot_be_read_is_answered_without_a_label(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> Level:
        raise StorageError("the store is busy; try again")

    monkeypatch.setattr(Session, "taint", property(fail))
    answer = call(session, "memory_get")
    assert answer.structured_content["error"]["code"] == "INVALID_ARGUMENT"
    assert answer.meta is None
