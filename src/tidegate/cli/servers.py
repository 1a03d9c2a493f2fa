"""The commands that start servers."""

from __future__ import annotations

import sys

import click

from tidegate.cli.common import FOR_NO_AGENT, Command, info, level_or, options
from tidegate.policy.levels import Level


@click.command(
    cls=Command,
    common={"session": "The session that all its clients share; it is made if nobody has made it."},
    examples=("tidegate mcp --agent assistant --session main --level INTERNAL",),
)
def mcp() -> int:
    """Serve the memory tools to an MCP client over standard input and output.

    With --session its taint survives restarts: it is the stored one or --level, whichever is higher. While it runs,
    `tidegate session raise` and `reset` act on it from outside.
    """
    from tidegate.server.serve import serve

    if sys.stdin is not None and sys.stdin.isatty():  # somebody tries it by hand, and would see nothing
        info("tidegate mcp: waiting for an MCP client on standard input; Ctrl-C ends it")
    chosen = options()
    return serve(chosen.home, chosen.agent, chosen.session, level_or(Level.PUBLIC))


@click.command(cls=Command, common=FOR_NO_AGENT, examples=("tidegate demo",))
def demo() -> int:
    """Show what this is: a real server and a real client, on a home that is thrown away."""
    from tidegate.cli.demo import run

    return run()
