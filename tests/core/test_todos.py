"""To-dos: one list, gated, shadowed and audited like a memory."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.core.scene import AGENT, Scene

from tidegate import InvalidArgument, Level, LimitExceeded, Refused
from tidegate.audit.chain import Action
from tidegate.owner.audit_query import AuditFilter
from tidegate.records.todo import TODOS_MAX, Todo, TodoState

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
MILK = Todo("buy milk")


def test_a_list_is_empty_before_it_is_written(scene: Scene) -> None:
    assert scene.store.session(AGENT).todos.read() == ()


def test_a_list_is_read_as_it_was_written_and_replaced_whole(scene: Scene) -> None:
    todos = scene.store.session(AGENT).todos
    assert todos.write([MILK, {"content": "call", "state": "done"}]) == (MILK, Todo("call", TodoState.DONE))
    assert todos.read() == (MILK, Todo("call", TodoState.DONE))
    todos.write([{"content": "only this"}])
    assert todos.read() == (Todo("only this"),)
    todos.write([])
    assert todos.read() == ()


def test_the_highest_visible_list_shadows_the_others(scene: Scene) -> None:
    scene.store.session(AGENT).todos.write([MILK])
    scene.store.session(AGENT, level=CONFIDENTIAL).todos.write([Todo("sell the company")])
    assert [todo.content for todo in scene.store.session(AGENT, level=RESTRICTED).todos.read()] == ["sell the company"]
    assert scene.store.session(AGENT, level=INTERNAL).todos.read() == (MILK,)
    assert scene.store.session("other", level=RESTRICTED).todos.read() == ()


def test_a_change_is_entered_in_the_audit_without_its_text(scene: Scene) -> None:
    scene.store.session(AGENT).todos.write([MILK])
    (line,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions={Action.SAVE}))
    assert "milk" not in str(line)


def test_an_ended_session_neither_reads_nor_writes(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    scene.store.sessions.reset(session.id)
    with pytest.raises(Refused):
        session.todos.read()
    with pytest.raises(Refused):
        session.todos.write([MILK])


@pytest.mark.parametrize(
    "todos",
    [
        "buy milk",
        ["buy milk"],
        [{"content": ""}],
        [{"state": "done"}],
        [{"content": "x", "state": "later"}],
        [{"content": "x", "level": "PUBLIC"}],
        [{"content": "x\0"}],
        [{"content": 1}],
    ],
)
def test_what_is_no_list_of_todos_is_refused_and_changes_nothing(scene: Scene, todos: Any) -> None:
    session = scene.store.session(AGENT)
    session.todos.write([MILK])
    with pytest.raises(InvalidArgument):
        session.todos.write(cast(list[dict[str, object]], todos))
    assert session.todos.read() == (MILK,)


def test_a_list_has_a_limit(scene: Scene) -> None:
    session = scene.store.session(AGENT)
    assert len(session.todos.write([MILK] * TODOS_MAX)) == TODOS_MAX
    with pytest.raises(LimitExceeded):
        session.todos.write([MILK] * (TODOS_MAX + 1))
