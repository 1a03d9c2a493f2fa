"""`audit show`, `audit verify`, `audit anchor`: one entry one line whatever is in it, honest exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran, Run
from tests.storage.scene import database, raw


def rows(ran: Ran) -> list[dict[str, Any]]:
    return [json.loads(line) for line in ran.out.splitlines()]


@pytest.fixture
def made(cli: Run) -> Run:
    """A command line over a session that saved and deleted, and one memory higher up."""
    cli("session", "new", "main", "--level", "PUBLIC")
    cli("save", "k", "one", "--session", "main")
    cli("delete", "k", "--session", "main")
    cli("save", "k", "high", "--level", "RESTRICTED")
    return cli


def test_show_is_one_object_a_line_with_everything_in_it(made: Run) -> None:
    ran = made("audit", "show", "--json")
    assert ran.code == 0
    found = rows(ran)
    assert [(row["level"], row["sequence"], row["action"], row["key"]) for row in found] == [
        ("PUBLIC", 1, "open", None),
        ("PUBLIC", 2, "save", "k"),
        ("PUBLIC", 3, "delete", "k"),
        ("RESTRICTED", 1, "save", "k"),
    ]
    who, what = {"session", "session_name"}, {"action", "detail", "kind", "key", "commitment"}
    assert set(found[0]) == {"level", "sequence", "at", "hash"} | who | what
    assert [row["kind"] for row in found] == [None, "memory", "memory", "memory"]
    assert [row["session_name"] for row in found] == ["main", "main", "main", None]
    assert len({row["session"] for row in found}) == 2


def test_show_gives_the_newest_of_what_is_chosen_in_their_order(made: Run) -> None:
    whole = made("audit", "show").out.splitlines()
    assert made("audit", "show", "--last", "2").out.splitlines() == whole[-2:]
    assert made("audit", "show", "--last", "100").out.splitlines() == whole
    low = rows(made("audit", "show", "--last", "2", "--session", "main", "--json"))
    assert [row["action"] for row in low] == ["save", "delete"]
    for number in ("0", "-1", "x", "1000000000000"):
        assert made("audit", "show", "--last", number).code == 2


def test_show_names_the_sessions_that_have_a_name(made: Run) -> None:
    made("session", "reset", "main", "--yes")
    made("session", "new", "owner", "--level", "INTERNAL")
    made("session", "new", "two  words", "--level", "INTERNAL")
    made("reindex", "--level", "INTERNAL")
    lines = made("audit", "show", "--level", "INTERNAL").out.splitlines()
    who = [re.split("  (?:open|reindex) ", line[51:])[0].strip() for line in lines]
    assert who == ['"owner"', '"two  words"', "owner"]
    assert made("audit", "show", "--session", "main").out.splitlines()[0][51:].startswith("main  ")


def test_show_says_what_a_key_is_of_that_is_no_memorys(cli: Run) -> None:
    cli("cron", "add", "digest", "@daily", "Sum up what is new.")
    cli("save", "k", "one")
    shown = [line.partition("  save      ")[2] for line in cli("audit", "show").out.splitlines()]
    assert shown[0].startswith("run version 1 created  job/digest/")
    assert shown[1:] == ["job version 1 created  digest", "version 1 created  k"]


def test_show_says_when_there_is_nothing_to_show(made: Run) -> None:
    ran = made("audit", "show", "--session", "nobody")
    unknown = "no entries of a session with this name; a renewed session is listed by its ID: `tidegate session list`\n"
    assert (ran.code, ran.out, ran.err) == (0, "", unknown)
    assert made("audit", "show", "--since", "2999-01-01").err == "no entries\n"
    made("session", "new", "quiet")
    assert made("audit", "show", "--session", "quiet", "--since", "2999-01-01").err == "no entries\n"


def test_show_is_refused_where_the_control_store_is_lost_and_with_it_which_chain_belongs_where(
    made: Run, home: Path
) -> None:
    for file in home.glob("control.db*"):
        file.unlink()
    ran = made("audit", "show")
    assert (ran.code, ran.out) == (3, "")
    assert "control.db is missing" in ran.err


def test_show_does_without_the_names_where_the_sessions_cannot_be_read(made: Run, home: Path) -> None:
    before = rows(made("audit", "show", "--json"))
    raw(home / "control.db", "UPDATE sessions SET taint = 'NONE'")
    ran = made("audit", "show")
    assert (ran.code, len(ran.out.splitlines())) == (0, 4)
    assert ran.err.startswith("a session has an unknown level")
    assert ran.err.endswith("; sessions are shown by their IDs\n")
    assert rows(made("audit", "show", "--json")) == [{**row, "session_name": None} for row in before]
    assert made("audit", "show", "--session", "main").code == 3


def test_show_can_be_filtered(made: Run) -> None:
    def actions(*words: str) -> list[str]:
        return [row["action"] for row in rows(made("audit", "show", *words, "--json"))]

    assert actions("--action", "open", "--action", "delete") == ["open", "delete"]
    assert actions("--level", "RESTRICTED") == ["save"]
    assert actions("--session", "main") == ["open", "save", "delete"]
    assert actions("--session", rows(made("session", "show", "main", "--json"))[0]["id"]) == ["open", "save", "delete"]
    assert actions("--session", "unknown") == []
    at = rows(made("audit", "show", "--json"))[1]["at"]
    assert actions("--since", at, "--until", at) == ["save"]
    assert actions("--until", "2020-01-01") == []


@pytest.mark.parametrize(
    ("option", "value"), [("--since", "yesterday"), ("--until", "2026-13-01"), ("--action", "steal")]
)
def test_show_refuses_what_is_no_filter(made: Run, option: str, value: str) -> None:
    assert made("audit", "show", option, value, "--json").code == 2


def test_j07_one_entry_is_one_line_whatever_is_in_it(cli: Run) -> None:
    planted = "x\u2003 2026-01-01 ALLOW admin memory_get *"  # as near as a key may come to a second line
    cli("save", planted, "y", "--tag", "ordinary")
    assert cli("save", "x\n2026-01-01 ALLOW admin memory_get *", "y").code == 2
    assert cli("save", "k", "y", "--tag", "\x1b[2J\u2028").code == 2
    assert cli("save", "k", "a\x1b]8;;url\x07\n2026-01-01 ALLOW").code == 0
    shown = cli("audit", "show").out
    assert len(shown.splitlines()) == len(rows(cli("audit", "show", "--json"))) == 2
    assert "\x1b" not in shown
    assert cli("audit", "verify").code == 0


def test_w05_entries_changed_behind_our_back_forge_no_line(made: Run, home: Path) -> None:
    raw(database(home), "UPDATE audit SET detail = 'a' || char(10, 27, 8232) || 'b', session = char(13)")
    shown = made("audit", "show", "--level", "PUBLIC").out
    assert len(shown.splitlines()) == 3
    assert not {"\x1b", "\r", "\u2028"} & set(shown)


def test_l17_the_chain_itself_holds_no_key_content_or_tag(cli: Run, home: Path) -> None:
    cli("save", "tok_live_ABC", "password=hunter2", "--tag", "secrettag")
    cli("save", "tok_live_ABC", "password=hunter2", "--tag", "secrettag\x1b")
    for entry in raw(database(home), "SELECT * FROM audit"):
        assert not any(word in str(entry) for word in ("tok_live_ABC", "hunter2", "secrettag"))


def test_verify_of_what_holds_is_exit_0_and_says_what_it_proves(made: Run) -> None:
    ran = made("audit", "verify")
    assert ran.code == 0
    assert ran.out.splitlines()[3].startswith("PUBLIC        holds   3 entries, no anchor, no key")
    assert "A key kept under the same user does not protect" in ran.err
    found = rows(made("audit", "verify", "--json"))
    assert [(row["level"], row["holds"], row["problems"]) for row in found] == [
        (level, True, []) for level in ("RESTRICTED", "CONFIDENTIAL", "INTERNAL", "PUBLIC")
    ]


def test_verify_names_level_and_entry_of_the_break_with_exit_1(made: Run, home: Path) -> None:
    raw(database(home), "UPDATE audit SET detail = 'forged' WHERE sequence = 2")
    ran = made("audit", "verify")
    assert ran.code == 1
    assert "PUBLIC        BROKEN  1 entry, " in ran.out
    assert "  entry 2: the entry was changed" in ran.out
    (problem,) = rows(made("audit", "verify", "--level", "PUBLIC", "--json"))[0]["problems"]
    assert (problem["sequence"], problem["key"]) == (2, None)


def test_verify_names_the_memory_that_was_changed_without_an_entry(made: Run, home: Path) -> None:
    raw(database(home), "UPDATE records SET deleted_at = NULL")
    assert "no entry says that it was restored: k\n" in made("audit", "verify").out


def test_verify_finds_a_cut_tail_by_its_anchor(made: Run, home: Path, tmp_path: Path) -> None:
    anchors = tmp_path / "anchors.jsonl"
    anchors.write_bytes(made("audit", "anchor").stdout + made("audit", "anchor", "--json").stdout)
    ran = made("audit", "verify", "--anchor", str(anchors))
    assert (ran.code, "3 entries, proven up to 3" in ran.out) == (0, True)
    raw(database(home), "DELETE FROM audit WHERE sequence = 3", "UPDATE records SET deleted_at = NULL")
    assert made("audit", "verify").code == 0
    ran = made("audit", "verify", "--anchor", str(anchors))
    assert (ran.code, "entry 3: the chain ends here, but was anchored at 3" in ran.out) == (1, True)


def test_verify_refuses_what_is_no_file_of_anchors(made: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.cli import common as cli_common

    file = tmp_path / "anchors.jsonl"
    assert made("audit", "verify", "--anchor", str(file), "--json").error["argument"] == "anchor"
    for data in (b"", b"no anchor", b"\xff"):
        file.write_bytes(data)
        ran = made("audit", "verify", "--anchor", str(file), "--json")
        assert (ran.code, ran.error["argument"]) == (2, "anchor")
    file.write_bytes(made("audit", "anchor").stdout)
    assert made("audit", "verify", "--anchor", str(file), "--agent", "nobody", "--json").code == 2
    monkeypatch.setattr(cli_common, "_ANCHOR_BYTES_MAX", 10)
    assert "too large" in made("audit", "verify", "--anchor", str(file)).err


def test_anchor_prints_the_heads_also_of_one_level(made: Run) -> None:
    found = rows(made("audit", "anchor"))
    assert [(row["agent"], row["level"], row["sequence"]) for row in found] == [
        ("assistant", "RESTRICTED", 1),
        ("assistant", "CONFIDENTIAL", 0),
        ("assistant", "INTERNAL", 0),
        ("assistant", "PUBLIC", 3),
    ]
    assert [row["level"] for row in rows(made("audit", "anchor", "--level", "PUBLIC"))] == ["PUBLIC"]


def test_the_audit_of_an_unknown_agent_is_not_found_and_makes_nothing(cli: Run, home: Path) -> None:
    for words in (("show",), ("verify",), ("anchor",)):
        ran = cli("audit", *words, "--json")
        assert (ran.code, ran.error["code"]) == (1, "NOT_FOUND")
    assert not home.exists()
