"""`tidegate chat`: as a person at a terminal has it, and as a program does."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.agent.test_provider import serving
from tests.conftest import Ran, Run

from tidegate.gateway.pins import Definition, Pins

SECONDS_MAX = 30  # a bound on hanging, not a measurement
SAVE = {"name": "memory_save", "arguments": {"key": "secret", "content": "{1}"}}
SCRIPT: list[dict[str, Any]] = [
    {
        "when": "list",
        "steps": [{"say": "# Things\n\n- **one**\n- [two](https://evil.example/?q=secret)\n\n\u001b[31mred <b>x</b>"}],
    },
    {"when": "slowly", "steps": [{"say": "Let me see.\n\n", "trouble": "RATE"}]},
    {"when": "busy", "steps": [{"trouble": "RATE"}]},
    {"when": "forget", "steps": [{"calls": [{"name": "memory_get", "arguments": {"canary": 1}}]}]},
    {"when": "elsewhere", "steps": [{"calls": [{"name": "canary", "arguments": {}}]}]},
    {"when": "trouble", "steps": [{"trouble": "KEY"}]},
    {"when": "plan", "steps": [{"calls": [{"name": "todo_write", "arguments": {"todos": [{"content": "pack"}]}}]}]},
    {
        "when": "secret is (\\w+)",
        "steps": [{"calls": [{"name": "memory_save", "arguments": {"key": "secret", "content": "{1}"}}]}],
    },
]


def plain(text: str) -> str:
    """What a reader sees: without the sequences that colour and move."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", "", text).replace("\r", "")


class Person:
    """Somebody at a terminal who types, reads, and waits for what is written there."""

    def __init__(self, *words: str, **env: str) -> None:
        self._master, slave = pty.openpty()
        full = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40", **env}
        command = [sys.executable, "-m", "tidegate", *words]
        self._process = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=full,
            start_new_session=True,
            preexec_fn=_take_terminal,
        )
        os.close(slave)
        self._raw = ""
        self._at = 0

    def type(self, line: str) -> None:
        os.write(self._master, line.encode() + b"\n")

    def press(self, key: bytes) -> None:
        os.write(self._master, key)

    def sees(self, expected: str) -> str:
        """All from the last thing seen up to this, once it is there."""
        until = time.monotonic() + SECONDS_MAX
        while (at := plain(self._raw).find(expected, self._at)) < 0:
            if time.monotonic() > until or not self._read(until):
                pytest.fail(f"never saw {expected!r}; after it: {plain(self._raw)[self._at :]!r}")
        seen = plain(self._raw)[self._at : at + len(expected)]
        self._at = at + len(expected)
        return seen

    def ends(self) -> int:
        """The exit code, once it has ended."""
        while self._read(time.monotonic() + SECONDS_MAX):
            pass
        return self._process.wait(SECONDS_MAX)

    @property
    def everything(self) -> str:
        return self._raw

    def presses_until(self, key: bytes, expected: str) -> None:
        """Presses again: a signal that comes just before the line is read has no effect, for a person either."""
        for _ in range(20):
            self.press(key)
            self._read(time.monotonic() + 0.5)
            if expected in plain(self._raw)[self._at :]:
                break
        self.sees(expected)

    def close(self) -> None:
        """Leaves, as a person would, so that what was run is measured; or is thrown out."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            os.write(self._master, b"\x04")
            self._process.wait(2)
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def _read(self, until: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], max(0, until - time.monotonic()))
        try:
            data = os.read(self._master, 65536) if ready else b""
        except OSError:  # its other end is closed
            return False
        self._raw += data.decode("utf-8", "replace")
        return bool(data)


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests that run in the background inherit that it is ignored


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    return f"scripted:{path}"


@pytest.fixture
def people() -> Iterator[list[Person]]:
    """Whoever sits at a terminal; all of them leave at the end."""
    present: list[Person] = []
    yield present
    for person in present:
        person.close()


@pytest.fixture
def sits(home: Path, people: list[Person]) -> Any:
    """Somebody sits down at a chat."""

    def start(*words: str, model: str = "scripted", **env: str) -> Person:
        people.append(Person("--home", str(home), "chat", *words, TIDEGATE_CHAT_MODEL=model, **env))
        return people[-1]

    return start


@pytest.fixture
def say(cli: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Says one thing, as a program does, in this process."""

    def run(text: str, *words: str, model: str | None = "scripted", stdin: bytes = b"") -> Ran:
        with monkeypatch.context() as patch:
            if model is not None:
                patch.setenv("TIDEGATE_CHAT_MODEL", model)
            return cli("chat", "--message", text, *words, stdin=stdin)

    return run


