"""The gate's last look: whatever a verb was given, nothing above the taint and of no other agent leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tidegate import InvalidArgument, Level, Refused, Session, Store
from tidegate.audit.chain import Action
from tidegate.core import memory
from tidegate.core.gate import Act, Answer, SessionHandle
from tidegate.core.variants import NewRecord
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.decisions import PolicyRule
from tidegate.records.memory import Saved
from tidegate.storage.base import View, WritableView
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.tools import AGENT_TOOLS, TOOLS

AGENT = "ada"


class LeakyProvider(InMemoryProvider):
    """A provider whose views reach too far: to every level, or into another agent."""

    reaches: str = AGENT

    @contextmanager
    def view(self, agent: str, taint: Level) -> Iterator[View]:
        with super().view(self.reaches, Level.RESTRICTED) as view:
            yield view

    @contextmanager
    def writable_view(self, agent: str, taint: Level) -> Iterator[WritableView]:
        with super().writable_view(agent, taint) as own, super().view(self.reaches, Level.RESTRICTED) as all_levels:
            yield WritableView((own.own, *all_levels.visible), own.own)


@pytest.fixture
def store() -> Store:
    provider = LeakyProvider()
    store = Store(provider, toolset=TOOLS)
    for agent in (AGENT, "eve"):
        store.session(agent, level=Level.RESTRICTED).memory.save("k", "the secret")
    return store


READS = {
    "get": lambda session: session.memory.get("k"),
    "search": lambda session: session.memory.search("secret"),
    "list": lambda session: session.memory.list().page(),
}


@pytest.mark.parametrize("reaches", [AGENT, "eve"])
@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_p1_p6_a_read_that_saw_too_much_is_refused(
    store: Store, reaches: str, read: Callable[[Session], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeakyProvider, "reaches", reaches)
    with pytest.raises(Refused) as refused:
        read(store.session(AGENT, level=Level.PUBLIC))
    assert refused.value.details == {"rule": "P1"}
    assert "secret" not in str(refused.value.to_dict())


def test_p1_a_write_that_saw_too_much_is_refused_and_undone(store: Store) -> None:
    session = store.session(AGENT, level=Level.PUBLIC)
    session.memory.save("k", "mine")
    with pytest.raises(Refused) as refused:
        session.memory.delete("k")  # its answer would say that a higher variant shows again
    assert refused.value.details == {"rule": "P1"}
    assert [
        line.entry.event.action for line in store.owner(AGENT).find_audit_lines(AuditFilter(level=Level.PUBLIC))
    ] == [
        "save",
        "refuse",
    ]


class RacingSeat(SessionHandle):
    """A handle in which another thread writes down, at the worst moment, where the session stood before."""

    def __setattr__(self, name: str, value: object) -> None:
        super().__setattr__(name, getattr(self, "seen", None) or value if name == "seen" else value)


def overtaken(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """From now on the first save at PUBLIC is overtaken by an act on its session, as of another process."""
    whole, acts = memory.save, [act]

    def save(view: WritableView, by: Act, items: Sequence[NewRecord]) -> Answer[list[Saved]]:
        saved = whole(view, by, items)
        if view.own.level is Level.PUBLIC and acts:
            acts.pop()()
        return saved

    monkeypatch.setattr(memory, "save", save)


def test_p4_a_write_that_a_raise_overtook_is_made_where_the_session_stands_now(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(InMemoryProvider(), toolset=TOOLS)
    session = store.session(AGENT, "main", Level.PUBLIC)
    overtaken(monkeypatch, lambda: store.sessions.raise_taint(session.id, Level.CONFIDENTIAL))
    assert session.memory.save("k", "read in the mail").classification is Level.CONFIDENTIAL
    assert store.session(AGENT, level=Level.PUBLIC).memory.get("k") is None


def test_p7_a_write_that_a_reset_overtook_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(InMemoryProvider(), toolset=TOOLS)
    session = store.session(AGENT, "main", Level.PUBLIC)
    overtaken(monkeypatch, lambda: store.sessions.reset(session.id))
    with pytest.raises(Refused, match="session ended"):
        session.memory.save("k", "said before")
    assert store.session(AGENT, level=Level.PUBLIC).memory.get("k") is None


@pytest.mark.parametrize("call", READS.values(), ids=READS)
def test_p7_what_another_thread_saw_earlier_lets_nothing_out_after_the_end(
    call: Callable[[Session], object],
) -> None:
    store = Store(InMemoryProvider(), toolset=TOOLS)
    session = store.session(AGENT, "main", Level.PUBLIC)
    session.memory.save("k", "the secret")
    session.memory._handle = RacingSeat(session.id, session._handle.seen)
    assert call(session)
    store.sessions.reset(session.id)
    with pytest.raises(Refused) as refused:
        call(session)
    assert refused.value.details == {"rule": "P7"}


def test_an_error_of_a_read_leaves_at_once_where_the_session_still_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Store(InMemoryProvider(), toolset=TOOLS).session(AGENT, level=Level.PUBLIC)
    asked: list[str] = []

    def get(view: View, key: str) -> object:
        asked.append(key)
        raise InvalidArgument("key: no") if len(asked) == 1 else AssertionError("asked again")

    monkeypatch.setattr(memory, "get", get)
    with pytest.raises(InvalidArgument):
        session.memory.get("k")


def test_p12_a_refusal_is_entered_with_a_name_of_ours_and_none_of_the_models() -> None:
    store = Store(InMemoryProvider(), toolset=TOOLS)
    session = store.session(AGENT, "main", Level.PUBLIC)
    with pytest.raises(Refused, match="unknown tool: use only the listed tools"):
        session.call_tool("the-secret", {})
    session.end()
    with pytest.raises(Refused, match="session ended"):
        session.memory.get("k")
    refused = store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.REFUSE]))
    assert [line.entry.event.detail for line in refused] == ["unknown tool P17", "memory_get P7"]


ARGUMENTS: dict[str, dict[str, object]] = {
    "memory_get": {"key": "k"},
    "memory_list": {},
    "memory_search": {"query": "secret"},
    "todo_read": {},
    "cron_list": {},
}
"""What each tool that only reads is called with."""


@pytest.fixture
def session() -> Session:
    return Store(InMemoryProvider(), toolset=AGENT_TOOLS).session(AGENT, "main", Level.PUBLIC)


@pytest.fixture
def looks(session: Session, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every look-up of a session from now on."""
    found, read = list[str](), session._sessions.read

    def look(id_: str) -> object:
        found.append(id_)
        return read(id_)

    monkeypatch.setattr(session._sessions, "read", look)
    return found


