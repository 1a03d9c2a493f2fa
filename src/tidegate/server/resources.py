"""A session's memories for the prompts of MCP clients: as a resource, and as a prompt.

Each read passes the gate, like a tool call (P4, P7); the lists are the same at every taint (P5).
"""

from __future__ import annotations

from dataclasses import dataclass

import mcp_types as types
from mcp import MCPError

from tidegate.errors import Refused, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.server.served_session import ServedSession

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
    """The handlers of resources and prompts for one session."""

    served: ServedSession

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
        text = await self._text()
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=URI, mime_type="text/plain", text=text)]
        )

    async def list_prompts(self, _context: object, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT, title=_TITLE, description=_DESCRIPTION)])

    async def get_prompt(self, _context: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT or params.arguments:
            raise MCPError(types.INVALID_PARAMS, f"unknown prompt; the only one is {PROMPT}, without arguments")
        content = types.TextContent(type="text", text=await self._text())
        # P18: in the user's role, never in the system's.
        return types.GetPromptResult(
            description=_DESCRIPTION, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def _text(self) -> str:
        try:
            return await self.served.run(lambda session: session.context().text or NOTHING)
        except TidegateError as error:
            failed = shown(error, self.served.command)
            raise MCPError(_FAILED, str(failed["message"]), {"error": failed}) from None


def shown(error: TidegateError, command: str) -> dict[str, object]:
    """Return an error as clients see it; if the session has ended, with how to continue.

    command: the one that started this server.
    """
    found = error.to_dict()
    if isinstance(error, Refused) and error.rule is PolicyRule.P7:
        found["message"] = f"{error.message}; then start this server again with `tidegate {command} --session NAME`"
    return found
