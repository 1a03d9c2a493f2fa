"""The to-do tools, for agents that keep a list of what they are doing."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tidegate.records.todo import Todo, TodoState
from tidegate.tools import schema
from tidegate.tools.tool import Annotations, Arguments, Tool

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidegate.session import Session

_STATE = schema.choice("State", "How far it is; pending when left out.", [str(each) for each in TodoState])
_CONTENT = schema.text("Content", "What is to be done.")
_LISTED = schema.array(
    "To-dos", "The list, in its order.", schema.record("To-do", "One item.", {"content": _CONTENT, "state": _STATE})
)


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
    description="See the to-do list as it stands. Use it before you change the list, and to go on with work.",
    input_schema=schema.inputs({}),
    output_schema=schema.outputs({"todos": _LISTED, "origin": schema.text("Origin", "Where the list came from.")}),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    work=_read,
)

WRITE = Tool(
    name="todo_write",
    title="Write the to-do list",
    description=(
        "Replace the to-do list: send all of it, also what has not changed. "
        "Use it when a task has several steps, and whenever one of them is begun or done."
    ),
    input_schema=schema.inputs(
        {
            "todos": schema.array(
                "To-dos",
                "The whole list, in order. An empty list clears it.",
                {
                    **schema.record("To-do", "One item.", {"content": _CONTENT, "state": _STATE}),
                    "required": ["content"],
                },
            )
        },
        required=["todos"],
    ),
    output_schema=schema.outputs({"todos": _LISTED}),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_write,
)
