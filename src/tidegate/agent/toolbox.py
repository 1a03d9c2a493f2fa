"""The tools of one conversation: our own and those of foreign servers, all of them behind the gate."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.agent.messages import ToolCall
from tidegate.agent.prompt import ToolSpec
from tidegate.errors import InvalidArgument, Refused, StorageError, TidegateError
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin, least_trusted
from tidegate.session import Session
from tidegate.tools import AGENT_TOOLS

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

RESULT_CHARS_MAX = 60_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """What a call gave. origin: the least trusted thing that is in the text.

    reason: why it failed, in our own words, for the owner. refused: because the policy said no.
    """

    text: str
    failed: bool
    origin: Origin
    reason: str = ""
    refused: bool = False


class Toolbox:
    """Runs what a model calls. Nothing that a model sends makes it raise."""

    def __init__(self, gateway: Gateway | None = None, *, ids: Callable[[], str]) -> None:
        self._gateway = gateway
        self._ids = ids

    def offered(self) -> tuple[ToolSpec, ...]:
        """All tools, as a model is told of them: the same at every taint. Raises: StorageError (pins)."""
        own = tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in AGENT_TOOLS.values())
        return own + tuple(self._foreign())

    async def run(self, session: Session, call: ToolCall) -> ToolOutcome:
        """The result for the model, in words that it can pass on; an error is a result too. It raises nothing."""
        try:
            arguments = parse(call.arguments)
            if self._gateway is not None and call.name not in AGENT_TOOLS and self._is_foreign(call.name):
                result = await self._gateway.call(call.name, arguments)
                return ToolOutcome(result.text, result.failed, result.origin, result.reason)
            return self._done(await asyncio.to_thread(session.call_tool, call.name, arguments))
        except TidegateError as error:
            return _no(error)
        except Exception as error:  # noqa: BLE001
            # P17: whatever it is, the answer is no. P12: none of its text leaves.
            _log.error("a tool call failed: %s", type(error).__name__)
            return _no(StorageError("the tool cannot answer"))

    def _done(self, result: Mapping[str, Any]) -> ToolOutcome:
        text = json_line(result)
        if len(text) > RESULT_CHARS_MAX:
            text = json_line({"cut": f"the first {RESULT_CHARS_MAX} of {len(text)}", "text": text[:RESULT_CHARS_MAX]})
        origin = least_trusted((Origin.AGENT, *_origins(result)))
        if origin.from_outside:  # P18: marked so wherever it is put into a prompt
            text = data_block("The result, with memories that came from outside", "result", [text], self._ids())
        return ToolOutcome(text, failed=False, origin=origin)

    def _foreign(self) -> Iterator[ToolSpec]:
        for offer in self._gateway.tools() if self._gateway is not None else ():
            definition = offer.definition
            yield ToolSpec(offer.name, definition.description or "", dict(definition.input_schema))

    def _is_foreign(self, name: str) -> bool:
        return any(offered.name == name for offered in self._foreign())


def _no(error: TidegateError) -> ToolOutcome:
    text = json_line({"error": error.to_dict()})
    if isinstance(error, Refused):
        return ToolOutcome(text, True, Origin.AGENT, error.reason, refused=True)
    return ToolOutcome(text, True, Origin.AGENT, error.message)


def parse(arguments: str) -> dict[str, Any]:
    """A model's arguments. Raises: InvalidArgument for what is not one JSON object."""
    try:
        parsed = json.loads(arguments) if arguments.strip() else {}
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidArgument("arguments: must be one JSON object; nothing was done", argument="arguments")
    return parsed


def _origins(value: object) -> Iterator[Origin]:
    """Where the records in a result came from."""
    if isinstance(value, Mapping):
        if "origin" in value:
            yield Origin(value["origin"])
        for each in value.values():
            yield from _origins(each)
    elif isinstance(value, list):
        for each in value:
            yield from _origins(each)
