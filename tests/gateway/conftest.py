"""Shared by the tests of the gateway: a store, sessions, a hostile server, and what the owner trusts of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidegate
from tidegate.config.servers import Server
from tidegate.gateway.pins import Definition, Pins
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification
from tidegate.store import Store

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
