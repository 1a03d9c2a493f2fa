"""Worlds in which what a session does goes through a surface: the MCP server, the command line, the chat.

What no surface offers, and whatever a session does that is not stored, is left to the host, as in any world. Where the
surface is a process of its own, clock and ids are real ones, and masked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from tests.conftest import Ran, Run
from tests.server.mcp_peer import Peer, ServerProcess, serving
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, SqliteBackend
from tests.yardstick.interference import Observer, compare, masked, part_of
from tests.yardstick.worlds import NO_CURSOR, Answer, Outcome, World, filters, tool_call

from tidegate.server.resources import URI
from tidegate.session import Session

_MADE_UP = re.compile(r"[0-9a-f]{16,}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?")
UNTOLD = (t.SaveMany, t.Pin, t.Unpin, t.Plan, t.Planned, t.Say, t.Said)


class McpWorld(World):
    """Each session has a server, in a thread of this process."""

    def __init__(self, backend: Backend, **settings: Any) -> None:
        super().__init__(backend, **settings)
        self._serving = ExitStack()
        self._peers: dict[str, Peer] = {}

    def close(self) -> None:
        self._hang_up()
        super().close()

    def _restart(self) -> tuple[Answer, object]:
        self._hang_up()
        return super()._restart()

    def _hang_up(self) -> None:
        self._serving.close()
        self._peers.clear()

    def _verb(self, index: int, op: t.Verb, session: Session) -> tuple[Answer, object]:
        if isinstance(op, UNTOLD) or not self._reaches(op.seat):
            return super()._verb(index, op, session)
        if session.id not in self._peers:
            self._peers[session.id] = self._serving.enter_context(self._served(op.seat, session)).greet()
        peer = self._peers[session.id]
        if isinstance(op, t.Context):
            return without_id(peer.ask("resources/read", {"uri": URI})), None
        name, arguments = tool_call(op, self._cursors)
        answer = peer.ask("tools/call", {"name": name, "arguments": arguments})
        if isinstance(op, t.Page | t.More):
            self._cursors[index] = answer.get("result", {}).get("structuredContent", {}).get("next_cursor")
        return without_id(answer), None

    def _reaches(self, _seat: t.Seat) -> bool:
        return True

    def _served(self, _seat: t.Seat, session: Session) -> Any:
        return serving(session)


class McpProcessWorld(McpWorld):
    """Each named session has a server in a process of its own."""

    def _reaches(self, seat: t.Seat) -> bool:
        return seat.named

    def _served(self, seat: t.Seat, session: Session) -> Any:
        return ServerProcess(place(self.backend, seat, session))


class CommandWorld(World):
    """What a session does is a command: answered in JSON, and what is read for people as well.

    named: whether only named sessions do so, since a process takes a while.
    """

    def __init__(self, backend: Backend, command: Run, *, named: bool, **settings: Any) -> None:
        super().__init__(backend, **settings)
        self._command = command
        self._named = named

    def _verb(self, index: int, op: t.Verb, session: Session) -> tuple[Answer, object]:
        words = command_words(op, self._cursors)
        if words is None or (self._named and not op.seat.named):
            return super()._verb(index, op, session)
        words += place(self.backend, op.seat, session)
        answer = shown(self._command(*words, "--json"))
        if isinstance(op, t.Page | t.More):
            self._cursors[index] = json.loads(answer["out"]).get("next_cursor")
        if not isinstance(op, t.Save | t.Delete):
            answer["for people"] = shown(self._command(*words))
        return answer, None


RULES = {
    r"\Asave (\S+) \[(.*)\] (.*)": ("memory_save", {"key": "{1}", "content": "{3}", "tags": "[{2}]"}),
    r"\Aget (.*)": ("memory_get", {"key": "{1}"}),
    r"\Asearch (.*)": ("memory_search", {"query": "{1}"}),
    r"\Alist (.*)": ("memory_list", {"tag": "{1}"}),
    r"\Alist": ("memory_list", {}),
    r"\Adelete (.*)": ("memory_delete", {"key": "{1}"}),
    r"\Aplan \[(.*)\]": ("todo_write", {"todos": "{1}"}),
    r"\Aplanned": ("todo_read", {}),
}


def script(path: Path) -> str:
    """The name of a model that does what it is told and tells all that it was told."""
    rules: list[dict[str, Any]] = [
        {"when": when, "steps": [{"calls": [{"name": name, "arguments": arguments}]}, {"say": "{result}\n{prompt}"}]}
        for when, (name, arguments) in RULES.items()
    ]
    path.write_text(json.dumps([*rules, {"when": "", "steps": [{"say": "{prompt}"}]}]))
    return f"scripted:{path}"


class ChatWorld(CommandWorld):
    """What a session does is a message to `tidegate chat`, whose model follows the script above."""

    def _verb(self, index: int, op: t.Verb, session: Session) -> tuple[Answer, object]:
        text = message(op)
        if text is None or (self._named and not op.seat.named):
            return World._verb(self, index, op, session)
        return shown(self._command("chat", "--message", text, *place(self.backend, op.seat, session))), None


def place(backend: Backend, seat: t.Seat, session: Session) -> list[str]:
    """The options that lead to a named session, or to one that stands where this does."""
    there = ["--session", seat.label] if seat.named else ["--level", session.taint.name]
    return ["--home", str(cast(SqliteBackend, backend).home), "--agent", seat.agent, *there]


def shown(ran: Ran) -> Answer:
    """All that a command has shown."""
    return {"code": ran.code, "out": ran.out, "err": ran.err}


def command_words(op: t.Verb, cursors: dict[int, str | None]) -> list[str] | None:
    """The command that does it; None when there is none."""
    match op:
        case t.Save():
            return ["save", op.key, op.content, *(word for tag in op.tags for word in ("--tag", tag))]
        case t.Get():
            return ["get", op.key]
        case t.Search():
            options = [word for name, value in filters(op).items() for word in (f"--{name}", value)]
            return ["search", op.query, "-n", str(op.max_results), *options]
        case t.Delete():
            return ["delete", op.key]
        case t.Pages() | t.Page() | t.More():
            tag = ["--tag", op.tag] if op.tag else []
            cursor = ["--cursor", cursors.get(op.of) or NO_CURSOR] if isinstance(op, t.More) else []
            return ["list", "--limit", str(op.limit), *tag, *cursor]
        case _:
            return None


def message(op: t.Verb) -> str | None:
    """What is said, so that the model of the script does it; None when it cannot."""
    match op:
        case t.Save():
            return f"save {op.key} [{','.join(json.dumps(tag) for tag in op.tags)}] {op.content}"
        case t.Get():
            return f"get {op.key}"
        case t.Search():
            return f"search {op.query}"
        case t.Delete():
            return f"delete {op.key}"
        case t.Pages() | t.Page():
            return f"list {op.tag or ''}".strip()
        case t.Planned():
            return "planned"
        case t.Say():
            return "hello"
        case _:
            return None


def without_id(answer: Answer) -> Answer:
    """An answer without the number of its question, which counts what the other world was not asked."""
    return {name: value for name, value in answer.items() if name != "id"}


def told_apart(made: Callable[..., World], backend: Backend, steps: t.Trace, observer: Observer) -> Iterator[str]:
    """What the observer could tell two worlds apart by, from the answers alone, with times and ids masked."""
    part = part_of(steps, observer)
    whole, alone = (
        {
            f"step {at}": _MADE_UP.sub("…", str(masked(replace(world[at], raw=None), observer.level)))
            for at in sorted(part.watched)
        }
        for world in (_outcomes(made(backend, agents=[observer.agent]), each) for each in (steps, part.kept))
    )
    return compare(whole, alone)


def _outcomes(world: World, steps: t.Trace) -> dict[int, Outcome]:
    try:
        return world.run(steps)
    finally:
        world.close()