# At a terminal


def test_a_person_tells_leaves_comes_back_and_is_known(sits: Any) -> None:
    first = sits()
    first.sees("assistant, session chat, at INTERNAL. /help lists the commands.\n")
    first.sees("INTERNAL> ")
    first.type("Hello, my name is Ada.")
    first.sees("· memory_save")
    first.sees("Nice to meet you, Ada.")
    first.sees("INTERNAL> ")
    first.press(b"\x04")
    assert first.ends() == 0

    second = sits("--new")
    second.sees("session chat-2")
    second.type("What is my name?")
    second.sees("The user's name is Ada.")
    second.type("/quit")
    assert second.ends() == 0


def test_the_owners_commands_do_what_help_says(sits: Any, script: str, cli: Run) -> None:
    cli("save", "offers", "x", "--level", "INTERNAL")
    person = sits(model=script)
    person.sees("INTERNAL> ")
    person.type("/help")
    for command in ("/memory", "/forget", "/todo", "/level", "/raise", "/ceiling", "/reset", "/help", "/quit"):
        person.sees(command)
    person.type("my secret is Xanadu")
    person.sees("That is all.")
    person.type("/memory")
    person.sees("Xanadu")
    person.type("/memory xanadu")
    person.sees("Xanadu")
    person.type("/memory nonsense")
    person.sees("no matches")
    person.type("/memory ?!")
    person.sees("no matches: there is no word in it")
    person.type("/forget secret")
    person.sees("deleted secret at INTERNAL")
    person.type("/forget secret")
    person.sees("tidegate: key: no memory has this key at INTERNAL; find the key with /memory WORDS")
    person.type("plan it")
    person.sees("That is all.")
    person.type("/todo")
    person.sees("[ ] pack")
    person.type("/raise confidential")
    person.sees("level CONFIDENTIAL, ceiling RESTRICTED")
    person.sees("CONFIDENTIAL> ")
    person.type("/ceiling CONFIDENTIAL")
    person.sees("ceiling CONFIDENTIAL")
    person.type("/raise RESTRICTED")
    person.sees("tidegate: this would exceed the session's ceiling")
    person.sees("; here, use /ceiling LEVEL")
    person.type("/raise sky-high")
    person.sees("must be one of PUBLIC")
    person.type("/forget offers")
    person.sees("no memory has this key at CONFIDENTIAL; one exists at INTERNAL")
    person.type("/nonsense")
    person.sees("no such command")
    person.type("/level")
    person.sees("this terminal shows up to RESTRICTED")


def test_a_reset_asks_first_and_what_follows_is_a_new_conversation(sits: Any, cli: Run) -> None:
    person = sits()
    person.sees("INTERNAL> ")
    person.type("/raise RESTRICTED")
    person.sees("RESTRICTED> ")
    person.type("/reset")
    person.sees("permanently?")
    person.type("no")
    person.sees("nothing was changed")
    person.type("/reset")
    person.sees("permanently?")
    person.type("y")
    person.sees("New conversation: assistant, session chat-2, at INTERNAL.")
    person.sees("INTERNAL> ")
    person.type("/quit")
    assert person.ends() == 0
    assert cli("session", "show", "chat", "--json").json["ended"] is True


def test_a_reset_from_outside_opens_a_new_conversation_in_the_running_chat(sits: Any, process: Run, home: Path) -> None:
    person = sits("--session", "work", "--level", "CONFIDENTIAL")
    person.sees("CONFIDENTIAL> ")
    assert process("--home", str(home), "session", "reset", "work", "--yes").code == 0
    person.type("hello")
    person.sees("session ended")
    person.sees("New conversation: assistant, session work-2, at CONFIDENTIAL.")


def test_ctrl_c_stops_the_answer_and_keeps_the_conversation(sits: Any, tmp_path: Path) -> None:
    with serving(tmp_path / "requests") as server:
        url = f"http://127.0.0.1:{server.port}/v1"
        person = sits(model="hanging-at-the-second", TIDEGATE_CHAT_BASE_URL=url)
        person.sees("INTERNAL> ")
        person.type("hi")
        person.sees("tell me your name.")  # after a first answer, what comes is shown at once
        person.sees("INTERNAL> ")
        person.type("hello")
        person.sees("Hello. I")
        person.press(b"\x03")
        person.sees("(stopped)")
        person.sees("INTERNAL> ")
        person.type("/quit")
        assert person.ends() == 0
        again = sits(model="plain", TIDEGATE_CHAT_BASE_URL=url)
        again.sees("INTERNAL> ")
        again.type("hello")
        again.sees("tell me your name.")
        told = json.loads(server.requests[-1])["messages"]
    assert [message["role"] for message in told] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert told[4]["content"] == "Hello. I "


