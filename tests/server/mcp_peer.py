"""An MCP client that speaks raw lines, to a server in a process of its own or in a thread of this one."""

from __future__ import annotations

import asyncio
import io
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, Self, cast

from tidegate.server import protocol, stdio
from tidegate.server.served_session import ServedSession
from tidegate.server.tool_calls import MemoryTools, ServedTools
from tidegate.session import Session

PATIENCE_SECONDS = 60.0  # only ever waited out by a test that fails
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class Peer:
    """One end of a wire. Lines that come back are kept in the order of their arrival."""

    def __init__(self, outgoing: BinaryIO, incoming: BinaryIO) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._ids = 0
        threading.Thread(target=self._read, daemon=True).start()

    def send_line(self, line: bytes) -> None:
        self._outgoing.write(line)
        self._outgoing.flush()

    def send(self, method: str, params: dict[str, Any] | None = None) -> int:
        """Send a request; its id."""
        self._ids += 1
        message = {"jsonrpc": "2.0", "id": self._ids, "method": method, "params": params or {}}
        self.send_line(json.dumps(message).encode() + b"\n")
        return self._ids

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}).encode() + b"\n")

    def receive_line(self) -> bytes:
        return self._lines.get(timeout=PATIENCE_SECONDS)

    def receive(self) -> dict[str, Any]:
        """The next message, or {} at the end."""
        line = self.receive_line()
        return json.loads(line.decode()) if line else {}

    def receive_rest(self) -> list[dict[str, Any]]:
        """All messages until the server closes its end."""
        return list(iter(self.receive, {}))

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a request, which must be the next message."""
        sent = self.send(method, params)
        answer = self.receive()
        assert answer.get("id") == sent, answer
        return answer

    def greet(self) -> Self:
        """Go through the handshake."""
        assert "result" in self.ask("initialize", INITIALIZE)
        self.notify("notifications/initialized")
        return self

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured content of a tool's answer."""
        return self.ask("tools/call", {"name": name, "arguments": arguments})["result"]["structuredContent"]

    def close_input(self) -> None:
        self._outgoing.close()

    def _read(self) -> None:
        for line in self._incoming:
            self._lines.put(line)
        self._lines.put(b"")


class ServerProcess(Peer):
    """`tidegate mcp` in a process of its own."""

    def __init__(
        self,
        arguments: Sequence[str],
        environ: dict[str, str] | None = None,
        *,
        answers: int = subprocess.PIPE,
        program: Sequence[str] = ("-m", "tidegate", "mcp"),
    ) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *program, *arguments],
            stdin=subprocess.PIPE,
            stdout=answers,
            stderr=subprocess.PIPE,
            env=environ,
        )
        super().__init__(cast(BinaryIO, self.process.stdin), cast(BinaryIO, self.process.stdout or io.BytesIO()))

    def end(self) -> tuple[int, str]:
        """Close its input if it is open, and wait for it: exit code, and what it wrote to standard error."""
        with suppress(BrokenPipeError):
            self.close_input()
        code = self.process.wait(PATIENCE_SECONDS)
        with cast(BinaryIO, self.process.stderr) as errors:
            return code, errors.read().decode()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()


def tools_of(served: Session | ServedSession | ServedTools) -> ServedTools:
    match served:
        case Session():
            return MemoryTools(ServedSession(lambda: served))
        case ServedSession():
            return MemoryTools(served)
    return served


@contextmanager
def serving(
    served: Session | ServedSession | ServedTools, *, instructions: str = "", at_end: Callable[[], None] = lambda: None
) -> Iterator[Peer]:
    """A peer of a server that runs in a thread, over real pipes."""
    tools = tools_of(served)
    (server_reads, peer_writes), (peer_reads, server_writes) = os.pipe(), os.pipe()
    wire = stdio.Wire(os.fdopen(server_reads, "rb"), os.fdopen(server_writes, "wb", buffering=0))

    async def run() -> None:
        with wire.incoming, wire.outgoing:
            await protocol.ClientConnection(protocol.build(tools, instructions=instructions), wire).run(at_end=at_end)
            await tools.close()

    thread = threading.Thread(target=asyncio.run, args=(run(),))
    thread.start()
    with os.fdopen(peer_writes, "wb") as outgoing, os.fdopen(peer_reads, "rb") as incoming:
        try:
            yield Peer(outgoing, incoming)
        finally:
            outgoing.close()
            thread.join(PATIENCE_SECONDS)
            assert not thread.is_alive()
