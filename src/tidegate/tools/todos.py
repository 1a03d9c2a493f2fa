"""The to-do tools, for agents that keep a list of their work."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidegate.records.todo import Todo, TodoState
from tidegate.tools import schema
from tidegate.tools.tool import Annotations, Arguments, Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.session import Session

_STATES = [str(each) for each in TodoState]
_LISTED = schema.list_of({"content": schema.TEXT, "state": {"type": "string", "enum": _STATES}})


def _read(session: Session, _arguments: Arguments) -> dict[str, Any]:
    todos, origin = session.todos.read_with_origin()
    return _result(todos) if origin is None else {**_result(todos), "origin": str(origin)}


def _write(session: Session, arguments: Arguments) -> dict[str, Any]:
    return _result(session.todos.write(arguments["todos"]))


def _result(todos: Iterable[Todo]) -> dict[str, Any]:
    return {"todos": [{**asdict(todo), "state": str(todo.state)} for todo in todos]}


READ = Tool(
    name="todo_read",
    title="Read the to-do list",
    description="Read the to-do list. Use it before you change the list, and to continue earlier work.",
    input_schema=schema.inputs({}),
    output_schema=schema.outputs({"todos": _LISTED, "origin": schema.TEXT}),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    work=_read,
)

WRITE = Tool(
    name="todo_write",
    title="Write the to-do list",
    description=(
        "Replace the to-do list. Send the whole list, unchanged items included. Use it when a task has several steps, "
        "and each time you start or finish one."
    ),
    input_schema=schema.inputs(
        {
            "todos": schema.array(
                "To-dos",
                "The whole list, in order. An empty list clears it.",
                schema.inputs(
                    {
                        "content": schema.text("Content", "What to do."),
                        "state": schema.choice("State", "Progress of this item. Default: pending.", _STATES),
                    },
                    required=["content"],
                ),
            )
        },
        required=["todos"],
    ),
    output_schema=schema.outputs({"todos": _LISTED}),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_write,
)
