"""To-dos: one list, each item with a state."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum

from tidegate.domain.arguments import check_content, check_names, require
from tidegate.domain.limits import Limits
from tidegate.errors import InvalidArgument, LimitExceeded

TODOS_MAX = 200


class State(StrEnum):
    """How far a to-do is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do."""

    content: str
    state: State = State.PENDING


def check_todos(items: object, limits: Limits) -> tuple[Todo, ...]:
    """A list as a caller sent it: `{content, state?}` each. Raises: InvalidArgument, LimitExceeded."""
    if not isinstance(items, list | tuple):
        raise InvalidArgument("todos: must be a list", argument="todos")
    if len(items) > TODOS_MAX:
        limit = f"todos: {len(items)} items; the limit is {TODOS_MAX}"
        raise LimitExceeded(limit, argument="todos", limit=TODOS_MAX, actual=len(items))
    return tuple(_check(item, limits) for item in items)


def write_todos(todos: Iterable[Todo]) -> str:
    """The list as it is stored."""
    return json.dumps([asdict(todo) for todo in todos], ensure_ascii=False)


def read_todos(text: str) -> tuple[Todo, ...]:
    """The list that was stored."""
    return tuple(Todo(item["content"], State(item["state"])) for item in json.loads(text))


def _check(item: object, limits: Limits) -> Todo:
    if isinstance(item, Todo):
        return Todo(check_content(item.content, limits), State(item.state))
    if not isinstance(item, dict):
        raise InvalidArgument("todos: each must be an object with content and state", argument="todos")
    check_names(item, ("content", "state"), "todos")
    require(item, "content")
    state = item.get("state") or State.PENDING
    if state not in tuple(State):
        raise InvalidArgument(f"state: must be one of {', '.join(State)}", argument="state")
    return Todo(check_content(item["content"], limits), State(state))
