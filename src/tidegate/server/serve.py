"""The MCP server: one session, over standard input and output, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tidegate
from tidegate import Level
from tidegate.config.home import find_home
from tidegate.core.guidance import read_instructions
from tidegate.server import stdio
from tidegate.session import Session

EXIT_SECONDS = 4.0
"""After this time the process ends, whatever still hangs. A save that hangs is then stored whole or not at all."""

_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK")


def serve(home: str | Path | None, agent: str, name: str | None, level: Level) -> int:
    """Answer MCP requests on standard input until it ends or a signal says so; then 0, within 5 seconds.

    name: the session, opened or resumed; without one, an ephemeral session at exactly `level`.
    For the main thread of a process. Raises: SystemExit, with one line to show, when the extra is not installed or
    standard input and output are not open; InvalidArgument, Refused, StorageError, as `Store.session`.
    """
    _on_signals(partial(sys.exit, 0))
    with tidegate.open(home) as store:
        _serve(store.session(agent, name=name, level=level), read_instructions(find_home(home), agent))
    return 0


def _serve(session: Session, instructions: str) -> None:
    try:
        wire = stdio.claim()
    except OSError:
        sys.exit("tidegate mcp: standard input and output must be open; an MCP client opens them")
    try:
        from tidegate.server import protocol
    except ModuleNotFoundError:
        sys.exit("tidegate mcp: the MCP library is not installed: pip install 'tidegate[server]'")

    async def run() -> None:
        connection = protocol.ClientConnection(protocol.build(session, instructions=instructions), wire)
        _on_signals(partial(asyncio.get_running_loop().call_soon_threadsafe, connection.ending.set))
        await connection.run(at_end=_end_soon)

    asyncio.run(run())


def _on_signals(act: Callable[[], object]) -> None:
    for name in _SIGNALS:
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, lambda *_: act())


def _end_soon() -> None:
    timer = threading.Timer(EXIT_SECONDS, os._exit, (0,))
    timer.daemon = True
    timer.start()
