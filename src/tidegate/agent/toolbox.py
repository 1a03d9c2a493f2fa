"""The tools of one conversation: our own and those of foreign servers, all behind the gate."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.agent.messages import ToolCall
from tidegate.agent.prompt import ToolSpec
from tidegate.errors import INTERNAL_ERROR, InvalidArgument, Refused, StorageError, TidegateError
from tidegate.records.excerpt import cut_as_data
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin, least_trusted
from tidegate.session import Session
from tidegate.tools import AGENT_TOOLS
from tidegate.tools.results import origins_in

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

RESULT_CHARS_MAX = 60_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call. text: for the model. origin: of the least trusted part of the text.

    reason: why it failed, in our own words, for the owner. refused: by the policy.
    """

    text: str
    failed: bool
    origin: Origin
    reason: str = ""
    refused: bool = False


class Toolbox:
    """Runs the tools that a model calls. No input of a model makes it raise."""

    def __init__(self, gateway: Gateway | None = None, *, ids: Callable[[], str]) -> None:
        self._gateway = gateway
        self._ids = ids

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return all tools as a model sees them: the same at every taint. Raises: StorageError (pins)."""
        own = tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in AGENT_TOOLS.values())
        return own + tuple(
            ToolSpec(entry.name, entry.definition.description or "", dict(entry.definition.input_schema))
            for entry in (self._gateway.tools() if self._gateway is not None else ())
        )

    async def run(self, session: Session, call: ToolCall) -> ToolOutcome:
        """Return the result for the model, in words that it can pass on. An error is a result too. Raises nothing."""
        try:
            arguments = parse(call.arguments)
            # Our own tools win.
            if self._gateway is not None and call.name not in AGENT_TOOLS:
                entry = await self._gateway.find_callable(call.name)
                if entry is not None:
                    result = await self._gateway.call_entry(entry, arguments)
                    return ToolOutcome(result.text, result.failed, result.origin, result.reason)
            return self._outcome(await asyncio.to_thread(session.call_tool, call.name, arguments))
        except TidegateError as error:
            return _failure(error)
        except Exception as error:  # noqa: BLE001
            # P17: any error is refused. P12: none of its text leaves.
            _log.error("a tool call failed: %s", type(error).__name__)
            return _failure(StorageError(INTERNAL_ERROR))

    def _outcome(self, result: Mapping[str, Any]) -> ToolOutcome:
        text = cut_as_data(json_line(result), RESULT_CHARS_MAX)
        origin = least_trusted((Origin.AGENT, *origins_in(result)))
        if origin.from_outside:  # P18: marked in every prompt
            text = data_block("The result. It holds text from outside.", "result", [text], self._ids())
        return ToolOutcome(text, failed=False, origin=origin)


def _failure(error: TidegateError) -> ToolOutcome:
    text = json_line({"error": error.to_dict()})
    if isinstance(error, Refused):
        return ToolOutcome(text, True, Origin.AGENT, error.reason, refused=True)
    return ToolOutcome(text, True, Origin.AGENT, error.message)


def parse(arguments: str) -> dict[str, Any]:
    """Return a model's arguments. Raises: InvalidArgument for anything but one JSON object."""
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidArgument("arguments: must be one JSON object; nothing was done", argument="arguments")
    return parsed
