"""The owner command that shows the agent's to-do list."""

from __future__ import annotations

import click

from tidegate.cli.common import Command, open_session, show
from tidegate.cli.output import todo_list
from tidegate.policy.levels import Level


@click.command(
    cls=Command,
    common={
        "session": "Show the list as this session sees it.",
        "level": "Show the list as this level sees it. [default: RESTRICTED]",
    },
    examples=("tidegate todo", "tidegate todo --session chat", "tidegate todo --level PUBLIC"),
)
def todo() -> None:
    """Show the agent's to-do list. If there are lists at several levels, show the highest one visible."""
    with open_session(Level.RESTRICTED) as session:
        result = session.call_tool("todo_read")
    show(result, todo_list(result))
