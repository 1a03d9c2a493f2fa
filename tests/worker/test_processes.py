"""The story through real processes: a conversation, a wake-up, a kill, a restart, another conversation."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROCESS_SECONDS_MAX, Ran, Run
from tests.gateway.conftest import HOSTILE
from tests.server.mcp_peer import ServerProcess

SCRIPT = [
    {
        "when": r"\bplant is ([\w ]+)",
        "steps": [
            {"calls": [{"name": "memory_save", "arguments": {"key": "plant", "content": "The plant is {1}."}}]},
            {"say": "Noted."},
        ],
    },
    {
        "when": r"look after the plant",
        "steps": [
            {"calls": [{"name": "memory_get", "arguments": {"key": "plant"}}]},
            {
                "calls": [
                    {
                        "name": "memory_save",
                        "arguments": {"key": "watered", "content": "I watered it, since: {content|nobody said}"},
                    }
                ]
            },
            {"say": "The plant has been watered."},
        ],
    },
    {
        "when": r"how is the plant",
        "steps": [
            {"calls": [{"name": "memory_get", "arguments": {"key": "watered"}}]},
            {"say": "{content|I do not know.}"},
        ],
    },
    {
        "when": r"remind me",
        "steps": [
            {
                "calls": [
                    {
                        "name": "cron_create",
                        "arguments": {"name": "merger-canary", "schedule": "@yearly", "prompt": "merger-canary"},
                    }
                ]
            },
            {"say": "I will."},
        ],
    },
    {
        "when": r"read the mail",
        "steps": [
            {"calls": [{"name": "hostile__echo", "arguments": {"text": "mail-canary"}}]},
            {"calls": [{"name": "memory_save", "arguments": {"key": "mail", "content": "{result}"}}]},
            {"say": "In the mail: mail-canary"},
        ],
    },
    {"when": r"", "steps": [{"say": "merger-canary"}]},
]


@pytest.fixture
def script(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps(SCRIPT))
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(
        f'[chat]\nmodel = "scripted:{path}"\n[run]\nlease_seconds = 1\nchannel = "diary"\n'
        f'[channels.diary]\nkind = "file"\npath = "{tmp_path / "diary"}"\nclearance = "INTERNAL"\n'
        "[trigger]\nevery_minutes = 1440\n"
    )
    monkeypatch.setenv("TIDEGATE_HOME", str(home))


@contextmanager
def running(*words: str) -> Iterator[subprocess.Popen[str]]:
    """`tidegate run`, awake."""
    command = [sys.executable, "-m", "tidegate", "run", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    assert process.stderr is not None
    try:
        assert process.stderr.readline() == "tidegate run: started\n"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def until(found: Callable[[], Any]) -> Any:
    """What is found, as soon as it is."""
    for _ in range(20 * PROCESS_SECONDS_MAX):
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError("it did not come")


def states(cli: Run, *name: str) -> list[str]:
    """How the runs stand, as this process reads them beside the others."""
    lines = cli("cron", "history", *name, "--json").out.splitlines()
    return [json.loads(line)["state"] for line in reversed(lines)]


def say(process: Run, text: str, *words: str) -> str:
    ran: Ran = process("chat", "--message", text, *words)
    assert ran.code == 0, ran.err
    return ran.out.strip()


@pytest.mark.usefixtures("script")
def test_told_something_woken_and_asked_again_after_a_restart_it_knows(process: Run, cli: Run, home: Path) -> None:
    assert say(process, "My plant is thirsty", "--session", "chat") == "Noted."
    trigger = home / "agents" / "assistant" / "TRIGGER.md"
    trigger.write_text("Please look after the plant.")
    assert cli("cron", "run-now").out == "queued as run 1 at INTERNAL\n"
    with running() as run:
        until(lambda: "done" in states(cli))
        run.send_signal(signal.SIGTERM)
        assert run.wait(PROCESS_SECONDS_MAX) == 0
    answer = say(process, "And how is the plant?", "--session", "chat")
    assert answer == "I watered it, since: The plant is thirsty."
    told = [json.loads(line) for line in (home.parent / "diary").read_text().splitlines()]
    assert (told[0]["job"], told[0]["level"], told[0]["text"]) == ("", "INTERNAL", "The plant has been watered.")
    assert cli("audit", "verify").code == 0


@pytest.mark.usefixtures("script")
def test_a_job_made_in_a_confidential_session_leaves_no_trace_below(process: Run, cli: Run, home: Path) -> None:
    say(process, "My plant is thirsty", "--session", "low", "--level", "PUBLIC")
    assert say(process, "remind me", "--session", "high", "--level", "CONFIDENTIAL") == "I will."
    assert cli("cron", "run-now", "merger-canary", "--level", "CONFIDENTIAL").code == 0
    ran = process("run", "--once")
    # The owner is told by name what is held back; nobody below is, and no text of it.
    assert (ran.code, ran.err.count("\n"), ran.err.count("merger-canary")) == (1, 2, 1)
    assert "not delivered (pending): held back" in ran.err
    assert "merger-canary" in cli("cron", "history", "merger-canary").out
    for words in (
        ("cron", "list"),
        ("cron", "history", "merger-canary"),
        ("list",),
        ("search", "merger canary"),
        ("todo",),
    ):
        assert "canary" not in cli(*words, "--level", "INTERNAL").out
    holding = {path.name for path in home.rglob("*") if path.is_file() and b"merger-canary" in path.read_bytes()}
    assert holding <= {"confidential.db", "confidential.db-wal"}
    assert holding
    assert not (home.parent / "diary").exists()


@pytest.mark.usefixtures("script")
def test_t06_kill_9_in_the_middle_is_recorded_and_run_once_more(cli: Run, home: Path) -> None:
    """A model that hangs, killed twice; then nothing is running, and nothing is tried a third time."""
    with hanging(cli, home):
        with running() as run:
            until(lambda: "running" in states(cli, "slow"))
            run.kill()
        with running() as run:
            until(lambda: states(cli, "slow").count("interrupted") == 1 and "running" in states(cli, "slow"))
            run.kill()
        with running():
            until(lambda: states(cli, "slow").count("interrupted") == 2)
    assert sorted(states(cli, "slow")) == ["interrupted", "interrupted", "waiting"]
    assert cli("audit", "verify").code == 0
    assert cli("doctor").code == 0


@pytest.mark.usefixtures("script")
def test_t06_once_notices_what_was_killed_and_tells_what_failed(process: Run, cli: Run, home: Path) -> None:
    config = (home / "config.toml").read_text()
    with hanging(cli, home), running() as run:
        until(lambda: "running" in states(cli, "slow"))
        run.kill()
    (home / "config.toml").write_text(config)
    assert cli("cron", "add", "slow", "@yearly", "take your time", "--channel", "diary").code == 0
    (home / "config.toml").write_text(
        re.sub(r"\[channels.*", "", config.replace('channel = "diary"', ""), flags=re.DOTALL)
    )
    ran = process("run", "--once")
    assert (
        "assistant at INTERNAL: run 2 interrupted: its process ended before the run was done; the run is tried "
        "once more: " in ran.err
    )
    assert "add it, or give the job another channel: job slow\n" in ran.err
    assert ran.err.endswith("tidegate run: 1 run, 1 failure\n")
    assert (ran.code, sorted(states(cli, "slow"))) == (1, ["done", "interrupted", "waiting"])


@pytest.mark.usefixtures("script")
def test_told_to_stop_in_the_middle_it_notes_what_it_interrupts_and_ends(cli: Run, home: Path) -> None:
    with hanging(cli, home), running() as run:
        until(lambda: "running" in states(cli, "slow"))
        run.send_signal(signal.SIGTERM)
        assert run.wait(PROCESS_SECONDS_MAX) == 0
    assert sorted(states(cli, "slow")) == ["interrupted", "waiting", "waiting"]


@pytest.mark.usefixtures("script")
def test_several_runs_of_one_process_reach_a_model_over_http(
    process: Run, cli: Run, home: Path, tmp_path: Path
) -> None:
    """Each run has a loop of its own, and nothing of one is left over in the next."""
    command = [sys.executable, "-m", "tests.agent.openai_server", str(tmp_path / "requests")]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        reach(home, server.stdout.readline().strip(), "scripted")
        for name in ("one", "two", "three"):
            assert cli("cron", "add", name, "@yearly", f"Remind me to call {name}.").code == 0
            assert cli("cron", "run-now", name).code == 0
        assert process("run", "--once").err == "tidegate run: 3 runs\n"
    finally:
        server.kill()
        server.wait()
        server.stdout.close()
    assert all(states(cli, name) == ["done", "waiting"] for name in ("one", "two", "three"))
    assert "It is time to call three." in cli("cron", "history", "three").out


def reach(home: Path, port: str, model: str) -> None:
    """Have the home's model at a server on this machine."""
    rest = (home / "config.toml").read_text().partition("\n[run]")[2]
    chat = f'[chat]\nmodel = "{model}"\nbase_url = "http://127.0.0.1:{port}/v1"\n[run]'
    (home / "config.toml").write_text(chat + rest)


