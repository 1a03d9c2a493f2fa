"""Where a command starts that names no level: at `defaults.level`, and never where a session stands already."""

from __future__ import annotations

import json
import zipfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Run

import tidegate
from tidegate.policy.levels import Level
from tidegate.server.served_session import SessionOpener

FIXTURE = Path(__file__).parents[1] / "storage" / "fixtures" / "public-sessions.zip"


def configure(home: Path, text: str) -> None:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")


def started(cli: Run, home: Path) -> dict[str, Any]:
    """The level at which each thing starts that the owner starts without a level."""
    (home.parent / "notes.md").write_text("A note.", encoding="utf-8")
    opener = SessionOpener(partial(tidegate.open, home), "assistant", "mcp", None)
    with closing(opener):
        served = str(opener().taint)
    with tidegate.open(home) as store:
        embedded = str(store.session("assistant").taint)
    return {
        "save": cli("save", "k", "c", "--json").json["classification"],
        "session": cli("session", "new", "main", "--json").json["taint"],
        "job": cli("cron", "add", "digest", "@daily", "Sum up.", "--json").json["classification"],
        "import": cli("import", str(home.parent / "notes.md"), "--json").json["level"],
        "chat": cli("chat", "--message", "Hello", "--json").json["level"],
        "server": served,
        "python": embedded,
    }


@pytest.mark.parametrize("level", [None, *Level])
def test_what_the_owner_starts_is_at_the_default(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch, level: Level | None
) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    configure(home, "" if level is None else f'[defaults]\nlevel = "{level}"\n')
    expected = str(Level.INTERNAL if level is None else level)
    assert set(started(cli, home).values()) == {expected}


def test_a_variable_takes_precedence_over_the_file(cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(home, '[defaults]\nlevel = "CONFIDENTIAL"\n')
    monkeypatch.setenv("TIDEGATE_DEFAULTS_LEVEL", "PUBLIC")
    assert cli("save", "k", "c", "--json").json["classification"] == "PUBLIC"
    monkeypatch.setenv("TIDEGATE_DEFAULTS_LEVEL", "secret")
    ran = cli("save", "k", "c", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "TIDEGATE_DEFAULTS_LEVEL")


def test_a_name_told_in_the_chat_is_found_by_everything_beside_it(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    cli("chat", "--message", "Hello, my name is Ada Lovelace.")
    assert "Ada Lovelace" in cli("search", "what is the user's name?").out
    with closing(SessionOpener(partial(tidegate.open, home), "assistant", "main", None)) as opener:
        assert opener().memory.get("user-name") is not None
    assert cli("get", "user-name", "--level", "PUBLIC").code == 1


def test_the_trigger_is_asked_to_run_at_the_default(cli: Run, home: Path) -> None:
    configure(home, '[defaults]\nlevel = "CONFIDENTIAL"\n')
    (home / "agents" / "assistant").mkdir(parents=True)
    (home / "agents" / "assistant" / "TRIGGER.md").write_text("Look around.", encoding="utf-8")
    assert cli("cron", "run-now").out == "queued as run 1 at CONFIDENTIAL\n"


@pytest.fixture
def old(home: Path) -> Path:
    """A home of the version before, in which `main` and its memory and job are PUBLIC, and `chat` is INTERNAL."""
    with zipfile.ZipFile(FIXTURE) as files:
        files.extractall(home)
    return home


def test_p4_an_old_public_session_stays_where_it_is(old: Path, cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    with tidegate.open(old) as store:
        assert store.session("assistant", "main").taint is Level.PUBLIC
    with closing(SessionOpener(partial(tidegate.open, old), "assistant", "main", None)) as opener:
        assert opener().taint is Level.PUBLIC
    assert cli("save", "k", "c", "--session", "main", "--json").json["classification"] == "PUBLIC"
    assert cli("chat", "--session", "main", "--message", "Hello", "--json").json["level"] == "PUBLIC"
    assert cli("chat", "--message", "Hello", "--json").json["level"] == "INTERNAL"
    rows = [json.loads(line) for line in cli("session", "list", "--json").out.splitlines()]
    assert {row["name"]: row["taint"] for row in rows} == {"main": "PUBLIC", "chat": "INTERNAL"}
    assert cli("audit", "verify").code == 0


def test_what_an_old_store_holds_is_found_and_its_public_job_stays_public(old: Path, cli: Run) -> None:
    assert old.exists()
    assert "Ada Lovelace" in cli("search", "what is the user's name?").out
    assert cli("cron", "list").out.startswith("PUBLIC ")
    gone = cli("cron", "remove", "digest")
    assert (gone.code, gone.err.endswith("one exists at PUBLIC; use --level PUBLIC\n")) == (1, True)


@pytest.mark.parametrize("words", [[], ["-"], ["out.jsonl"]])
def test_an_export_has_the_level_that_is_written(
    cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TIDEGATE_DEFAULTS_LEVEL", "PUBLIC")  # this says nothing of what leaves
    cli("save", "k", "c")
    ran = cli("export", *words, "--json")
    assert (ran.code, ran.error["argument"]) == (2, "level")
    assert "give --level PUBLIC for what others may read" in ran.error["message"]
    assert not (tmp_path / "out.jsonl").exists()
    assert cli("export", *words, "--level", "PUBLIC").code == 0
    cli("session", "new", "main")
    assert cli("export", *words, "--session", "main").code == 0


def test_a_default_that_contradicts_what_is_asked_for_is_an_error_that_says_what_to_write(cli: Run, home: Path) -> None:
    ran = cli("session", "new", "low", "--ceiling", "PUBLIC", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "ceiling")
    assert "defaults.level" in ran.error["message"]
    assert cli("session", "new", "low", "--ceiling", "PUBLIC", "--level", "PUBLIC").code == 0
    ran = cli("cron", "add", "digest", "@daily", "x", "--ceiling", "PUBLIC", "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")
    configure(home, '[defaults]\nlevel = "SECRET"\n')
    ran = cli("save", "k", "c", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "config.toml")
    assert ran.error["message"].startswith("config.toml: defaults.level: must be one of PUBLIC, INTERNAL")
    assert "defaults.level: must be one of" in cli("doctor").out


def test_a_chat_above_its_clearance_names_the_setting(cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    configure(home, '[defaults]\nlevel = "CONFIDENTIAL"\n[chat]\nmodel_clearance = "INTERNAL"\n')
    ran = cli("chat", "--message", "Hello", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "chat.level")
    configure(home, '[defaults]\nlevel = "CONFIDENTIAL"\n[chat]\nmodel_clearance = "INTERNAL"\nlevel = "INTERNAL"\n')
    assert cli("chat", "--message", "Hello", "--json").json["level"] == "INTERNAL"


def test_a_check_of_a_tool_is_made_for_a_session_at_the_default(cli: Run, home: Path) -> None:
    configure(home, '[defaults]\nlevel = "CONFIDENTIAL"\n')
    assert cli("tools", "check", "none", "--json").json["taint"] == "CONFIDENTIAL"
    assert cli("tools", "check", "none", "--level", "PUBLIC", "--json").json["taint"] == "PUBLIC"
