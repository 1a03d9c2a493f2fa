"""The agent's loop: the user's message, the model's responses and tool calls, until it has answered.

The gate checks everything before it goes to the model, and the answer before it is shown. Each message is stored before
the next step, so a kill loses none.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.agent import summaries as compaction
from tidegate.agent import transcript as history
from tidegate.agent.channel import Channel, GatedChannel, Silent, ToolCalled
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, Turn, UserMessage
from tidegate.agent.model_request import Bounds, Interrupted, ModelRequest, PartialReply, Sleep
from tidegate.agent.prompt import Model, ModelError, Prompt
from tidegate.agent.spine import ensure_spine
from tidegate.agent.toolbox import Toolbox, ToolOutcome
from tidegate.agent.transcript import History, StoredMessage
from tidegate.agent.turns import BusyError, turn
from tidegate.core.context import CONTEXT_CHARS_MAX
from tidegate.core.guidance import read_instructions
from tidegate.errors import Refused, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records.excerpt import left_out
from tidegate.records.jsonl import json_line
from tidegate.records.record import Origin, least_trusted
from tidegate.records.validation import check_content
from tidegate.session import Session

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

HISTORY_CHARS_MAX = 48_000
_ABOVE_MODEL = "this conversation is above chat.model_clearance: start a new one, or raise chat.model_clearance"

_BUSY = "another message to this conversation is still being answered: send yours again when it is done"


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """model_clearance: the highest level that may go to the model's provider (P14). chars: of parts of a prompt."""

    model_clearance: Level = Level.RESTRICTED
    history_chars_max: int = HISTORY_CHARS_MAX
    context_chars_max: int = CONTEXT_CHARS_MAX
    bounds: Bounds = field(default_factory=Bounds)


