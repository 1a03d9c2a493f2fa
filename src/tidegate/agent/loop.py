"""The agent's loop: what the user says, what the model answers, the tools it calls, until it has answered.

Before anything goes to the model, the gate is asked, and again before anything of its answer is shown. What is said is
stored before the next thing happens, so that a kill loses nothing of it.
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
from tidegate.agent.prompt import Model, ModelError, Prompt, PromptMessage
from tidegate.agent.spine import ensure_spine
from tidegate.agent.toolbox import Toolbox, ToolOutcome
from tidegate.agent.transcript import History, StoredMessage
from tidegate.core.context import CONTEXT_CHARS_MAX
from tidegate.core.guidance import read_instructions
from tidegate.errors import Refused, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records.jsonl import json_line
from tidegate.records.record import Origin, least_trusted
from tidegate.records.validation import check_content
from tidegate.session import Session

if TYPE_CHECKING:
    from tidegate.gateway.gateway import Gateway

HISTORY_CHARS_MAX = 48_000


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """model_clearance: the highest level that the model's provider may be told (P14). chars: of a prompt's parts."""

    model_clearance: Level = Level.RESTRICTED
    history_chars_max: int = HISTORY_CHARS_MAX
    context_chars_max: int = CONTEXT_CHARS_MAX
    bounds: Bounds = field(default_factory=Bounds)


class Ended(StrEnum):
    """How an answer ended."""

    COMPLETE = "complete"
    HELD = "held"  # the channel may not show it
    WITHHELD = "withheld"  # the model may not be told
    STOPPED = "stopped"  # it went too far
    FAILED = "failed"  # the model did not answer, or broke off


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of something that was said.

    P14: it holds what the channel may be told when it is made, and nothing else. answer, used: what the channel was
    shown of the answer and of the tools, in order. reason: why it is not all of the answer, in words for the reader.
    """

    answer: str
    ended: Ended
    reason: str
    used: tuple[ToolCalled, ...]


@dataclass(frozen=True, slots=True)
class Agent:
    """One session's side of a conversation. Answers one thing at a time.

    home: where SPINE.md is. clock, ids: as the store's.
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

    async def answer(self, text: str, channel: Channel, *, origin: Origin = Origin.OWNER) -> Outcome:
        """What the model answers, shown bit by bit on the channel, as far as it may be.

        Cancelled, it keeps what it has heard. origin: where the text comes from.
        Raises: InvalidArgument, LimitExceeded (text), Refused (ended), StorageError.
        """
        check_content(text, self.session.limits)
        outlet = GatedChannel(self.session, channel)
        try:
            await _Answering(self, outlet).answer(UserMessage(text), origin)
        except _Over as over:
            return _outcome(outlet, over.ended, over.reason)
        except Exception:
            if outlet.refusal() is None:  # P14: an error says something of what was read, too
                raise
        return _outcome(outlet, Ended.COMPLETE)


class _Over(Exception):
    """There will be no more of this answer."""

    def __init__(self, ended: Ended, reason: str) -> None:
        super().__init__(reason)
        self.ended = ended
        self.reason = reason


def _outcome(outlet: GatedChannel, ended: Ended, reason: str = "") -> Outcome:
    """What has come of an answer. Above the clearance, that it was held back: how it ended is the model's choice."""
    refusal = outlet.refusal()
    if refusal is not None:
        ended, reason = Ended.HELD, refusal.message
    return Outcome(outlet.text, ended, reason, outlet.used)


