"""Seeded schedules: one event loop that takes whatever is ready in an order drawn from a seed, and fakes to run on it.

Each step of a fake connection, and each hop away from the loop, gives way. So what happens between any two of them
depends on the seed alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

from tidegate.config.servers import Server
from tidegate.errors import Refused
from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.pins import Definition, Definitions
from tidegate.gateway.replies import Reply
from tidegate.gateway.wire_guard import Check
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification
from tidegate.session import Session
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store

T = TypeVar("T")
AT = datetime(2030, 1, 1, tzinfo=UTC)


class ShuffledLoop(asyncio.SelectorEventLoop):
    """Takes what is ready in an order drawn from `random`."""

    random = Random(0)

    def _run_once(self) -> None:
        ready = list(self._ready)  # type: ignore[has-type]
        self.random.shuffle(ready)
        self._ready.clear()  # type: ignore[has-type]
        self._ready.extend(ready)  # type: ignore[has-type]
        super()._run_once()  # type: ignore[misc]


async def step() -> None:
    """A moment at which anything else may happen."""
    await asyncio.sleep(0)


async def hop(act: Callable[..., T], /, *arguments: Any) -> T:
    """As a thread would run it: at some moment between its start and the caller's going on."""
    await step()
    try:
        return act(*arguments)
    finally:
        await step()


class FakePins:
    """The definitions that the owner trusts, without a file."""

    def __init__(self, definitions: Mapping[str, Definitions]) -> None:
        self._definitions = definitions

    def read(self) -> Mapping[str, Definitions]:
        return self._definitions


@dataclass(slots=True)
class World:
    """One session, its servers, and what went wrong.

    seen: the level of all that the conversation holds; what it sends carries it.
    """

    random: Random
    store: Store = field(init=False)
    session: Session = field(init=False)
    servers: dict[str, Server] = field(default_factory=dict)
    seen: Level = Level.PUBLIC
    highest: Level = Level.PUBLIC
    wrong: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        numbers = iter(range(10_000))
        self.store = Store(
            InMemoryProvider(),
            toolset={},
            clock=lambda: AT,
            ids=lambda: f"id-{next(numbers)}",
            default_level=Level.PUBLIC,
        )
        self.session = self.store.session("ada", "main", ceiling=self.random.choice(list(Level)[1:]))
        for name in ("a", "b"):
            tools = {f"t{number}": self._classification() for number in range(3)}
            self.servers[name] = Server(name, command=("x",), tools=tools)

    def _classification(self) -> Classification:
        return Classification(self.random.choice(list(Level)), self.random.choice(list(Level)))

    @property
    def pins(self) -> FakePins:
        return FakePins({name: {tool: definition(tool) for tool in each.tools} for name, each in self.servers.items()})

    def row(self) -> SessionRow:
        """The session as it stands. Notes a taint that was lowered."""
        row = self.store.sessions.read(self.session.id)
        if row is None:
            raise LookupError
        if not self.highest.can_flow_to(row.taint):
            self.wrong.append("the taint was lowered")
        self.highest = max(self.highest, row.taint)
        return row

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def sent(self, classification: Classification, carries: Level, *, settled: bool) -> None:
        """Bytes went out."""
        row = self.row()
        self.count("sent")
        if row.ended:
            self.wrong.append("something was sent after the session ended")
        if not carries.can_flow_to(classification.sink):
            self.wrong.append("something was sent to a sink below it")
        if not settled and not row.taint.can_flow_to(classification.sink):
            self.wrong.append("a later byte was sent to a sink below the taint")

    def released(self, source: Level, claimed: Level) -> None:
        """A result became part of the conversation."""
        row = self.row()
        self.count("released")
        if row.ended:
            self.wrong.append("a result was released after the session ended")
        if not source.can_flow_to(row.taint):
            self.wrong.append("a result was released to a session below its source")
        if not claimed.can_flow_to(row.taint):
            self.wrong.append("a result was released to a session below its label")
        if not claimed.can_flow_to(source):
            self.count("labelled")
        self.seen = max(self.seen, source, claimed)


class FakeConnection:
    """A server that answers what it is asked, in steps, and now and then breaks off."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server
        self._closed = False

    @classmethod
    async def open(cls, world: World, server: Server, check: Check) -> FakeConnection:
        connection = cls(world, server)
        await connection._exchange(check, None, Level.PUBLIC)
        return connection

    async def definitions(self, check: Check) -> Definitions:
        await self._exchange(check, None, Level.PUBLIC)
        return {tool: definition(tool) for tool in self._server.tools}

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        classification = self._server.tools[tool]
        await self._exchange(check, classification, Level[arguments["carries"]])
        if self._world.random.random() < 0.3 and classification is not None:
            self._later(check, classification)
        await step()
        claimed = self._world.random.choice([Level.PUBLIC, Level.PUBLIC, *Level])
        return Reply(claimed.name, failed=False, claimed=claimed)

    async def close(self) -> None:
        self._closed = True
        await step()

    async def _exchange(self, check: Check, classification: Classification | None, carries: Level) -> None:
        await step()
        check(True)
        if self._closed:
            raise CutOffError("ended the connection")
        # A constant carries nothing: any sink may get it, as long as the session lives.
        self._world.sent(classification or Classification(Level.PUBLIC, Level.RESTRICTED), carries, settled=True)
        await step()
        if self._world.random.random() < 0.05:
            raise CutOffError("broke off")

    def _later(self, check: Check, classification: Classification) -> None:
        try:
            check(False)
        except Refused:
            return
        self._world.sent(classification, Level.PUBLIC, settled=False)
        self._world.count("later")


def definition(tool: str) -> Definition:
    return Definition(tool, None, None, {}, None, None)
