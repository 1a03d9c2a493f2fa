"""One kept-open connection to one server, for one session (P14). All that an MCP client library is used for is here."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import mcp_types as types
from fastmcp import Client
from fastmcp.client.transports import ClientTransport
from mcp import ClientSession, MCPError
from pydantic import ValidationError

from tidegate.config_servers import Server
from tidegate.errors import Refused
from tidegate.gateway import wire
from tidegate.gateway.aside import Aside, misplaced
from tidegate.gateway.guard import Check, Guard
from tidegate.gateway.limits import DEFINITION_BYTES_MAX, PAGES_MAX, TOOLS_MAX, CutOffError
from tidegate.gateway.pins import Definition, Definitions
from tidegate.gateway.results import Reply

T = TypeVar("T")

# P12: the libraries log what servers send, contents included.
for _name in ("mcp", "client", "fastmcp.client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


class Connection(Protocol):
    """What the gateway needs of a connection. Each act raises CutOffError when the connection is of no more use.

    check: called for each message to the server, right before it goes out.
    """

    async def definitions(self, check: Check) -> Definitions:
        """The tools as the server defines them now. Raises: CutOffError, Refused."""

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """What the server answers. Raises: CutOffError, Refused."""

    async def close(self) -> None:
        """End it, and the server if it was started for it. Sends nothing."""


Connect = Callable[[Server, Check], Coroutine[Any, Any, Connection]]


class McpConnection:
    """A connection by MCP, to a process or a URL."""

    def __init__(self, server: Server, aside: Aside | None = None) -> None:
        self._seconds = server.timeout_seconds
        self._guard = Guard(aside)
        open_wire = wire.to_url if server.url is not None else wire.to_process
        self._client = Client(
            _Transport(lambda: open_wire(server, self._guard)),
            init_timeout=self._seconds,
            log_handler=_drop,
            progress_handler=_drop,
            client_info=types.Implementation(name="tidegate", version=version("tidegate")),
        )

    @classmethod
    async def open(cls, server: Server, check: Check, aside: Aside | None = None) -> McpConnection:
        """A connection on which both sides have introduced themselves. Raises: CutOffError, Refused."""
        connection = cls(server, aside)
        try:
            await connection._during(check, connection._enter())
        except BaseException as error:
            await asyncio.shield(asyncio.ensure_future(connection.close()))
            if isinstance(error, MCPError):
                raise CutOffError("does not want to be connected") from None
            raise
        return connection

    async def definitions(self, check: Check) -> Definitions:
        """The tools as the server defines them now. Raises: CutOffError, Refused."""
        try:
            return await self._during(check, self._list())
        except MCPError:
            raise CutOffError("does not say which tools it has") from None

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """What the server answers, an error of its own included. Raises: CutOffError, Refused."""
        try:
            asked = self._client.session.call_tool(tool, dict(arguments), allow_input_required=True)
            return _reply(await self._during(check, asked))
        except MCPError as error:
            return Reply(error.error.message, failed=True)

    async def close(self) -> None:
        """End it, and the server if it was started for it. Sends nothing."""
        close: Callable[[], Coroutine[Any, Any, object]] = self._client.close
        with suppress(Exception):  # it is over, whatever it says
            await close()

    async def _enter(self) -> None:
        enter: Callable[[], Coroutine[Any, Any, object]] = self._client.__aenter__
        await enter()

    async def _list(self) -> Definitions:
        found: dict[str, Definition] = {}
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await self._client.session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                if tool.name in found or len(found) == TOOLS_MAX:
                    raise CutOffError(f"names a tool twice, or more than {TOOLS_MAX} tools")
                found[tool.name] = _definition(tool)
            cursor = page.next_cursor
            if cursor is None:
                return found
        raise CutOffError(f"lists its tools on more than {PAGES_MAX} pages")

    async def _during(self, check: Check, act: Coroutine[Any, Any, T]) -> T:
        """What the act gives, unless the connection breaks or the time is over before."""
        task = asyncio.ensure_future(act)
        either: set[asyncio.Future[Any]] = {task, self._guard.broken}
        try:
            with self._guard.during(check):
                try:
                    await asyncio.wait(either, timeout=self._seconds, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _ended(task)
                answered = not task.cancelled() and task.exception() is None
                if self._guard.broken.done() and not answered:
                    raise self._guard.broken.result()
                if task.cancelled():
                    raise CutOffError(f"did not answer within {self._seconds} seconds")
                return task.result()
        except (CutOffError, Refused, MCPError):
            raise
        except ValidationError:
            raise CutOffError("sent what is no answer by the protocol") from None
        except Exception:  # noqa: BLE001
            # The libraries' errors say what the server sent; none of it is ours to hand on (P12).
            raise CutOffError("broke off") from None


class _Transport(ClientTransport):
    """Our wire under the client."""

    def __init__(self, streams: Callable[[], AbstractAsyncContextManager[wire.Streams]]) -> None:
        self._streams = streams

    @asynccontextmanager
    async def connect_session(self, **options: Any) -> AsyncIterator[ClientSession]:
        options.pop("transport_options", None)
        options["log_level"] = None  # nothing is wanted but answers
        async with self._streams() as (incoming, outgoing), _Session(incoming, outgoing, **options) as session:
            yield session


class _Session(ClientSession):
    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        """Nothing: a schema of the server's choosing can take for ever, and what it promises decides nothing."""


async def _drop(*_: object) -> None:
    """P14: progress and log messages count as results; unsolicited ones are dropped."""


async def _ended(task: asyncio.Future[Any]) -> None:
    """Wait until a task is done; one that is not yet, is cancelled."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # looked at, whatever comes
    task.cancel()
    await asyncio.wait({task})


def _definition(tool: types.Tool) -> Definition:
    definition = Definition(
        tool.name,
        tool.title,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True) if tool.annotations else None,
    )
    if definition.size > DEFINITION_BYTES_MAX:
        raise CutOffError(f"defines a tool in more than {DEFINITION_BYTES_MAX} bytes")
    return definition


def _reply(result: types.CallToolResult | types.InputRequiredResult | types.Result) -> Reply:
    if not isinstance(result, types.CallToolResult):
        return Reply("The server asked for more input, which is not offered.", failed=True)
    text = "\n".join(_shown(block) for block in result.content)
    if not result.content and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return Reply(text, failed=bool(result.is_error))


def _shown(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"[{resource.uri}]\n{resource.text}"
        case types.ResourceLink():
            return f"[link: {block.name}, {block.uri}]"
        case _:
            return f"[{block.type}: not shown]"


async def look(server: Server) -> Definitions:
    """The tools as a server defines them, for the owner, who asks at no session's taint.

    Raises: CutOffError, which tells the owner all that is known of the cause.
    """
    aside = Aside()
    try:
        connection = await McpConnection.open(server, _unchecked, aside)
        try:
            return await connection.definitions(_unchecked)
        finally:
            await connection.close()
    except CutOffError as error:
        if misplaced(server):
            aside.notice("it runs in an empty folder, so a path in its command must be absolute, or cwd be set")
        told = CutOffError(f"{error.reason} ({aside.cause})" if aside.cause else error.reason)
        told.lines = aside.lines
        raise told from None


def _unchecked(_settled: bool) -> None:
    """The owner may ask."""
