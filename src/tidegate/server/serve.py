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
from pathlib import Path
from typing import TYPE_CHECKING

import tidegate
from tidegate.config.home import find_home
from tidegate.config.reader import check_environment
from tidegate.core.guidance import GUIDANCE, read_instructions
from tidegate.errors import InvalidArgument, StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.records.invisible_text import escape_line
from tidegate.records.limits import Limits
from tidegate.records.validation import check_agent, check_key
from tidegate.server import stdio

if TYPE_CHECKING:
    from tidegate.server.served_session import ServedSession

EXIT_SECONDS = 4.0
"""After this time the process ends, even if a call hangs. A hanging save is then stored completely or not at all."""

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")
_ANY_LENGTH = Limits(key_chars_max=sys.maxsize)  # the maximum length of a name is a setting: each opening reads it


def serve(home: str | Path | None, agent: str, name: str | None, level: Level | None) -> int:
    """Answer MCP requests on standard input until it ends or a signal says so; then 0, within 5 seconds.

    name, level: of the session, as in `Store.session`. It is opened during the handshake. If that fails, each call and
    standard error say why. Only standard error says what is wrong in the settings.
    For the main thread of a process. Raises: InvalidArgument, for causes that last as long as the process: the
    arguments, the environment, a missing extra, standard input or output that is not open.
    """
    _on_signals(partial(sys.exit, 0))
    check_agent(agent)
    check_environment()
    if name is not None:
        check_key(name, _ANY_LENGTH, "name")
    instructions = instructions_of(home, agent)
    try:
        wire = stdio.claim()
    except OSError:
        raise InvalidArgument("mcp: standard input and output must be open; an MCP client opens them") from None
    try:
        from tidegate.server import protocol
        from tidegate.server.served_session import ServedSession, SessionOpener
    except ModuleNotFoundError:
        raise InvalidArgument(
            "mcp: the MCP library is not installed; it comes with tidegate[server]", install="tidegate[server]"
        ) from None

    async def run() -> None:
        served = ServedSession(opener)
        connection = protocol.ClientConnection(protocol.build(served, instructions=instructions), wire)
        _on_signals(partial(asyncio.get_running_loop().call_soon_threadsafe, connection.ending.set))
        async with asyncio.TaskGroup() as tasks:
            # Now, not at the first call: the owner finds the session, and a later session of its name is another (P7).
            tasks.create_task(_begin(served))
            await connection.run(at_end=_end_soon)

    with closing(SessionOpener(partial(tidegate.open, home), agent, name, level, tell=_tell)) as opener:
        asyncio.run(run())
    return 0


async def _begin(served: ServedSession) -> None:
    try:
        await served.run(lambda _: None)
    except TidegateError as error:
        _tell(error.message)


def instructions_of(home: str | Path | None, agent: str) -> str:
    """Return the instructions for the client's model; if SPINE.md cannot be read, the guidance alone."""
    try:
        return read_instructions(find_home(home), agent)
    except StorageError as error:
        _tell(f"{error.message}; the model gets the guidance alone")
        return GUIDANCE


def _tell(text: str) -> None:
    """Write a line for the owner to standard error."""
    with suppress(OSError):  # nobody reads it
        sys.stderr.write(f"tidegate mcp: {escape_line(text)}\n")
        sys.stderr.flush()


def _on_signals(act: Callable[[], object]) -> None:
    for name in _SIGNALS:
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, lambda *_: act())


def _end_soon() -> None:
    timer = threading.Timer(EXIT_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
