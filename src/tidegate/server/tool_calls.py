"""The tools of a server, and their results: one JSON object or a text, with its labels."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import mcp_types as types

from tidegate.errors import Refused, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.policy.result_labels import result_label
from tidegate.records.record import Origin, least_trusted
from tidegate.tools import TOOLS
from tidegate.tools.results import origins_in

if TYPE_CHECKING:
    from tidegate.server.served_session import ServedSession
    from tidegate.session import Session
    from tidegate.tools.tool import Tool

LIST_TTL_MS = 60 * 60 * 1000
"""How long a client may keep the list of the memory tools."""

Progress = Callable[[float, str], Awaitable[None]]
"""Tells the client how far a call is, if it asked for that."""


class ServedTools(Protocol):
    """The tools that a server offers, for one session."""

    served: ServedSession

    async def listing(self) -> types.ListToolsResult:
        """Return all tools, the same at every taint. Raises nothing."""

    async def call(self, name: str, arguments: dict[str, Any], progress: Progress) -> types.CallToolResult:
        """Return the answer to a call. Raises nothing."""

    def note_read(self, origins: Iterable[Origin]) -> None:
        """Note what the client's model reads, before it can: later saves are marked like the least trusted (P18)."""

    async def close(self) -> None:
        """End whatever still runs. Takes a few seconds at most."""

    def kill(self) -> None:
        """End at once whatever would outlive this process."""


class MemoryTools:
    """The five memory tools. What is saved is marked like the least trusted of all that was read before (P18)."""

    def __init__(self, served: ServedSession) -> None:
        self.served = served
        self._read = Origin.AGENT

    def note_read(self, origins: Iterable[Origin]) -> None:
        """Note that the client's model reads something of these origins."""
        self._read = least_trusted((self._read, *origins))

    async def listing(self) -> types.ListToolsResult:
        """Return the memory tools. The list does not depend on the session, so any cache may keep it (P5)."""
        return types.ListToolsResult(tools=memory_tools(), ttl_ms=LIST_TTL_MS, cache_scope="public")

    async def call(self, name: str, arguments: dict[str, Any], _progress: object = None) -> types.CallToolResult:
        """Return the answer to a call: one JSON object, as structured content and as text. Raises nothing."""
        known = name if name in TOOLS else ""  # the agent of this package may have more tools: here they are unknown
        try:
            result, level = await self.served.run(partial(self._call, known, arguments))
        except TidegateError as error:
            return await error_answer(error, self.served)
        origins = list(origins_in(result))
        self.note_read(origins)
        return _json_answer(result, result_label(level, trusted=least_trusted(origins) is Origin.OWNER))

    async def close(self) -> None:
        """Do nothing: the session belongs to its opener."""

    def kill(self) -> None:
        """Do nothing: no other process runs."""

    def _call(self, name: str, arguments: dict[str, Any], session: Session) -> tuple[dict[str, Any], Level]:
        return session.marking(self._read).call_tool(name, arguments), session.taint


def memory_tools() -> list[types.Tool]:
    """Return the memory tools as a client sees them."""
    return [_definition(tool) for tool in TOOLS.values()]


def text_answer(text: str, level: Level, *, failed: bool) -> types.CallToolResult:
    """Return an answer with a text from outside. It has no structured content: nothing there could mark it."""
    content: list[types.ContentBlock] = [types.TextContent(type="text", text=text)]
    return types.CallToolResult(content=content, is_error=failed, _meta=result_label(level, trusted=False))


async def error_answer(error: TidegateError, served: ServedSession) -> types.CallToolResult:
    """Return an error as an answer, with labels if the session's level is known."""
    level = await served.level()
    label = None if level is None else result_label(level, trusted=False)
    return _json_answer({"error": shown(error, served.command)}, label, is_error=True)


def shown(error: TidegateError, command: str) -> dict[str, object]:
    """Return an error as clients see it; if the session has ended, with how to continue.

    command: the one that started this server.
    """
    found = error.to_dict()
    if isinstance(error, Refused) and error.rule is PolicyRule.P7:
        found["message"] = f"{error.message}; then start this server again with `tidegate {command} --session NAME`"
    return found


def _json_answer(
    result: dict[str, Any], label: dict[str, object] | None, *, is_error: bool = False
) -> types.CallToolResult:
    text = types.TextContent(type="text", text=json.dumps(result, ensure_ascii=False))
    return types.CallToolResult(content=[text], structured_content=result, is_error=is_error, _meta=label)


def _definition(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations.to_dict()),
    )
