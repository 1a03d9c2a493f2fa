"""The input and output of a model: the interface that real and scripted models share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from tidegate.agent.messages import AssistantMessage, ToolResult, UserMessage

PromptMessage = UserMessage | AssistantMessage | ToolResult


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model sees it."""

    name: str
    description: str
    schema: dict[str, Any] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request to a model.

    instructions: the owner's words and ours, for the system role; never text from outside (P18).
    context: memories, marked as data; they go before the user's last message, in the user's role.
    messages: the conversation, oldest first. tools: the same at every taint.
    """

    instructions: str
    context: str
    messages: tuple[PromptMessage, ...]
    tools: Sequence[ToolSpec] = ()


@dataclass(frozen=True, slots=True)
class HiddenDelta:
    """A part of the response that is not shown: thoughts, arguments. chars: its length."""

    chars: int


ReplyDelta = str | HiddenDelta | AssistantMessage
"""A piece of text, a sign of life, or at the end the complete response."""


class Model(Protocol):
    """Answers prompts."""

    def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        """Yield the response in pieces, the last of them an `AssistantMessage`. Raises: ModelError."""


class ModelErrorKind(Enum):
    """Why a model did not answer, for people, without any text from the provider (P12)."""

    RATE = "the model's provider accepts no more requests for now (rate limit)"
    QUOTA = "the model's provider says that the account's quota is used up: check the account"
    TIMEOUT = "the model did not answer in time"
    UNREACHABLE = "the model's provider cannot be reached: check that it is running, and chat.base_url"
    BROKEN = "the connection to the model broke in the middle of the answer"
    SERVER = "the model's provider reported an internal error"
    KEY = "the model's provider did not accept the key: check the environment variable that holds it"
    NO_MODEL = "the model's provider does not know the model: check chat.model"
    TOO_LONG = "the conversation is too long for the model: lower chat.history_chars_max"
    REJECTED = "the model's provider rejected the request"
    GARBLED = "the model's provider sent an unreadable answer"
    EMPTY = "the model's answer is empty"
    FILTERED = "the model's provider withheld the answer (content filter)"
    CUT_BY_FILTER = "the model's provider stopped the answer (content filter)"
    REFUSED = "the model refused to answer"
    LIMIT = "the answer was cut: it reached the model's limit"
    LIMIT_BEFORE_ANSWER = (
        "the model reached its limit before it answered, perhaps while thinking: ask for less, or raise the limit"
    )
    LIMIT_IN_CALL = "the model reached its limit in the middle of a tool call, so no tool was called"
    FAILED = "the model's provider reported an error in the middle of the answer"
    PAUSED = "the model paused before the end of its answer: ask it to continue"
    UNKNOWN_END = "the model stopped early, for a reason that is not known here"
    FLOOD = "the model's answer became too long, so it was stopped"


TRANSIENT = frozenset(
    {
        ModelErrorKind.RATE,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.UNREACHABLE,
        ModelErrorKind.BROKEN,
        ModelErrorKind.SERVER,
        ModelErrorKind.EMPTY,
        ModelErrorKind.FAILED,
    }
)
"""Kinds of errors that a retry may solve."""


class ModelError(Exception):
    """The model did not answer. retry_after_seconds: the wait that the provider asks for, if any."""

    def __init__(self, kind: ModelErrorKind, *, retry_after_seconds: float | None = None) -> None:
        super().__init__(kind.value)
        self.kind = kind
        self.retry_after_seconds = retry_after_seconds
