"""`tidegate mcp` in a process of its own, with a client of another vendor and through raw lines."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from tests.conftest import Run
from tests.server.mcp_peer import INITIALIZE, PATIENCE_SECONDS, ServerProcess

import tidegate
from tidegate import Level
from tidegate.core.guidance import GUIDANCE
from tidegate.server.resources import URI

Use = Callable[[Client[StdioTransport]], Awaitable[Any]]


def server(home: Path, *more: str) -> list[str]:
    return ["--home", str(home), "--agent", "assistant", *more]


def through_client(home: Path, use: Use, *, session: str = "main", level: str = "PUBLIC", mode: Any = "auto") -> Any:
    """What `use` gives, with a client connected to a server process that lives only for it."""
    command = ["-m", "tidegate", "mcp", *server(home, "--session", session, "--level", level)]
    transport = StdioTransport(sys.executable, command, env=dict(os.environ), keep_alive=False)

    async def run() -> Any:
        async with Client(transport, mode=mode) as client:
            return await use(client)

    return asyncio.run(run())


async def call(client: Client[StdioTransport], name: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(name, arguments, raise_on_error=False)
    assert result.structured_content is not None
    return result.structured_content


# The main paths, through a client


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_a_memory_is_recalled_by_a_question_after_a_restart(home: Path, mode: str) -> None:
    async def save(client: Client[StdioTransport]) -> dict[str, Any]:
        return await call(client, "memory_save", key="user-name", content="Ada Lovelace", tags=["persona"])

    async def search(client: Client[StdioTransport]) -> dict[str, Any]:
        return await call(client, "memory_search", query="What is the name of the user?")

    assert through_client(home, save, mode=mode)["status"] == "created"
    found = through_client(home, search, mode=mode)["results"]
    assert [(hit["key"], hit["content"]) for hit in found] == [("user-name", "Ada Lovelace")]


def test_the_owners_raise_is_noticed_and_a_public_session_still_sees_only_its_own(home: Path, process: Run) -> None:
    async def use(client: Client[StdioTransport]) -> None:
        assert (await call(client, "memory_save", key="k", content="public"))["classification"] == "PUBLIC"
        raised = process("--home", str(home), "session", "raise", "main", "INTERNAL")
        assert raised.code == 0, raised.err
        assert (await call(client, "memory_save", key="k", content="internal"))["classification"] == "INTERNAL"
        assert (await call(client, "memory_get", key="k"))["content"] == "internal"

    async def look(client: Client[StdioTransport]) -> tuple[Any, Any]:
        hits = await call(client, "memory_search", query="internal")
        return (await call(client, "memory_get", key="k"))["content"], hits["results"]

    through_client(home, use)
    assert through_client(home, look, session="lobby") == ("public", [])
    assert through_client(home, look)[0] == "internal"  # the taint outlives the process


def test_after_a_reset_it_answers_session_ended_and_the_name_is_dead(home: Path, process: Run) -> None:
    """P7."""

    async def use(client: Client[StdioTransport]) -> None:
        await call(client, "memory_save", key="k", content="x")
        assert process("--home", str(home), "session", "reset", "main", "--yes").code == 0
        for name, arguments in (("memory_get", {"key": "k"}), ("memory_save", {"key": "k", "content": "y"})):
            error = (await call(client, name, **arguments))["error"]
            assert error["code"] == "REFUSED"
            assert error["message"].startswith("session ended")
            assert "--session" in error["message"]

    through_client(home, use)
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        for _ in range(2):
            error = peer.call("memory_save", key="k", content="y")["error"]
            assert (error["code"], error["rule"]) == ("REFUSED", "P7")
            assert error["message"].startswith("session ended")
            assert "--session" in error["message"]
        assert "error" in peer.ask("resources/read", {"uri": URI})
        code, said = peer.end()
    assert code == 0
    assert said.startswith("tidegate mcp: session ended")
    assert said.count("\n") == 1


def test_the_taint_is_the_higher_of_the_stored_one_and_the_level(home: Path) -> None:
    async def classification(client: Client[StdioTransport]) -> Any:
        return (await call(client, "memory_save", key="k", content="x"))["classification"]

    levels = ("PUBLIC", "CONFIDENTIAL", "INTERNAL")
    seen = [through_client(home, classification, level=level) for level in levels]
    assert seen == ["PUBLIC", "CONFIDENTIAL", "CONFIDENTIAL"]


def test_the_instructions_are_the_guidance_and_spine(home: Path) -> None:
    async def instructions(client: Client[StdioTransport]) -> Any:
        return client.initialize_result.instructions

    folder = home / "agents" / "assistant"
    folder.mkdir(parents=True)
    (folder / "SPINE.md").write_bytes("\ufeffYou are \u2713 Ada's clerk.\n".encode())
    assert through_client(home, instructions, mode="legacy") == f"{GUIDANCE}\nYou are \u2713 Ada's clerk.\n"


# Its end


def saves(peer: ServerProcess, count: int, *, start: int = 0) -> None:
    for n in range(start, start + count):
        peer.send("tools/call", {"name": "memory_save", "arguments": {"key": f"k{n:03}", "content": "x"}})


def kept(home: Path) -> list[str]:
    with tidegate.open(home) as store:
        return [memory.key for memory in store.session("assistant", level=Level.RESTRICTED).memory.list()]


def acknowledged(peer: ServerProcess) -> list[str]:
    """The keys of all saves that were answered, until the server's end."""
    answers = (answer["result"]["structuredContent"] for answer in peer.receive_rest() if "result" in answer)
    return [answer["key"] for answer in answers if answer.get("saved")]


