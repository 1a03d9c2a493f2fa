"""The guarded wire to one server: each outgoing message is checked, and only awaited answers come in.

The MCP SDK's session uses the two streams of a wire. The guard is between it and the server, and permits one call at a
time. Outside a call nothing is sent or read, so a flooding server waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from tidegate.config.servers import Server
from tidegate.gateway.diagnostics import CutOffError, unreadable
from tidegate.gateway.process import Process
from tidegate.gateway.wire_guard import CALL_BYTES_MAX, Guard

WireItem = SessionMessage | Exception


class MessageSource(Protocol):
    """Where messages come from: anyio's streams, and ours."""

    async def receive(self) -> WireItem: ...
    async def aclose(self) -> None: ...


class MessageSink(Protocol):
    """Where messages go to."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class Outgoing:
    """The stream that the SDK writes to."""

    def __init__(self, guard: Guard, sink: MessageSink) -> None:
        self._guard = guard
        self._sink = sink

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on. A request that may not pass raises the error of a closed stream."""
        if self._guard.may_send(item.message):
            await self._sink.send(item)
        elif isinstance(item.message, types.JSONRPCRequest):
            raise anyio.ClosedResourceError

    async def aclose(self) -> None:
        await self._sink.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Incoming:
    """The stream that the SDK reads from."""

    def __init__(self, guard: Guard, source: MessageSource, outgoing: Outgoing) -> None:
        self._guard = guard
        self._source = source
        self._outgoing = outgoing

    async def receive(self) -> WireItem:
        """Return the next awaited answer. A server's requests are denied, its notifications dropped (P14)."""
        while True:
            await self._guard.wait()
            try:
                item = await self._source.receive()
                self._guard.count_message()
                if isinstance(item, Exception):
                    continue  # no message
                if _unread(item.message):
                    raise unreadable()
                if self._guard.admits(item.message):
                    return item
            except CutOffError as error:
                self._guard.give_up(error)
                raise anyio.EndOfStream from None
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._guard.give_up(CutOffError("ended the connection", misunderstood=True))
                raise anyio.EndOfStream from None
            if isinstance(item.message, types.JSONRPCRequest):
                await self._outgoing.send(SessionMessage(_denial(item.message)))

    async def aclose(self) -> None:
        await self._source.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WireItem:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


Streams = tuple[Incoming, Outgoing]


@asynccontextmanager
async def to_process(server: Server, guard: Guard) -> AsyncIterator[Streams]:
    """Yield a wire to a server that is started for it, and stopped at its end."""
    try:
        process = await Process.start(server, guard.diagnostics)
    except CutOffError as error:
        guard.give_up(error)
        raise
    try:
        lines = _Lines(process, guard)
        outgoing = Outgoing(guard, lines)
        yield Incoming(guard, lines, outgoing), outgoing
    finally:
        # In its own task, so that a cancelled caller neither leaves the server running nor waits too briefly.
        await asyncio.shield(asyncio.ensure_future(process.stop()))


@asynccontextmanager
async def to_url(server: Server, guard: Guard) -> AsyncIterator[Streams]:
    """Yield a wire to a server at a URL."""
    from mcp.client.streamable_http import streamable_http_client

    from tidegate.gateway.http import open_client

    async with (
        open_client(server, guard) as client,
        # No DELETE at the end: that would be another message, after the call.
        streamable_http_client(
            server.url or "", http_client=client, terminate_on_close=False, max_sse_event_size=CALL_BYTES_MAX
        ) as (source, sink),
    ):
        outgoing = Outgoing(guard, sink)
        yield Incoming(guard, source, outgoing), outgoing


class _Lines:
    """A process as a source and a sink of messages."""

    def __init__(self, process: Process, guard: Guard) -> None:
        self._process = process
        self._guard = guard

    async def receive(self) -> WireItem:
        line = await self._process.read()
        if not line:
            raise anyio.EndOfStream
        self._guard.count(line)
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError as error:
            if b'"jsonrpc"' in line:  # perhaps the awaited answer: nobody should wait in vain
                raise unreadable() from None
            return error  # what else programs print, such as a log

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(OSError):  # the reader notices the end
            await self._process.write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """Do nothing: the starter of the process stops it."""


def _unread(message: types.JSONRPCMessage) -> bool:
    """Return whether the library puts this in the place of an answer over HTTP that it could not read.

    It quotes the answer (P12), without its labels (P14).
    """
    error = message.error if isinstance(message, types.JSONRPCError) else None
    return error is not None and error.code == types.PARSE_ERROR and error.message.startswith("Failed to parse ")


def _denial(request: types.JSONRPCRequest) -> types.JSONRPCMessage:
    """Return the answer to a server's request: no sampling, no elicitation, no roots. A ping is answered."""
    if request.method == "ping":
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result={})
    error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="not offered")
    return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
