"""One request to a model: its answer bit by bit, in bounded time and size, tried again where that may help."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

from tidegate.agent.channel import GatedChannel, Retrying, TextDelta
from tidegate.agent.messages import AssistantMessage
from tidegate.agent.prompt import TRANSIENT, HiddenDelta, Model, ModelError, ModelErrorKind, Prompt, ReplyDelta

Sleep = Callable[[float], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How far a model may go within one answer.

    requests_max: requests to it. calls_max: tool calls in one response. same_call_max: of one and the same call.
    text_chars_max: of the text of one response. reply_chars_max: of all of it, thoughts and arguments included.
    silence_seconds: without any sign of life. request_seconds: for one response. attempts_max: at one request.
    wait_seconds_max: before another attempt.
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


@dataclass(slots=True)
class PartialReply:
    """What has come of a response so far."""

    bits: list[str] = field(default_factory=list)
    text_chars: int = 0
    chars: int = 0
    whole: AssistantMessage | None = None

    @property
    def text(self) -> str:
        return "".join(self.bits)

    def take(self, piece: ReplyDelta, bounds: Bounds) -> None:
        """Note a piece. Raises: ModelError when it is too much."""
        if isinstance(piece, AssistantMessage):
            self.whole = piece
            return
        if isinstance(piece, str):
            self.bits.append(piece)
            self.text_chars += len(piece)
        self.chars += piece.chars if isinstance(piece, HiddenDelta) else len(piece)
        if self.text_chars > bounds.text_chars_max or self.chars > bounds.reply_chars_max:
            raise ModelError(ModelErrorKind.FLOOD)


class Interrupted(Exception):
    """A response that broke off after part of it was heard: `reply` is that part."""

    def __init__(self, reply: AssistantMessage, trouble: ModelErrorKind) -> None:
        super().__init__(trouble.value)
        self.reply = reply
        self.trouble = trouble


class ModelRequest:
    """Asks a model, within bounds. check: raises when the model may not be told; called before every attempt."""

    def __init__(
        self, model: Model, bounds: Bounds, *, check: Callable[[], None], sleep: Sleep = asyncio.sleep
    ) -> None:
        self._model = model
        self._bounds = bounds
        self._check = check
        self._sleep = sleep

    async def ask(
        self, prompt: Prompt, outlet: GatedChannel, heard: Callable[[], PartialReply] = PartialReply
    ) -> AssistantMessage:
        """The whole response. heard: where to note what has come of it.

        Raises: ModelError when nothing came of it, Interrupted when part of it did; Refused (ended); what `check` does.
        """
        attempt = 1
        while True:
            self._check()  # P7, P14: each attempt is a write, and much may have happened during the pause
            so_far = heard()
            try:
                return await self._once(prompt, outlet, so_far)
            except ModelError as error:
                if so_far.text:
                    raise Interrupted(AssistantMessage(so_far.text, cut=error.trouble.value), error.trouble) from None
                if error.trouble not in TRANSIENT or attempt >= self._bounds.attempts_max:
                    raise
                outlet.show(Retrying(error.trouble.value))
                await self._sleep(self._pause(error, attempt))
            attempt += 1

    def _pause(self, error: ModelError, attempt: int) -> float:
        asked = error.retry_after_seconds
        return min(asked if asked is not None and asked > 0 else 2.0 ** (attempt - 1), self._bounds.wait_seconds_max)

    async def _once(self, prompt: Prompt, outlet: GatedChannel, heard: PartialReply) -> AssistantMessage:
        try:
            async with asyncio.timeout(self._bounds.request_seconds):
                await self._listen(self._model.stream(prompt), outlet, heard)
        except TimeoutError:
            raise ModelError(ModelErrorKind.TIMEOUT) from None
        whole = heard.whole
        if whole is None:
            raise ModelError(ModelErrorKind.BROKEN)
        if not (whole.text.strip() or whole.calls):
            raise ModelError(ModelErrorKind.EMPTY)
        return whole

    async def _listen(self, pieces: AsyncIterator[ReplyDelta], outlet: GatedChannel, heard: PartialReply) -> None:
        try:
            while True:
                try:
                    # Not `wait_for`, which in 3.11 loses a cancellation that comes just as the piece does.
                    async with asyncio.timeout(self._bounds.silence_seconds):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                heard.take(piece, self._bounds)
                if isinstance(piece, str) and piece:
                    outlet.show(TextDelta(piece))
        finally:
            close = getattr(pieces, "aclose", None)
            if close is not None:
                await cast(Callable[[], Awaitable[None]], close)()
