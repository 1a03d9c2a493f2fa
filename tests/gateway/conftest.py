"""Shared by the tests of the gateway: a store, sessions, a hostile server, and what the owner trusts of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

import tidegate
from tidegate.config.servers import Server
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Definition, Pins
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification
from tidegate.session import Session
from tidegate.store import Store

T = TypeVar("T")

HOSTILE = Path(__file__).parent / "hostile_server.py"
AT = datetime(2030, 1, 1, tzinfo=UTC)
ECHO = Definition(
    "echo",
    None,
    "Says the same again.",
    {"type": "object", "properties": {"text": {"type": "string"}}},
    None,
    {"readOnlyHint": True},
)


def hostile(how: str, source: Level = Level.PUBLIC, sink: Level = Level.PUBLIC, **environment: str) -> Server:
    """A server that misbehaves in one way."""
    return Server(
        "hostile",
        command=(sys.executable, "-IS", str(HOSTILE), how),
        env=environment,
        classification=Classification(source, sink),
        timeout_seconds=20,
    )


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with tidegate.open(home) as opened:
        yield opened


@pytest.fixture
def pins(home: Path) -> Pins:
    """The owner has looked at the echo tool of `hostile`, as it is at first."""
    found = Pins(home)
    found.trust("hostile", [ECHO], AT)
    return found


@pytest.fixture
def session(store: Store) -> Session:
    return store.session("ada", "main", Level.PUBLIC)


@pytest.fixture
def running(store: Store, session: Session, pins: Pins) -> Callable[..., object]:
    """Runs an act on the gateway of one session with one server, and closes it."""

    def run(server: Server, act: Callable[[Gateway], Awaitable[T]]) -> T:
        async def inside() -> T:
            async with Gateway(store, session, {server.name: server}, pins, ids=lambda: "NONCE") as gateway:
                return await act(gateway)

        return asyncio.run(inside())

    return run
