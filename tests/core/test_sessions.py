"""Sessions that are opened again, and raises that come between."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread
from typing import Any, NoReturn

import pytest
from tests.core.scene import AGENT, Scene
from tests.yardstick.backends import BACKENDS

import tidegate
from tidegate import InvalidArgument, Level, NotFound, Refused, StorageError
from tidegate.audit.chain import Action
from tidegate.core import memory
from tidegate.core.audit_log import Chain
from tidegate.core.gate import Answer
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.rules import CHILD_DEPTH_MAX
from tidegate.policy.servers import Classification, Pin
from tidegate.session import Session
from tidegate.storage.base import View
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory import control_store as inmemory_control
from tidegate.storage.inmemory.provider import InMemoryProvider


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(InMemoryProvider(), tmp_path)


def test_p15_a_session_that_exists_keeps_its_ceiling_and_its_parent(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main")
    scene.store.session(AGENT, "child", parent=parent)
    with pytest.raises(InvalidArgument, match="ceiling"):
        scene.store.session(AGENT, "main", ceiling=Level.INTERNAL)
    with pytest.raises(InvalidArgument, match="parent"):
        scene.store.session(AGENT, "child", parent=scene.store.session(AGENT))
    assert scene.store.session(AGENT, "child", parent=parent).taint is Level.PUBLIC


def test_a_session_is_shown_by_whose_it_is_and_where_it_stands(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    assert repr(session) == "<Session agent='assistant' name='main' taint=PUBLIC>"
    session.raise_taint(Level.INTERNAL)
    assert repr(session) == "<Session agent='assistant' name='main' taint=INTERNAL>"
    session.end()
    entries = list(scene.store.owner(AGENT).find_audit_lines())
    assert repr(session) == "<Session agent='assistant' name='main' ended>"
    assert list(scene.store.owner(AGENT).find_audit_lines()) == entries


def test_a_session_of_a_closed_store_is_shown_too(home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main")
    assert repr(session) == "<Session agent='assistant' name='main' unreadable>"


@pytest.mark.parametrize("arguments", ["x", ["key"], 7, b"{}"])
def test_arguments_of_a_tool_that_are_no_object_are_refused_by_name(scene: Scene, arguments: Any) -> None:
    session = scene.store.session(AGENT)
    with pytest.raises(InvalidArgument, match="arguments: must be an object") as caught:
        session.call_tool("memory_save", arguments)
    assert caught.value.details == {"argument": "arguments"}
    with pytest.raises(Refused):  # an unknown tool, whatever it is called with
        session.call_tool("memory_grant", arguments)


@pytest.mark.parametrize("level", ["PUBLIC", 0, None])
def test_the_owners_acts_take_no_word_and_no_number_for_a_level(scene: Scene, level: Any) -> None:
    scene.save("k", "c", Level.PUBLIC)
    session, owner, transfer = scene.store.session(AGENT), scene.store.owner(AGENT), scene.store.transfer(AGENT)
    acts: dict[str, Callable[[], object]] = {
        "ceiling": lambda: scene.store.sessions.set_ceiling(session.id, level),
        "to": lambda: owner.relabel("k", level),
    }
    for argument, act in acts.items():
        with pytest.raises(InvalidArgument) as caught:
            act()
        assert caught.value.details == {"argument": argument}
    without_default = [lambda: transfer.export(level, print), lambda: transfer.import_from("nowhere", level)]
    some_or_all = [
        lambda: owner.history("k", level),
        lambda: scene.store.sessions.new(AGENT, "n", level),
        lambda: scene.store.sessions.new(AGENT, "n", Level.PUBLIC, level),
    ]
    for each in without_default + (some_or_all if level is not None else []):
        with pytest.raises(InvalidArgument, match="must be a Level, such as"):
            each()


def test_p6_a_session_of_another_agent_is_nobodys_parent(scene: Scene) -> None:
    with pytest.raises(InvalidArgument, match="of the same agent"):
        scene.store.session(AGENT, parent=scene.store.session("eve"))


def test_p4_an_error_of_a_read_that_a_raise_overtook_is_not_answered(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = scene.store.session(AGENT, "main")
    scene.save("k", "high", Level.CONFIDENTIAL)
    real = memory.get

    def get(view: View, key: str) -> Answer[object]:
        if view.visible[0].level is Level.PUBLIC:
            scene.store.sessions.raise_taint(session.id, Level.CONFIDENTIAL)
            raise NotFound("nothing is here, as it was a moment ago")
        return real(view, key)

    monkeypatch.setattr(memory, "get", get)
    found = session.memory.get("k")
    assert found is not None
    assert found.content == "high"


def test_p7_an_answer_that_a_reset_overtook_is_not_released(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")
    session.memory.save("k", "said before")
    real = memory.get

    def get(view: View, key: str) -> Answer[object]:
        scene.store.sessions.reset(session.id)
        return real(view, key)

    monkeypatch.setattr(memory, "get", get)
    with pytest.raises(Refused, match="session ended"):
        session.memory.get("k")


@pytest.mark.parametrize(
    ("argument", "wrong"),
    [
        ("agent", {"agent": "../ada"}),
        ("agent", {"agent": "../ada", "name": "main"}),
        ("level", {"level": "PUBLIC"}),
        ("ceiling", {"ceiling": "PUBLIC"}),
        ("name", {"name": ""}),
    ],
)
def test_a_session_is_opened_with_sound_arguments_or_not_at_all(
    scene: Scene, argument: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        scene.store.session(**{"agent": AGENT} | wrong)
    assert refused.value.details["argument"] == argument
    assert scene.store.agents() == []


def test_p4_a_session_that_is_opened_again_rises_to_where_it_is_opened(scene: Scene) -> None:
    scene.store.session(AGENT, "main")
    assert scene.store.session(AGENT, "main", Level.CONFIDENTIAL).taint is Level.CONFIDENTIAL
    assert scene.store.session(AGENT, "main", Level.INTERNAL).taint is Level.CONFIDENTIAL
    with pytest.raises(InvalidArgument, match="level"):
        scene.store.sessions.raise_taint(scene.store.session(AGENT, "main").id, "RESTRICTED")  # type: ignore[arg-type]


def test_whoever_asked_is_told_of_a_raise_until_it_wants_no_more(scene: Scene) -> None:
    session, told = scene.store.session(AGENT), list[Level]()
    scene.store.sessions.on_raise(session.id, told.append)
    session.raise_taint(Level.INTERNAL)
    scene.store.sessions.on_raise(session.id, None)
    assert session.raise_taint(Level.CONFIDENTIAL) is Level.CONFIDENTIAL
    assert told == [Level.INTERNAL]


def test_p6_a_raise_that_fails_takes_no_session_with_it_that_was_opened_meanwhile(scene: Scene) -> None:
    session, opened = scene.store.session(AGENT), list[Session]()
    opening = Thread(target=lambda: opened.append(scene.store.session("neighbour")))

    def fail(_: Level) -> None:
        opening.start()
        opening.join(0.2)
        raise StorageError("the disk is full; nothing was changed")

    scene.store.sessions.on_raise(session.id, fail)
    with pytest.raises(StorageError):
        session.raise_taint(Level.INTERNAL)
    opening.join()
    assert session.taint is Level.PUBLIC
    assert opened[0].taint is Level.PUBLIC


def meanwhile(scene: Scene, patch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, after the next change of a session was judged and before it takes any lock."""
    audit_log = scene.store.sessions._audit_log
    real, acts = audit_log.chain, iter([act])

    def chain(agent: str, level: Level) -> AbstractContextManager[Chain]:
        for each in acts:
            each()
        return real(agent, level)

    patch.setattr(audit_log, "chain", chain)


