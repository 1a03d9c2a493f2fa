"""The memory tools and the tools of the owner's other servers, through one gate: that of the chat (P14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import mcp_types as types
from anyio import to_thread
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from tidegate.config.reader import read_settings
from tidegate.errors import InvalidArgument, StorageError, TidegateError
from tidegate.gateway.catalog import CatalogEntry, callable_tools, without_tools
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Pins
from tidegate.gateway.process import kill_all
from tidegate.gateway.replies import Result
from tidegate.server.tool_calls import MemoryTools, Progress, error_answer, memory_tools, text_answer
from tidegate.tools import TOOLS

if TYPE_CHECKING:
    from tidegate.config.servers import Server
    from tidegate.records.record import Origin
    from tidegate.server.served_session import ServedSession
    from tidegate.session import Session
    from tidegate.store import Store

LIST_TTL_MS = 60 * 1000
"""How long a client may keep the list: it follows the pins."""

PROGRESS_SECONDS = 5.0
"""How often a waiting client hears that the call is still running."""

_STRICTEST_REVISION = "2025-11-25"  # a definition that fits it fits every revision


class OwnersServers:
    """The servers in `config.toml`, as they were when it was first read, and the pins as they are now."""

    def __init__(self, home: Path, open_store: Callable[[], Store]) -> None:
        self._home = home
        self._open_store = open_store
        self._pins = Pins(home)
        self._servers: Mapping[str, Server] | None = None
        self._store: Store | None = None

    def open_store(self) -> Store:
        """Return a store, for the session that calls the servers. Raises: InvalidArgument, StorageError."""
        self._read()
        self._store = self._open_store()
        return self._store

    def tools(self) -> list[CatalogEntry]:
        """Return the tools that can be called, by name. Raises: InvalidArgument, StorageError."""
        return callable_tools(self._read().values(), self._pins)

    def without_tools(self) -> Mapping[str, str]:
        """Return the servers that offer no tool, each with the reason. Raises: as `tools`."""
        return without_tools(self._read().values(), self._pins)

    def gateway(self, session: Session) -> Gateway:
        """Return the gateway of a session of the open store. Raises: StorageError without one."""
        if self._store is None:
            raise StorageError("the store is not open; try again")
        return Gateway(self._store, session, self._read(), self._pins)

    def _read(self) -> Mapping[str, Server]:
        if self._servers is None:
            self._servers = read_settings(self._home).servers
        return self._servers


class GatewayTools:
    """The tools of a gateway for one session. Calls to different servers overlap.

    tell: takes what is wrong, for the owner.
    """

    def __init__(self, served: ServedSession, servers: OwnersServers, tell: Callable[[str], object]) -> None:
        self.served = served
        self._servers = servers
        self._tell = tell
        self._told = set[str]()
        self._memory = MemoryTools(served)
        self._gateway: Gateway | None = None
        self._running = set[asyncio.Future[Result]]()

    async def listing(self) -> types.ListToolsResult:
        """Return the memory tools, then the others by name; the memory tools alone if the others are not known."""
        others = await to_thread.run_sync(self._others)
        # Private: it depends on the owner's configuration.
        return types.ListToolsResult(tools=[*memory_tools(), *others], ttl_ms=LIST_TTL_MS, cache_scope="private")

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress) -> types.CallToolResult:
        """Return the answer to a call. Raises nothing."""
        if name in TOOLS:
            return await self._memory.call(name, arguments)
        try:
            result = await self.served.run_beside(partial(self._call, name, arguments, progress))
        except TidegateError as error:
            return await error_answer(error, self.served)
        if result is None:  # no such tool: refused there, like any unknown name
            return await self._memory.call(name, arguments)
        return text_answer(result.text, result.level, failed=result.failed)

    def note_read(self, origins: Iterable[Origin]) -> None:
        """Note that the client's model reads something of these origins."""
        self._memory.note_read(origins)

    async def close(self) -> None:
        """End every server and every call. Takes a few seconds at most."""
        if self._gateway is not None:
            await self._gateway.close()
        if running := tuple(self._running):  # each waits for its server to start
            for task in running:
                task.cancel()
            await asyncio.wait(running)

    def kill(self) -> None:
        """End every server at once."""
        kill_all()

    async def _call(self, name: str, arguments: dict[str, Any], progress: Progress, session: Session) -> Result | None:
        if self._gateway is None:
            self._gateway = self._servers.gateway(session)
        entry = await self._gateway.find_callable(name)
        if entry is None:
            return None
        result = await self._finished(self._gateway.call_entry(entry, arguments), progress)
        self.note_read((result.origin,))
        return result

    async def _finished(self, call: Coroutine[Any, Any, Result], progress: Progress) -> Result:
        """Return the result of a call, and report progress until then."""
        # In a task of its own: the MCP library interrupts a cancelled one again and again, also while it cleans up.
        task = asyncio.ensure_future(call)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # retrieved in any case
        waited = 0.0
        try:
            while not (await asyncio.wait({task}, timeout=PROGRESS_SECONDS))[0]:
                waited += PROGRESS_SECONDS
                with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                    await progress(waited, "waiting for the server")
        finally:
            task.cancel()
        if task.cancelled():
            raise StorageError("the call was stopped: this process is ending")
        return task.result()

    def _others(self) -> list[types.Tool]:
        try:
            found, missing = self._servers.tools(), self._servers.without_tools()
        except InvalidArgument:
            return []  # the opener tells the owner
        except StorageError as error:
            self._tell_once(f"{error.message}; the other servers' tools are missing")
            return []
        for name, why in missing.items():
            self._tell_once(f"server {name} offers no tools here: {why}")
        tools = list[types.Tool]()
        for entry in found:
            if (tool := _definition(entry)) is not None:
                tools.append(tool)
            else:
                self._tell_once(f"{entry.name} is left out: its definition would make some clients reject every tool")
        return tools

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)


def _definition(entry: CatalogEntry) -> types.Tool | None:
    """Return a tool as its owner trusted it; None if clients would refuse the whole list because of it.

    Without its output schema: its results have no structured content.
    """
    trusted = entry.definition
    properties = trusted.input_schema.get("properties")
    if isinstance(properties, Mapping) and not all(isinstance(each, Mapping) for each in properties.values()):
        return None  # a valid schema, but some clients accept only objects there
    shown = {
        "name": entry.name,
        "title": trusted.title,
        "description": trusted.description or "",
        "inputSchema": dict(trusted.input_schema),
        "annotations": trusted.annotations,
    }
    try:
        tool = types.Tool.model_validate({name: value for name, value in shown.items() if value is not None})
        listed = {"tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True)]}
        validate_server_result("tools/list", _STRICTEST_REVISION, listed)
    except ValidationError:
        return None
    return tool
