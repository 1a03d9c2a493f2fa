"""One open connection to one server, for one session (P14). Only this module uses the MCP client library."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from importlib.metadata import version
from typing import Any, Protocol, TypeVar

import mcp_types as types
from mcp import ClientSession, MCPError
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import RootModel, TypeAdapter, ValidationError

from tidegate.config.servers import Server
from tidegate.errors import Refused
from tidegate.gateway import wire
from tidegate.gateway.diagnostics import CutOffError, ServerDiagnostics, misplaced, unreadable
from tidegate.gateway.pins import Definitions
from tidegate.gateway.replies import Reply
from tidegate.gateway.tool_list import ToolList
from tidegate.gateway.wire_guard import Check, Guard, count_values
from tidegate.policy.result_labels import claimed_level

PROBE_SECONDS = 10
"""How long to wait for an answer in the newest revision before a server is taken for an older one."""

START_SECONDS_MIN = 0.1
"""A server is not started again if it would get less time than this to answer."""

PAGES_MAX = 50

RESULT_VALUES_MAX = 20_000
"""The maximum number of JSON values in one answer. In structured content any number is quick to validate."""

T = TypeVar("T")
_RESULT: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

# P12: the libraries log messages of servers, contents included.
for _name in ("mcp", "client"):
    logging.getLogger(_name).addHandler(logging.NullHandler())
    logging.getLogger(_name).propagate = False


class ServerConnection(Protocol):
    """A connection as the gateway uses it. Each method raises CutOffError when the connection is no longer usable.

    check: called for each message to the server, just before it goes out.
    """

    async def definitions(self, check: Check) -> Definitions:
        """Return the tools as the server defines them now. Raises: CutOffError, Refused."""

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Return the server's answer. Raises: CutOffError, Refused."""

    async def close(self) -> None:
        """End the connection, and the server if it was started for it. Sends nothing."""


Connect = Callable[[Server, Check], Coroutine[Any, Any, ServerConnection]]


