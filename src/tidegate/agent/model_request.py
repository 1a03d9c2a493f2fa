"""One request to a model: its answer in pieces, in bounded time and size, with retries if these may help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import cast

from tidegate.agent.channel import GatedChannel, Retrying, Shown, TextDelta, TextWithdrawn
from tidegate.agent.endings import WHEN_EMPTY
from tidegate.agent.messages import AssistantMessage
from tidegate.agent.prompt import TRANSIENT, HiddenDelta, Model, ModelError, ModelErrorKind, Prompt, ReplyDelta
from tidegate.agent.thoughts import ThinkingHabit, ThoughtFilter, without_thoughts

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a model within one answer.

    requests_max: requests to it. calls_max: tool calls in one response. same_call_max: repetitions of the same call.
    text_chars_max: the text of one response. reply_chars_max: the complete response, with thoughts and arguments.
    silence_seconds: without a sign of life. request_seconds: for one response. attempts_max: of one request.
    wait_seconds_max: before another attempt. turn_seconds_max: for the answer to another message of the conversation.
    """

    requests_max: int = 30
    calls_max: int = 20
    same_call_max: int = 3
    text_chars_max: int = 200_000
    reply_chars_max: int = 2_000_000
    silence_seconds: float = 120
    request_seconds: float = 900
    attempts_max: int = 4
    wait_seconds_max: float = 60
    turn_seconds_max: float = 60


@dataclass(slots=True)
class PartialReply:
    """The part of a response received so far, without thoughts in its text. habit: of the model."""

    habit: ThinkingHabit = field(default_factory=lambda: ThinkingHabit(plain=True))
    texts: list[str] = field(default_factory=list)
    text_chars: int = 0
    chars: int = 0
    withdrawn: int = 0
    streamed: bool = False
    whole: AssistantMessage | None = None
    thoughts: ThoughtFilter = field(init=False)

    def __post_init__(self) -> None:
        self.thoughts = ThoughtFilter(self.habit)

    @property
    def text(self) -> str:
        """Return the text received so far."""
        return "".join(self.texts)

    def clear(self) -> None:
        """Forget everything, for another attempt."""
        self.texts.clear()
        self.text_chars = self.chars = self.withdrawn = 0
        self.streamed, self.whole, self.thoughts = False, None, ThoughtFilter(self.habit)

    def add(self, delta: ReplyDelta, bounds: Bounds) -> list[Shown]:
        """Add a piece, and return what to show. Raises: ModelError when the response becomes too long."""
        if isinstance(delta, AssistantMessage):
            return self._end(delta)
        shown: list[Shown] = []
        if isinstance(delta, str):
            self.streamed = True
            shown = self._show(self.thoughts.feed(delta))
        self.chars += delta.chars if isinstance(delta, HiddenDelta) else len(delta)
        if self.text_chars > bounds.text_chars_max or self.chars > bounds.reply_chars_max:
            raise ModelError(ModelErrorKind.FLOOD)
        return shown

    def _end(self, whole: AssistantMessage) -> list[Shown]:
        cut, at_limit = bool(whole.cut), whole.cut == ModelErrorKind.LIMIT.value
        shown = self._show(self.thoughts.finish(cut=cut, at_limit=at_limit))
        text = self.text if self.streamed else without_thoughts(whole.text, cut=cut, at_limit=at_limit)
        # What goes back to the provider must not hold the thoughts either.
        self.whole = whole if text == whole.text else replace(whole, text=text, native="")
        return shown

    def _show(self, text: str) -> list[Shown]:
        shown: list[Shown] = []
        if self.thoughts.withdrawn > self.withdrawn:  # all that was shown of this response
            shown.append(TextWithdrawn(self.text_chars))
            self.withdrawn = self.thoughts.withdrawn
            self.texts.clear()
            self.text_chars = 0
        if text:
            shown.append(TextDelta(text))
            self.texts.append(text)
            self.text_chars += len(text)
        return shown


class Interrupted(Exception):
    """A response stopped after part of its text: `reply` is that part."""

    def __init__(self, reply: AssistantMessage, kind: ModelErrorKind) -> None:
        super().__init__(kind.value)
        self.reply = reply
        self.kind = kind


class ModelRequest:
    """Asks a model, within bounds. check: raises if the prompt may not go to the model; called before every attempt."""

    def __init__(
        self, model: Model, bounds: Bounds, *, check: Callable[[], None], sleep: Sleep = asyncio.sleep
    ) -> None:
        self._model = model
        self._bounds = bounds
        self._check = check
        self._sleep = sleep

    async def ask(self, prompt: Prompt, channel: GatedChannel, partial: PartialReply | None = None) -> AssistantMessage:
        """Return the complete response. partial: filled with the part received, for a caller that may be cancelled.

        Raises: ModelError when no text came, Interrupted when part of it did; Refused (ended); what `check` raises.
        """
        partial = PartialReply() if partial is None else partial
        partial.habit = getattr(self._model, "habit", partial.habit)
        attempt = 1
        while True:
            self._check()  # P7, P14: each attempt is a write, and the session may have changed during the pause
            partial.clear()
            try:
                return await self._ask_once(prompt, channel, partial)
            except ModelError as error:
                if partial.text.strip():
                    raise Interrupted(AssistantMessage(partial.text, cut=error.kind.value), error.kind) from None
                if error.kind not in TRANSIENT or attempt >= self._bounds.attempts_max:
                    raise
                channel.show(Retrying(error.kind.value))
                asked = error.retry_after_seconds
                pause_seconds = asked if asked is not None and asked > 0 else 2.0 ** (attempt - 1)
                await self._sleep(min(pause_seconds, self._bounds.wait_seconds_max))
            attempt += 1

    async def _ask_once(self, prompt: Prompt, channel: GatedChannel, partial: PartialReply) -> AssistantMessage:
        try:
            async with asyncio.timeout(self._bounds.request_seconds):
                await self._listen(self._model.stream(prompt), channel, partial)
        except TimeoutError:
            raise ModelError(ModelErrorKind.TIMEOUT) from None
        whole = partial.whole
        if whole is None:
            raise ModelError(ModelErrorKind.BROKEN)
        if not (whole.text.strip() or whole.calls):
            early = next((kind for kind in ModelErrorKind if kind.value == whole.cut), ModelErrorKind.EMPTY)
            raise ModelError(WHEN_EMPTY.get(early, early))
        return whole

    async def _listen(self, deltas: AsyncIterator[ReplyDelta], channel: GatedChannel, partial: PartialReply) -> None:
        try:
            while True:
                try:
                    # Not `wait_for`, which in 3.11 loses a cancellation that arrives together with the piece.
                    async with asyncio.timeout(self._bounds.silence_seconds):
                        delta = await anext(deltas)
                except StopAsyncIteration:
                    return
                for event in partial.add(delta, self._bounds):
                    channel.show(event)
        finally:
            close = getattr(deltas, "aclose", None)
            if close is not None:
                await cast(Callable[[], Awaitable[None]], close)()
