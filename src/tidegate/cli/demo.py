"""The demo: a real server process and a real MCP client, in a temporary home. It fails if a claim does not hold."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.cli import output
from tidegate.errors import InvalidArgument

if TYPE_CHECKING:
    from mcp import Client

_BOLD, _GREEN, _PLAIN = "\x1b[1m", "\x1b[32m", "\x1b[0m"


class UnlikeClaimed(Exception):
    """An answer differs from what the demo claims."""


def run() -> int:
    """Show everything on standard output. Return 0, or 1 if an answer differs from its claim.

    Raises: InvalidArgument if the extra is not installed.
    """
    try:
        import mcp  # noqa: F401  only to check that it is installed
    except ModuleNotFoundError:
        raise InvalidArgument(
            "demo: the MCP library is not installed; it comes with tidegate[server]", install="tidegate[server]"
        ) from None
    output.warn("tidegate demo: starting a few server processes; this takes some seconds")
    # A client closes its transport with a delay. A home that is still in use must not fail the demo.
    with tempfile.TemporaryDirectory(prefix="tidegate-demo-", ignore_cleanup_errors=True) as folder:
        try:
            asyncio.run(Demo(Path(folder)).play())
        except UnlikeClaimed as failure:
            output.warn(f"tidegate demo: not as claimed: {failure}")
            return 1
    return 0


class Demo:
    """The steps, in order. Each shows the calls and the answers, and checks the answers."""

    def __init__(self, home: Path) -> None:
        self._home = home

    async def play(self) -> None:
        """Play all steps, then show how to set up a client."""
        _say("This demo runs a real MCP server in its own process and calls it with a real MCP client.")
        _say("$ marks what the owner types, > what a model calls, < what the server answers.")
        await self._save()
        await self._recall_and_raise()
        await self._look_from_public()
        await self._delete()
        self._talk()
        self._wake()
        _say("", "To give this memory to an MCP client, paste this into its configuration:", "", configuration())

    async def _save(self) -> None:
        async with self._conversation("A conversation", "main") as model:
            saved = await model.save("user-name", "Ada Lovelace")
            _check(
                saved["classification"] == "INTERNAL", "what the owner starts is INTERNAL, unless they say otherwise"
            )

    async def _recall_and_raise(self) -> None:
        async with self._conversation("The same session after a restart, in a new process", "main") as model:
            found = await model.search("What is the user's name?")
            _check("Ada Lovelace" in found, "the memory survives, and a question finds it")

            _head("The owner raises the session before it reads a contract")
            self._owner("session", "raise", "main", "CONFIDENTIAL")
            saved = await model.save("user-name", "Ada Lovelace, who will leave us in May")
            _check(saved["classification"] == "CONFIDENTIAL", "the running server noticed")
            shown = await model.get("user-name")
            both = "one key at two levels: the higher variant shadows the lower"
            _check(shown["classification"] == "CONFIDENTIAL", both)

    async def _look_from_public(self) -> None:
        title = "A public session, for what is shown to others"
        async with self._conversation(title, "lobby", "--level", "PUBLIC") as model:
            found = await model.search("What is the user's name?")
            _check(found == [], "it finds nothing that was learned above it")

            _head("In that session, the model tries to choose a level")
            saved = await model.save("lunch", "The user likes noodles", classification="RESTRICTED")
            _check(saved["classification"] == "PUBLIC", "no effect: the level is the session's")

    async def _delete(self) -> None:
        async with self._conversation("The first session again, which is still CONFIDENTIAL", "main") as model:
            shown = await model.get("lunch")
            _check(shown["classification"] == "PUBLIC", "it sees what is at its level or below")
            gone = await model.delete("user-name")
            _check(gone["classification"] == "CONFIDENTIAL", "a delete touches the session's own level")
            shown = await model.get("user-name")
            _check(shown["content"] == "Ada Lovelace", "so the lower memory shows again")

    def _talk(self) -> None:
        """Play the second act: Tidegate's own agent, which saves memories without being asked."""
        _say("", "Next, Tidegate's own agent. Its model follows a script. Each message goes to a new process.")
        _head("A conversation")
        saved = self._chat("Hello, my name is Grace Hopper.")
        _check(
            saved["tools"] == [{"tool": "memory_save", "failed": False}], "the agent saves the name without being asked"
        )
        _check(saved["level"] == "INTERNAL", "a chat, too, is INTERNAL")

        _head("Another conversation, after a restart")
        told = self._chat("What is my name?", "--new")
        _check("Grace Hopper" in told["answer"], "the agent remembers")
        self._chat("My name is really Grace Brewster Hopper.")

        _head("A third conversation, after a restart")
        told = self._chat("What is my name?", "--new")
        _check("Brewster" in told["answer"], "a correction replaces the old name")

        _head("A public conversation, which is not stored")
        told = self._chat("What is my name?", "--level", "PUBLIC")
        _check(told["answer"] == "You have not told me.", "here the same agent does not know the name")

    def _wake(self) -> None:
        """Show that the agent also works without a conversation."""
        _head("Without a conversation, the agent wakes for a job, in a session at the job's level")
        self._companion("cron", "add", "call", "2099-01-01", "Remind me to call Ada.")
        self._companion("cron", "run-now", "call")
        self._companion("run", "--once")
        runs = [json.loads(line) for line in self._companion("cron", "history", "call").splitlines()]
        texts = [run["text"] for run in runs if run["state"] == "done"]
        _answer("".join(texts))
        _check(texts == ["It is time to call Ada."], "the job ran, and its text is kept")

        _head("The next conversation, after a restart")
        told = self._chat("What did you remind me of?", "--new")
        _check("I reminded the user to call Ada" in told["answer"], "the agent knows what it did in the job")
        _check(self._companion("cron", "list", "--level", "PUBLIC") == "", "below its level, the job leaves no trace")

    def _chat(self, message: str, *words: str) -> dict[str, Any]:
        """Return the result of one message to Tidegate's own agent, in a new process."""
        result: dict[str, Any] = json.loads(self._companion("chat", *words, "--message", message))
        _answer(result["answer"])
        return result

    def _companion(self, *words: str) -> str:
        """Return the output, as JSON if there is any, of a command on an agent whose model follows a script."""
        shown = ["--agent", "companion", *words]
        _say(f"  $ tidegate {shlex.join(shown)}")
        form = [] if words[0] == "run" else ["--json"]
        command = [sys.executable, "-m", "tidegate", "--home", str(self._home), *shown, *form]
        own = {name: value for name, value in os.environ.items() if not name.startswith("TIDEGATE_CHAT_")}
        env = {**own, "TIDEGATE_CHAT_MODEL": "scripted"}
        done = subprocess.run(command, capture_output=True, check=False, env=env)  # noqa: S603  our own command
        if done.returncode != 0:
            raise UnlikeClaimed(f"`tidegate {words[0]}` ended with {done.returncode}")
        return done.stdout.decode()

    @asynccontextmanager
    async def _conversation(self, title: str, session: str, *level: str) -> AsyncIterator[DemoClient]:
        """Yield a client connected to a server process that runs as long as the conversation."""
        from mcp import Client, StdioServerParameters

        _head(title)
        words = [*_mcp(session), *level]
        _command(words)
        command = ["-m", "tidegate", "--home", str(self._home), *words]
        server = StdioServerParameters(command=sys.executable, args=command, env=dict(os.environ))
        async with Client(server) as client:
            yield DemoClient(client)

    def _owner(self, *words: str) -> None:
        _command(words)
        command = [sys.executable, "-m", "tidegate", "--home", str(self._home), *words]
        done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  our own command
        if done.returncode != 0:
            raise UnlikeClaimed(f"`tidegate {' '.join(words)}` ended with {done.returncode}")


