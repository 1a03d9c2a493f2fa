"""`tidegate gateway` in a process of its own, with the official client, and with servers that are processes too."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters
from tests.gateway.conftest import AT, ECHO, HOSTILE
from tests.server.mcp_peer import PATIENCE_SECONDS, ServerProcess

import tidegate
from tidegate.core.guidance import GATEWAY_GUIDANCE
from tidegate.gateway.pins import Pins
from tidegate.policy.levels import Level
from tidegate.policy.refusals import ABOVE_SINK
from tidegate.tools import TOOLS

T = TypeVar("T")
AGENT = "assistant"
HASTY = """
import sys
from tidegate.cli.main import main
from tidegate.server import protocol, serve
protocol.DRAIN_SECONDS, serve.EXIT_SECONDS = 0.1, 0.5
sys.exit(main())
"""


def section(name: str, how: str, level: Level, **environment: Path) -> str:
    env = ", ".join(f'{key} = "{value}"' for key, value in environment.items())
    return f"""
[servers.{name}]
command = ["{sys.executable}", "-IS", "{HOSTILE}", "{how}"]
env = {{{env}}}
source = "{level}"
sink = "{level}"
"""


@pytest.fixture
def with_servers(home: Path) -> Callable[..., Path]:
    """A home whose owner has classified and trusted the servers of these sections."""

    def make(**sections: str) -> Path:
        home.mkdir(mode=0o700)
        (home / "config.toml").write_text("".join(sections.values()), encoding="utf-8")
        for name in sections:
            Pins(home).trust(name, [ECHO], AT)
        return home

    return make


def through_client(home: Path, use: Callable[[Client], Awaitable[T]], *, session: str = "editor") -> T:
    """What `use` gives, with a client connected to a gateway that lives only for it."""
    words = ["-m", "tidegate", "--home", str(home), "gateway", "--session", session, "--level", "PUBLIC"]

    async def run() -> T:
        async with Client(StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))) as client:
            return await use(client)

    return asyncio.run(run())


async def call(client: Client, name: str, **arguments: Any) -> tuple[str, bool, str | None]:
    """The text of an answer, whether it is an error, and the level in its label."""
    result = await client.call_tool(name, arguments)
    return result.content[0].text, result.is_error, (result.meta or {}).get("com.tidegate/level")  # type: ignore[union-attr]


async def when(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def taint(home: Path, session: str = "editor") -> Level:
    with tidegate.open(home) as store:
        return store.resume(AGENT, session).taint


def test_the_story_of_a_classified_read(with_servers: Callable[..., Path], tmp_path: Path) -> None:
    reached, go, heard = tmp_path / "reached", tmp_path / "go", tmp_path / "heard"
    home = with_servers(
        plans=section("plans", "waits", Level.CONFIDENTIAL, REACHED=reached, GO=go),
        web=section("web", "behaves", Level.PUBLIC, RECORD=heard),
    )

    async def read(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*TOOLS, "plans__echo", "web__echo"]
        assert client.instructions == GATEWAY_GUIDANCE
        reading = asyncio.ensure_future(call(client, "plans__echo"))
        await when(reached.exists)
        assert taint(home) is Level.CONFIDENTIAL, "before the answer, and durably"
        go.touch()
        assert (await reading)[1:] == (False, "CONFIDENTIAL")
        assert '"classification": "CONFIDENTIAL"' in (await call(client, "memory_save", key="plan", content="merge"))[0]
        text, failed, level = await call(client, "web__echo", text="merge")
        assert (failed, level) == (True, "CONFIDENTIAL")
        assert f'"message": "web__echo: {ABOVE_SINK.hint}' in text

    async def come_back(client: Client) -> None:
        assert '"classification": "CONFIDENTIAL"' in (await call(client, "memory_save", key="more", content="x"))[0]
        assert (await call(client, "web__echo", text="merge"))[1] is True
        assert "merge" in (await call(client, "memory_get", key="plan"))[0]

    async def know_nothing(client: Client) -> None:
        assert [tool.name for tool in (await client.list_tools()).tools] == [*TOOLS, "plans__echo", "web__echo"]
        assert await call(client, "memory_get", key="plan") == ('{"found": false, "key": "plan"}', False, "PUBLIC")
        assert (await call(client, "web__echo", text="hello"))[1:] == (False, "PUBLIC")

    through_client(home, read)
    through_client(home, come_back)
    assert not heard.exists()
    through_client(home, know_nothing, session="lobby")
    assert "hello" in heard.read_text()
    assert "merge" not in heard.read_text()


def alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("program", [("-m", "tidegate"), ("-c", HASTY)], ids=["in time", "too late"])
def test_no_server_outlives_it(with_servers: Callable[..., Path], tmp_path: Path, program: tuple[str, ...]) -> None:
    """One that ignores the end of its input and the signal to end, and has a child."""
    pids = tmp_path / "pids"
    home = with_servers(clings=section("clings", "clings", Level.PUBLIC, PIDS=pids))
    words = ["gateway", "--home", str(home), "--session", "editor", "--level", "PUBLIC"]
    with ServerProcess(words, program=program) as peer:
        peer.greet()
        answer = peer.ask("tools/call", {"name": "clings__echo", "arguments": {"text": "hello"}})
        assert answer["result"]["isError"] is False
        started = [int(pid) for pid in pids.read_text().split()]
        assert len(started) == 2
        assert all(map(alive, started))
        peer.process.terminate()
        assert peer.end() == (0, "")
    asyncio.run(when(lambda: not any(map(alive, started))))


def test_what_was_sent_before_the_end_is_answered(with_servers: Callable[..., Path]) -> None:
    home = with_servers(web=section("web", "behaves", Level.PUBLIC))
    words = ["--home", str(home), "--session", "editor", "--level", "PUBLIC"]
    with ServerProcess(words, program=("-m", "tidegate", "gateway")) as peer:
        peer.greet()
        peer.send("tools/call", {"name": "web__echo", "arguments": {"text": "hello"}})
        assert peer.end() == (0, "")
        [answer] = peer.receive_rest()
    assert "\nhello\n" in answer["result"]["content"][0]["text"]
