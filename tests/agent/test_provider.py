"""Through real HTTP, to a server in another process that speaks as OpenAI-compatible ones do."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.agent.scene import Scene, Screen
from tests.conftest import Ran, Run

from tidegate.agent.loop import Ended, Outcome
from tidegate.agent.messages import UserMessage
from tidegate.agent.model import open_model
from tidegate.agent.prompt import ModelError, ModelErrorKind, Prompt

CANARIES = {level: f"canary-of-{level.lower()}" for level in ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")}
LEVELS = list(CANARIES)


class Server:
    """A server in a process of its own, and what it was sent."""

    def __init__(self, folder: Path, *script: str) -> None:
        self.folder = folder
        command = [sys.executable, "-m", "tests.agent.openai_server", str(folder), *script]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def requests(self) -> list[bytes]:
        """Every body, byte for byte, in order."""
        return [path.read_bytes() for path in sorted(self.folder.glob("*.json"))]

    @property
    def headers(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.headers")))


@contextmanager
def serving(folder: Path, *script: str) -> Iterator[Server]:
    server = Server(folder, *script)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path / "requests") as running:
        yield running


Say = Callable[..., Ran]


def talk_to(server: Server, model: str) -> dict[str, str]:
    """The environment of a chat with a model of the server."""
    return {"TIDEGATE_CHAT_MODEL": model, "TIDEGATE_CHAT_BASE_URL": f"http://127.0.0.1:{server.port}/v1"}


@pytest.fixture
def say(server: Server, cli: Run, monkeypatch: pytest.MonkeyPatch) -> Say:
    """Says one thing in this process, with a store that is opened for it and closed after it."""

    def run(text: str, *words: str, model: str = "plain", **env: str) -> Ran:
        with monkeypatch.context() as patch:
            for name, value in {**talk_to(server, model), **env}.items():
                patch.setenv(name, value)
            return cli("chat", "--message", text, *words)

    return run


@pytest.fixture
def say_anew(server: Server, home: Path, process: Run) -> Say:
    """The same in a process of its own: what was said before was said by another that has ended. Takes seconds."""

    def run(text: str, *words: str, model: str = "plain", **env: str) -> Ran:
        command = ["--home", str(home), "chat", "--message", text, *words]
        return process(*command, env={**talk_to(server, model), **env})

    return run


def test_a_fact_told_in_one_conversation_is_in_the_next_prompt_after_a_restart(server: Server, say_anew: Say) -> None:
    assert say_anew("My name is Ada Lovelace.").code == 0
    told = say_anew("What is my name?", "--new")
    assert told.out == "The user's name is Ada Lovelace.\n"
    assert b"Ada Lovelace" in server.requests[2]  # the first of the second process


def test_a_correction_replaces_it(server: Server, say: Say) -> None:
    say("My name is Ada.")
    say("My name is really Grace.", "--new")
    say("hello", "--new")
    assert b"name is Grace" in server.requests[-1]
    assert b"Ada" not in server.requests[-1]


def test_a_conversation_goes_on_in_another_process(server: Server, say: Say, say_anew: Say) -> None:
    say("hello")
    say_anew("my cat is grey", "--json")
    roles = [message["role"] for message in json.loads(server.requests[-1])["messages"]]
    assert roles == ["system", "user", "assistant", "user", "assistant", "tool"]


def test_the_system_role_holds_the_owners_words_and_ours_alone(server: Server, say: Say) -> None:
    say("My name is canary.")
    say("What is my name?", "--new")
    for body in server.requests:
        system = [message for message in json.loads(body)["messages"] if message["role"] == "system"]
        assert len(system) == 1
        assert "canary" not in system[0]["content"]


def test_nothing_is_in_a_prompt_in_a_file_or_in_a_log_below_its_level(
    server: Server, say: Say, say_anew: Say, home: Path
) -> None:
    seen: dict[str, bytes] = {}
    said = b""
    for level in LEVELS:
        before = len(server.requests)
        ran = say_anew(f"my secret is {CANARIES[level]}", "--level", level, TIDEGATE_DEBUG="1")
        again = say("what is my secret", "--session", f"at-{level}", "--level", level, "--json")
        assert CANARIES[level] in again.json["answer"]
        seen[level] = b"".join(server.requests[before:])
        said += ran.stderr + again.stderr
    for level, canary in CANARIES.items():
        below = LEVELS[: LEVELS.index(level)]
        assert canary.encode() in seen[level]
        assert not any(canary.encode() in seen[each] for each in below)
        # The home's own files: each level's, and what belongs to none.
        stored = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
        holding = {path.name for path, data in stored.items() if canary.encode() in data}
        assert holding
        assert {name.split(".")[0] for name in holding} <= {each.lower() for each in LEVELS[LEVELS.index(level) :]}
        assert canary.encode() not in said


def test_arguments_that_come_in_pieces_are_put_together(server: Server, say: Say) -> None:
    assert say("my city is London", "--json").json["tools"] == [{"tool": "memory_save", "failed": False}]


def test_the_key_is_the_one_that_is_named_and_no_other(server: Server, say: Say) -> None:
    say("hello", OPENAI_API_KEY="sk-of-another-provider")
    assert "sk-of-another-provider" not in server.headers
    say("hello", TIDEGATE_CHAT_API_KEY_ENV="MY_KEY", MY_KEY="sk-mine")
    assert "Bearer sk-mine" in server.headers
    assert say("hello", TIDEGATE_CHAT_API_KEY_ENV="MY_KEY").code == 2


def test_a_provider_that_is_busy_once_is_asked_again(server: Server, say_anew: Say) -> None:
    ran = say_anew("hello", model="busy-once")
    assert (ran.code, ran.out) == (0, "Hello. I follow a script; tell me your name.\n")
    assert "trying again" in ran.err


@pytest.mark.parametrize(
    ("model", "kind", "requests"),
    [
        ("rate-limited", ModelErrorKind.RATE, 4),
        ("out-of-quota", ModelErrorKind.QUOTA, 1),
        ("wrong-key", ModelErrorKind.KEY, 1),
        ("unknown", ModelErrorKind.NO_MODEL, 1),
        ("rejecting", ModelErrorKind.REJECTED, 1),
        ("flooding", ModelErrorKind.FLOOD, 1),
    ],
)
def test_what_goes_wrong_is_explained_in_our_own_words(
    server: Server, say_anew: Say, model: str, kind: ModelErrorKind, requests: int
) -> None:
    ran = say_anew("hello", "--json", model=model)
    assert (ran.code, ran.json["ended"], ran.json["reason"]) == (1, "failed", kind.value)
    assert len(server.requests) == requests
    assert "secret-canary" not in ran.out + ran.err


def test_a_provider_that_breaks_off_in_the_middle_keeps_what_it_said(server: Server, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    model = open_model("breaking-at-the-second", f"http://127.0.0.1:{server.port}/v1")
    model.habit.plain = True  # what comes is shown at once
    agent = scene.agent(model)

    async def talk() -> Outcome:
        await agent.answer("hello", Screen())
        return await agent.answer("hello", Screen())

    outcome = asyncio.run(talk())
    assert (outcome.ended, outcome.answer, outcome.reason) == (Ended.FAILED, "Hello. ", ModelErrorKind.BROKEN.value)
    assert scene.say("go on", open_model("plain", f"http://127.0.0.1:{server.port}/v1")).ended is Ended.COMPLETE
    assert any(message.get("content") == "Hello. " for message in json.loads(server.requests[-1])["messages"])
    scene.store.close()


def test_a_provider_that_breaks_off_before_anything_was_shown_is_asked_again(server: Server, say: Say) -> None:
    ran = say("hello", "--json", model="breaking-at-the-first")
    assert (ran.code, ran.json["ended"], len(server.requests)) == (0, "complete", 2)


def test_a_provider_that_answers_garbage_is_explained(server: Server, tmp_path: Path) -> None:
    scene = Scene(tmp_path / "home")
    outcome = scene.say("hello", open_model("garbling", f"http://127.0.0.1:{server.port}/v1"))
    assert outcome.ended is Ended.FAILED
    assert outcome.reason in [kind.value for kind in ModelErrorKind]
    scene.store.close()


def test_a_provider_that_is_not_there_is_explained() -> None:
    model = open_model("any", "http://127.0.0.1:9/v1")

    async def ask() -> None:
        async for _ in model.stream(Prompt("", "", (UserMessage("hi"),))):
            pass

    with pytest.raises(ModelError) as raised:
        asyncio.run(ask())
    assert raised.value.kind is ModelErrorKind.UNREACHABLE


def test_malformed_arguments_go_back_to_the_provider_as_json(tmp_path: Path, home: Path, process: Run) -> None:
    steps: list[dict[str, Any]] = [{"calls": [{"name": "bad name!", "arguments": '{"key": '}]}, {"say": "sorry"}]
    (tmp_path / "script.json").write_text(json.dumps([{"when": "", "steps": steps}]))
    with serving(tmp_path / "requests", str(tmp_path / "script.json")) as server:
        ran = process("--home", str(home), "chat", "--message", "go", "--json", env=talk_to(server, "m"))
        why = "arguments: must be one JSON object; nothing was done"
        assert ran.json["tools"] == [{"tool": "unknown tool", "failed": True, "refused": False, "reason": why}]
        (assistant,) = (each for each in json.loads(server.requests[-1])["messages"] if each["role"] == "assistant")
    function = assistant["tool_calls"][0]["function"]
    assert function["name"] == "bad_name_"
    assert json.loads(function["arguments"]) == {"malformed": '{"key": '}


def test_a_chat_that_is_killed_in_the_middle_of_an_answer_has_lost_nothing_that_was_said(
    server: Server, say: Say, home: Path
) -> None:
    command = [sys.executable, "-m", "tidegate", "--home", str(home), "chat", "--message", "hello, I am Ada"]
    chat = subprocess.Popen(command, env={**os.environ, **talk_to(server, "hanging")}, stdout=subprocess.PIPE)
    while not server.requests:  # the answer has begun
        time.sleep(0.01)
    chat.kill()
    chat.communicate()
    assert say("are you there?").code == 0
    told = [message["content"] for message in json.loads(server.requests[-1])["messages"] if message["role"] == "user"]
    assert "hello, I am Ada" in told[0]
    assert told[-1].endswith("are you there?")