def test_r02_without_input_it_ends_at_once_and_says_nothing(home: Path, process: Run) -> None:
    ran = process("mcp", *server(home, "--session", "main"), stdin=b"")
    assert (ran.code, ran.out, ran.err) == (0, "", "")


def test_r02_when_its_input_ends_while_idle_it_ends_and_says_nothing(home: Path) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        assert peer.end() == (0, "")


def test_r02_when_its_input_ends_all_that_was_sent_is_answered_and_kept(home: Path) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        saves(peer, 40)
        assert peer.end() == (0, "")
        assert acknowledged(peer) == kept(home) == [f"k{n:03}" for n in range(40)]


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
@pytest.mark.parametrize("after", [0, 7])
def test_r03_a_signal_ends_it_in_good_order_and_acknowledged_saves_are_kept(home: Path, name: str, after: int) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        saves(peer, after)
        first = [peer.receive()["result"]["structuredContent"]["key"] for _ in range(after)]
        saves(peer, 100, start=after)
        peer.process.send_signal(getattr(signal, name))
        assert peer.process.wait(PATIENCE_SECONDS) == 0
        assert set(first + acknowledged(peer)) <= set(kept(home))
        assert peer.end() == (0, "")


def test_r03_a_signal_ends_it_although_its_input_stays_open_and_idle(home: Path) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        peer.process.send_signal(signal.SIGTERM)
        assert peer.process.wait(PATIENCE_SECONDS) == 0


