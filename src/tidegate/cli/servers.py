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
    higher. A lower --level does not lower it, and standard error says so. While the server runs, `tidegate session
    raise` and `reset` take effect on it.

    The server always answers its client. If something is wrong with the home, calls fail with an error that
    says what to do, and work again once it is fixed.
    """
    return _serve("mcp")


@click.command(
    cls=Command,
    common={"session": "Session of this client and all its conversations. Required.", "json": None},
    examples=("tidegate gateway --agent assistant --session editor --level INTERNAL",),
)
def gateway() -> int:
    """Serve the memory tools and those of the servers in config.toml to an MCP client, through one gate.

    Each tool has a source (the level of what it returns) and a sink (the highest level that it may be told). A call
    of a tool whose source is above the taint raises the session. A call of a tool whose sink is below the taint is
    refused. Give each client a session of its own. The session keeps its taint when the client connects again: a
    lower --level does not lower it, and standard error says so.

    The gateway serves only tools that you have classified and trusted: see `tidegate tools`. If you trust a tool while
    the gateway runs, reconnect the client: most clients ask for the tools only when they connect. The gateway does not
    serve resources and prompts of other servers.
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
