"""A server as a process: bounded lines in and out, and an end that no child survives."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from contextlib import suppress
from typing import cast

from tidegate.config.servers import Server
from tidegate.gateway.diagnostics import CutOffError, ServerDiagnostics, why_not_started

LINE_BYTES_MAX = 4 * 1024 * 1024
"""The size limit of one message."""

STOP_SECONDS = 1.0
"""How long a server may take to end after its input has ended, and again after a signal."""

# Programs need these to run. None is Tidegate's own, or a secret of the user.
_INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class Process:
    """One server, from its start to its end.

    Its standard error is dropped because it may hold content (P12); an owner who asks gets the end of it.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, folder: str | None, diagnostics: ServerDiagnostics | None
    ) -> None:
        self._process = process
        self._incoming = cast(asyncio.StreamReader, process.stdout)  # pipes, as `start` asks for
        self._outgoing = cast(asyncio.StreamWriter, process.stdin)
        self._folder = folder
        _alive.add(self)
        self._reading_errors = asyncio.ensure_future(_read_errors(process.stderr, diagnostics))

    @classmethod
    async def start(cls, server: Server, diagnostics: ServerDiagnostics | None = None) -> Process:
        """Start a server. Raises: CutOffError when it cannot be started."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        folder = tempfile.mkdtemp(prefix="tidegate-") if server.cwd is None else None
        try:
            process = await asyncio.create_subprocess_exec(
                *server.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL if diagnostics is None else asyncio.subprocess.PIPE,
                limit=LINE_BYTES_MAX,
                env={**inherited, **server.env},
                cwd=folder or os.path.expanduser(server.cwd or ""),
                start_new_session=True,
            )
        except BaseException as error:
            _remove(folder)
            if isinstance(error, OSError | ValueError):
                if diagnostics is not None:
                    diagnostics.notice(why_not_started(server, error))
                raise CutOffError("cannot be started: the owner can check its command in config.toml") from None
            raise
        return cls(process, folder, diagnostics)

    async def read(self) -> bytes:
        """Return the next line, with its end; b"" after the last. Raises: CutOffError for a line that is too long."""
        try:
            return await self._incoming.readline()
        except ValueError:
            raise CutOffError(f"sent a message of more than {LINE_BYTES_MAX} bytes") from None
        except OSError:
            return b""

    async def write(self, line: bytes) -> None:
        """Send a line. Raises: OSError when the reader is gone."""
        self._outgoing.write(line)
        await self._outgoing.drain()

    async def stop(self) -> None:
        """End the server and all its children, gently at first. Takes a few seconds at most."""
        try:
            self._outgoing.close()
            await self._ends()
            self._signal(signal.SIGTERM)
            await self._ends()
        finally:
            # The complete group, even when the server itself is gone: it may have left children.
            self.kill()
            await self._ends()
            # A child in another group may hold it open.
            await asyncio.wait({self._reading_errors}, timeout=STOP_SECONDS)
            self._reading_errors.cancel()
            # It has no public name. Left open, it would keep the pipes of a child that outlives the server.
            transport: asyncio.SubprocessTransport = self._process._transport  # type: ignore[attr-defined]
            transport.close()
            _alive.discard(self)
            _remove(self._folder)

    def kill(self) -> None:
        """End the server and all its children at once."""
        self._signal(signal.SIGKILL)

    async def _ends(self) -> None:
        # Not `wait()`: that waits for the pipes too, which a child may hold open.
        for _ in range(int(STOP_SECONDS / 0.01)):
            if self._process.returncode is not None:
                return
            await asyncio.sleep(0.01)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)


_alive = set[Process]()


def kill_all() -> None:
    """End every server that still runs, at once: for a process that cannot wait any longer."""
    for process in tuple(_alive):
        process.kill()


async def _read_errors(errors: asyncio.StreamReader | None, diagnostics: ServerDiagnostics | None) -> None:
    while errors is not None and diagnostics is not None and (piece := await errors.read(4096)):
        diagnostics.add_output(piece)


def _remove(folder: str | None) -> None:
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
