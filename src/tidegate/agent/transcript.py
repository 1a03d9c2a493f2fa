"""The history of one conversation: what was said, as it is stored, and as much of it as a model is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tidegate.agent import messages as turns
from tidegate.agent.messages import AssistantMessage, Summary, ToolResult, Turn, UserMessage
from tidegate.agent.prompt import PromptMessage
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin
from tidegate.session import Session

CUT_CHARS = 400
"""What stays of a tool's result that no longer fits."""

_INTERRUPTED = '{"error": {"message": "interrupted: no result; whether the call was carried out is not known"}}'


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A turn in its place. number: from 1, of its message. origin: where it came from, as the host said."""

    number: int
    turn: Turn
    origin: Origin


class History:
    """The turns of a session's conversation. A named session's are stored; an ephemeral one's end with the process."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._unstored: list[StoredMessage] | None = None if session.name is not None else []

    def read(self) -> list[StoredMessage]:
        """All turns since the last summary, which comes first. Raises: Refused, StorageError."""
        if self._unstored is not None:
            return since_summary(self._unstored)
        stored = self._session.conversation.read()
        return since_summary([StoredMessage(each.number, turns.read(each.content), each.origin) for each in stored])

    def add(self, turn: Turn, origin: Origin) -> None:
        """Store a turn after all others, at the session's live taint. Raises: Refused, StorageError."""
        if self._unstored is not None:
            self._unstored.append(StoredMessage(len(self._unstored) + 1, turn, origin))
        else:
            self._session.conversation.append([turns.write(turn)], origin=origin)


def since_summary(kept: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The last summary, and what it does not stand for. Whatever was said while it was being written, stays."""
    summaries = [each for each in kept if isinstance(each.turn, Summary)]
    if not summaries:
        return list(kept)
    last = summaries[-1]
    upto = last.turn.upto if isinstance(last.turn, Summary) else 0
    return [last, *(each for each in kept if each.number > upto and not isinstance(each.turn, Summary))]


def messages(kept: Sequence[StoredMessage], ids: Callable[[], str]) -> tuple[PromptMessage, ...]:
    """What a model is told: each call with its result, and a summary as data in the user's role (P18)."""
    return tuple(_paired([_told(each.turn, ids) for each in kept]))


def fitting(told: Sequence[PromptMessage], chars_max: int, ids: Callable[[], str]) -> tuple[PromptMessage, ...]:
    """The same in at most so many characters, as far as it can be had by cutting tools' results, the oldest first.

    P18: a mark that ended a result may be cut off, so what is left of it stands between marks of its own.
    """
    excess = sum(map(turns.size, told)) - chars_max
    cut = list[PromptMessage]()
    for message in told:
        if excess > 0 and isinstance(message, ToolResult) and len(message.text) > 4 * CUT_CHARS:
            start = shortened(message.text)
            text = data_block("The start of a result that is too long to be told again", "cut", [start], ids())
            excess -= len(message.text) - len(text)
            message = replace(message, text=text)
        cut.append(message)
    return tuple(cut)


def shortened(text: str, chars: int = CUT_CHARS) -> str:
    """The start of a text, as data that says what it is the start of."""
    return text if len(text) <= chars else json_line({"cut": f"the first {chars} of {len(text)}", "text": text[:chars]})


def _told(turn: Turn, ids: Callable[[], str]) -> PromptMessage:
    if isinstance(turn, Summary):
        line = json_line({"summary": turn.text})
        return UserMessage(
            data_block("A summary of what was said before in this conversation", "summary", [line], ids())
        )
    return turn


def _paired(told: Sequence[PromptMessage]) -> Iterator[PromptMessage]:
    """Every call with exactly one result, right after it; a kill in between leaves none, two processes others."""
    results = {each.call: each for each in told if isinstance(each, ToolResult)}
    for message in told:
        if isinstance(message, ToolResult):
            continue
        yield message
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            yield results.get(call.id) or ToolResult(call.id, call.name, _INTERRUPTED, failed=True)
