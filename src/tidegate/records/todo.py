"""To-dos: one list, each item with a state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import InvalidArgument, LimitExceeded, StorageError
from tidegate.records.fields import Fields
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import NotJsonError, read_flat
from tidegate.records.limits import Limits
from tidegate.records.validation import check_content, check_names, require

TODOS_MAX = 200
KEY = "todos"
"""The key of the list. Each level can have one."""

_MARKS_MAX = 64 * TODOS_MAX


class TodoState(StrEnum):
    """How far a to-do is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Todo(JsonObject):
    """One thing to do."""

    content: str
    state: TodoState = TodoState.PENDING


def check_todos(items: object, limits: Limits) -> tuple[Todo, ...]:
    """Check a list from a caller, `{content, state?}` each. Raises: InvalidArgument, LimitExceeded."""
    if not isinstance(items, list | tuple):
        raise InvalidArgument("todos: must be a list", argument="todos")
    if len(items) > TODOS_MAX:
        limit = f"todos: {len(items)} items; the limit is {TODOS_MAX}"
        raise LimitExceeded(limit, argument="todos", limit=TODOS_MAX, actual=len(items))
    todos = tuple(_check(item, limits) for item in items)
    if todos:  # it is stored and read as one text
        check_content(write_todos(todos), limits, "todos")
    return todos


def write_todos(todos: Iterable[Todo]) -> str:
    """Return the list in its stored form."""
    return json.dumps([todo.to_dict() for todo in todos], ensure_ascii=False)


def read_todos(text: str) -> tuple[Todo, ...]:
    """Return the list from its stored text. Raises: StorageError when it cannot be read."""
    try:
        items = [Fields("todos", item) for item in read_flat(text, _MARKS_MAX)]
        return tuple(Todo(item.text("content"), TodoState(item.word("state", tuple(TodoState)))) for item in items)
    except (TypeError, NotJsonError, InvalidArgument):
        raise StorageError("the to-do list cannot be read; run `tidegate doctor`") from None


def _check(item: object, limits: Limits) -> Todo:
    if isinstance(item, Todo):
        return Todo(check_content(item.content, limits), TodoState(item.state))
    if not isinstance(item, dict):
        raise InvalidArgument("todos: each must be an object with content; state is optional", argument="todos")
    check_names(item, ("content", "state"), "todos")
    require(item, "content")
    state = item.get("state") or TodoState.PENDING
    if state not in tuple(TodoState):
        raise InvalidArgument(f"state: must be one of {', '.join(TodoState)}", argument="state")
    return Todo(check_content(item["content"], limits), TodoState(state))
