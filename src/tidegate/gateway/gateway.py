"""The gateway: foreign servers' tools, for one session. It calls what the policy allows, and nothing else (P4, P14).

    async with Gateway(store, session, settings.servers, Pins(home)) as gateway:
        gateway.tools()                                         # what a model sees: the same at every taint
        result = await gateway.call("files__read_file", {...})  # result.text goes into the conversation

A call, step by step. The gateway looks up the tool once, together with the pins of its server. One transaction checks
sink and ceiling and raises the taint, durably. Only then the gateway starts or contacts the server and asks for its
definitions, which must match the pins. The call goes out; each message is checked again. A label on the answer that is
above the taint raises it, durably. If the session is still active, the answer is handed on, marked as data from
outside.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, TypeVar

from tidegate.config.servers import Server
from tidegate.errors import InvalidArgument, LimitExceeded, Refused, refused
from tidegate.gateway.catalog import CatalogEntry, callable_tools, catalog, without_tools
from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.pins import Definitions, Pins, verdict
from tidegate.gateway.replies import Result, no_answer, outside
from tidegate.gateway.revisions import revisions_of
from tidegate.policy.levels import Level
from tidegate.policy.refusals import UNKNOWN_TOOL
from tidegate.policy.servers import Classification, Pin
from tidegate.session import Session
from tidegate.store import Store, fresh_id

if TYPE_CHECKING:
    from tidegate.gateway.connections import Connect, ServerConnection
    from tidegate.gateway.wire_guard import Check

ARGUMENTS_BYTES_MAX = 1024 * 1024

T = TypeVar("T")


class Hop(Protocol):
    """Runs blocking calls outside the event loop."""

    def __call__(self, act: Callable[..., T], /, *arguments: Any) -> Awaitable[T]: ...


class Gateway:
    """Foreign tools for one session, over one open connection to each server that it calls.

    Calls to one server run one after the other; calls to different ones may overlap. Close it with the session.
    connect, hop: for tests.
    """

    def __init__(
        self,
        store: Store,
        session: Session,
        servers: Mapping[str, Server],
        pins: Pins,
        *,
        ids: Callable[[], str] = fresh_id,
        connect: Connect | None = None,
        hop: Hop = asyncio.to_thread,
    ) -> None:
        self._flow = store.flow
        self._session = session.id
        self._agent = session.agent
        self._revisions = revisions_of(store)
        self._servers = servers
        self._pins = pins
        self._ids = ids
        self._connect = connect
        self._hop = hop
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._connections: dict[str, ServerConnection] = {}
        self._closed = False

    def tools(self) -> list[CatalogEntry]:
        """Return the tools that can be called, if the taint permits: trusted and classified, by name. Asks no server.

        Raises: StorageError when the pins cannot be read.
        """
        return callable_tools(self._servers.values(), self._pins)

    def without_tools(self) -> Mapping[str, str]:
        """Return the servers that offer no tool, each with the reason and what the owner can do. Asks no server.

        Raises: as `tools`.
        """
        return without_tools(self._servers.values(), self._pins)

    async def find(self, name: str) -> CatalogEntry | None:
        """Return the trusted tool of a name, as it is trusted now, or None. Raises: as `tools`."""
        return (await self._hop(catalog, self._servers.values(), self._pins)).get(name)

    async def find_callable(self, name: str) -> CatalogEntry | None:
        """Return the tool of a name, if a model sees it: an unclassified one is hidden. Raises: as `tools`."""
        entry = await self.find(name)
        return None if entry is None or entry.classification is None else entry

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> Result:
        """Return the tool's answer, marked as data from outside, or the reason for no answer, in our own words.

        The call may raise the session's taint. A server that hangs, floods or ends is cut off, and started again at
        the next call. Cancelling a call does not lower the taint.
        Raises: Refused (ended, unknown tool, unclassified, pin, sink, ceiling), in words that the model can pass on;
        InvalidArgument, LimitExceeded, StorageError. Then no call was made.
        """
        entry = await self.find(name)
        if entry is None:
            await self._refuse(None, None, Pin.UNKNOWN)  # its name is the model's own text (P12)
        return await self.call_entry(entry, arguments or {})

    async def call_entry(self, entry: CatalogEntry, arguments: Mapping[str, Any]) -> Result:
        """Return as `call`, for a tool just found: it is compared with the pins of that moment.

        Raises: Refused, InvalidArgument, LimitExceeded, StorageError. Then no call was made.
        """
        _check_arguments(arguments)
        async with self._turns[entry.server.name]:
            return await self._call(entry, arguments)

    async def close(self) -> None:
        """End every connection. Takes a few seconds at most; nothing is sent."""
        self._closed = True
        connections = list(self._connections.values())
        self._connections.clear()
        await asyncio.gather(*(connection.close() for connection in connections))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _call(self, entry: CatalogEntry, arguments: Mapping[str, Any]) -> Result:
        granted = await self._dispatch(entry.name, entry.classification, Pin.TRUSTED)
        check = partial(self._check, entry, granted)
        claimed = Level.PUBLIC
        try:
            connection, found = await self._ready(entry.server, check, granted)
            pin = verdict(entry.definition.name, entry.pinned, found)
            if pin is not Pin.TRUSTED:
                await self._refuse(entry.name, entry.classification, pin)
            reply = await connection.call(check, entry.definition.name, arguments)
            result, claimed = outside(entry.name, reply, self._ids()), reply.claimed
        except CutOffError as error:
            await self._drop(entry.server)
            result = no_answer(entry.name, error.reason)
        except Refused:
            await self._drop(entry.server)
            raise
        release = partial(self._flow.check_result, self._session, entry.name, entry.classification, claimed)
        if not claimed.can_flow_to(granted):
            await self._hop(release)  # a raise waits for the disk
        # Not in another thread: nothing else runs between this check and the return.
        return replace(result, level=release())

    async def _dispatch(self, tool: str | None, classification: Classification | None, pin: Pin) -> Level:
        return await self._hop(self._flow.dispatch, self._session, tool, classification, pin)

    async def _refuse(self, tool: str | None, classification: Classification | None, pin: Pin) -> NoReturn:
        """Raise the policy's refusal of a pin that is not trusted, entered in the audit. Never returns (P17)."""
        await self._dispatch(tool, classification, pin)
        raise refused(UNKNOWN_TOOL, tool=tool)

    def _check(self, entry: CatalogEntry, granted: Level, settled: bool) -> None:
        """Raise if a message may not go to the server: checked again, just before it goes out (P4)."""
        self._flow.check_send(self._session, entry.name, entry.classification, granted if settled else None)

    async def _ready(self, server: Server, check: Check, level: Level) -> tuple[ServerConnection, Definitions]:
        """Return the connection to a server, and its tools as it defines them now."""
        self._check_open()
        kept = self._connections.get(server.name)
        if kept is not None:
            try:
                return kept, await kept.definitions(check)
            except CutOffError:  # it has ended: nothing of this call was sent on it
                await self._drop(server)
        connection = await (self._connect(server, check) if self._connect else self._open(server, check, level))
        self._connections[server.name] = connection
        self._check_open()  # a connection opened in between is dropped again
        return connection, await connection.definitions(check)

    async def _open(self, server: Server, check: Check, level: Level) -> ServerConnection:
        from tidegate.gateway.connections import McpConnection  # the library is an extra, and slow to load

        old = self._revisions.is_old(self._agent, server, level)
        connection = await McpConnection.open(server, check, old=old)
        if connection.old:
            self._revisions.note_old(self._agent, server, level)
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise CutOffError("is no longer connected: the conversation is over")

    async def _drop(self, server: Server) -> None:
        connection = self._connections.pop(server.name, None)
        if connection is not None:
            await connection.close()


def _check_arguments(arguments: Mapping[str, Any]) -> None:
    """Raise for arguments that cannot be sent. Raises: InvalidArgument, LimitExceeded."""
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError):
        raise InvalidArgument(
            "arguments: must be valid JSON without NaN, Infinity or lone surrogates", argument="arguments"
        ) from None
    if re.search(r"(?<!\\)(?:\\\\)*\\u0000", text):
        raise InvalidArgument("arguments: must not contain NUL", argument="arguments")
    if size > ARGUMENTS_BYTES_MAX:
        raise LimitExceeded(
            f"arguments: {size} bytes; the limit is {ARGUMENTS_BYTES_MAX}",
            argument="arguments",
            limit=ARGUMENTS_BYTES_MAX,
            actual=size,
        )
