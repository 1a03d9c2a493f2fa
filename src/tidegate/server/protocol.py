"""The session as the MCP SDK sees it: the server, its answers, and its connection to a client.

The server is the SDK's low-level one: tools, and the memories as one resource and one prompt, each behind the gate.
Completions, logging and sampling are not offered, so they need no gate.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from math import inf
from typing import Any, BinaryIO

import anyio
import mcp_types as types
from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from tidegate.server import stdio
from tidegate.server.resources import MemoryResources
from tidegate.server.tool_calls import ServedTools

READ_AHEAD_MAX = 1024
"""The maximum number of lines read before their answers; then the client waits."""

READ_AHEAD_BYTES_MAX = 16 * 1024 * 1024
"""Their maximum total size; a longer line is read alone. The parsed form takes 16 times as much memory."""

DRAIN_SECONDS = 2.5
"""How long read lines may still be answered after the input has ended or a signal came."""

# P12: the SDK logs invalid messages, contents included.
logging.getLogger("mcp").addHandler(logging.NullHandler())
logging.getLogger("mcp").propagate = False


def build(tools: ServedTools, *, instructions: str) -> Server[Any]:
    """Return the server of one session, for any transport of the SDK. Lists and the handshake need no session."""
    resources = MemoryResources(tools)

    async def list_tools(_context: object, _params: object) -> types.ListToolsResult:
        return await tools.listing()

    async def call_tool(
        context: ServerRequestContext[Any, Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def progress(done: float, message: str) -> None:
            await context.session.report_progress(done, message=message)

        return await tools.call(params.name, params.arguments or {}, progress)

    return Server(
        "tidegate",
        title="Tidegate",
        version=version("tidegate"),
        instructions=instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=resources.list_resources,
        on_list_resource_templates=resources.list_templates,
        on_read_resource=resources.read_resource,
        on_list_prompts=resources.list_prompts,
        on_get_prompt=resources.get_prompt,
    )


class ClientConnection:
    """One client on a wire: it carries messages between the wire and the server, and ends in order.

    ending: set it to stop reading, answer all read lines, and return.
    """

    def __init__(self, server: Server[Any], wire: stdio.Wire) -> None:
        self.ending = anyio.Event()
        self._server = server
        self._wire = wire
        self._lines, self._from_wire = anyio.create_memory_object_stream[dict[str, Any] | stdio.Fault](inf)
        self._to_server, self._from_client = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self._to_client, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)
        self._room = _Room()
        self._unsettled = 0
        self._all_settled = anyio.Event()

    async def run(self, *, at_end: Callable[[], None]) -> None:
        """Serve until the input ends or `ending` is set. at_end: called as soon as that happens."""
        # Not one of anyio's workers: exit waits for those, and this one may wait for the client indefinitely.
        threading.Thread(target=self._read, args=(asyncio.get_running_loop(),), daemon=True).start()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._forward)
            tasks.start_soon(self._write)
            tasks.start_soon(self._end, at_end)
            await self._server.run(
                self._from_client, self._to_client.clone(), self._server.create_initialization_options()
            )

    async def _end(self, at_end: Callable[[], None]) -> None:
        await self.ending.wait()
        at_end()
        with anyio.move_on_after(DRAIN_SECONDS):
            if self._unsettled:
                await self._all_settled.wait()
        for stream in (self._lines, self._to_server, self._to_client):
            await stream.aclose()

    # In the thread that reads

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        with suppress(OSError, RuntimeError):  # RuntimeError: the loop is closed, so serving is over
            counted = _Counted(self._wire.incoming)
            for line in stdio.read(counted):
                self._room.take(counted.take_count())
                loop.call_soon_threadsafe(self._arrive, line)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(self.ending.set)

    # In the loop

    def _arrive(self, line: dict[str, Any] | stdio.Fault) -> None:
        if not self.ending.is_set():
            self._unsettled += 1
            self._lines.send_nowait(line)

    async def _settle(self) -> None:
        """Count one waiting line less: it has its answer, or needs none."""
        self._room.give()
        self._unsettled -= 1
        if self._unsettled == 0 and self.ending.is_set():
            self._all_settled.set()

    async def _forward(self) -> None:
        async with self._from_wire:
            async for line in self._from_wire:
                message = line if isinstance(line, stdio.Fault) else _message(line)
                if isinstance(message, stdio.Fault):
                    error = types.ErrorData(code=message.code, message=message.message)
                    answer = types.JSONRPCError(jsonrpc="2.0", id=message.id, error=error)
                    await self._to_client.send(SessionMessage(answer))
                elif isinstance(message, types.JSONRPCRequest):
                    cancelled = ServerMessageMetadata(on_request_unanswered=self._settle)
                    await self._to_server.send(SessionMessage(message, cancelled))
                else:
                    await self._to_server.send(SessionMessage(message))
                    await self._settle()

    async def _write(self) -> None:
        async with self._from_server:
            async for each in self._from_server:
                line = stdio.encode(each.message.model_dump(by_alias=True, exclude_unset=True))
                try:
                    await to_thread.run_sync(stdio.write, self._wire.outgoing, line)
                except OSError:  # the client is gone
                    self.ending.set()
                if isinstance(each.message, types.JSONRPCResponse | types.JSONRPCError):
                    await self._settle()


class _Room:
    """Room for read lines without an answer yet. All bytes are returned together, when no line waits."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines = 0
        self._bytes = 0

    def take(self, size: int) -> None:
        """Wait until there is room for one more line."""
        with self._changed:
            self._changed.wait_for(
                lambda: not self._lines or (self._lines < READ_AHEAD_MAX and self._bytes + size <= READ_AHEAD_BYTES_MAX)
            )
            self._lines += 1
            self._bytes += size

    def give(self) -> None:
        """Return the room of one line."""
        with self._changed:
            self._lines -= 1
            self._bytes *= self._lines > 0
            self._changed.notify()


class _Counted:
    """The lines of a file, and their size since the last count."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._bytes = 0

    def readline(self, limit: int, /) -> bytes:
        line = self._file.readline(limit)
        self._bytes += len(line)
        return line

    def take_count(self) -> int:
        """Return the bytes read since the last call, and start again from 0."""
        size, self._bytes = self._bytes, 0
        return size


def _message(line: dict[str, Any]) -> types.JSONRPCMessage | stdio.Fault:
    try:
        return types.jsonrpc_message_adapter.validate_python(line, by_name=False)
    except ValidationError:
        return stdio.Fault(stdio.INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message", line.get("id"))
