"""The demo: a real server process and a real MCP client, on a home that is thrown away. It fails if a claim does."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.surfaces import output

if TYPE_CHECKING:
    from fastmcp import Client

_WIDTH = 66
_BOLD, _DIM, _GREEN, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[0m"


class UnlikeClaimed(Exception):
    """An answer was not what the demo says it is."""


def run() -> int:
    """Show everything; 0, or 1 when an answer was not what is claimed. The transcript goes to standard output.

    Raises: SystemExit, with one line to show, when the extra is not installed.
    """
    try:
        import fastmcp
    except ModuleNotFoundError:
        sys.exit("tidegate demo: the MCP library is not installed: pip install 'tidegate[server]'")
    fastmcp.settings.log_enabled = False
    output.note("tidegate demo: starting a few server processes; this takes some seconds")
    # A client closes its transport in its own time; a home that is still being left must not fail the demo.
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-", ignore_cleanup_errors=True) as folder:
        try:
            asyncio.run(Demo(Path(folder)).play())
        except UnlikeClaimed as failure:
            output.note(f"tidegate demo: not as claimed: {failure}")
            return 1
    return 0


class Demo:
    """The steps, in order. Each shows what is sent and what comes back, and checks it."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def play(self) -> None:
        """All steps, then how to set up a client."""
        _say("A real MCP server in a process of its own, and a real MCP client that talks to it.")
        await self._save_in_public()
        await self._recall_and_raise()
        await self._look_from_public()
        await self._delete()
        _say("", "Everything was as claimed. To give this memory to an MCP client, put into its configuration:", "")
        _say(json.dumps(configuration(), indent=2))

    async def _save_in_public(self) -> None:
        async with self._conversation("A public conversation", "main", "PUBLIC") as ask:
            saved = await ask.save("user-name", "Ada Lovelace")
            _check(saved["classification"] == "PUBLIC", "what a public session saves is PUBLIC")

    async def _recall_and_raise(self) -> None:
        async with self._conversation("The same session after a restart: a new process", "main", "PUBLIC") as ask:
            hits = await ask.search("What is the user's name?")
            _check(hits[:1] == [("user-name", "Ada Lovelace")], "a memory is recalled after a restart, by a question")

            _head("The owner raises the session, say before it reads the company's mail")
            self._owner("session", "raise", "main", "INTERNAL")
            saved = await ask.save("user-name", "Ada Lovelace, who will leave the company in May")
            _check(saved["classification"] == "INTERNAL", "the running server notices the raise")
            shown = await ask.get("user-name")
            _check(shown["classification"] == "INTERNAL", "the higher memory shadows the lower one")

    async def _look_from_public(self) -> None:
        async with self._conversation("A public session, beside it", "lobby", "PUBLIC") as ask:
            shown = await ask.get("user-name")
            _check(shown["content"] == "Ada Lovelace", "a public session sees its own")
            _check(await ask.search("Who will leave in May?") == [], "and nothing that was learned above it")

            _head("The model tries to choose the level of a memory")
            saved = await ask.save("lunch", "The user likes noodles", classification="RESTRICTED")
            _check(saved["classification"] == "PUBLIC", "a level that the model sends has no effect")

    async def _delete(self) -> None:
        async with self._conversation("The internal session again: it is still INTERNAL", "main", "PUBLIC") as ask:
            gone = await ask.delete("user-name")
            _check(gone["classification"] == "INTERNAL", "a delete touches the session's own level only")
            _check(gone.get("still_visible") == "PUBLIC", "and says what shows again")
            shown = await ask.get("user-name")
            _check(shown["content"] == "Ada Lovelace", "the public memory shows again")

    @asynccontextmanager
    async def _conversation(self, title: str, session: str, level: str) -> AsyncIterator[Conversation]:
        """A client connected to a server process, which ends with it."""
        from fastmcp import Client
        from fastmcp.client.transports import StdioTransport

        _head(title)
        words = ["mcp", "--agent", "assistant", "--session", session, "--level", level]
        _command(words)
        command = ["-m", "tidegate", "--home", str(self._home), *words]
        transport = StdioTransport(sys.executable, command, env=dict(os.environ), keep_alive=False)
        async with Client(transport) as client:
            yield Conversation(client)

    def _owner(self, *words: str) -> None:
        _command(words)
        command = [sys.executable, "-m", "tidegate", "--home", str(self._home), *words]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own command
        _check(done.returncode == 0, f"`tidegate {' '.join(words)}` succeeds")


class Conversation:
    """What a model does in one conversation; each call is a line of the transcript."""

    def __init__(self, client: Client[Any]) -> None:
        self._client = client

    async def save(self, key: str, content: str, **more: str) -> dict[str, Any]:
        asked = "".join(f', {name} = "{value}"' for name, value in more.items())
        result = await self._call("memory_save", key=key, content=content, **more)
        _line("save", f'{key} = "{content}"{asked}', f"{result['classification']}, {result['status']}")
        return result

    async def search(self, query: str) -> list[tuple[str, str]]:
        result = await self._call("memory_search", query=query)
        hits = [(hit["key"], hit["content"]) for hit in result["results"]]
        _line("search", f'"{query}"', ", ".join(f'{key}: "{content}"' for key, content in hits) or "nothing")
        return hits

    async def get(self, key: str) -> dict[str, Any]:
        result = await self._call("memory_get", key=key)
        _check(result["found"], f"{key} is found")
        _line("get", key, f'{result["classification"]}: "{result["content"]}"')
        return result

    async def delete(self, key: str) -> dict[str, Any]:
        result = await self._call("memory_delete", key=key)
        again = f"; {result['still_visible']} shows again" if "still_visible" in result else ""
        _line("delete", key, f"{result['classification']} deleted{again}")
        return result

    async def _call(self, name: str, **arguments: str) -> dict[str, Any]:
        result = await self._client.call_tool(name, arguments, raise_on_error=False)
        shown = result.structured_content or {}
        _check(not result.is_error, f"{name} succeeds: {shown}")
        return shown


def configuration() -> dict[str, Any]:
    """What to paste into an MCP client's configuration to start this very installation."""
    command = Path(sys.executable).with_name("tidegate")
    words = ["mcp", "--agent", "assistant", "--session", "main", "--level", "PUBLIC"]
    return {"mcpServers": {"tidegate": {"command": str(command), "args": words}}}


def _check(holds: bool, claim: str) -> None:
    if not holds:
        raise UnlikeClaimed(claim)


def _head(title: str) -> None:
    _say("", _styled(title, _BOLD))


def _command(words: Sequence[str]) -> None:
    _say(_styled(f"  $ tidegate {' '.join(words)}", _DIM))


def _line(verb: str, asked: str, answer: str) -> None:
    _say(f"  {verb:<7} {asked:<{_WIDTH}} {_styled('->', _GREEN)} {answer}")


def _say(*lines: str) -> None:
    for line in lines:
        output.write(line)
    sys.stdout.flush()


def _styled(text: str, style: str) -> str:
    return f"{style}{text}{_PLAIN}" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text
