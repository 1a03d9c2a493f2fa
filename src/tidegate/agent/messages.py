"""The messages of a conversation, as values and in their stored text form."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from tidegate.errors import StorageError
from tidegate.records.fields import check_types
from tidegate.records.jsonl import read_value


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call. arguments: exactly as the model sent them, valid JSON or not."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """A response of the model.

    native: the complete response as its provider expects it back, if it has more than text and calls; else "". It may
    hold thoughts, so it is not stored.
    cut: why it ended early, in our own words; else "".
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    native: str = ""
    cut: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool call. call: its id. failed: there was an error, or no result."""

    call: str
    name: str
    text: str
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of all messages up to number `upto`, for every reader."""

    text: str
    upto: int


Turn = UserMessage | AssistantMessage | ToolResult | Summary

_KINDS: dict[str, type[Turn]] = {
    "asked": UserMessage,
    "replied": AssistantMessage,
    "returned": ToolResult,
    "summed": Summary,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}


def write(turn: Turn) -> str:
    """Return a turn in its stored form: one JSON object in ASCII, whatever text a model sent."""
    return json.dumps({"kind": _NAMES[type(turn)], **asdict(turn)})


def read(text: str) -> Turn:
    """Return a turn from its stored form. Raises: StorageError for any other text."""
    try:
        fields: dict[str, Any] = read_value(text)
        kind = _KINDS[fields.pop("kind")]
        calls = fields.pop("calls") if kind is AssistantMessage else ()
        check_types(fields, kind)
        for call in calls:
            check_types(call, ToolCall)
        if kind is AssistantMessage:
            fields["calls"] = tuple(ToolCall(**call) for call in calls)
        make: Callable[..., Turn] = kind
        return make(**fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        raise StorageError("a message of this conversation cannot be read; run `tidegate doctor`") from None


def size(turn: Turn) -> int:
    """Return the approximate number of characters of a turn in a prompt."""
    if isinstance(turn, AssistantMessage):
        return len(turn.text) + len(turn.native) + sum(len(call.name) + len(call.arguments) for call in turn.calls)
    return len(turn.text)