@pytest.mark.parametrize("name", [None, "main"])
def test_p4_a_raise_that_another_overtook_is_judged_anew_and_entered_as_it_came(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str | None
) -> None:
    session = scene.store.session(AGENT, name)
    meanwhile(scene, monkeypatch, lambda: session.raise_taint(Level.INTERNAL))
    assert session.raise_taint(Level.CONFIDENTIAL) is Level.CONFIDENTIAL
    raises = [
        line.entry.event.detail
        for line in scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RAISE]))
    ]
    assert sorted(raises) == ["INTERNAL to CONFIDENTIAL: ", "PUBLIC to INTERNAL: "]


def test_p7_a_raise_that_a_reset_overtook_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")
    meanwhile(scene, monkeypatch, lambda: scene.store.sessions.reset(session.id))
    with pytest.raises(Refused, match="session ended"):
        session.raise_taint(Level.CONFIDENTIAL)


def test_p15_an_end_that_a_raise_overtook_is_entered_where_the_session_stands_by_then(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = scene.store.session(AGENT, "main")
    meanwhile(scene, monkeypatch, lambda: session.raise_taint(Level.INTERNAL))
    session.end()
    (end,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RESET]))
    assert end.level is Level.INTERNAL


def test_p4_a_call_that_a_raise_overtook_is_judged_anew(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")
    meanwhile(scene, monkeypatch, lambda: session.raise_taint(Level.CONFIDENTIAL))
    with pytest.raises(Refused, match="above what this tool may be told"):
        scene.store.flow.dispatch(
            session.id, "tool", Classification(source=Level.PUBLIC, sink=Level.INTERNAL), Pin.TRUSTED
        )


def test_of_two_that_open_a_session_at_once_the_second_resumes_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: list[Session] = []
    meanwhile(scene, monkeypatch, lambda: first.append(scene.store.session(AGENT, "main")))
    assert scene.store.session(AGENT, "main").id == first[0].id
    meanwhile(scene, monkeypatch, lambda: scene.store.session(AGENT, "new"))
    with pytest.raises(InvalidArgument, match="name"):
        scene.store.sessions.new(AGENT, "new", Level.PUBLIC)


def test_p15_a_child_starts_at_the_taint_to_which_its_parent_was_raised_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    parent = scene.store.session(AGENT, "main")
    meanwhile(scene, monkeypatch, lambda: parent.raise_taint(Level.INTERNAL))
    assert scene.store.session(AGENT, "child", parent=parent).taint is Level.INTERNAL


def test_p7_a_child_does_not_outlive_a_parent_of_which_nothing_is_stored(scene: Scene) -> None:
    scene.store.session(AGENT, "child", parent=scene.store.session(AGENT))
    after_a_restart = Scene(scene.provider, scene.folder).store
    with pytest.raises(Refused, match="session ended"):
        after_a_restart.session(AGENT, "child")


def test_sessions_of_which_nothing_is_stored_leave_nothing_in_memory_but_the_latest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inmemory_control, "ENDED_KEPT_MAX", 2)
    living, *ended = (scene.store.session(AGENT) for _ in range(4))
    for session in ended:
        session.end()
    assert len(scene.store.sessions._ephemeral.sessions(AGENT)) == 3
    assert living.taint is Level.PUBLIC
    for session, words in zip(ended, ("unknown session", "session ended", "session ended"), strict=True):
        with pytest.raises(Refused, match=words):
            session.memory.get("k")


