"""A server always answers: each call says what keeps it from the store, and the next one works once that is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from tests.server.mcp_peer import PATIENCE_SECONDS, Peer, ServerProcess, serving

import tidegate
from tidegate.policy.levels import Level
from tidegate.server.resources import PROMPT, URI
from tidegate.server.served_session import ServedSession, SessionOpener
from tidegate.storage.sqlite import connection
from tidegate.tools import TOOLS

BUSY = "the store is busy; try again"
LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping")
WAITING = """
import sys
from tidegate.cli.main import main
from tidegate.server import protocol, serve
from tidegate.storage.sqlite import connection
connection.BUSY_TIMEOUT_MS = int(sys.argv.pop(1))
protocol.DRAIN_SECONDS = serve.EXIT_SECONDS = float(sys.argv.pop(1))
sys.exit(main())
"""


def waiting(home: Path, *, busy_ms: int = 60_000, end_seconds: float = 60.0) -> list[str]:
    """A server that waits so long for a lock, and so long for what hangs at its end."""
    return [
        "-c",
        WAITING,
        str(busy_ms),
        str(end_seconds),
        "mcp",
        "--home",
        str(home),
        "--session",
        "new",
        "--level",
        "PUBLIC",
    ]


@pytest.fixture
def made(home: Path) -> Path:
    """A home that another session has used."""
    with tidegate.open(home) as store:
        store.session("assistant", "other", Level.PUBLIC).memory.save("k", "x", ["rule"])
    return home


@contextmanager
def locked(home: Path) -> Iterator[Callable[[], object]]:
    """The chain that a new session is entered in, held by another program until what is yielded is called."""
    with closing(apsw.Connection(str(home / "agents" / "assistant" / "public.db"))) as holder:
        holder.execute("BEGIN IMMEDIATE")
        yield lambda: holder.execute("ROLLBACK")


def wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


# Locked by another program


def test_a_client_is_greeted_while_the_store_is_locked_and_a_call_works_once_it_is_free(made: Path) -> None:
    async def use(free: Callable[[], object]) -> None:
        transport = StdioTransport(sys.executable, waiting(made, busy_ms=200), env=dict(os.environ), keep_alive=False)
        async with Client(transport) as client:
            assert [tool.name for tool in await client.list_tools()] == list(TOOLS)
            assert [str(resource.uri) for resource in await client.list_resources()] == [URI]
            assert [prompt.name for prompt in await client.list_prompts()] == [PROMPT]
            answer = await client.call_tool("memory_get", {"key": "k"}, raise_on_error=False)
            assert answer.is_error
            assert answer.structured_content == {"error": {"code": "STORAGE", "message": BUSY}}
            with pytest.raises(Exception, match=BUSY):
                await client.read_resource(URI)
            with pytest.raises(Exception, match=BUSY):
                await client.get_prompt(PROMPT)
            free()
            assert (await client.call_tool("memory_get", {"key": "k"})).structured_content["content"] == "x"
            assert "x" in (await client.read_resource(URI))[0].text

    with locked(made) as free:
        asyncio.run(use(free))


@pytest.mark.parametrize("end", ["SIGTERM", "input"])
def test_it_ends_in_time_and_well_while_an_opening_waits(made: Path, end: str) -> None:
    for_hours = waiting(made, busy_ms=10_000_000, end_seconds=1.0)
    with locked(made), ServerProcess([], program=for_hours) as peer:
        peer.greet()
        for _ in range(2):
            peer.send("tools/call", {"name": "memory_get", "arguments": {"key": "k"}})
        if end == "SIGTERM":
            peer.process.send_signal(signal.SIGTERM)
        else:
            peer.close_input()
        assert peer.process.wait(PATIENCE_SECONDS) == 0
        assert peer.end() == (0, "")


def test_calls_in_flight_while_it_opens_are_answered_though_the_input_has_ended(made: Path) -> None:
    with locked(made) as free, ServerProcess([], program=waiting(made)) as peer:
        peer.greet()
        sent = [peer.send("tools/call", {"name": "memory_get", "arguments": {"key": "k"}}) for _ in range(2)]
        free()
        assert peer.end() == (0, "")
        answers = {each["id"]: each["result"]["structuredContent"]["content"] for each in peer.receive_rest()}
        assert answers == dict.fromkeys(sent, "x")


# Whatever else keeps it from the store


@contextmanager
def served(home: Path) -> Iterator[Peer]:
    """A server that opens its session as a process does, in a thread of this one."""
    opener = SessionOpener(partial(tidegate.open, home), "assistant", "new", Level.PUBLIC)
    with closing(opener), serving(ServedSession(opener)) as peer:
        peer.greet()
        assert all("result" in peer.ask(method) for method in LISTS)
        yield peer
        assert all("result" in peer.ask(method) for method in LISTS)


def overwritten(path: Path) -> Callable[[], object]:
    """Damage a file; what mends it."""
    whole = path.read_bytes()
    path.write_bytes(b"damage" * 1000)
    return lambda: path.write_bytes(whole)


def misconfigured(path: Path) -> Callable[[], object]:
    path.write_text("[limits]\ntags_max = 0\n")
    return lambda: path.write_text("[limits]\ntags_max = 10\n")


def unreadable(home: Path) -> Callable[[], object]:
    """Put a link that leads to itself in the place of the home: nobody can read it, not even root."""
    beside = home.rename(home.with_name("beside"))
    home.symlink_to(home)

    def mend() -> None:
        home.unlink()
        beside.rename(home)

    return mend


CAUSES: dict[str, tuple[Callable[[Path], Callable[[], object]], str, str]] = {
    "control": (lambda home: overwritten(home / "control.db"), "STORAGE", "damaged; run `tidegate doctor`"),
    "compartment": (
        lambda home: overwritten(home / "agents" / "assistant" / "public.db"),
        "STORAGE",
        "run `tidegate doctor`",
    ),
    "home": (unreadable, "STORAGE", "home: cannot be read"),
    "settings": (
        lambda home: misconfigured(home / "config.toml"),
        "INVALID_ARGUMENT",
        "config.toml: has an error; ask the owner to run `tidegate doctor`",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_it_answers_whatever_is_wrong_with_the_home_and_works_once_that_is_mended(made: Path, cause: str) -> None:
    break_it, code, words = CAUSES[cause]
    mend = break_it(made)
    with served(made) as peer:
        for _ in range(2):
            result = peer.ask("tools/call", {"name": "memory_get", "arguments": {"key": "k"}})["result"]
            assert result["isError"] is True
            assert result["structuredContent"]["error"]["code"] == code
            assert words in result["structuredContent"]["error"]["message"]
        for method, params in (("resources/read", {"uri": URI}), ("prompts/get", {"name": PROMPT})):
            error: dict[str, Any] = peer.ask(method, params)["error"]
            assert error["data"]["error"]["code"] == code
            assert str(made) not in str(error)
        mend()
        assert peer.call("memory_get", key="k")["content"] == "x"


def test_a_lock_does_not_undo_what_the_session_had_risen_to(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: what could not be opened at once is opened at its stored taint."""
    with tidegate.open(made) as store:
        store.session("assistant", "new", Level.CONFIDENTIAL)
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_MS", 100)
    (made / "config.toml").write_text("nonsense")
    with served(made) as peer:
        assert peer.call("memory_save", key="c", content="x")["error"]["code"] == "INVALID_ARGUMENT"
        (made / "config.toml").unlink()
        assert peer.call("memory_save", key="c", content="x")["classification"] == "CONFIDENTIAL"


def test_the_session_is_there_for_the_owner_before_any_call(home: Path) -> None:
    with ServerProcess(["--home", str(home), "--session", "main", "--level", "INTERNAL"]) as peer:
        peer.greet()

        def is_there() -> bool:
            with tidegate.open(home) as store:
                return [row.taint for row in store.sessions.list("assistant")] == [Level.INTERNAL]

        wait_until(is_there)
        assert peer.end() == (0, "")