def refusals(session: Session) -> list[str]:
    store = session._gate._audit_log._provider
    with store.view(AGENT, Level.PUBLIC) as view:
        events = [entry.event for entry in view.visible[0].entries()]
    return [event.detail for event in events if event.action == Action.REFUSE]


def test_the_tools_that_only_read_are_these() -> None:
    assert {name for name, tool in AGENT_TOOLS.items() if tool.read_only} == set(ARGUMENTS)


@pytest.mark.parametrize("tool", ARGUMENTS)
def test_a_call_of_a_tool_that_only_reads_looks_its_session_up_once(
    session: Session, looks: list[str], tool: str
) -> None:
    session.call_tool(tool, ARGUMENTS[tool])
    assert looks == [session.id]


@pytest.mark.parametrize("arguments", [None, {"nothing": 1}, "no object", {"level": "RESTRICTED"}])
@pytest.mark.parametrize("tool", AGENT_TOOLS)
def test_p7_whatever_an_ended_session_calls_is_refused_once_and_entered_once(
    session: Session, tool: str, arguments: object
) -> None:
    session.memory.save("k", "the secret")
    session.end()
    sent = ARGUMENTS.get(tool) if arguments is None else arguments
    with pytest.raises(Refused) as refused:
        session.call_tool(tool, sent)  # type: ignore[arg-type]
    assert refused.value.rule is PolicyRule.P7
    assert refusals(session) == [f"{tool} P7"]


def test_p7_a_tool_that_reads_nothing_does_not_answer_an_ended_session() -> None:
    tool = replace(AGENT_TOOLS["todo_read"], work=lambda *_: {"todos": []})
    session = Store(InMemoryProvider(), toolset={"todo_read": tool}).session(AGENT, "main", Level.PUBLIC)
    assert session.call_tool("todo_read") == {"todos": []}
    session.end()
    with pytest.raises(Refused, match="session ended"):
        session.call_tool("todo_read")
    assert refusals(session) == ["todo_read P7"]


@pytest.mark.parametrize("audit_reads", [False, True])
def test_reads_are_entered_if_the_owner_asks_for_it_and_only_then(audit_reads: bool) -> None:
    store = Store(InMemoryProvider(), toolset=TOOLS, audit_reads=audit_reads)
    session = store.session(AGENT, level=Level.PUBLIC)
    session.memory.save("k", "content")
    for read in READS.values():
        read(session)
    session.call_tool("memory_get", {"key": "k"})
    lines = store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.READ]))
    reads = ["memory_get", "memory_search", "memory_list", "memory_get"]
    assert [line.entry.event.detail for line in lines] == (reads if audit_reads else [])