class DemoClient:
    """A model in one conversation. The transcript shows each call and its answer."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def save(self, key: str, content: str, **more: str) -> dict[str, Any]:
        extra = "".join(f', {name} = "{value}"' for name, value in more.items())
        result = await self._call(f'save {key} = "{content}"{extra}', "memory_save", key=key, content=content, **more)
        _answer(f"{result['status']} at {result['classification']}")
        return result

    async def search(self, query: str) -> list[str]:
        """Return the contents that match."""
        result = await self._call(f'search "{query}"', "memory_search", query=query)
        for hit in result["results"]:
            _answer(f'{hit["key"]} = "{hit["content"]}" ({hit["classification"]})')
        if not result["results"]:
            _answer("nothing")
        return [hit["content"] for hit in result["results"]]

    async def get(self, key: str) -> dict[str, Any]:
        result = await self._call(f"get {key}", "memory_get", key=key)
        if not result["found"]:
            raise UnlikeClaimed(f"{key} exists")
        _answer(f'"{result["content"]}" ({result["classification"]})')
        return result

    async def delete(self, key: str) -> dict[str, Any]:
        result = await self._call(f"delete {key}", "memory_delete", key=key)
        _answer(f"deleted at {result['classification']}, still visible: {result.get('still_visible', 'nothing')}")
        return result

    async def _call(self, shown: str, name: str, **arguments: str) -> dict[str, Any]:
        _say(f"  > {shown}")
        result = await self._client.call_tool(name, arguments)
        if result.is_error or result.structured_content is None:
            raise UnlikeClaimed(f"{name} answers")
        return dict(result.structured_content)


def configuration() -> str:
    """Return the lines for an MCP client's configuration that start this installation."""
    script = Path(sys.executable).with_name("tidegate")
    command, *words = [str(script)] if script.exists() else [sys.executable, "-m", "tidegate"]
    return f"""\
{{
  "mcpServers": {{
    "tidegate": {{
      "command": {json.dumps(command)},
      "args": {json.dumps([*words, *_mcp("main")])}
    }}
  }}
}}"""


def _mcp(session: str) -> list[str]:
    return ["mcp", "--agent", "assistant", "--session", session]


def _check(holds: bool, claim: str) -> None:
    if not holds:
        raise UnlikeClaimed(claim)
    _say(_styled(f"    \u2713 {claim}", _GREEN))


def _head(title: str) -> None:
    _say("", _styled(title, _BOLD))


def _command(words: Sequence[str]) -> None:
    _say(f"  $ tidegate {' '.join(words)}")


def _answer(text: str) -> None:
    _say(f"  < {text}")


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(line + "\n")  # all of it is ours, some with terminal styles
    sys.stdout.flush()


def _styled(text: str, style: str) -> str:
    return f"{style}{text}{_PLAIN}" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text
