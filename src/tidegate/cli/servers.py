"""The commands that start servers."""

from __future__ import annotations

import sys

import click

from tidegate.cli.common import FOR_NO_AGENT, Command, info, options


@click.command(
    cls=Command,
    common={"session": "Session that all clients share; it is created if it does not exist.", "json": None},
    examples=("tidegate mcp --agent assistant --session main --level INTERNAL",),
)
def mcp() -> int:
    """Serve the memory tools to an MCP client over standard input and output.

    With --session, the taint survives restarts. An existing session stays at its taint, or rises to --level if that is
    higher. While the server runs, `tidegate session raise` and `reset` take effect on it.

    The server always answers its client. If something is wrong with the home, calls fail with an error that
    says what to do, and work again once it is fixed.
    """
    from tidegate.server.serve import serve

    if sys.stdin is not None and sys.stdin.isatty():  # a person tries it by hand, and would see nothing
        info("tidegate mcp: waiting for an MCP client on standard input; press Ctrl-C to stop")
    chosen = options()
    return serve(chosen.home, chosen.agent, chosen.session, chosen.level)


@click.command(cls=Command, common={**FOR_NO_AGENT, "home": None, "json": None}, examples=("tidegate demo",))
def demo() -> int:
    """Show how Tidegate works, with a real server and a real client, in a temporary home."""
    from tidegate.cli.demo import run

    return run()
