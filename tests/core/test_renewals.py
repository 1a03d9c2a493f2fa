"""Renewed names: whoever may hold the old conversation never finds the name under a lower taint (P7)."""

from __future__ import annotations

import pytest
from tests.core.scene import AGENT, Scene

from tidegate.audit.chain import Action
from tidegate.core.audit_log import AuditLog
from tidegate.errors import InvalidArgument, Refused
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store
from tidegate.tools import TOOLS


def started_anew(scene: Scene) -> Store:
    """A store as a process has it that starts now."""
    return Store(scene.provider, toolset=TOOLS)


def resume(store: Store) -> Session:
    return store.resume(AGENT, "main")


def open_it(store: Store) -> Session:
    return store.session(AGENT, "main", Level.PUBLIC)


def make(store: Store) -> object:
    return store.sessions.new(AGENT, "main", Level.PUBLIC)


def test_what_starts_after_a_renewal_begins_a_new_session_of_the_name(scene: Scene) -> None:
    old = scene.store.session(AGENT, "main", Level.CONFIDENTIAL)
    old.conversation.append(["the plan"])
    assert scene.store.sessions.renew(AGENT, "main")
    store = started_anew(scene)
    new = open_it(store)
    assert (new.taint, new.id != old.id) == (Level.PUBLIC, True)
    assert new.conversation.read() == []
    assert [(row.name, row.ended) for row in store.sessions.list(AGENT)] == [(old.id, True), ("main", False)]


@pytest.mark.parametrize("again", [resume, open_it, make])
def test_what_had_looked_the_name_up_is_told_that_it_ended(scene: Scene, again: object) -> None:
    bound = scene.store.session(AGENT, "main", Level.CONFIDENTIAL)
    started_anew(scene).sessions.renew(AGENT, "main")
    open_it(started_anew(scene))
    for _ in range(2):
        with pytest.raises(Refused, match="session ended"):
            again(scene.store)  # type: ignore[operator]
        with pytest.raises(Refused, match="session ended"):
            bound.memory.get("k")


def test_a_name_that_was_renewed_between_the_lookup_and_the_opening_is_not_opened(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Refused):
        resume(scene.store)  # the name is looked up, and no session has it
    other, real = started_anew(scene), AuditLog.chain

    def chain(log: AuditLog, agent: str, level: Level) -> object:
        monkeypatch.setattr(AuditLog, "chain", real)
        open_it(other)
        other.sessions.renew(AGENT, "main")
        return real(log, agent, level)

    monkeypatch.setattr(AuditLog, "chain", chain)
    with pytest.raises(Refused, match="session ended"):
        open_it(scene.store)
    assert [row.ended for row in other.sessions.list(AGENT)] == [True]


def test_an_ended_session_is_renewed_too_and_a_name_again_and_again(scene: Scene) -> None:
    for _ in range(3):
        store = started_anew(scene)
        store.sessions.reset(open_it(store).id)
        assert store.sessions.renew(AGENT, "main")
    assert len(scene.store.sessions.list(AGENT)) == 3


def test_a_renewal_is_entered_in_the_chain_of_the_session_that_ended(scene: Scene) -> None:
    old = scene.store.session(AGENT, "main", Level.CONFIDENTIAL)
    scene.store.sessions.renew(AGENT, "main")
    lines = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RESET, Action.RENEW]))
    assert [(line.level, line.entry.event.session, line.entry.event.action) for line in lines] == [
        (Level.CONFIDENTIAL, old.id, Action.RESET),
        (Level.CONFIDENTIAL, old.id, Action.RENEW),
    ]


def test_of_an_erased_agent_a_name_is_renewed_and_nothing_is_made(scene: Scene) -> None:
    scene.store.session(AGENT, "main", Level.CONFIDENTIAL)
    scene.store.owner(AGENT).erase()
    assert scene.store.sessions.renew(AGENT, "main")
    assert not scene.provider.has(AGENT)
    assert open_it(started_anew(scene)).taint is Level.PUBLIC


def test_of_two_renewals_at_once_one_does_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.store.session(AGENT, "main")
    other, real = started_anew(scene), AuditLog.is_begun

    def is_begun(log: AuditLog, row: object) -> bool:
        monkeypatch.setattr(AuditLog, "is_begun", real)
        other.sessions.renew(AGENT, "main")
        return True

    monkeypatch.setattr(AuditLog, "is_begun", is_begun)
    assert scene.store.sessions.renew(AGENT, "main")
    lines = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RENEW]))
    assert len(list(lines)) == 1
    assert scene.provider.control.renewals_count() == 1


def test_a_child_and_an_unknown_name_are_not_renewed(scene: Scene) -> None:
    scene.store.session(AGENT, "child", parent=scene.store.session(AGENT, "main"))
    with pytest.raises(InvalidArgument, match="name: a child session"):
        scene.store.sessions.renew(AGENT, "child")
    with pytest.raises(Refused, match="unknown session"):
        scene.store.sessions.renew(AGENT, "other")
    assert scene.provider.control.renewals_count() == 0


def test_a_name_is_known_by_itself(scene: Scene) -> None:
    """Or an answer would depend on which other sessions this store has looked up (P5, P6)."""
    open_it(started_anew(scene))
    scene.store.session("other", "main")
    scene.store.session(AGENT, "other")
    started_anew(scene).sessions.renew(AGENT, "main")
    assert open_it(scene.store).taint is Level.PUBLIC


def test_only_renewals_before_a_process_started_count_for_it(scene: Scene) -> None:
    open_it(scene.store)
    scene.store.sessions.renew(AGENT, "main")
    for before, allowed in ((0, False), (1, True)):
        store = started_anew(scene)
        store.sessions.renewals.begin_after(before)
        if allowed:
            assert open_it(store).taint is Level.PUBLIC
        else:
            with pytest.raises(Refused, match="session ended"):
                open_it(store)