def test_ctrl_c_while_waiting_for_a_busy_provider_stops_the_waiting(sits: Any, script: str) -> None:
    person = sits(model=script)
    person.sees("INTERNAL> ")
    person.type("busy")
    person.sees("trying again")
    person.press(b"\x03")
    person.sees("(stopped)")
    person.sees("INTERNAL> ")


def test_ctrl_c_at_the_prompt_says_how_to_leave(sits: Any) -> None:
    person = sits()
    person.sees("INTERNAL> ")
    person.presses_until(b"\x03", "Ctrl-D to leave")
    person.type("/quit")
    assert person.ends() == 0


def test_what_is_not_utf_8_is_not_sent_and_the_chat_goes_on(sits: Any) -> None:
    person = sits()
    person.sees("INTERNAL> ")
    person.press(b"caf\xe9 au lait\n")
    person.sees("INTERNAL> ")
    person.type("hello")
    person.sees("tell me your name.")


@pytest.mark.parametrize(
    ("said", "shown", "then", "answer"),
    [
        (
            "slowly, please",
            ["Let me see.", "(the model's provider accepts no more requests"],
            "wait",
            "no rule for that",
        ),
        ("trouble", ["(the model's provider did not accept the key"], "trouble", "did not accept the key"),
    ],
    ids=["what broke off", "trouble"],
)
def test_a_failure_is_explained_and_the_chat_goes_on(
    sits: Any, script: str, said: str, shown: list[str], then: str, answer: str
) -> None:
    person = sits(model=script)
    person.sees("INTERNAL> ")
    person.type(said)
    for text in shown:
        person.sees(text)
    person.sees("INTERNAL> ")
    person.type(then)
    person.sees(answer)


def test_markdown_is_readable_links_are_in_full_and_nothing_reaches_the_terminal_itself(sits: Any, script: str) -> None:
    person = sits(model=script)
    person.sees("INTERNAL> ")
    person.type("a list")
    shown = person.sees("INTERNAL> ")
    assert "• one" in shown
    assert "two (https://evil.example/?q=secret)" in shown
    assert "**" not in shown
    assert "<b>x</b>" in shown
    assert "\\x1b[31mred" in shown
    assert "\x1b[31mred" not in person.everything
    assert "\x1b]8" not in person.everything


def test_a_chat_that_is_killed_goes_on_where_it_was(sits: Any) -> None:
    person = sits()
    person.sees("INTERNAL> ")
    person.type("/raise CONFIDENTIAL")
    person.sees("CONFIDENTIAL> ")
    person.type("hello")
    person.sees("Hello.")
    os.kill(person._process.pid, signal.SIGKILL)
    again = sits()
    again.sees("session chat, at CONFIDENTIAL")


def test_an_answer_above_the_terminals_clearance_is_held_back_with_the_offer_of_a_reset(sits: Any) -> None:
    person = sits(TIDEGATE_CHAT_CLEARANCE="INTERNAL")
    person.sees("INTERNAL> ")
    person.type("/raise CONFIDENTIAL")
    person.sees("above INTERNAL> ")
    person.type("hello")
    held = person.sees("above INTERNAL> ")
    assert "CONFIDENTIAL" not in held  # P14: how far above, a model could choose
    assert "held back" in held
    assert "/reset" in held
    assert "Hello." not in held


@pytest.mark.parametrize("command", ["/memory", "/memory xanadu", "/todo", "/forget secret"])
def test_no_command_shows_what_is_above_the_terminals_clearance(sits: Any, script: str, command: str) -> None:
    person = sits(model=script, TIDEGATE_CHAT_CLEARANCE="INTERNAL")
    person.sees("INTERNAL> ")
    person.type("my secret is Xanadu")
    person.sees("That is all.")
    person.type("/raise CONFIDENTIAL")
    person.sees("above INTERNAL> ")
    person.type(command)
    shown = person.sees("above INTERNAL> ")
    assert "above the clearance of the destination" in shown
    assert "Xanadu" not in shown


