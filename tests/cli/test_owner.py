"""The owner's commands: history, restore, relabel, purge, agents, reindex; asking, dry runs, exit codes, JSON Lines."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conftest import Ran, Run
from tests.storage.scene import bytes_of, database

from tidegate.storage.sqlite import compaction as sqlite_compaction


def rows(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def made(cli: Run) -> Run:
    """A command line over a memory of two versions at PUBLIC and one at CONFIDENTIAL."""
    for content in ("one", "two"):
        cli("save", "k", content, "--tag", "t", "--level", "PUBLIC")
    cli("save", "k", "high", "--level", "CONFIDENTIAL")
    return cli


def asked(home: Path, answer: str, *words: str) -> tuple[int, str]:
    """A command at a terminal, where the owner answers."""
    ours, theirs = pty.openpty()
    os.write(ours, answer.encode())
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "--home", str(home), *words],
        stdin=theirs,
        capture_output=True,
        timeout=60,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    return done.returncode, done.stderr.decode()


# Pins


def test_a_memory_is_pinned_and_unpinned_at_its_level(made: Run) -> None:
    assert made("pin", "k", "--level", "CONFIDENTIAL").out == "pinned k at CONFIDENTIAL\n"
    assert made("pin", "k", "--level", "CONFIDENTIAL").out == "pinned k at CONFIDENTIAL; it was pinned already\n"
    assert made("pin", "--level", "CONFIDENTIAL").out == "CONFIDENTIAL  version 1  owner  k\n"
    assert "owner  pinned" in made("history", "k", "--level", "CONFIDENTIAL").out
    done = made("pin", "k", "--level", "PUBLIC", "--json")
    expected = {"pinned": True, "key": "k", "classification": "PUBLIC", "version": 2, "status": "updated"}
    assert rows(done) == [expected]
    (row,) = rows(made("pin", "--level", "PUBLIC", "--json"))
    assert (row["key"], row["content"], row["version"], row["pinned"]) == ("k", "two", 2, True)
    assert made("unpin", "k", "--level", "PUBLIC").out == "unpinned k at PUBLIC\n"
    assert made("unpin", "k", "--level", "PUBLIC").out == "unpinned k at PUBLIC; it was not pinned\n"
    assert rows(made("unpin", "k", "--level", "CONFIDENTIAL", "--json"))[0]["unpinned"] is True
    nothing = made("pin", "--level", "PUBLIC")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no memory is pinned at PUBLIC\n")


def test_a_session_pins_at_its_taint(made: Run) -> None:
    made("session", "new", "main", "--level", "CONFIDENTIAL")
    assert made("pin", "k", "--session", "main").out == "pinned k at CONFIDENTIAL\n"
    assert made("pin", "--session", "main").out == "CONFIDENTIAL  version 1  owner  k\n"
    assert made("pin", "k", "--session", "main", "--level", "PUBLIC").code == 2


def test_a_pin_without_a_memory_or_room_says_what_to_do(made: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = made("pin", "never", "--level", "PUBLIC")
    assert (nothing.code, nothing.out) == (1, "")
    assert "no live memory has this key at this level" in nothing.err
    monkeypatch.setattr("tidegate.owner.pinning.PINNED_MAX", 0)
    full = made("pin", "k", "--level", "PUBLIC")
    assert full.code == 2
    assert "unpin one first with `tidegate unpin`" in full.err


# History


def test_history_is_one_object_a_line_newest_first(made: Run) -> None:
    ran = made("history", "k", "--json")
    assert ran.code == 0
    found = rows(ran)
    assert [(row["classification"], row["version"], row["state"], row["content"]) for row in found] == [
        ("CONFIDENTIAL", 1, "live", "high"),
        ("PUBLIC", 2, "live", "two"),
        ("PUBLIC", 1, "superseded", "one"),
    ]
    assert (found[1]["tags"], found[1]["origin"], found[1]["deleted_at"]) == (["t"], "owner", None)
    assert found[1]["updated_at"].endswith("Z")


def test_history_for_people_marks_what_was_deleted(made: Run) -> None:
    made("delete", "k", "--level", "PUBLIC")
    lines = made("history", "k", "--level", "PUBLIC").out.splitlines()
    assert "deleted" in lines[0]
    assert lines[1].startswith("  deleted at 20")
    assert lines[2:4] == ["  tags: t", "  two"]


def test_history_shows_controls_as_escapes(cli: Run) -> None:
    cli("save", "k", "a\x1b[2Jb\rc")
    assert "\x1b" not in cli("history", "k").out
    assert rows(cli("history", "k", "--json"))[0]["content"] == "a\x1b[2Jb\rc"


def test_history_of_nothing_is_empty_with_exit_1(made: Run) -> None:
    ran = made("history", "other", "--json")
    assert (ran.code, ran.out, ran.err) == (1, "", "")
    assert "no version" in made("history", "other").err
    ran = made("history", "k", "--agent", "nobody", "--json")
    assert (ran.code, ran.error["code"]) == (1, "NOT_FOUND")


# Restore


def test_restore_brings_back_what_was_deleted_at_its_level(made: Run) -> None:
    made("delete", "k", "--level", "PUBLIC")
    ran = made("restore", "k", "--level", "PUBLIC", "--json")
    assert ran.json == {
        "restored": True,
        "key": "k",
        "classification": "PUBLIC",
        "version": 3,
        "status": "created",
        "restored_version": 2,
    }
    assert made("get", "k", "--json").json["content"] == "two"


def test_restore_takes_a_version_and_a_level(made: Run) -> None:
    assert made("restore", "k", "--version", "1", "--level", "PUBLIC").out == "restored k at PUBLIC from version 1\n"
    made("save", "k", "higher", "--level", "CONFIDENTIAL")
    assert made("restore", "k", "--level", "CONFIDENTIAL", "--json").json["restored_version"] == 1


def test_a_restore_that_changes_nothing_says_so(made: Run) -> None:
    ran = made("restore", "k", "--version", "2", "--level", "PUBLIC")
    assert (ran.code, ran.out) == (0, "k at PUBLIC already is as in version 2; nothing was changed\n")
    assert made("restore", "k", "--version", "2", "--level", "PUBLIC", "--json").json["status"] == "unchanged"


def test_restore_acts_at_the_level_of_a_session_and_in_its_name(made: Run) -> None:
    made("session", "new", "main", "--level", "CONFIDENTIAL")
    made("delete", "k", "--session", "main")
    assert made("restore", "k", "--session", "main", "--json").json["classification"] == "CONFIDENTIAL"
    (line,) = rows(made("audit", "show", "--session", "main", "--action", "restore", "--json"))
    assert line["session"] == rows(made("session", "show", "main", "--json"))[0]["id"]
    ran = made("restore", "k", "--session", "main", "--level", "PUBLIC", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "level")
    assert made("restore", "k", "--session", "unknown", "--json").error["code"] == "REFUSED"


def test_restore_of_nothing_is_not_found(made: Run) -> None:
    ran = made("restore", "other", "--json")
    assert (ran.code, ran.error["code"]) == (1, "NOT_FOUND")


# Relabel


def test_relabel_upward_does_not_ask(made: Run) -> None:
    ran = made("relabel", "k", "--to", "restricted", "--json")
    assert ran.json == {
        "relabelled": True,
        "key": "k",
        "copied_from": "CONFIDENTIAL",
        "classification": "RESTRICTED",
        "version": 1,
        "status": "created",
    }


def test_relabel_downward_needs_yes_without_a_terminal(made: Run) -> None:
    ran = made("relabel", "k", "--to", "INTERNAL", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "yes")
    assert made("get", "k", "--level", "INTERNAL", "--json").json["content"] != "high"
    assert made("relabel", "k", "--to", "INTERNAL", "--yes").out == (
        "copied k at CONFIDENTIAL to INTERNAL; the original stays\n"
    )
    assert made("get", "k", "--level", "INTERNAL", "--json").json["content"] == "high"


def test_relabel_downward_asks_at_a_terminal(made: Run, home: Path) -> None:
    code, asking = asked(home, "n\n", "relabel", "k", "--to", "INTERNAL")
    assert (code, "Show k (CONFIDENTIAL) to INTERNAL sessions?" in asking) == (1, True)
    assert "nothing was changed" in asking
    assert asked(home, "y\n", "relabel", "k", "--to", "INTERNAL")[0] == 0
    assert made("get", "k", "--level", "INTERNAL", "--json").json["content"] == "high"


def test_relabel_as_a_dry_run_shows_and_changes_nothing(made: Run) -> None:
    ran = made("relabel", "k", "--to", "PUBLIC", "--dry-run", "--json")
    assert ran.json == {"dry_run": True, "key": "k", "copied_from": "CONFIDENTIAL", "classification": "PUBLIC"}
    assert made("relabel", "k", "--to", "PUBLIC", "--dry-run").out.startswith("would copy k")
    assert made("get", "k", "--json").json["content"] == "two"


# Purge


def test_purge_tells_what_it_removed_level_by_level(made: Run) -> None:
    ran = made("purge", "--older-than", "0", "--yes", "--json")
    assert ran.code == 0
    assert {row["classification"]: row["versions"] for row in rows(ran)} == {
        "RESTRICTED": 0,
        "CONFIDENTIAL": 0,
        "INTERNAL": 0,
        "PUBLIC": 1,
    }
    assert all(row["complete"] for row in rows(ran))
    assert [row["content"] for row in rows(made("history", "k", "--json"))] == ["high", "two"]


def test_purge_at_one_level_leaves_the_others(made: Run) -> None:
    ran = made("purge", "--older-than", "0s", "--level", "CONFIDENTIAL", "--yes")
    assert ran.out == "CONFIDENTIAL  removed 0 versions, including 0 complete memories\n"
    assert len(rows(made("history", "k", "--json"))) == 3


def test_purge_as_a_dry_run_removes_nothing(made: Run) -> None:
    shown = made("purge", "--older-than", "0", "--dry-run").out
    assert "PUBLIC        would remove 1 version, including 0 complete memories\n" in shown
    assert rows(made("purge", "--older-than", "0", "--dry-run", "--json"))[3]["dry_run"]
    assert len(rows(made("history", "k", "--json"))) == 3


def test_purge_asks_and_needs_yes_without_a_terminal(made: Run, home: Path) -> None:
    ran = made("purge", "--older-than", "0", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "yes")
    assert ran.error["message"].startswith("this cannot be undone")
    code, asking = asked(home, "n\n", "purge", "--older-than", "0")
    assert (code, "Remove 1 version permanently?" in asking) == (1, True)
    assert len(rows(made("history", "k", "--json"))) == 3
    assert asked(home, "y\n", "purge", "--older-than", "0")[0] == 0
    assert len(rows(made("history", "k", "--json"))) == 2


@pytest.mark.parametrize("age", ["", "7", "-1d", "soon"])
def test_purge_of_no_age_is_refused(made: Run, age: str) -> None:
    ran = made("purge", "--older-than", age, "--yes", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "older-than")


def test_purge_that_is_not_complete_says_so_in_its_result_and_its_exit(
    made: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_compaction, "COMPACT_WAIT_MS", 1)
    reader = apsw.Connection(str(database(home)), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN; SELECT * FROM records").fetchall()
    ran = made("purge", "--older-than", "0", "--level", "PUBLIC", "--yes", "--json")
    assert (ran.code, rows(ran)[0]["complete"]) == (3, False)
    assert "run it again" in made("purge", "--older-than", "0", "--level", "PUBLIC", "--yes").out
    reader.close()
    assert made("purge", "--older-than", "0", "--level", "PUBLIC", "--yes").code == 0


def test_d14_after_delete_and_purge_a_canary_is_in_no_file(cli: Run, home: Path) -> None:
    cli("save", "canarykey", "a canarytext", "--tag", "canarytag")
    cli("delete", "canarykey")
    assert any(b"canary" in data for data in bytes_of(home).values())
    assert cli("purge", "--older-than", "0", "--yes").code == 0
    assert not any(b"canary" in data for data in bytes_of(home).values())
    assert cli("audit", "verify").code == 0


# Agents and the index


def test_agents_are_listed_one_a_line(made: Run) -> None:
    made("save", "k", "one", "--agent", "another")
    assert made("agent", "list").out == "another\nassistant\n"
    assert rows(made("agent", "list", "--json")) == [{"agent": "another"}, {"agent": "assistant"}]


def test_without_agents_the_list_is_empty(cli: Run, home: Path) -> None:
    ran = cli("agent", "list")
    assert (ran.code, ran.out, ran.err) == (0, "", "no agents\n")
    assert not home.exists()


def test_erase_removes_an_agent_and_tells_where_its_chains_ended(made: Run) -> None:
    made("session", "new", "main")
    heads = rows(made("audit", "anchor"))
    ran = made("agent", "erase", "assistant", "--yes", "--json")
    found = ran.json
    assert (ran.code, found["erased"], found["agent"], found["sessions_ended"]) == (0, True, "assistant", 1)
    assert [(head["level"], head["hash"]) for head in found["heads"]] == [
        (each["level"], each["hash"]) for each in heads
    ]
    assert made("agent", "list").out == ""
    assert made("get", "k", "--session", "main", "--json").error["code"] == "REFUSED"


def test_erase_as_a_dry_run_erases_nothing(made: Run) -> None:
    ran = made("agent", "erase", "assistant", "--dry-run")
    assert ran.out.startswith("would erase assistant: 4 levels, 0 active sessions\n")
    assert made("agent", "erase", "assistant", "--dry-run", "--json").json["dry_run"]
    assert made("get", "k", "--json").json["content"] == "two"


def test_erase_asks_and_needs_yes_without_a_terminal(made: Run, home: Path) -> None:
    assert made("agent", "erase", "assistant", "--json").error["argument"] == "yes"
    assert asked(home, "n\n", "agent", "erase", "assistant")[0] == 1
    assert made("agent", "list").out == "assistant\n"


def test_erase_of_an_unknown_agent_is_not_found(made: Run) -> None:
    assert made("agent", "erase", "nobody", "--yes", "--json").error["code"] == "NOT_FOUND"
    assert made("agent", "erase", "../x", "--yes", "--json").error["argument"] == "agent"


def test_reindex_counts_what_it_indexed(made: Run) -> None:
    assert made("reindex").out == "indexed 2 memories\n"
    assert made("reindex", "--level", "PUBLIC", "--json").json == {"reindexed": 1}


@pytest.mark.parametrize(
    "words",
    [
        ("history", "k"),
        ("relabel", "k", "--to", "RESTRICTED"),
        ("purge", "--older-than", "0", "--yes"),
        ("reindex",),
        ("agent", "erase", "assistant", "--yes"),
    ],
)
def test_a_session_is_refused_where_it_has_no_use(made: Run, words: tuple[str, ...]) -> None:
    ran = made(*words, "--session", "main", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "session")


@pytest.mark.parametrize(
    "words",
    [("audit", "show"), ("audit", "verify"), ("backup", "b"), ("purge", "--older-than", "0", "--yes"), ("pin", "k")],
)
def test_in_an_empty_home_the_error_names_the_agent_that_was_taken_and_the_options_to_check(
    cli: Run, tmp_path: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "tidegate: nothing is saved yet for the agent {}; check --agent and --home\n"
    assert (cli(*words).code, cli(*words).err) == (1, said.format("assistant"))
    ran = cli(*words, "--agent", "clerk")
    assert ran.err == said.format("clerk")
    assert cli(*words, "--json").error["argument"] == "agent"


def test_in_an_empty_home_nothing_is_pinned(cli: Run) -> None:
    assert (cli("pin").code, cli("pin").out, cli("pin").err) == (0, "", "no memory is pinned at INTERNAL\n")


def test_an_erasure_names_the_agent_that_is_not_there(cli: Run) -> None:
    said = "tidegate: nothing is saved yet for the agent nobody; check its name and --home\n"
    assert cli("agent", "erase", "nobody", "--yes").err == said