class Ended(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    HELD = "held"  # the channel may not show it
    WITHHELD = "withheld"  # the model may not see the conversation
    STOPPED = "stopped"  # it reached a bound, or its model ended it early
    FAILED = "failed"  # the model did not answer, or stopped midway
    BUSY = "busy"  # another message to the conversation is still being answered; nothing was stored


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one message of the user.

    P14: it holds only what the channel may show at its creation. answer, used: the text and the tool calls that the
    channel showed, in order. reason: why the answer is not complete, for the reader.
    """

    answer: str
    ended: Ended
    reason: str
    used: tuple[ToolCalled, ...]


@dataclass(frozen=True, slots=True)
class Agent:
    """One session's side of a conversation. Answers one message at a time: others wait, in whatever process.

    home: where SPINE.md is. clock, ids: as the store's. sleep: before another request. pause: until its turn.
    """

    session: Session
    model: Model
    home: Path
    clock: Callable[[], datetime]
    ids: Callable[[], str]
    toolbox: Toolbox
    history: History
    settings: AgentSettings = field(default_factory=AgentSettings)
    sleep: Sleep = asyncio.sleep
    pause: Sleep = asyncio.sleep

    async def answer(
        self, text: str, channel: Channel, *, origin: Origin = Origin.OWNER, about: str | None = None
    ) -> Outcome:
        """Answer a message, and show the answer piece by piece on the channel, as far as permitted.

        When cancelled, it stores the part received so far. origin: where the text comes from. about: the part of the
        text to choose memories by; None: all of it.
        Raises: InvalidArgument, LimitExceeded (text), Refused (ended), StorageError.
        """
        check_content(text, self.session.limits)
        gated = GatedChannel(self.session, channel)
        try:
            await _Answering(self, gated, text if about is None else about).answer(UserMessage(text), origin)
        except _AnswerEndedError as end:
            return _outcome(gated, end.ended, end.reason)
        except Exception:
            if gated.refusal() is None:  # P14: an error can reveal read data, too
                raise
        return _outcome(gated, Ended.COMPLETE)


class _AnswerEndedError(Exception):
    """Ends this answer."""

    def __init__(self, ended: Ended, reason: str) -> None:
        super().__init__(reason)
        self.ended = ended
        self.reason = reason


def _outcome(channel: GatedChannel, ended: Ended, reason: str = "") -> Outcome:
    """Return an outcome. Above the channel's clearance it says only that the answer was held.

    The model decides how an answer ends, so the ending can reveal what it has read (P14).
    """
    refusal = channel.refusal()
    if refusal is not None:
        ended, reason = Ended.HELD, refusal.message
    return Outcome(channel.text, ended, reason, channel.used)


class _Answering:
    """One answer in progress."""

    def __init__(self, agent: Agent, channel: GatedChannel, about: str) -> None:
        self._agent = agent
        self._about = about
        self._session = agent.session
        self._bounds = agent.settings.bounds
        self._channel = channel
        self._request = ModelRequest(agent.model, self._bounds, check=self._check_clearance, sleep=agent.sleep)
        self._stored: list[StoredMessage] = []
        self._times_called = Counter[tuple[str, str]]()
        self._left_out = 0
        self._context_origin = Origin.AGENT  # of the memories in the prompt

    async def answer(self, message: UserMessage, origin: Origin) -> None:
        """Ask the model and run its tool calls, until it makes none. Raises: _AnswerEndedError, and as `Agent`."""
        self._check_both()  # before any work or wait: nothing could be shown
        home, pause, seconds = self._agent.home, self._agent.pause, self._bounds.turn_seconds_max
        try:
            async with turn(home, self._session.id, sleep=pause, seconds=seconds) as waited:
                if waited:
                    self._check_both()  # the other message may have raised the session
                await self._answer(message, origin)
        except BusyError:
            raise _AnswerEndedError(Ended.BUSY, _BUSY) from None

    async def _answer(self, message: UserMessage, origin: Origin) -> None:
        await self._load()
        await self._store(message, origin)
        prompt = await self._prompt()
        for _ in range(self._bounds.requests_max):
            messages = history.messages(self._stored, self._agent.ids)
            fitting = history.fitting(messages, 2 * self._agent.settings.history_chars_max, self._agent.ids)
            reply = self._with_fresh_ids(await self._ask(replace(prompt, messages=fitting)))
            await self._store(reply, self._origin())
            if not reply.calls and reply.cut:
                raise _AnswerEndedError(Ended.STOPPED, reply.cut)
            if not reply.calls:
                return
            for place, call in enumerate(reply.calls):  # one after another
                await self._run(call, place, {tool.name for tool in prompt.tools})
        reason = f"stopped after {self._bounds.requests_max} requests to the model; ask it to continue if you want more"
        raise _AnswerEndedError(Ended.STOPPED, reason)

    # What goes to the model

    def _check_both(self) -> None:
        """Raise if nothing could be shown, or the conversation may not go to the model (P14)."""
        if self._channel.refusal() is not None:
            raise _AnswerEndedError(Ended.HELD, "")
        self._check_clearance()

    def _check_clearance(self) -> None:
        """Raise if the conversation may not go to the model (P14): its provider is a sink, every request a write."""
        try:
            self._session.check_output(self._agent.settings.model_clearance, channel="model")
        except Refused as refused:
            if refused.rule is not PolicyRule.P14:
                raise
            raise _AnswerEndedError(Ended.WITHHELD, _ABOVE_MODEL) from None

    async def _prompt(self) -> Prompt:
        """Return the prompt without its messages, with the current SPINE.md and memories."""
        agent = self._agent
        instructions = await asyncio.to_thread(read_instructions, agent.home, self._session.agent)
        budget = agent.settings.context_chars_max
        memories = await asyncio.to_thread(lambda: self._session.context(query=self._about, chars_max=budget))
        self._context_origin = memories.origin
        tools = await asyncio.to_thread(agent.toolbox.specs)
        now = f"It is {agent.clock():%A, %Y-%m-%d %H:%M %Z}."
        note = left_out(self._left_out, "earlier message") if self._left_out else ""
        return Prompt(instructions, "\n\n".join(filter(None, (memories.text, note, now))), (), tools)

    async def _ask(self, prompt: Prompt) -> AssistantMessage:
        partial = PartialReply()
        try:
            return await self._request.ask(prompt, self._channel, partial)
        except asyncio.CancelledError:
            if partial.text:
                with suppress(TidegateError):  # a session that has ended stores nothing
                    self._agent.history.add(AssistantMessage(partial.text, cut="stopped by the user"), self._origin())
            raise
        except Interrupted as interrupted:
            await self._store(interrupted.reply, self._origin())
            raise _AnswerEndedError(Ended.FAILED, str(interrupted)) from None
        except ModelError as error:
            raise _AnswerEndedError(Ended.FAILED, str(error)) from None

    def _with_fresh_ids(self, reply: AssistantMessage) -> AssistantMessage:
        """Return the reply with unique ids of its calls, whatever the provider sent."""
        replies = (each.turn for each in self._stored if isinstance(each.turn, AssistantMessage))
        taken = {call.id for each in replies for call in each.calls}
        calls = list[ToolCall]()
        for call in reply.calls:
            fresh = call.id and call.id not in taken
            calls.append(call if fresh else replace(call, id=self._agent.ids()[-24:]))
            taken.add(calls[-1].id)
        return reply if tuple(calls) == reply.calls else replace(reply, calls=tuple(calls), native="")

    # What is called

    async def _run(self, call: ToolCall, place: int, known: Collection[str]) -> None:
        outcome = self._over_bounds(call, place)
        if outcome is None:
            outcome = await self._agent.toolbox.run(self._session.marking(self._origin()), call)
        await self._store(ToolResult(call.id, call.name, outcome.text, outcome.failed), outcome.origin)
        # P12: a name of no tool is the model's own text.
        tool = call.name if call.name in known else "unknown tool"
        self._channel.show(ToolCalled(tool, outcome.failed, outcome.refused, outcome.reason))

    def _over_bounds(self, call: ToolCall, place: int) -> ToolOutcome | None:
        self._times_called[call.name, call.arguments] += 1
        if place >= self._bounds.calls_max:
            reason = (
                f"not run: a response may call at most {self._bounds.calls_max} tools; "
                "make the remaining calls in the next response"
            )
        elif self._times_called[call.name, call.arguments] > self._bounds.same_call_max:
            reason = "not run: the same call was already made, and its result is above; do something else, or answer"
        else:
            return None
        return ToolOutcome(json_line({"error": {"message": reason}}), failed=True, origin=Origin.AGENT, reason=reason)

    def _origin(self) -> Origin:
        """Return the origin of the model's words and saves: that of the least trusted part of its prompt (P18)."""
        return least_trusted((Origin.AGENT, self._context_origin, *(each.origin for each in self._stored)))

    # What is stored

    async def _store(self, message: Turn, origin: Origin) -> None:
        # The native form may hold thoughts. Its provider needs it during this answer only.
        kept = replace(message, native="") if isinstance(message, AssistantMessage) else message
        storing = asyncio.ensure_future(asyncio.to_thread(self._agent.history.add, kept, origin))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            await storing  # shown text is stored, whenever the answer is stopped
            raise
        self._stored.append(StoredMessage(0, message, origin))

    async def _load(self) -> None:
        """Load the conversation so far; summarise its beginning if it has become too long."""
        agent, limit = self._agent, self._agent.settings.history_chars_max
        self._stored = await asyncio.to_thread(agent.history.read)
        older, newer = compaction.split(self._stored, limit)
        if not older:
            return
        try:
            silent = GatedChannel(self._session, Silent())
            reply = await self._request.ask(compaction.request(older, limit, agent.ids), silent)
        except (ModelError, Interrupted):
            self._stored, self._left_out = newer, len(older)  # this time only; none is lost
            return
        await asyncio.to_thread(agent.history.add, *compaction.summary_of(older, reply.text))
        self._stored = await asyncio.to_thread(agent.history.read)


def open_agent(
    session: Session,
    model: Model,
    home: Path,
    *,
    clock: Callable[[], datetime],
    ids: Callable[[], str],
    gateway: Gateway | None = None,
    settings: AgentSettings | None = None,
) -> Agent:
    """Return the agent of a session; write a SPINE.md if it has none. Raises: StorageError."""
    ensure_spine(home, session.agent)
    return Agent(
        session, model, home, clock, ids, Toolbox(gateway, ids=ids), History(session), settings or AgentSettings()
    )