# For programs


def test_one_message_is_answered_on_standard_output_alone(say: Run) -> None:
    ran = say("My name is Ada.")
    assert (ran.code, ran.out, ran.err) == (0, "Nice to meet you, Ada. I will remember that.\n", "· memory_save\n")


def test_json_says_all_that_came_of_it(say: Run) -> None:
    ran = say("My name is Ada.", "--json")
    assert ran.json == {
        "answer": "Nice to meet you, Ada. I will remember that.",
        "ended": "complete",
        "reason": None,
        "session": "chat",
        "level": "INTERNAL",
        "tools": [{"tool": "memory_save", "failed": False}],
    }


def test_a_message_can_come_from_standard_input(say: Run) -> None:
    assert say("-", stdin=b"My name is Ada.\n").out.startswith("Nice to meet you")


@pytest.mark.parametrize(
    ("text", "stdin", "code"),
    [
        ("", b"", "INVALID_ARGUMENT"),
        ("-", b"", "INVALID_ARGUMENT"),
        ("-", b"caf\xe9", "INVALID_ARGUMENT"),
        ("a\udcff", b"", "INVALID_ARGUMENT"),
        ("-", b"x" * (2**20 + 1), "LIMIT"),
    ],
)
def test_what_cannot_be_said_is_refused_by_argument_and_makes_nothing(
    say: Run, home: Path, text: str, stdin: bytes, code: str
) -> None:
    ran = say(text, "--json", stdin=stdin)
    assert (ran.code, ran.error["code"], ran.error["argument"]) == (2, code, "message")
    assert ran.error["message"].startswith("message: ")
    assert not home.exists()


def test_without_a_model_one_line_says_what_to_set_and_nothing_is_made(say: Run, home: Path) -> None:
    ran = say("hello", model=None)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    assert "TIDEGATE_CHAT_MODEL" in ran.err
    assert not home.exists()


@pytest.mark.parametrize("model", ["nonsense", "nobody:nothing", "openai:gpt-5-mini", "scripted:/nowhere", ""])
def test_a_model_that_cannot_be_opened_is_one_line_and_makes_nothing(say: Run, home: Path, model: str) -> None:
    ran = say("hello", model=model)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert not home.exists()