class McpConnection:
    """A connection by MCP, to a process or a URL. old: it speaks an older revision, with a handshake."""

    def __init__(self, server: Server, diagnostics: ServerDiagnostics | None = None) -> None:
        self.old = False
        self._server = server
        self._guard = Guard(diagnostics)
        self._opened: asyncio.Future[_Session] = asyncio.get_running_loop().create_future()
        # The library requires that one task enters and leaves a session; calls and the end come from any task.
        self._held = asyncio.ensure_future(self._hold())

    @classmethod
    async def open(
        cls, server: Server, check: Check, diagnostics: ServerDiagnostics | None = None, *, old: bool = False
    ) -> McpConnection:
        """Open a connection and agree on a revision of the protocol.

        An older server may answer the newest revision with anything, with silence or by ending. Then it is started
        again and addressed in an older one, if the server's time is not over: both share it.
        old: it is known to speak an older one. Raises: CutOffError, Refused.
        """
        time, left, again = asyncio.get_running_loop().time, float(server.timeout_seconds), False
        while True:
            connection, began = cls(server, diagnostics), time()
            try:
                await connection._during(check, connection._introduce(old_first=old), left)
                return connection
            except BaseException as error:
                left -= time() - began  # without the time that its end takes
                await asyncio.shield(asyncio.ensure_future(connection.close()))
                if again or left < START_SECONDS_MIN or not isinstance(error, CutOffError) or not error.misunderstood:
                    raise
            again, old = True, not old
            if diagnostics is not None:
                diagnostics.begin_again()

    async def definitions(self, check: Check) -> Definitions:
        """Return the tools as the server defines them now. Raises: CutOffError, Refused."""
        return (await self.tools(check)).definitions

    async def tools(self, check: Check) -> ToolList:
        """Return the tools as the server lists them now, with those that cannot be used. Raises: as `definitions`."""
        try:
            return await self._during(check, self._list(), self._server.timeout_seconds)
        except MCPError:
            raise CutOffError("does not list its tools") from None

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """Return the server's answer, which may be its own error. Raises: CutOffError, Refused."""
        try:
            return await self._during(check, self._ask(tool, arguments), self._server.timeout_seconds)
        except MCPError as error:
            return Reply(error.error.message, failed=True, claimed=claimed_level(_error_labels(error.error)))

    async def close(self) -> None:
        """End the connection, and the server if it was started for it. Sends nothing."""
        await _ended(self._held)

    async def _hold(self) -> None:
        """Keep the wire and its session open until cancelled."""
        open_wire = wire.to_process if self._server.url is None else wire.to_url
        client = types.Implementation(name="tidegate", version=version("tidegate"))
        try:
            async with (
                open_wire(self._server, self._guard) as (incoming, outgoing),
                _Session(incoming, outgoing, client) as session,
            ):
                self._opened.set_result(session)
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - passed to the caller who waits for the session
            if not self._opened.done():
                self._opened.set_exception(error)

    async def _introduce(self, *, old_first: bool) -> None:
        """Agree on a revision: the newest or an older one, and the other if the server's answer to the first is no."""
        session = await self._opened
        for last, old in enumerate((old_first, not old_first)):
            try:
                await (session.initialize() if old else self._discover(session))
                self.old = old
                return
            except MCPError:  # unknown method
                if last:
                    raise CutOffError("refuses the connection", misunderstood=True) from None
            except (ValidationError, RuntimeError):  # invalid answer, no common revision
                if last:
                    raise

    async def _discover(self, session: _Session) -> None:
        """Ask in the newest revision. Raises: CutOffError for silence."""
        try:
            async with asyncio.timeout(min(PROBE_SECONDS, self._server.timeout_seconds / 2)):
                await session.discover()
        except TimeoutError:
            raise CutOffError("does not answer", misunderstood=True) from None

    async def _list(self) -> ToolList:
        session = await self._opened
        session.sieve.tools = tools = ToolList(session.protocol_version or LATEST_HANDSHAKE_VERSION)
        cursors = set[str | None]()
        cursor: str | None = None
        for _ in range(PAGES_MAX):
            page = await session.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            await asyncio.to_thread(tools.add, page.tools)
            cursors.add(cursor)
            cursor = page.next_cursor
            if not cursor or cursor in cursors:
                return tools
        raise CutOffError(f"lists its tools on more than {PAGES_MAX} pages")

    async def _ask(self, tool: str, arguments: Mapping[str, Any]) -> Reply:
        session = await self._opened
        request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
        # Not `call_tool`: its types drop labels that they do not know, and it checks a result against the server's own
        # schema, which could run forever and decides nothing.
        return _reply((await session.send_request(request, _Answer)).root)

    async def _during(self, check: Check, act: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of an act, unless the connection breaks or the time runs out first."""
        task = asyncio.ensure_future(act)
        either: set[asyncio.Future[Any]] = {task, self._guard.broken}
        try:
            with self._guard.during(check):
                try:
                    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    await _ended(task)
                answered = not task.cancelled() and task.exception() is None
                if self._guard.broken.done() and not answered:
                    raise self._guard.broken.result()
                if task.cancelled():
                    raise CutOffError(
                        f"did not answer within {self._server.timeout_seconds} seconds", misunderstood=True
                    )
                return task.result()
        except (CutOffError, Refused, MCPError):
            raise
        except ValidationError:
            raise unreadable() from None
        except Exception:  # noqa: BLE001
            # The libraries' errors quote the server; none of that may leave (P12).
            raise CutOffError("lost the connection", misunderstood=True) from None


class _Session(ClientSession):
    """The library's session, not its client, which would answer a list from a cache for as long as a server's `ttlMs`
    says, while the pin check needs the current tools (P14), and would answer requests for input.

    sieve: takes bad entries out of a list of tools.
    """

    def __init__(self, incoming: wire.Incoming, outgoing: wire.Outgoing, client: types.Implementation) -> None:
        self.sieve = _Sieve(incoming, outgoing)
        super().__init__(dispatcher=self.sieve, client_info=client)


class _Sieve(JSONRPCDispatcher):
    """The library's dispatcher. It sees each result before the library validates it.

    There, one bad entry spoils a whole list of tools, and a huge answer keeps every other call waiting.
    """

    def __init__(self, incoming: wire.Incoming, outgoing: wire.Outgoing) -> None:
        super().__init__(incoming, outgoing)
        self.tools = ToolList(LATEST_HANDSHAKE_VERSION)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        """Return the server's result, a list of tools without its bad entries. Raises: CutOffError for a huge one."""
        result = await super().send_raw_request(method, params, opts, **more)
        if method == "tools/list":
            return await asyncio.to_thread(self.tools.sift, result)  # it can take seconds, in small steps
        typed = {name: value for name, value in result.items() if name != "structuredContent"}
        if count_values(typed, RESULT_VALUES_MAX) > RESULT_VALUES_MAX:
            raise CutOffError(f"sent an answer of more than {RESULT_VALUES_MAX} values")
        return result


class _Answer(RootModel[dict[str, Any]]):
    """The answer to a call, as it came."""


async def _ended(task: asyncio.Future[Any]) -> None:
    """Cancel a task that is not done yet, and wait until it is."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved in any case
    task.cancel()
    await asyncio.wait({task})


def _reply(answer: dict[str, Any]) -> Reply:
    result, claimed = _RESULT.validate_python(answer, by_name=False), claimed_level(_labels(answer))
    if not isinstance(result, types.CallToolResult):
        return Reply("The server asked for more input. This client cannot give it.", failed=True, claimed=claimed)
    text = "\n".join(_shown(block) for block in result.content)
    if not result.content and result.structured_content is not None:
        text = json.dumps(result.structured_content, ensure_ascii=False)
    return Reply(text, failed=bool(result.is_error), claimed=claimed)


def _labels(answer: dict[str, Any]) -> Iterator[object]:
    """Yield every place in an answer that can carry labels: of the answer itself, and of each part of its content."""
    for part in (answer, *answer.get("content", ())):
        yield from _held(part)
        yield from _held(part.get("resource"))
    structured = answer.get("structuredContent") or {}
    yield from _held({"_meta": structured.get("_meta")})  # all other names there are the tool's own


def _error_labels(error: types.ErrorData) -> Iterator[object]:
    """Yield every place in an error that can carry labels: its data, as labels or as an answer has them."""
    if isinstance(error.data, dict):
        yield error.data
        yield from _held(error.data)


def _held(holder: object) -> Iterator[object]:
    """Yield the places for labels in one part of an answer."""
    if isinstance(holder, dict):
        meta = holder.get("_meta")
        yield from (meta, holder.get("annotations"))
        yield meta.get("annotations") if isinstance(meta, dict) else None


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


async def look(server: Server) -> ToolList:
    """Return the tools as a server lists them, for the owner, outside any session.

    Raises: CutOffError, with all known details of the cause.
    """
    diagnostics = ServerDiagnostics()
    try:
        connection = await McpConnection.open(server, _unchecked, diagnostics)
        try:
            return await connection.tools(_unchecked)
        finally:
            await connection.close()
    except CutOffError as error:
        if misplaced(server):
            diagnostics.notice("it runs in an empty folder: use an absolute path in its command, or set cwd")
        reason = f"{error.reason} ({diagnostics.cause})" if diagnostics.cause else error.reason
        raise CutOffError(reason, diagnostics.lines) from None


def _unchecked(_settled: bool) -> None:
    """Let every message pass: the owner may ask."""
