"""The MCP server: one session, over standard input and output, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate
from tidegate.config.home import find_home
from tidegate.config.reader import check_environment
from tidegate.core.guidance import GATEWAY_GUIDANCE, GUIDANCE, read_instructions
from tidegate.errors import InvalidArgument, StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.records.invisible_text import escape_line
from tidegate.records.limits import Limits
from tidegate.records.validation import check_agent, check_key
from tidegate.server import stdio

if TYPE_CHECKING:
    from tidegate.server.served_session import ServedSession, SessionOpener
    from tidegate.server.tool_calls import ServedTools

EXIT_SECONDS = 3.5
"""After this time the process ends, even if a call hangs. A hanging save is then stored completely or not at all.

Clients kill a server after 4 seconds, and then it could not end the servers that it has started.
"""

GATEWAY = "gateway"

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
_ANY_LENGTH = Limits(key_chars_max=sys.maxsize)  # the maximum length of a name is a setting: each opening reads it


def serve(home: str | Path | None, agent: str, name: str | None, level: Level | None, *, command: str = "mcp") -> int:
    """Answer MCP requests on standard input until it ends or a signal says so; then 0, within 5 seconds.

    name, level: of the session, as in `Store.session`. It is opened during the handshake. If that fails, each call and
    standard error say why. Only standard error says what is wrong in the settings.
    command: `mcp` offers the memory tools, `gateway` also those of the owner's other servers.
    For the main thread of a process. Raises: InvalidArgument, for causes that last as long as the process: the
    arguments, the environment, a missing extra, standard input or output that is not open.
    """
    _on_signals(partial(sys.exit, 0))
    check_agent(agent)
    check_environment()
    if name is not None:
        check_key(name, _ANY_LENGTH, "name")
    guidance = GATEWAY_GUIDANCE if command == GATEWAY else GUIDANCE
    instructions = instructions_of(home, agent, guidance, partial(_tell, command))
    try:
        wire = stdio.claim()
    except OSError:
        raise InvalidArgument(f"{command}: standard input and output must be open; an MCP client opens them") from None
    try:
        opener, tools = _offer(home, agent, name, level, command)
    except ModuleNotFoundError:
        raise InvalidArgument(
            f"{command}: the MCP library is not installed; it comes with tidegate[server]", install="tidegate[server]"
        ) from None
    try:
        with closing(opener):
            asyncio.run(_run(tools, wire, instructions))
    finally:
        tools.kill()
    return 0


def _offer(
    home: str | Path | None, agent: str, name: str | None, level: Level | None, command: str
) -> tuple[SessionOpener, ServedTools]:
    """Return what opens the session, and the tools for it. Raises: ModuleNotFoundError."""
    import_module("mcp")  # now, while its absence can still be told: `_run` needs it
    from tidegate.server.served_session import ServedSession, SessionOpener

    tell = partial(_tell, command)
    open_store = partial(tidegate.open, home)
    if command != GATEWAY:
        from tidegate.server.tool_calls import MemoryTools

        opener = SessionOpener(open_store, agent, name, level, tell=tell)
        return opener, MemoryTools(ServedSession(opener, command=command))
    from tidegate.server.gateway_tools import GatewayTools, OwnersServers

    servers = OwnersServers(find_home(home), open_store)
    opener = SessionOpener(servers.open_store, agent, name, level, tell=tell)
    return opener, GatewayTools(ServedSession(opener, command=command), servers, tell)


async def _run(tools: ServedTools, wire: stdio.Wire, instructions: str) -> None:
    from tidegate.server import protocol

    connection = protocol.ClientConnection(protocol.build(tools, instructions=instructions), wire)
    _on_signals(partial(asyncio.get_running_loop().call_soon_threadsafe, connection.ending.set))
    async with asyncio.TaskGroup() as tasks:
        # Now, not at the first call: the owner finds the session, and a later session of its name is another (P7).
        tasks.create_task(_begin(tools.served))
        await connection.run(at_end=partial(_end_soon, tools.kill))
    await tools.close()


async def _begin(served: ServedSession) -> None:
    try:
        await served.run(lambda _: None)
    except TidegateError as error:
        _tell(served.command, error.message)


def instructions_of(home: str | Path | None, agent: str, guidance: str, tell: Callable[[str], object]) -> str:
    """Return the instructions for the client's model; if SPINE.md cannot be read, the guidance alone."""
    try:
        return read_instructions(find_home(home), agent, guidance)
    except StorageError as error:
        tell(f"{error.message}; the model gets only Tidegate's guidance")
        return guidance


def _tell(command: str, text: str) -> None:
    """Write a line for the owner to standard error."""
    with suppress(OSError):  # nobody reads it
        sys.stderr.write(f"tidegate {command}: {escape_line(text)}\n")
        sys.stderr.flush()


def _on_signals(act: Callable[[], object]) -> None:
    for name in _SIGNALS:
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, lambda *_: act())


def _end_soon(kill: Callable[[], object]) -> None:
    def end() -> None:
        kill()
        os._exit(0)

    timer = threading.Timer(EXIT_SECONDS, end)
    timer.daemon = True
    timer.start()
