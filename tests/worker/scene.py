"""A home whose clock the test sets, and workers on it: what the tests of wake-ups stand on. Nothing here sleeps."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidegate.agent.loop import Agent
from tidegate.agent.messages import AssistantMessage, UserMessage
from tidegate.agent.prompt import Model, Prompt, ReplyDelta
from tidegate.agent.scripted import Rule, ScriptedModel, Step
from tidegate.config.channels import ChannelSettings
from tidegate.config.settings import RunSettings, Settings, TriggerSettings
from tidegate.gateway.gateway import Gateway
from tidegate.jobs.job import Run
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.base import StorageProvider
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import AGENT_TOOLS
from tidegate.worker.delivery import DeliveryError, Notification
from tidegate.worker.worker import Worker
from tidegate.worker.worker_context import WorkerContext

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
AGENT = "assistant"
NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
CHANNELS = {
    "open": ChannelSettings("open", "log", RESTRICTED),
    "street": ChannelSettings("street", "log", PUBLIC),
    "unsaid": ChannelSettings("unsaid", "log", None),
}


@dataclass
class Clock:
    """A clock that stands still until it is set."""

    now: datetime = NOON
    ticks: float = 0.0

    def __call__(self) -> datetime:
        return self.now

    def pass_(self, **length: float) -> None:
        """Time passes, on the clock and for the machine."""
        self.now += timedelta(**length)
        self.ticks += timedelta(**length).total_seconds()


@dataclass
class Post:
    """Where messages are sent in place of the world. fails: the next so many are not taken, with this error."""

    fails: int = 0
    error: DeliveryError = field(default_factory=lambda: DeliveryError("the service did not accept the message"))
    sent: list[tuple[str, Notification]] = field(default_factory=list)

    def __call__(self, channel: ChannelSettings, message: Notification) -> None:
        if self.fails:
            self.fails -= 1
            raise self.error
        self.sent.append((channel.name, message))

    @property
    def texts(self) -> list[str]:
        return [message.text for _, message in self.sent]


@dataclass(frozen=True)
class Saying:
    """A model that answers this, to whatever it is told."""

    text: str

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        yield self.text
        yield AssistantMessage(self.text)


def says(text: str = "done") -> Model:
    return Saying(text)


def calling(tool: str, /, *, say: str = "done", **arguments: object) -> Model:
    """A model that calls this tool, and then answers."""
    return ScriptedModel([Rule("", (Step(calls=((tool, arguments),)), Step(say)))])


class Hanging:
    """A model that never answers."""

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        await asyncio.Event().wait()
        yield ""


class Broken:
    """A model that fails in a way that nobody foresaw. Its text must not get anywhere."""

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        raise ZeroDivisionError("secret-canary")
        yield ""


@dataclass
class Recorded:
    """A model behind which every prompt is kept; on_ask is called before it answers."""

    model: Model
    prompts: list[Prompt] = field(default_factory=list)
    on_ask: Callable[[Prompt], None] = lambda _: None

    def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        self.prompts.append(prompt)
        self.on_ask(prompt)
        return self.model.stream(prompt)

    @property
    def asked(self) -> list[str]:
        """What each conversation began with."""
        return [prompt.messages[0].text for prompt in self.prompts if isinstance(prompt.messages[-1], UserMessage)]


async def at_once(_: float) -> None:
    """A pause that is over before it began: of something that never ends, all of its time passes."""


class RecordingContext(WorkerContext):
    """A context that keeps the sessions it wakes."""

    woken: list[Session]

    def agent(self, session: Session, gateway: Gateway | None) -> Agent:
        self.woken.append(session)
        return super().agent(session, gateway)


class Scene:
    """A store, and as many processes with workers on it as a test likes."""

    def __init__(self, home: Path, provider: StorageProvider | None = None) -> None:
        self.home = home
        self.clock = Clock()
        self.post = Post()
        self.woken: list[Session] = []
        self.provider = provider or InMemoryProvider()
        self._numbers = itertools.count(1)
        self.settings = Settings(run=RunSettings(channel="open"), channels=CHANNELS)
        self.model: Model = says()
        self.store = Store(
            self.provider, toolset=AGENT_TOOLS, clock=self.clock, ids=self.ids, default_level=Level.PUBLIC
        )

    def ids(self) -> str:
        return f"id-{next(self._numbers):06}"

    def set_run(self, **run: object) -> None:
        self.settings = replace(self.settings, run=replace(self.settings.run, **run))  # type: ignore[arg-type]

    def set_trigger(self, text: str | None = "look around", **trigger: object) -> None:
        self.settings = replace(self.settings, trigger=TriggerSettings(**{"level": Level.PUBLIC, **trigger}))  # type: ignore[arg-type]
        if text is not None:
            path = self.home / "agents" / AGENT / "TRIGGER.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def context(self, **more: object) -> WorkerContext:
        """What the workers of one process share."""
        context = RecordingContext(
            self.store,
            self.home,
            self.settings,
            lambda: self.model,
            clock=self.clock,
            ids=self.ids,
            ticks=lambda: self.clock.ticks,
            send=self.post,
            holder=self.ids(),
        )
        context = replace(context, **more)  # type: ignore[arg-type]
        object.__setattr__(context, "woken", self.woken)
        return context

    def worker(self, level: Level = PUBLIC, agent: str = AGENT, **more: object) -> Worker:
        """A worker in a process of its own."""
        return Worker(self.context(**more), agent, level)

    def tick(self, level: Level = PUBLIC, **more: object) -> int:
        """What a new process does at once, up to its end; how many runs there were."""
        worker = self.worker(level, **more)
        done = worker.tick()
        worker.finish()
        return done

    def content(self, key: str, level: Level = RESTRICTED) -> str | None:
        """What is remembered under a key, as a level sees it."""
        memory = self.session(level).memory.get(key)
        return memory and memory.content

    def session(self, level: Level = PUBLIC, **more: object) -> Session:
        return self.store.session(AGENT, level=level, **more)  # type: ignore[arg-type]

    def add(self, name: str = "job", schedule: str = "0 * * * *", level: Level = PUBLIC, **more: object) -> None:
        """A job, made by a session at a level."""
        more = {"prompt": "do it", **more}
        self.session(level).jobs.create(name, schedule, **more)  # type: ignore[arg-type]

    def runs(self, name: str | None = "job", level: Level = RESTRICTED) -> list[Run]:
        """The runs of a job, the oldest first, as this level sees them."""
        return [run for run, _ in reversed(self.session(level).jobs.history(name, limit=200))]

    def states(self, name: str | None = "job", level: Level = RESTRICTED) -> list[str]:
        return [str(run.state) for run in self.runs(name, level)]

    def record(self, model: Model | None = None) -> Recorded:
        """From here on, the model is asked by way of what this returns."""
        recorded = Recorded(model or self.model)
        self.model = recorded
        return recorded