def test_a_script_that_is_none_is_refused(say: Run, tmp_path: Path) -> None:
    for text, why in (
        ("", "line 1 is not JSON"),
        ("[\n{,\n]", "line 2 is not JSON"),
        ("\x00\ud800", "it is not JSON in UTF-8"),
        ("{}", "it must be a list of rules"),
        ('[{"when": "", "steps": []}, {"when": "("}]', "`when` of rule 2 is not a regular expression"),
        ('[{"when": "", "steps": [{"trouble": "X"}]}]', "rule 1 must have `when` and `steps`"),
        ("[5]", "rule 1 must have"),
    ):
        (tmp_path / "s.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        ran = say("hello", "--json", model=f"scripted:{tmp_path / 's.json'}")
        assert (ran.code, why in ran.error["message"]) == (2, True), ran.err
    assert "the file does not exist" in say("hello", model="scripted:/nowhere").err
    assert "the file cannot be read" in say("hello", model=f"scripted:{tmp_path}").err


def test_without_a_terminal_a_message_is_needed(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    assert cli("chat").code == 2
    assert "--message" in cli("chat", terminal=True, stdin=b"").err + cli("chat").err
    assert cli("chat", "--json", terminal=True).code == 2


def test_with_a_level_alone_a_conversation_is_not_stored_and_at_exactly_that_level(say: Run, cli: Run) -> None:
    ran = say("My name is Ada.", "--level", "PUBLIC", "--json")
    assert (ran.json["session"], ran.json["level"]) == (None, "PUBLIC")
    assert cli("get", "user-name", "--json").json["classification"] == "PUBLIC"
    assert cli("session", "list").out == ""


def test_a_named_conversation_is_made_or_goes_on_at_its_taint(say: Run) -> None:
    assert say("hello", "--session", "s", "--level", "PUBLIC", "--json").json["level"] == "PUBLIC"
    assert say("hello", "--session", "s", "--json").json["level"] == "PUBLIC"
    assert say("hello", "--session", "s", "--level", "CONFIDENTIAL", "--json").json["level"] == "CONFIDENTIAL"
    assert say("hello", "--session", "s", "--level", "PUBLIC", "--json").json["level"] == "CONFIDENTIAL"
    assert say("hello", "--session", "new", "--json").json["level"] == "INTERNAL"


def test_a_name_whose_session_has_ended_is_refused(say: Run, cli: Run) -> None:
    say("hello", "--session", "s")
    cli("session", "reset", "s", "--yes")
    ran = say("hello", "--session", "s", "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")


def test_the_usual_conversation_after_a_reset_is_the_next_one(say: Run, cli: Run) -> None:
    say("hello")
    cli("session", "reset", "chat", "--yes")
    assert say("hello", "--json").json["session"] == "chat-2"
    assert say("hello", "--new", "--json").json["session"] == "chat-3"
    assert say("hello", "--json").json["session"] == "chat-3"
    cli("session", "reset", "chat-3", "--yes")
    assert say("hello", "--json").json["session"] == "chat-2"


@pytest.mark.parametrize("words", [("--new", "--session", "s"), ("--new", "--level", "PUBLIC")])
def test_new_is_for_the_usual_conversation_alone(say: Run, words: tuple[str, ...]) -> None:
    assert say("hello", *words).code == 2


def test_the_owner_learns_why_a_tool_was_not_run(say: Run, script: str) -> None:
    said = say("elsewhere", "--json", model=script).json
    assert said["tools"] == [
        {"tool": "unknown tool", "failed": True, "refused": True, "reason": "unknown tool: use only the listed tools"}
    ]
    failed = say("forget", "--json", model=script).json["tools"][0]
    assert (failed["tool"], failed["failed"], failed["refused"]) == ("memory_get", True, False)
    assert "has an unknown name; known names: " in failed["reason"]
    assert "· memory_get (failed: " in say("forget", model=script).err


def test_a_held_answer_is_no_answer(say: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    say("hello")
    monkeypatch.setenv("TIDEGATE_CHAT_CLEARANCE", "PUBLIC")
    ran = say("hello", "--json")
    assert (ran.code, ran.json["answer"], ran.json["ended"]) == (1, "", "held")
    text = say("hello")
    assert (text.code, text.out) == (1, "")
    assert "held back" in text.err


@pytest.mark.parametrize(
    ("key", "words", "message"),
    [
        (
            "CLEARANCE",
            (),
            "chat.level: INTERNAL is above chat.clearance (PUBLIC), so no answer could be shown; give a lower",
        ),
        ("CLEARANCE", ("--level", "INTERNAL"), "level: INTERNAL is above chat.clearance (PUBLIC)"),
        ("CLEARANCE", ("--session", "low", "--level", "INTERNAL"), "level: INTERNAL is above chat.clearance (PUBLIC)"),
        (
            "MODEL_CLEARANCE",
            ("--new",),
            "chat.level: INTERNAL is above chat.model_clearance (PUBLIC), so the model could not answer",
        ),
    ],
)
def test_a_conversation_that_could_show_nothing_is_not_begun(
    say: Run, cli: Run, monkeypatch: pytest.MonkeyPatch, key: str, words: tuple[str, ...], message: str
) -> None:
    cli("session", "new", "low", "--level", "PUBLIC")
    monkeypatch.setenv(f"TIDEGATE_CHAT_{key}", "PUBLIC")
    ran = say("hello", *words, "--json")
    assert ran.code == 2
    assert ran.error["message"].startswith(message)
    assert say("hello", "--session", "low", "--json").json["level"] == "PUBLIC"
    assert cli("session", "list").out.count("\n") == 1


def test_a_raise_at_the_start_is_said(say: Run) -> None:
    assert "raised" not in say("hello", "--session", "s", "--level", "PUBLIC").err
    ran = say("hello", "--session", "s", "--level", "RESTRICTED", "--json")
    assert ran.err == "tidegate: s was raised from PUBLIC to RESTRICTED, permanently\n"
    assert "raised" not in say("hello", "--session", "s", "--level", "RESTRICTED").err


def test_a_level_below_that_of_the_conversation_is_said_and_does_not_lower_it(
    say: Run, cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("session", "new", "s", "--level", "CONFIDENTIAL")
    ran = say("hello", "--session", "s", "--level", "PUBLIC", "--json")
    assert ran.json["level"] == "CONFIDENTIAL"
    assert ran.err.startswith("tidegate: s is already at CONFIDENTIAL; --level PUBLIC does not lower it: ")
    assert "session renew" in ran.err
    for words in ((), ("--level", "CONFIDENTIAL")):
        assert "lower" not in say("hello", "--session", "s", *words).err
    cli("session", "raise", "s", "RESTRICTED")
    monkeypatch.setenv("TIDEGATE_CHAT_CLEARANCE", "CONFIDENTIAL")
    ran = say("hello", "--session", "s", "--level", "PUBLIC")
    assert "s is already above CONFIDENTIAL; --level PUBLIC" in ran.err, "P14: the model chose how high it rose"


@pytest.mark.parametrize("command", ["chat", "mcp", "gateway"])
def test_the_help_says_that_a_level_never_lowers_a_session(cli: Run, command: str) -> None:
    assert "does not lower" in " ".join(cli(command, "--help").out.split())


def test_where_a_conversation_starts_is_configured(say: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[chat]\nmodel = "scripted"\nlevel = "CONFIDENTIAL"\n')
    assert say("hello", "--json", model=None).json["level"] == "CONFIDENTIAL"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('api_key = "sk-1"', "chat.api_key"),
        ('api_key_env = "sk-1"', "chat.api_key_env"),
        ('level = "SECRET"', "chat.level"),
        ('clearance = "public"', "chat.clearance"),
        ('base_url = "file:///etc"', "chat.base_url"),
        ("model = 3", "chat.model"),
        ("history_chars_max = 0", "chat.history_chars_max"),
    ],
)
def test_a_mistake_in_the_settings_names_the_key(say: Run, home: Path, line: str, key: str) -> None:
    home.mkdir()
    (home / "config.toml").write_text(f"[chat]\n{line}\n")
    ran = say("hello")
    assert ran.code == 2
    assert f"config.toml: {key}: " in ran.err


# SPINE.md


def test_a_good_default_is_written_at_first_use_and_never_overwritten(say: Run, home: Path) -> None:
    say("hello")
    path = home / "agents" / "assistant" / "SPINE.md"
    assert path.read_text().startswith("# Who you are")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.write_text("mine")
    say("hello")
    assert path.read_text() == "mine"
    path.write_text("")
    say("hello")
    assert path.read_text() == ""


def test_a_spine_that_cannot_be_read_is_said_so_and_the_model_is_not_asked(say: Run, home: Path) -> None:
    say("hello")
    (home / "agents" / "assistant" / "SPINE.md").write_bytes(b"\xff\xfe\xff")
    ran = say("hello")
    assert (ran.code, ran.out) == (3, "")
    assert "SPINE.md" in ran.err


# To-dos


def test_the_owner_sees_the_to_do_list(say: Run, cli: Run, script: str) -> None:
    assert cli("todo").out == "no to-dos\n"
    say("plan it", model=script)
    assert cli("todo").out == "[ ] pack\n"
    todo = {"content": "pack", "state": "pending"}
    assert cli("todo", "--session", "chat", "--json").json == {"todos": [todo], "origin": "agent"}
    assert cli("todo", "--level", "PUBLIC").out == "no to-dos\n"
    assert cli("todo", "--level", "PUBLIC", "--session", "chat").code == 2


UNTRUSTED = "offers no tools here: none of its tools is trusted yet: look at them with `tidegate tools trust files`"


def test_a_chat_says_which_servers_offer_nothing(say: Run, sits: Any, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[servers.files]\ncommand = ["x"]\nsource = "PUBLIC"\nsink = "PUBLIC"\n')
    ran = say("hello", "--json")
    assert (ran.code, ran.err) == (0, f"tidegate: server files {UNTRUSTED}\n")
    sits().sees("(server files offers no tools here: none of its tools is trusted yet: look at them with")


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ('source = "PUBLIC"\nsink = "PUBLIC"', ""),
        ('source = "PUBLIC"', "none of its trusted tools has both a source and a sink: set them in config.toml"),
    ],
)
def test_a_trusted_server_is_silent_and_one_without_levels_is_not(say: Run, home: Path, levels: str, said: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(f'[servers.files]\ncommand = ["x"]\n{levels}\n')
    definition = Definition("read", None, None, {"type": "object"}, None, None)
    Pins(home).trust("files", [definition], datetime(2030, 1, 1, tzinfo=UTC))
    assert say("hello").err == (f"tidegate: server files offers no tools here: {said}\n" if said else "")


def test_pins_that_cannot_be_read_are_said_at_the_start(say: Run, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text('[servers.files]\ncommand = ["x"]\n')
    (home / "pins.json").write_text("{")
    assert "pins.json: the trusted definitions cannot be read" in say("hello").err
