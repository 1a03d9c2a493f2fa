"""The history of one conversation: its stored messages, and those of them that a model gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.agent import messages as turns
from tidegate.agent.messages import AssistantMessage, Summary, ToolResult, Turn, UserMessage
from tidegate.agent.prompt import PromptMessage
from tidegate.records.excerpt import cut_as_data
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin
from tidegate.session import Session

CUT_CHARS = 400
"""How much remains of a tool's result that no longer fits."""

_MAY_BE_DONE = "interrupted: there is no result; the call may have been carried out, so check before you repeat it"
_INTERRUPTED = json_line({"error": {"message": _MAY_BE_DONE}})


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A turn in its place. number: of its message, from 1. origin: where it came from, according to the host."""

    number: int
    turn: Turn
    origin: Origin


class History:
    """The turns of a session's conversation. A named session's are stored; an ephemeral one's end with the process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._ephemeral: list[StoredMessage] | None = None if session.name is not None else []

    def read(self) -> list[StoredMessage]:
        """Return the last summary and all turns since. Raises: Refused, StorageError."""
        if self._ephemeral is not None:
            return since_summary(self._ephemeral)
        stored = self._session.conversation.read()
        return since_summary([StoredMessage(each.number, turns.read(each.content), each.origin) for each in stored])

    def add(self, turn: Turn, origin: Origin) -> None:
        """Store a turn after all others, at the session's live taint. Raises: Refused, StorageError."""
        if self._ephemeral is not None:
            self._ephemeral.append(StoredMessage(len(self._ephemeral) + 1, turn, origin))
        else:
            self._session.conversation.append([turns.write(turn)], origin=origin)


def since_summary(stored: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the last summary and all messages that it does not cover, even those stored while it was written."""
    summaries = [each for each in stored if isinstance(each.turn, Summary)]
    if not summaries:
        return list(stored)
    last = summaries[-1]
    upto = last.turn.upto if isinstance(last.turn, Summary) else 0
    return [last, *(each for each in stored if each.number > upto and not isinstance(each.turn, Summary))]


def messages(stored: Sequence[StoredMessage], ids: Callable[[], str]) -> tuple[PromptMessage, ...]:
    """Return the messages for a model: each call with its result, a summary as data in the user's role (P18)."""
    return tuple(_paired([_as_prompt_message(each.turn, ids) for each in stored]))


def fitting(
    prompt_messages: Sequence[PromptMessage], chars_max: int, ids: Callable[[], str]
) -> tuple[PromptMessage, ...]:
    """Return the messages in at most `chars_max` characters, if cutting tools' results, oldest first, achieves that.

    P18: a cut may remove the mark that ends a result, so the remaining part gets its own marks.
    """
    excess = sum(map(turns.size, prompt_messages)) - chars_max
    fitted = list[PromptMessage]()
    for message in prompt_messages:
        if excess > 0 and isinstance(message, ToolResult) and len(message.text) > 4 * CUT_CHARS:
            start = cut_as_data(message.text, CUT_CHARS)
            text = data_block("The start of an earlier result.", "cut", [start], ids())
            excess -= len(message.text) - len(text)
            message = replace(message, text=text)
        fitted.append(message)
    return tuple(fitted)


def _as_prompt_message(turn: Turn, ids: Callable[[], str]) -> PromptMessage:
    if not isinstance(turn, Summary):
        return turn
    line = json_line({"summary": turn.text})
    return UserMessage(data_block("A summary of this conversation so far.", "summary", [line], ids()))


def _paired(prompt_messages: Sequence[PromptMessage]) -> Iterator[PromptMessage]:
    """Yield every call with exactly one result right after it: a kill leaves none, two processes interleave theirs.

    A call without a result gets one that says so.
    """
    results = {each.call: each for each in prompt_messages if isinstance(each, ToolResult)}
    for message in prompt_messages:
        if isinstance(message, ToolResult):
            continue
        yield message
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            yield results.get(call.id) or ToolResult(call.id, call.name, _INTERRUPTED, failed=True)