@contextmanager
def hanging(cli: Run, home: Path) -> Iterator[None]:
    """A model that takes every request and answers none, and a job, slow, whose run is due."""
    server = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        reach(home, server.stdout.readline().strip(), "hanging")
        assert cli("cron", "add", "slow", "@yearly", "take your time").code == 0
        assert cli("cron", "run-now", "slow").code == 0
        yield
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


HANGING = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
held = []
while True:
    held.append(server.accept())
"""


@pytest.mark.usefixtures("script")
def test_of_four_processes_at_once_one_runs_each_job(cli: Run, home: Path) -> None:
    for number in range(6):
        assert cli("cron", "add", f"job-{number}", "@yearly", "x").code == 0
        assert cli("cron", "run-now", f"job-{number}").code == 0
    command = [sys.executable, "-m", "tidegate", "run", "--once"]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    told = [process.communicate(timeout=PROCESS_SECONDS_MAX)[1] for process in processes]
    assert sum(int(line.split(": ")[1].split()[0]) for line in told) == 6
    assert all(states(cli, f"job-{number}") == ["done", "waiting"] for number in range(6))
    assert len((home.parent / "diary").read_text().splitlines()) == 6


@pytest.mark.usefixtures("script")
@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/St_Johns"])
def test_t09_the_zone_of_the_machine_changes_nothing(process: Run, cli: Run, zone: str) -> None:
    env = {"TZ": zone}
    assert process("cron", "add", "job", "2099-01-02T09:00", "x", env=env).code == 0
    (shown,) = [json.loads(line) for line in process("cron", "list", "--json", env=env).out.splitlines()]
    assert shown["next_run_at"] == "2099-01-02T09:00:00.000000Z"
    assert process("cron", "run-now", "job", env=env).code == 0
    assert process("run", "--once", env=env).code == 0
    assert states(cli, "job") == ["done", "waiting"]


@pytest.mark.usefixtures("script")
def test_beside_the_mcp_server_on_one_home_each_sees_what_the_other_saved(process: Run, cli: Run) -> None:
    with ServerProcess(["--session", "main"]) as server:
        server.greet()
        server.call("memory_save", key="plant", content="The plant is thirsty.")
        assert cli("cron", "add", "plants", "@yearly", "look after the plant").code == 0
        assert cli("cron", "run-now", "plants").code == 0
        assert process("run", "--once").err == "tidegate run: 1 run\n"
        found = server.call("memory_get", key="watered")
        assert found["content"] == "I watered it, since: The plant is thirsty."
        server.end()


@pytest.mark.usefixtures("script")
def test_l16_a_job_that_reads_mail_by_a_foreign_server_leaves_its_level_with_it(
    process: Run, cli: Run, home: Path
) -> None:
    """A real server, classified CONFIDENTIAL: whatever comes of it is there, and below it only says that it rose."""
    command = json.dumps([sys.executable, "-IS", str(HOSTILE), "behaves"])
    config = (home / "config.toml").read_text().replace("lease_seconds = 1\n", "lease_seconds = 10\n")
    server = f'[servers.hostile]\ncommand = {command}\nsource = "CONFIDENTIAL"\nsink = "CONFIDENTIAL"\n'
    (home / "config.toml").write_text(f"{config}{server}")  # a busy machine is no dead process
    assert cli("tools", "trust", "hostile", "--yes").code == 0
    assert cli("cron", "add", "mail", "@yearly", "Please read the mail.").code == 0
    assert cli("cron", "run-now", "mail").code == 0
    ran = process("run", "--once")
    assert (ran.code, ran.err.endswith("tidegate run: 1 run, 1 failure\n")) == (1, True)
    assert "mail-canary" not in ran.err
    low = [
        json.loads(line) for line in cli("cron", "history", "mail", "--level", "INTERNAL", "--json").out.splitlines()
    ]
    assert [(run["state"], run["text"]) for run in low] == [("waiting", ""), ("risen", "")]
    told = cli("cron", "history", "mail").out
    assert "CONFIDENTIAL  run 1    done" in told
    assert "  | In the mail: mail-canary" in told
    assert "pending to diary: held back" in told
    saved = cli("get", "mail", "--level", "CONFIDENTIAL", "--json").json
    assert (saved["classification"], saved["origin"]) == ("CONFIDENTIAL", "tool")
    holding = {path.name for path in home.rglob("*") if path.is_file() and b"mail-canary" in path.read_bytes()}
    assert holding <= {"confidential.db", "confidential.db-wal"}
