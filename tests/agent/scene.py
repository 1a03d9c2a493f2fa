"""An agent with a model that the test plays, on a real home: what the tests of the agent stand on."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate.agent.channel import Retrying, Shown, TextDelta, ToolCalled
from tidegate.agent.loop import Agent, AgentSettings, Outcome, open_agent
from tidegate.agent.messages import AssistantMessage
from tidegate.agent.model_request import Bounds
from tidegate.agent.prompt import Model, ModelError, Prompt, ReplyDelta
from tidegate.agent.scripted import Rule, ScriptedModel, Step
from tidegate.policy.levels import Level
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import AGENT_TOOLS

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
NOW = datetime(2026, 3, 2, 9, 30, tzinfo=UTC)
AGENT = "assistant"


class Recorded:
    """A model that is asked by way of this, so that every prompt is kept."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.prompts: list[Prompt] = []

    def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        self.prompts.append(prompt)
        return self._model.stream(prompt)


class Played:
    """A model that plays these responses, one a request, whatever it is asked: text, pieces, or an error."""

    def __init__(self, *responses: str | AssistantMessage | ModelError | Sequence[ReplyDelta | ModelError]) -> None:
        self._left = list(responses)

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        response = self._left.pop(0)
        if isinstance(response, str):
            response = [response, AssistantMessage(response)]
        elif isinstance(response, AssistantMessage | ModelError):
            response = [response]
        for piece in response:
            if isinstance(piece, ModelError):
                raise piece
            yield piece


def script(*steps: Step | str, when: str = "") -> ScriptedModel:
    """A model that follows these steps for whatever is said."""
    return ScriptedModel([Rule(when, tuple(Step(step) if isinstance(step, str) else step for step in steps))])


def calling(name: str, **arguments: Any) -> Step:
    return Step(calls=((name, arguments),))


@dataclass
class Screen:
    """A channel that keeps what it is shown."""

    clearance: Level | None = RESTRICTED
    name: str = "screen"
    shown: list[Shown] = field(default_factory=list)
    on_show: Callable[[Shown], None] = lambda _: None

    def show(self, event: Shown) -> None:
        self.shown.append(event)
        self.on_show(event)

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.shown if isinstance(event, TextDelta))

    @property
    def retried(self) -> list[str]:
        return [event.reason for event in self.shown if isinstance(event, Retrying)]

    @property
    def used(self) -> list[ToolCalled]:
        return [event for event in self.shown if isinstance(event, ToolCalled)]


class Scene:
    """A home that is opened anew as often as a test likes."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._numbers = itertools.count(1)
        self.settings = AgentSettings()
        self.slept: list[float] = []
        self.store = self._open()

    def ids(self) -> str:
        return f"id-{next(self._numbers):06}"

    def _open(self) -> Store:
        provider = SqliteProvider(self.home, durability="normal")
        return Store(provider, toolset=AGENT_TOOLS, clock=lambda: NOW, ids=self.ids, default_level=Level.PUBLIC)

    def restart(self) -> None:
        """As after the process has ended."""
        self.store.close()
        self.store = self._open()

    def bound(self, **bounds: Any) -> None:
        self.settings = replace(self.settings, bounds=replace(Bounds(), **bounds))

    def agent(
        self, model: Model, name: str | None = "main", level: Level = PUBLIC, agent: str = AGENT, **more: Any
    ) -> Agent:
        session = self.store.session(agent, name, level)
        made = open_agent(session, model, self.home, clock=lambda: NOW, ids=self.ids, settings=self.settings, **more)
        return replace(made, sleep=self._sleep)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def say(
        self, text: str, model: Model, name: str | None = "main", level: Level = PUBLIC, screen: Screen | None = None
    ) -> Outcome:
        """What comes of saying this, in one process."""
        return asyncio.run(self.agent(model, name, level).answer(text, screen or Screen()))

    def content(self, key: str, level: Level = RESTRICTED) -> str | None:
        memory = self.store.session(AGENT, level=level).memory.get(key)
        return memory and memory.content
