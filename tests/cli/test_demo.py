"""The demo: what it shows, and that it fails when an answer is not what it claims."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Run

from tidegate.cli import demo
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.server.served_session import ServedSession
from tidegate.server.tool_calls import MemoryTools
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

Sabotage = Callable[[str, str, dict[str, Any]], dict[str, Any] | None]


def test_it_shows_every_step_and_ends_with_a_configuration(process: Run, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    ran = process("demo", env={"TMPDIR": str(temporary)})
    assert (ran.code, ran.err) == (0, "tidegate demo: starting a few server processes; this takes some seconds\n")
    transcript, _, configuration = ran.out.partition("\n{")
    shown = iter(transcript.splitlines())
    for line in (
        "  $ tidegate mcp --agent assistant --session main",
        '  > save user-name = "Ada Lovelace"',
        "  < created at INTERNAL",
        "  $ tidegate mcp --agent assistant --session main",
        '  > search "What is the user\'s name?"',
        '  < user-name = "Ada Lovelace" (INTERNAL)',
        "  $ tidegate session raise main CONFIDENTIAL",
        "  < created at CONFIDENTIAL",
        "  $ tidegate mcp --agent assistant --session lobby --level PUBLIC",
        '  > search "What is the user\'s name?"',
        "  < nothing",
        '  > save lunch = "The user likes noodles", classification = "RESTRICTED"',
        "  < created at PUBLIC",
        '  < "The user likes noodles" (PUBLIC)',
        "  < deleted at CONFIDENTIAL, still visible: INTERNAL",
        '  < "Ada Lovelace" (INTERNAL)',
        "  $ tidegate --agent companion chat --message 'Hello, my name is Grace Hopper.'",
        "    \u2713 the agent saves the name without being asked",
        "  $ tidegate --agent companion chat --new --message 'What is my name?'",
        "  < The user's name is Grace Hopper.",
        "  < The user's name is Grace Brewster Hopper.",
        "  $ tidegate --agent companion chat --level PUBLIC --message 'What is my name?'",
        "  < You have not told me.",
        "  $ tidegate --agent companion cron add call 2099-01-01 'Remind me to call Ada.'",
        "  $ tidegate --agent companion run --once",
        "  < It is time to call Ada.",
        "  < I reminded the user to call Ada.",
        "    \u2713 below its level, the job leaves no trace",
    ):
        assert line in shown  # in this order
    assert max(map(len, transcript.splitlines())) <= 100
    assert "\x1b" not in ran.out
    server = json.loads("{" + configuration)["mcpServers"]["tidegate"]
    assert Path(server["command"]).exists()
    assert server["args"][-5:] == ["mcp", "--agent", "assistant", "--session", "main"]
    assert list(temporary.iterdir()) == []


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(InMemoryProvider(), toolset=TOOLS) as store:
        yield store


@pytest.fixture
def play(store: Store, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sabotage], int]:
    """Runs the demo with a server in this process, some of whose answers are replaced."""

    def run(sabotage: Sabotage) -> int:
        @asynccontextmanager
        async def conversation(_demo: object, title: str, session: str, *words: str) -> AsyncIterator[demo.DemoClient]:
            opened = store.session("assistant", session, Level[words[1]] if words else None)

            async def call_tool(name: str, arguments: dict[str, Any], **_: object) -> SimpleNamespace:
                answer = await MemoryTools(ServedSession(lambda: opened)).call(name, arguments)
                replaced = sabotage(session, name, answer.structured_content or {})
                return SimpleNamespace(is_error=answer.is_error, structured_content=replaced)

            yield demo.DemoClient(SimpleNamespace(call_tool=call_tool))  # type: ignore[arg-type]

        def owner(_demo: object, *words: str) -> None:
            assert words == ("session", "raise", "main", "CONFIDENTIAL")
            store.sessions.raise_taint(store.sessions.find("assistant", "main").id, Level.CONFIDENTIAL)

        monkeypatch.setattr(demo.Demo, "_conversation", conversation)
        monkeypatch.setattr(demo.Demo, "_owner", owner)
        monkeypatch.setattr(demo.Demo, "_talk", lambda _: None)
        monkeypatch.setattr(demo.Demo, "_wake", lambda _: None)
        return demo.run()

    return run


def honest(_session: str, _name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return answer


def no_level_is_kept(_session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "classification": "PUBLIC"} if name == "memory_save" else answer


def all_levels_are_one(_session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "classification": "CONFIDENTIAL"} if name == "memory_save" else answer


def nothing_is_found(_session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "results": []} if name == "memory_search" else answer


def the_lobby_finds_secrets(session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    leaked = [{"key": "user-name", "content": "in May", "classification": "CONFIDENTIAL"}]
    return {**answer, "results": leaked} if (session, name) == ("lobby", "memory_search") else answer


def nothing_below_is_seen(session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"found": False} if (session, name, answer.get("key")) == ("main", "memory_get", "lunch") else answer


def nothing_is_shadowed(session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "classification": "PUBLIC"} if (session, name) == ("main", "memory_get") else answer


def the_model_chooses(session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "classification": "RESTRICTED"} if (session, name) == ("lobby", "memory_save") else answer


def a_delete_goes_down(_session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {**answer, "classification": "PUBLIC"} if name == "memory_delete" else answer


def a_delete_takes_everything(session: str, name: str, answer: dict[str, Any]) -> dict[str, Any]:
    public = answer.get("content") == "Ada Lovelace"
    return {"found": False} if (session, name) == ("main", "memory_get") and public else answer


def it_answers_nothing(_session: str, _name: str, _answer: dict[str, Any]) -> None:
    return None


def test_it_succeeds_when_all_is_as_claimed(play: Callable[[Sabotage], int]) -> None:
    assert play(honest) == 0


@pytest.mark.parametrize(
    "sabotage",
    [
        no_level_is_kept,
        all_levels_are_one,
        nothing_is_found,
        the_lobby_finds_secrets,
        nothing_below_is_seen,
        nothing_is_shadowed,
        the_model_chooses,
        a_delete_goes_down,
        a_delete_takes_everything,
        it_answers_nothing,
    ],
)
def test_it_fails_when_an_answer_is_not_what_it_claims(
    play: Callable[[Sabotage], int], sabotage: Sabotage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play(sabotage) == 1
    shown = capsys.readouterr()
    assert "tidegate demo: not as claimed: " in shown.err
    assert "mcpServers" not in shown.out


def test_it_fails_when_the_owners_command_fails(tmp_path: Path) -> None:
    with pytest.raises(demo.UnlikeClaimed):
        demo.Demo(tmp_path)._owner("session", "raise", "nobody", "INTERNAL")


HONEST: list[dict[str, Any]] = [
    {"answer": "Nice to meet you.", "level": "INTERNAL", "tools": [{"tool": "memory_save", "failed": False}]},
    {"answer": "Grace Hopper"},
    {"answer": "Nice to meet you."},
    {"answer": "Grace Brewster Hopper"},
    {"answer": "You have not told me."},
]


DONE = '{"state": "waiting", "text": ""}\n{"state": "done", "text": "It is time to call Ada."}\n'
AWAKE = ["", "", "", DONE, '{"answer": "I reminded the user to call Ada."}', ""]

SECOND_ACT = ("_talk", "_chat", HONEST)
WAKE_UP = ("_wake", "_companion", AWAKE)
Act = tuple[str, str, list[Any]]
"""What plays it, what it hears its answers from, and answers that are as it claims."""


def act_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: Act, answers: list[Any]) -> None:
    """One act, with these answers."""
    plays, hears, _ = act
    left = iter(answers)
    monkeypatch.setattr(demo.Demo, hears, lambda *_: next(left))
    getattr(demo.Demo(tmp_path), plays)()


@pytest.mark.parametrize("act", [SECOND_ACT, WAKE_UP], ids=["second act", "wake-up"])
def test_an_act_ends_when_all_is_as_claimed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: Act) -> None:
    act_out(monkeypatch, tmp_path, act, act[2])


@pytest.mark.parametrize(
    ("act", "place", "wrong"),
    [
        (SECOND_ACT, 0, HONEST[0] | {"tools": []}),
        (SECOND_ACT, 0, HONEST[0] | {"level": "PUBLIC"}),
        (SECOND_ACT, 1, {"answer": "You have not told me."}),
        (SECOND_ACT, 3, {"answer": "Grace Hopper"}),
        (SECOND_ACT, 4, {"answer": "Grace Hopper"}),
        (SECOND_ACT, 4, {"answer": ""}),
        (WAKE_UP, 3, ""),
        (WAKE_UP, 3, DONE.replace("Ada", "Bob")),
        (WAKE_UP, 4, '{"answer": "I do not know."}'),
        (WAKE_UP, 5, "INTERNAL  call\n"),
    ],
)
def test_an_act_fails_when_an_answer_is_not_what_it_claims(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, act: Act, place: int, wrong: Any
) -> None:
    answers = [wrong if number == place else answer for number, answer in enumerate(act[2])]
    with pytest.raises(demo.UnlikeClaimed):
        act_out(monkeypatch, tmp_path, act, answers)


def test_it_fails_when_the_chat_fails(tmp_path: Path) -> None:
    with pytest.raises(demo.UnlikeClaimed):
        demo.Demo(tmp_path)._chat("")


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert demo._styled("x", demo._BOLD) == "\x1b[1mx\x1b[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert demo._styled("x", demo._BOLD) == "x"


def test_without_a_script_the_configuration_names_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    server = json.loads(demo.configuration())["mcpServers"]["tidegate"]
    assert (server["command"], server["args"][:3]) == ("/nowhere/python", ["-m", "tidegate", "mcp"])


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(InvalidArgument, match=r"it comes with tidegate\[server\]$") as raised:
        demo.run()
    assert raised.value.details["install"] == "tidegate[server]"
