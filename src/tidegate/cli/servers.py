"""The commands that start servers."""

from __future__ import annotations

import sys

import click

from tidegate.cli.common import FOR_NO_AGENT, Command, info, options
from tidegate.errors import InvalidArgument


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
    return _serve("mcp")


@click.command(
    cls=Command,
    common={"session": "Seat of this client: the session of all its conversations. Required.", "json": None},
    examples=("tidegate gateway --agent assistant --session editor --level INTERNAL",),
)
def gateway() -> int:
    """Serve the memory tools and those of the servers in config.toml to an MCP client, through one gate.

    Give each client a session of its own: its seat. A call of a tool with a higher source raises the session, and a
    tool with a lower sink is then refused. The taint stays with the session when the client connects again.

    Only tools that you have classified and trusted are served (tidegate tools). If you trust others while it runs, the
    next list has them; most clients ask for it only when they connect. Other servers' resources and prompts are not
    served.
    """
    if options().session is None:
        raise InvalidArgument(
            "session: give this client a session of its own, for example `tidegate gateway --session editor`, and "
            "write that command in its configuration",
            argument="session",
        )
    return _serve("gateway")


def _serve(command: str) -> int:
    from tidegate.server.serve import serve

    if sys.stdin is not None and sys.stdin.isatty():  # a person tries it by hand, and would see nothing
        info(f"tidegate {command}: waiting for an MCP client on standard input; press Ctrl-C to stop")
    chosen = options()
    return serve(chosen.home, chosen.agent, chosen.session, chosen.level, command=command)


@click.command(cls=Command, common={**FOR_NO_AGENT, "home": None, "json": None}, examples=("tidegate demo",))
def demo() -> int:
    """Show how Tidegate works, with a real server and a real client, in a temporary home."""
    from tidegate.cli.demo import run

    return run()
