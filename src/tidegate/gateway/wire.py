"""The wire to one server, guarded: each message out is checked, and of what comes in only awaited answers pass.

The MCP SDK's session runs on the two streams of a wire. Between it and the server stands the guard, which knows one
call at a time. Outside a call nothing is sent, and nothing is read either, so that a server that floods waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NoReturn, Protocol, Self

import anyio
import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from tidegate.config_servers import Server
from tidegate.errors import Refused
from tidegate.gateway.limits import CALL_BYTES_MAX, CALL_MESSAGES_MAX, CALL_VALUES_MAX, CutOffError
from tidegate.gateway.process import Process

Check = Callable[[bool], None]
"""Raises Refused when bytes may not go out. True: for those that were settled when the call was allowed."""

Item = SessionMessage | Exception


class Source(Protocol):
    """Where messages come from: anyio's streams, and ours."""

    async def receive(self) -> Item: ...
    async def aclose(self) -> None: ...


class Sink(Protocol):
    """Where messages go to."""

    async def send(self, item: SessionMessage, /) -> None: ...
    async def aclose(self) -> None: ...


class Guard:
    """What may pass on one wire, and at which moment.

    broken: done once the connection is of no more use; its result says why.
    """

    def __init__(self) -> None:
        self.broken: asyncio.Future[CutOffError | Refused] = asyncio.get_running_loop().create_future()
        self._check: Check | None = None
        self._during = asyncio.Event()
        self._awaited: set[int | str] = set()
        self._bytes = self._values = self._messages = 0

    @contextmanager
    def during(self, check: Check) -> Iterator[None]:
        """One call: until its end messages pass, as far as `check` lets them."""
        self._check = check
        self._bytes = self._values = self._messages = 0
        self._during.set()
        try:
            yield
        finally:
            self._during.clear()
            self._check = None

    async def wait(self) -> None:
        """Until there is a call."""
        await self._during.wait()

    def give_up(self, why: CutOffError | Refused) -> None:
        """The first reason counts."""
        if not self.broken.done():
            self.broken.set_result(why)

    def count(self, piece: bytes) -> None:
        """Bytes came in, and are not parsed yet. Raises: CutOffError when it is too much for one call."""
        self._bytes += len(piece)
        self._values += piece.count(b"{") + piece.count(b"[")
        if self._bytes > CALL_BYTES_MAX:
            self._cut_off(f"sent more than {CALL_BYTES_MAX} bytes")
        if self._values > CALL_VALUES_MAX:
            self._cut_off(f"sent more than {CALL_VALUES_MAX} lists and objects")

    def _cut_off(self, reason: str) -> NoReturn:
        error = CutOffError(reason)
        self.give_up(error)  # here, since a library may stand between this and whoever would hear of it
        raise error

    def may_send(self, message: types.JSONRPCMessage) -> bool:
        """P4: for every message to the server, at the moment at which it goes out."""
        settled = isinstance(message, types.JSONRPCRequest) or _method(message) == "notifications/initialized"
        if self._check is None or self.broken.done():
            return False
        try:
            self._check(settled)
        except Refused as refused:
            if settled:
                self.give_up(refused)
            return False
        if isinstance(message, types.JSONRPCRequest):
            self._awaited.add(message.id)
        return True

    def admits(self, message: types.JSONRPCMessage) -> bool:
        """P14: an answer that is awaited. All else is unsolicited. Raises: CutOffError when there is too much of it."""
        self._messages += 1
        if self._messages > CALL_MESSAGES_MAX:
            raise CutOffError(f"sent more than {CALL_MESSAGES_MAX} messages")
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.id not in self._awaited:
            return False
        self._awaited.discard(message.id)
        return True


class Outgoing:
    """The stream that the SDK writes to."""

    def __init__(self, guard: Guard, sink: Sink) -> None:
        self._guard = guard
        self._sink = sink

    async def send(self, item: SessionMessage, /) -> None:
        """Pass a message on. One that was settled and may not go raises what a closed stream raises."""
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

    def __init__(self, guard: Guard, source: Source, outgoing: Outgoing) -> None:
        self._guard = guard
        self._source = source
        self._outgoing = outgoing

    async def receive(self) -> Item:
        """The next awaited answer. What a server asks is denied, and what it tells unasked is dropped (P14)."""
        while True:
            await self._guard.wait()
            try:
                item = await self._source.receive()
                if isinstance(item, Exception):
                    continue  # no message
                if self._guard.admits(item.message):
                    return item
            except CutOffError as error:
                self._guard.give_up(error)
                raise anyio.EndOfStream from None
            except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._guard.give_up(CutOffError("ended the connection"))
                raise anyio.EndOfStream from None
            if isinstance(item.message, types.JSONRPCRequest):
                await self._outgoing.send(SessionMessage(_denial(item.message)))

    async def aclose(self) -> None:
        await self._source.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
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
    """A wire to a server that is started for it, and stopped at its end."""
    try:
        process = await Process.start(server)
    except CutOffError as error:
        guard.give_up(error)
        raise
    try:
        lines = _Lines(process, guard)
        outgoing = Outgoing(guard, lines)
        yield Incoming(guard, lines, outgoing), outgoing
    finally:
        # On its own, so that a cancelled caller neither leaves the server running nor waits less than it takes.
        await asyncio.shield(asyncio.ensure_future(process.stop()))


@asynccontextmanager
async def to_url(server: Server, guard: Guard) -> AsyncIterator[Streams]:
    """A wire to a server at a URL."""
    from mcp.client.streamable_http import streamable_http_client

    from tidegate.gateway.http import open_client

    async with (
        open_client(server, guard.count) as client,
        # No DELETE at the end: that would be one more message, and after the call.
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

    async def receive(self) -> Item:
        line = await self._process.read()
        if not line:
            raise anyio.EndOfStream
        self._guard.count(line)
        try:
            return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValidationError as error:
            return error

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        with suppress(OSError):  # the reader notices the end
            await self._process.write(text.encode() + b"\n")

    async def aclose(self) -> None:
        """The process is stopped by whoever started it."""


def _method(message: Any) -> str | None:
    return getattr(message, "method", None)


def _denial(request: types.JSONRPCRequest) -> types.JSONRPCMessage:
    """Nothing is offered to servers: no sampling, no elicitation, no roots. A ping is answered."""
    if request.method == "ping":
        return types.JSONRPCResponse(jsonrpc="2.0", id=request.id, result={})
    error = types.ErrorData(code=types.METHOD_NOT_FOUND, message="not offered")
    return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