@pytest.mark.parametrize("backend", BACKENDS)
def test_p9_a_reason_that_no_file_can_hold_stops_no_raise(backend: str, tmp_path: Path) -> None:
    home = BACKENDS[backend]()
    scene = Scene(home.provider(), tmp_path)
    session = scene.store.session(AGENT, "main")
    assert session.raise_taint(Level.INTERNAL, reason="read \udcff\0") is Level.INTERNAL
    (raised,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RAISE]))
    assert raised.entry.event.detail == "PUBLIC to INTERNAL: read \\udcff\0"
    scene.store.close()
    home.close()


def test_p15_a_child_that_its_parent_opens_again_rises_to_where_the_parent_stands(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main")
    scene.store.session(AGENT, "child", parent=parent)
    parent.raise_taint(Level.CONFIDENTIAL)
    assert scene.store.session(AGENT, "child", parent=parent).taint is Level.CONFIDENTIAL


def test_p15_a_chain_of_children_ends_at_the_fourth(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    for number in range(CHILD_DEPTH_MAX):
        session = scene.store.session(AGENT, f"child {number}", parent=session)
    with pytest.raises(Refused, match="nested too deeply"):
        scene.store.session(AGENT, "one more", parent=session)


@pytest.mark.parametrize("parents", [{"a": "b", "b": "a"}, {"a": "a"}, {str(n): str(n + 1) for n in range(3000)}])
def test_p17_sessions_that_hang_from_themselves_or_too_deep_have_ended(scene: Scene, parents: dict[str, str]) -> None:
    control = scene.provider.control
    with control.transaction():
        for name, parent in parents.items():
            control.insert(SessionRow(name, AGENT, name, Level.PUBLIC, Level.RESTRICTED, parent))
        control.insert(SessionRow("3000", AGENT, "3000", Level.PUBLIC, Level.RESTRICTED, None))
    first = next(iter(parents))
    with pytest.raises(Refused, match="session ended"):
        scene.store.resume(AGENT, first)
    with pytest.raises(Refused, match="session ended"):
        scene.store.sessions.reset(first)
    with pytest.raises(Refused, match="session ended"):
        scene.store.sessions.set_ceiling(first, Level.INTERNAL)
    living = [row.name for row in scene.store.sessions.list(AGENT) if not row.ended]
    assert living == [str(number) for number in range(2996, 3001) if str(number) in parents or number == 3000]


def test_p15_a_child_stays_under_its_own_ceiling_and_its_parents(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main", ceiling=Level.CONFIDENTIAL)
    child = scene.store.session(AGENT, "child", parent=parent)
    lower = scene.store.session(AGENT, "lower", parent=parent, ceiling=Level.INTERNAL)
    assert (child.ceiling, lower.ceiling) == (Level.CONFIDENTIAL, Level.INTERNAL)
    scene.store.sessions.set_ceiling(parent.id, Level.PUBLIC)
    assert (child.ceiling, lower.ceiling) == (Level.PUBLIC, Level.PUBLIC)
    with pytest.raises(Refused, match="ceiling"):
        child.raise_taint(Level.INTERNAL)


def test_p13_a_session_that_nobody_made_is_unknown(scene: Scene) -> None:
    with pytest.raises(Refused, match="unknown session"):
        scene.store.sessions.living("nobody")
    with pytest.raises(Refused, match="unknown session"):
        scene.store.sessions.raise_taint("nobody", Level.INTERNAL)


def test_p9_what_the_owner_does_with_a_session_is_entered(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", Level.INTERNAL)
    scene.store.sessions.set_ceiling(session.id, Level.CONFIDENTIAL)
    scene.store.sessions.reset(session.id)
    entries = [
        line.entry.event for line in scene.store.owner(AGENT).find_audit_lines(AuditFilter(level=Level.INTERNAL))
    ]
    assert [(event.action, event.detail) for event in entries] == [
        (Action.OPEN, "INTERNAL under RESTRICTED"),
        (Action.CEILING, "RESTRICTED to CONFIDENTIAL"),
        (Action.RESET, ""),
    ]


def test_a_session_that_is_opened_where_it_stands_needs_no_writing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = scene.store.session(AGENT, "main", Level.INTERNAL)

    def transaction() -> NoReturn:
        raise StorageError("nothing can be written")

    monkeypatch.setattr(scene.provider.control, "transaction", transaction)
    assert scene.store.session(AGENT, "main", Level.INTERNAL).id == session.id


def test_p15_a_ceiling_is_not_lowered_under_a_child_that_stands_above_it(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main")
    child = scene.store.session(AGENT, "child", Level.CONFIDENTIAL, parent=parent)
    with pytest.raises(Refused, match="of a child session"):
        scene.store.sessions.set_ceiling(parent.id, Level.INTERNAL)
    child.end()
    with pytest.raises(Refused, match="below the session's taint"):  # which the child's has joined
        scene.store.sessions.set_ceiling(parent.id, Level.INTERNAL)


def test_p15_a_session_under_one_that_has_ended_holds_no_ceiling_up(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main")
    child = scene.store.session(AGENT, "child", parent=parent)
    scene.store.session(AGENT, "of the child", Level.RESTRICTED, parent=child)
    child.end()
    scene.store.sessions.set_ceiling(parent.id, Level.PUBLIC)
    assert parent.ceiling is Level.PUBLIC


def test_p7_an_erased_agent_has_no_session_left_that_could_make_it_anew(scene: Scene) -> None:
    named, ephemeral = scene.store.session(AGENT, "main"), scene.store.session(AGENT, level=Level.CONFIDENTIAL)
    ephemeral.memory.save("k", "kept until now")
    owner = scene.store.owner(AGENT)
    assert owner.erase(dry_run=True).sessions == 2
    assert owner.erase().sessions == 2
    for session in (named, ephemeral):
        with pytest.raises(Refused, match="session ended"):
            session.memory.save("k", "and again")
    assert scene.store.agents() == []


def test_the_id_of_a_name_is_told_also_after_its_end_and_nothing_is_resumed(scene: Scene) -> None:
    sessions = scene.store.sessions
    assert sessions.id_of(AGENT, "main") is None
    row = sessions.new(AGENT, "main", Level.PUBLIC)
    sessions.reset(row.id)
    assert sessions.id_of(AGENT, "main") == row.id
    assert sessions.id_of("another", "main") is None  # P6


def test_p4_a_raise_to_the_same_or_a_lower_level_changes_and_enters_nothing(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", Level.INTERNAL)
    entries = list(scene.store.owner(AGENT).find_audit_lines())
    assert session.raise_taint(Level.INTERNAL) is session.raise_taint(Level.PUBLIC) is Level.INTERNAL
    assert list(scene.store.owner(AGENT).find_audit_lines()) == entries


def test_p7_the_name_of_an_ended_session_is_told_from_that_of_a_living_one(scene: Scene) -> None:
    scene.store.sessions.new(AGENT, "main", Level.PUBLIC)
    with pytest.raises(InvalidArgument, match=r"name: an active session has this name"):
        scene.store.sessions.new(AGENT, "main", Level.PUBLIC)
    scene.store.sessions.reset(scene.store.sessions.find(AGENT, "main").id)
    with pytest.raises(InvalidArgument, match="had this name"):
        scene.store.sessions.new(AGENT, "main", Level.PUBLIC)
