"""A world in which everything is done by way of the agent's loop, by a model that does what the trace says.

The model tells all that it is told, so that whatever reaches a prompt is seen by the observer.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.agent.scene import Played, Recorded, Screen
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.worlds import Answer, World, time_of, tool_call

from tidegate.agent.loop import Agent, AgentSettings
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult
from tidegate.agent.prompt import Prompt, ReplyDelta
from tidegate.agent.toolbox import Toolbox
from tidegate.agent.transcript import History
from tidegate.session import Session

UNTOLD = (t.SaveMany, t.Pin, t.Unpin, t.Said, t.More)
"""What no model can do, and cursors that traces hand from session to session: left to the host, as in any world."""


def through_the_agent(steps: t.Trace) -> t.Trace:
    """The same trace, with something said before each thing that is done: what is done is part of a conversation."""
    return tuple(_told(steps))


def _told(steps: t.Trace) -> Iterator[t.Step]:
    for step in steps:
        op = step.op
        if isinstance(op, t.Verb):
            yield t.Step(2 * step.index, t.Say(op.seat, "hello"))
        if isinstance(op, t.More):
            op = replace(op, of=2 * op.of + 1)
        yield t.Step(2 * step.index + 1, op)


class Doing(Played):
    """A model that plays its part, and sums up a conversation that became too long for it."""

    def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        return super().stream(prompt) if prompt.tools else Played("they talked").stream(prompt)


class AgentWorld(World):
    """Runs what a session does through the loop."""

    def __init__(self, backend: Backend, **settings: Any) -> None:
        super().__init__(backend, **settings)
        self._folder = tempfile.TemporaryDirectory(prefix="tidegate-spine-")
        self._runner = asyncio.Runner()
        self._histories: dict[str, History] = {}

    def close(self) -> None:
        super().close()
        self._runner.close()
        self._folder.cleanup()

    def _verb(self, index: int, op: t.Verb, session: Session) -> tuple[Answer, object]:
        if isinstance(op, UNTOLD):
            return super()._verb(index, op, session)
        if isinstance(op, t.Say):
            return self._answer(session, op.content, Doing("well")), None
        if isinstance(op, t.Context):
            return self._answer(session, op.query or "what do you know?", Doing("much")), None
        name, arguments = tool_call(op, self._cursors)
        call = ToolCall(f"call-{index}", name, json.dumps(arguments))
        answer = self._answer(session, "do it", Doing(AssistantMessage("", (call,)), "done"))
        if isinstance(op, t.Page):
            self._cursors[index] = _cursor(answer["result"])
        return answer, None

    def _answer(self, session: Session, text: str, model: Played) -> Answer:
        told, screen = Recorded(model), Screen()
        history = self._histories.setdefault(session.id, History(session))
        agent = Agent(
            session,
            told,
            Path(self._folder.name),
            lambda: time_of(self._index),
            self._next_id,
            Toolbox(ids=self._next_id),
            history,
            AgentSettings(history_chars_max=6_000),
        )
        outcome = self._runner.run(agent.answer(text, screen))
        results = [message.text for message in told.prompts[-1].messages if isinstance(message, ToolResult)]
        return {
            "told": [str(replace(prompt, tools=(hash(str(prompt.tools)),))) for prompt in told.prompts],
            "result": results[-1] if results else None,
            "outcome": str(outcome),
            "shown": str(screen.shown),
        }


def _cursor(result: str | None) -> str | None:
    found = json.loads(result) if result and result.startswith("{") else {}
    return found.get("next_cursor")