def test_r02_it_ends_when_its_client_is_killed(home: Path) -> None:
    """The client holds the other ends of its pipes; standard error, which we hold, tells us when the server is gone."""
    client = (
        "import os, signal, sys; sys.path.insert(0, os.getcwd());"
        "from tests.server.mcp_peer import Peer;"
        "import subprocess; s = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE);"
        "Peer(s.stdin, s.stdout).greet().call('memory_save', key='k', content='x');"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [
        sys.executable,
        "-c",
        client,
        sys.executable,
        "-m",
        "tidegate",
        "mcp",
        *server(home, "--session", "main"),
    ]
    root = Path(__file__).parents[2]
    ran = subprocess.run(command, stderr=subprocess.PIPE, timeout=PATIENCE_SECONDS, check=False, cwd=root)
    assert (ran.returncode, ran.stderr) == (-signal.SIGKILL, b"")
    assert kept(home) == ["k"]


def test_it_ends_when_nobody_reads_its_answers_any_more(home: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with ServerProcess(server(home, "--session", "main"), answers=writes) as peer:
        os.close(writes)
        peer.send("initialize", INITIALIZE)
        assert peer.process.wait(PATIENCE_SECONDS) == 0


def test_a_kill_loses_no_acknowledged_save(home: Path) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        saves(peer, 30)
        first = [peer.receive()["result"]["structuredContent"]["key"] for _ in range(10)]
        peer.process.kill()
        assert set(first + acknowledged(peer)) <= set(kept(home))


# Its surroundings


@pytest.mark.parametrize(
    "environ",
    [
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252", "PYTHONCOERCECLOCALE": "0"},
        {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONIOENCODING": "utf-16"},
    ],
    ids=["cp1252", "utf-16"],
)
def test_u09_it_speaks_utf_8_whatever_the_locale(home: Path, environ: dict[str, str]) -> None:
    content = "\u2713 \u5b8c\u6210 \U0001f680"
    with ServerProcess(server(home, "--session", "main"), {**os.environ, **environ}) as peer:
        peer.greet().call("memory_save", key="k", content=content)
        assert peer.call("memory_get", key="k")["content"] == content
        assert peer.end() == (0, "")


def test_with_a_home_it_needs_nothing_of_its_environment(home: Path, tmp_path: Path) -> None:
    bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "nowhere")}
    with ServerProcess(server(home, "--session", "main"), bare) as peer:
        assert peer.greet().call("memory_save", key="k", content="x")["saved"] is True
        assert peer.end() == (0, "")
    assert not (tmp_path / "nowhere").exists()


def test_without_a_session_name_nothing_is_stored_about_it(home: Path, process: Run) -> None:
    with ServerProcess(server(home, "--level", "INTERNAL")) as peer:
        assert peer.greet().call("memory_save", key="k", content="x")["classification"] == "INTERNAL"
        assert peer.end() == (0, "")
    assert process("--home", str(home), "session", "list", "--json").out == ""


def test_c01_many_calls_without_waiting_leave_the_files_whole(home: Path) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        peer.greet()
        saves(peer, 50)
        sent = [peer.send("tools/call", {"name": "memory_delete", "arguments": {"key": f"k{n:03}"}}) for n in range(20)]
        sent += [peer.send("tools/call", {"name": "memory_search", "arguments": {"query": "x"}}) for _ in range(20)]
        peer.close_input()
        answers = peer.receive_rest()
        assert len(answers) == len({answer["id"] for answer in answers}) == 90
        assert {answer["id"] for answer in answers} >= set(sent)
        assert not any(answer["result"]["isError"] for answer in answers)
    assert kept(home) == [f"k{n:03}" for n in range(20, 50)]
    with apsw.Connection(str(home / "agents" / "assistant" / "public.db")) as connection:
        assert connection.pragma("integrity_check") == "ok"


@pytest.mark.parametrize("name", ["nope\udcff", "nope\0", "x" * 100_000])
def test_u08_an_unknown_tool_is_refused_whatever_its_name(home: Path, name: str) -> None:
    with ServerProcess(server(home, "--session", "main")) as peer:
        assert peer.greet().call(name)["error"]["code"] == "REFUSED"
        assert peer.end() == (0, "")


def test_nothing_but_the_protocol_reaches_standard_output() -> None:
    script = (
        "import os, subprocess, sys\n"
        "from tidegate.server import stdio\n"
        "print('before')\n"
        "wire = stdio.claim()\n"
        "print('stray'); sys.stdout.flush(); os.write(1, b'stray\\n')\n"
        "subprocess.run(['sh', '-c', 'echo stray; cat'])\n"
        "stdio.write(wire.outgoing, wire.incoming.readline())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], input=b"line\n", capture_output=True, check=True)
    assert ran.stdout == b"before\nline\n"
    assert ran.stderr.split() == [b"stray"] * 3


@pytest.mark.parametrize(
    ("setup", "line"),
    [
        ("sys.modules['mcp'] = None", "the MCP library is not installed; it comes with tidegate[server]: "),
        ("os.close(0)", "standard input and output must be open; an MCP client opens them\n"),
        ("os.environ['TIDEGATE_LIMITS_TAGS_MAX'] = '0'", "TIDEGATE_LIMITS_TAGS_MAX: must be a whole number"),
        ("sys.argv += ['--agent', 'A/B']", "agent: "),
        ("sys.argv += ['--session', '']", "name: "),
        ("sys.argv += ['--home', 'file:///etc']", "home: "),
    ],
    ids=["no library", "no input", "environment", "agent", "name", "home"],
)
def test_what_stays_wrong_while_it_runs_ends_it_at_once_with_one_line(home: Path, setup: str, line: str) -> None:
    script = f"import os, sys; {setup}; from tidegate.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", script, "mcp", *server(home)]
    ran = subprocess.run(command, input=b"", capture_output=True, check=False)
    assert (ran.returncode, ran.stdout) == (2, b"")
    said = ran.stderr.decode()
    assert said.removeprefix("tidegate: ").removeprefix("mcp: ").startswith(line)
    assert said.count("\n") == 1
    assert not home.exists()


@pytest.mark.parametrize("command", ["mcp", "gateway"])
@pytest.mark.parametrize("terminal", [True, False])
def test_only_who_tries_it_by_hand_is_told_that_it_waits(
    cli: Run, monkeypatch: pytest.MonkeyPatch, terminal: bool, command: str
) -> None:
    monkeypatch.setattr("tidegate.server.serve.serve", lambda *_, **__: 0)
    ran = cli(command, "--session", "s", terminal=terminal)
    assert (ran.code, ran.out) == (0, "")
    assert (f"tidegate {command}: waiting for an MCP client" in ran.err) is terminal