class _Answering:
    """One answer in the making."""

    def __init__(self, agent: Agent, outlet: GatedChannel) -> None:
        self._agent = agent
        self._session = agent.session
        self._bounds = agent.settings.bounds
        self._outlet = outlet
        self._asking = ModelRequest(agent.model, self._bounds, check=self._check_telling, sleep=agent.sleep)
        self._kept: list[StoredMessage] = []
        self._same = Counter[tuple[str, str]]()
        self._left_out = 0
        self._remembered = Origin.AGENT  # where the memories in the prompt came from

    async def answer(self, asked: UserMessage, origin: Origin) -> None:
        """Ask, run what is called, ask again, until there is nothing more to run. Raises: _Over, and as `Agent`."""
        if self._outlet.refusal() is not None:
            raise _Over(Ended.HELD, "")  # before anything is done: nothing of it could be shown
        self._check_telling()
        await self._load()
        await self._keep(asked, origin)
        prompt = await self._prompt()
        for _ in range(self._bounds.requests_max):
            reply = self._renamed(await self._ask(replace(prompt, messages=self._messages())))
            await self._keep(reply, self._origin())
            if not reply.calls and reply.cut:
                raise _Over(Ended.STOPPED, reply.cut)
            if not reply.calls:
                return
            for place, call in enumerate(reply.calls):  # one after the other
                await self._run(call, place, {tool.name for tool in prompt.tools})
        reason = f"stopped after {self._bounds.requests_max} requests to the model; say so if it should go on"
        raise _Over(Ended.STOPPED, reason)

    # What goes to the model

    def _check_telling(self) -> None:
        """P14: the model's provider is a sink, and every request is a write."""
        try:
            self._session.check_output(self._agent.settings.model_clearance, channel="model")
        except Refused as refused:
            if refused.rule is not PolicyRule.P14:
                raise
            reason = f"the model may not be told what this conversation holds (chat.model_clearance): {refused.message}"
            raise _Over(Ended.WITHHELD, reason) from None

    async def _prompt(self) -> Prompt:
        """All but the messages, as of now: SPINE.md and the memories are read afresh."""
        agent = self._agent
        instructions = await asyncio.to_thread(read_instructions, agent.home, self._session.agent)
        budget = agent.settings.context_chars_max
        memories = await asyncio.to_thread(lambda: self._session.context(chars_max=budget))
        self._remembered = memories.origin
        tools = await asyncio.to_thread(agent.toolbox.offered)
        now = f"It is {agent.clock():%A, %Y-%m-%d %H:%M %Z}."
        note = f"{self._left_out} earlier messages are left out here." if self._left_out else ""
        return Prompt(instructions, "\n\n".join(filter(None, (memories.text, note, now))), (), tools)

    def _messages(self) -> tuple[PromptMessage, ...]:
        told = history.messages(self._kept, self._agent.ids)
        return history.fitting(told, 2 * self._agent.settings.history_chars_max, self._agent.ids)

    async def _ask(self, prompt: Prompt) -> AssistantMessage:
        heard = PartialReply()

        def anew() -> PartialReply:
            nonlocal heard
            heard = PartialReply()
            return heard

        try:
            return await self._asking.ask(prompt, self._outlet, anew)
        except asyncio.CancelledError:
            if heard.text:
                with suppress(TidegateError):  # the session may have ended: then there is nothing to keep
                    self._agent.history.add(AssistantMessage(heard.text, cut="stopped by the user"), self._origin())
            raise
        except Interrupted as interrupted:
            await self._keep(interrupted.reply, self._origin())
            raise _Over(Ended.FAILED, str(interrupted)) from None
        except ModelError as error:
            raise _Over(Ended.FAILED, str(error)) from None

    def _renamed(self, reply: AssistantMessage) -> AssistantMessage:
        """With ids of its calls that no other call has, whatever the provider thought."""
        taken = {call.id for each in self._kept if isinstance(each.turn, AssistantMessage) for call in each.turn.calls}
        calls = list[ToolCall]()
        for call in reply.calls:
            fresh = call.id and call.id not in taken
            calls.append(call if fresh else replace(call, id=self._agent.ids()[-24:]))
            taken.add(calls[-1].id)
        return reply if tuple(calls) == reply.calls else replace(reply, calls=tuple(calls), native="")

    # What is called

    async def _run(self, call: ToolCall, place: int, known: Collection[str]) -> None:
        done = self._too_much(call, place) or await self._agent.toolbox.run(self._session.marking(self._origin()), call)
        await self._keep(ToolResult(call.id, call.name, done.text, done.failed), done.origin)
        # P12: a name that no tool has is a text of the model's own.
        tool = call.name if call.name in known else "unknown tool"
        self._outlet.show(ToolCalled(tool, done.failed, done.refused, done.reason))

    def _too_much(self, call: ToolCall, place: int) -> ToolOutcome | None:
        self._same[call.name, call.arguments] += 1
        if place >= self._bounds.calls_max:
            reason = f"not run: a response may call {self._bounds.calls_max} tools at most"
        elif self._same[call.name, call.arguments] > self._bounds.same_call_max:
            reason = "not run: this very call was made before, and its result is above; do something else, or answer"
        else:
            return None
        return ToolOutcome(json_line({"error": {"message": reason}}), failed=True, origin=Origin.AGENT, reason=reason)

    def _origin(self) -> Origin:
        """P18: of what the model says and saves. It may have it from the least trusted of all that it was told."""
        return least_trusted((Origin.AGENT, self._remembered, *(each.origin for each in self._kept)))

    # What is kept

    async def _keep(self, turn: Turn, origin: Origin) -> None:
        storing = asyncio.ensure_future(asyncio.to_thread(self._agent.history.add, turn, origin))
        try:
            await asyncio.shield(storing)
        except asyncio.CancelledError:
            await storing  # what was shown is kept, whenever it is stopped
            raise
        self._kept.append(StoredMessage(0, turn, origin))

    async def _load(self) -> None:
        """The conversation so far, the beginning of it summed up when it has become too long."""
        agent, limit = self._agent, self._agent.settings.history_chars_max
        self._kept = await asyncio.to_thread(agent.history.read)
        older, newer = compaction.split(self._kept, limit)
        if not older:
            return
        try:
            silent = GatedChannel(self._session, Silent())
            reply = await self._asking.ask(compaction.request(older, limit, agent.ids), silent)
        except (ModelError, Interrupted):
            self._kept, self._left_out = newer, len(older)  # for this time; nothing of it is lost
            return
        await asyncio.to_thread(agent.history.add, *compaction.summed(older, reply.text))
        self._kept = await asyncio.to_thread(agent.history.read)


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
    """The agent of a session, with a SPINE.md to read. Raises: StorageError."""
    ensure_spine(home, session.agent)
    return Agent(
        session, model, home, clock, ids, Toolbox(gateway, ids=ids), History(session), settings or AgentSettings()
    )
