"""The agent's to-do list, for its owner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from tidegate.cli.common import Command, open_store, options, refuse_both, show
from tidegate.cli.output import escape
from tidegate.policy.levels import Level

_MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}


@click.command(
    cls=Command,
    common={"session": "As this session sees it.", "level": "As this level sees it. [default: RESTRICTED]"},
    examples=("tidegate todo", "tidegate todo --session chat", "tidegate todo --level PUBLIC"),
)
def todo() -> None:
    """Show the agent's to-do list: as --session sees it, or --level; without either, the highest one there is."""
    chosen = options()
    refuse_both()
    with open_store() as store:
        if chosen.session is not None:
            session = store.resume(chosen.agent, chosen.session)
        else:
            session = store.session(chosen.agent, level=Level.RESTRICTED if chosen.level is None else chosen.level)
        result = session.call_tool("todo_read")
    show(result, lines(result))


def lines(result: Mapping[str, Any]) -> Iterator[str]:
    """A to-do list, a line each."""
    for each in result["todos"]:
        yield f"{_MARKS[each['state']]} {escape(each['content'])}"
    if not result["todos"]:
        yield "nothing to do"
