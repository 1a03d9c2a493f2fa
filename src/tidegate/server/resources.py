"""A session's memories, for MCP clients that put them into their prompts: as a resource, and as a prompt.

Each is read through the gate, like a tool call (P4, P7); the lists are the same at every taint (P5).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import mcp_types as types
from anyio import CapacityLimiter, to_thread
from mcp import MCPError

from tidegate.errors import Refused, StorageError, TidegateError
from tidegate.policy.decisions import PolicyRule

if TYPE_CHECKING:
    from tidegate.session import Session

URI = "tidegate://memory"
PROMPT = "memory"
NOTHING = "Nothing is remembered here yet."
_FAILED = -32000  # the protocol's range for servers' own errors
_TITLE = "What is remembered"
_DESCRIPTION = (
    "The rules, preferences, persona and project memories that this session may see, marked as data, for the user's "
    "part of a prompt."
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryResources:
    """The handlers of resources and prompts for one session. turns: shared with its tool calls."""

    session: Session
    turns: CapacityLimiter

    async def list_resources(self, _context: object, _params: object) -> types.ListResourcesResult:
        resource = types.Resource(uri=URI, name=PROMPT, title=_TITLE, description=_DESCRIPTION, mime_type="text/plain")
        return types.ListResourcesResult(resources=[resource])

    async def list_templates(self, _context: object, _params: object) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=[])

    async def read_resource(
        self, _context: object, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        if params.uri != URI:
            raise MCPError(types.INVALID_PARAMS, f"no such resource; there is {URI}")
        text = await self._text()
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=URI, mime_type="text/plain", text=text)]
        )

    async def list_prompts(self, _context: object, _params: object) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[types.Prompt(name=PROMPT, title=_TITLE, description=_DESCRIPTION)])

    async def get_prompt(self, _context: object, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        if params.name != PROMPT or params.arguments:
            raise MCPError(types.INVALID_PARAMS, f"no such prompt; there is {PROMPT}, without arguments")
        content = types.TextContent(type="text", text=await self._text())
        # P18: in the user's role, never in the system's.
        return types.GetPromptResult(
            description=_DESCRIPTION, messages=[types.PromptMessage(role="user", content=content)]
        )

    async def _text(self) -> str:
        return await to_thread.run_sync(answered, lambda: self.session.context().text or NOTHING, limiter=self.turns)


def answered(read: Callable[[], str]) -> str:
    """Return what `read` returns. Raises: MCPError alone, with one of our errors in it."""
    try:
        return read()
    except TidegateError as error:
        failed = shown(error)
    except Exception as error:  # noqa: BLE001
        # P17: whatever it is, the answer is no. P12: none of its text leaves.
        _log.error("a request failed: %s", type(error).__name__)
        failed = StorageError("the store cannot answer").to_dict()
    raise MCPError(_FAILED, str(failed["message"]), {"error": failed})


def shown(error: TidegateError) -> dict[str, object]:
    """Return an error as clients see it: where the session has ended, with how to go on."""
    found = error.to_dict()
    if isinstance(error, Refused) and error.rule is PolicyRule.P7:
        found["message"] = f"{error.message}; then start this server with it (tidegate mcp --session NAME)"
    return found
