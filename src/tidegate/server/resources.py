"""A session's memories for the prompts of MCP clients: as a resource, and as a prompt.

Each read passes the gate, like a tool call (P4, P7); the lists are the same at every taint (P5).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import mcp_types as types
from mcp import MCPError

from tidegate.errors import TidegateError
from tidegate.policy.result_labels import result_label
from tidegate.records.record import Origin
from tidegate.server.tool_calls import ServedTools, shown

if TYPE_CHECKING:
    from tidegate.core.context import Context
    from tidegate.policy.levels import Level
    from tidegate.session import Session

URI = "tidegate://memory"
PROMPT = "memory"
NOTHING = "There are no memories here yet."
_FAILED = -32000  # the protocol's range for servers' own errors
_TITLE = "Memories"
_DESCRIPTION = (
    "The rules, preferences, persona and project memories that this session may see, marked as data, for the user's "
    "part of a prompt."
)


@dataclass(frozen=True, slots=True)
class MemoryResources:
    """The handlers of resources and prompts for one session. tools: those of the same session."""

    tools: ServedTools

    async def list_resources(self, _context: object, _params: object) -> types.ListResourcesResult:
        resource = types.Resource(uri=URI, name=PROMPT, title=_TITLE, description=_DESCRIPTION, mime_type="text/plain")
        return types.ListResourcesResult(resources=[resource])

    async def list_templates(self, _context: object, _params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        self, _context: object, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if params.uri != URI:
            raise MCPError(types.INVALID_PARAMS, f"unknown resource; the only one is {URI}")
        text, label = await self._read()
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=URI, mime_type="text/plain", text=text)], _meta=label
        )

    async def list_prompts(self, _context: object, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT, title=_TITLE, description=_DESCRIPTION)])

    async def get_prompt(self, _context: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT or params.arguments:
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt; the only one is {PROMPT}, without arguments")
        text, label = await self._read()
        # P18: in the user's role, never in the system's.
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=_DESCRIPTION, messages=[message], _meta=label)

    async def _read(self) -> tuple[str, dict[str, object]]:
        """Return the block of memories, and its labels. Raises: MCPError."""
        served = self.tools.served
        try:
            context, level = await served.run(_context)
        except TidegateError as error:
            failed = shown(error, served.command)
            raise MCPError(_FAILED, str(failed["message"]), {"error": failed}) from None
        self.tools.note_read((context.origin,))
        return context.text or NOTHING, result_label(level, trusted=context.origin is Origin.OWNER)


def _context(session: Session) -> tuple[Context, Level]:
    return session.context(), session.taint
