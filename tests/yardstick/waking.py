"""Waking in a world: a worker's whole tick, on one thread, with a model that does as it is told and then looks above.

What happens after a run has risen must not be felt below. So it gets ids of its own: how many of them it needs may
depend on what is there to be found.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate.agent.loop import Agent
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.prompt import Model, Prompt, ReplyDelta
from tidegate.agent.toolbox import Toolbox
from tidegate.agent.transcript import History
from tidegate.config.settings import RunSettings, Settings
from tidegate.gateway.gateway import Gateway
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store
from tidegate.worker.worker import Worker
from tidegate.worker.worker_context import WorkerContext

NOWHERE = Path("/no-such-home")  # neither SPINE.md nor TRIGGER.md is there


@dataclass
class Lane:
    """Which ids are given out: those of below, or those of above while something has risen."""

    below: Callable[[], str]
    above: Callable[[int], str]
    risen: bool = False
    rises: int = 0

    def __call__(self) -> str:
        return self.above(self.rises) if self.risen else self.below()

    def rise(self) -> None:
        """From here on ids of above, counted from 1 at each rise: what is written below at once takes one of them."""
        self.risen = True
        self.rises += 1


class Woken:
    """A model that saves what it is told, then rises, looks around there, and saves and says what it found."""

    def __init__(self, session: Session, rises: Level | None, rise: Callable[[], None]) -> None:
        self._session = session
        self._rises = rises
        self._rise = rise

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        asked, *since = prompt.messages
        replies = sum(isinstance(each, AssistantMessage) for each in since)
        results = [each.text for each in since if isinstance(each, ToolResult)]
        if replies == 0 and isinstance(asked, UserMessage):
            yield call("memory_save", f'{{"key": "woken", "content": "{asked.text.split()[-1]}"}}')
        elif replies == 1 and self._rises is not None:
            self._session.raise_taint(self._rises)
            self._rise()
            yield call("memory_list", "{}")
        elif replies == 2 and f'"{self._rises}"' in results[-1]:
            yield call("memory_save", '{"key": "found", "content": "tea from above"}')
        else:
            yield AssistantMessage(f"done: {results[1:]}")


def call(name: str, arguments: str) -> AssistantMessage:
    return AssistantMessage("", (ToolCall("c", name, arguments),))


class PlayedContext(WorkerContext):
    """A context whose model plays its part, and whose runs are on the worker's thread."""

    rises: Level | None
    lane: Lane

    def agent(self, session: Session, gateway: Gateway | None) -> Agent:
        model = Woken(session, self.rises, self.rise)
        return Agent(session, model, self.home, self.clock, self.ids, Toolbox(gateway, ids=self.ids), History(session))

    def rise(self) -> None:
        self.lane.rise()


def wake(store: Store, clock: Callable[[], datetime], lane: Lane, agent: str, level: Level, rises: Level | None) -> int:
    """How many runs there were."""

    def on_this_thread(run: Callable[[], None]) -> None:
        run()
        lane.risen = False

    lane.rises = 0
    settings = Settings(run=RunSettings(grace_minutes=1))
    context = PlayedContext(
        store, NOWHERE, settings, nobody, clock, lane, lambda: 0.0, spawn=on_this_thread, holder="h"
    )
    object.__setattr__(context, "rises", rises)
    object.__setattr__(context, "lane", lane)
    worker = Worker(context, agent, level)
    done = worker.tick()
    worker.finish()
    return done


def nobody() -> Model:
    raise AssertionError("this context brings its own")
