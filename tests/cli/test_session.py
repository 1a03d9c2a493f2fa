"""The owner's acts on sessions, on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Ran, Run

from tidegate.cli import session as cli_session
from tidegate.core.conversation_purge import Clearing
from tidegate.owner.owner import Owner
from tidegate.policy.levels import Level
from tidegate.storage.control import SessionRow


def rows(ran: Ran) -> list[dict[str, Any]]:
    assert ran.code == 0
    return [json.loads(line) for line in ran.out.splitlines()]


def shown(cli: Run, name: str) -> dict[str, Any]:
    [row] = rows(cli("session", "show", name, "--json"))
    return row


def test_names_are_listed_as_people_count(cli: Run) -> None:
    for name in ("chat-10", "chat-2", "b", "chat-02", "chat", "chat-2-x", "10"):
        cli("session", "new", name)
    names = [row["name"] for row in rows(cli("session", "list", "--json"))]
    assert names == ["10", "b", "chat", "chat-02", "chat-2", "chat-2-x", "chat-10"]


def test_new_makes_a_session_at_a_level_under_a_ceiling(cli: Run) -> None:
    [made] = rows(cli("session", "new", "main", "--level", "INTERNAL", "--ceiling", "CONFIDENTIAL", "--json"))
    assert (made["name"], made["agent"]) == ("main", "assistant")
    assert (made["taint"], made["ceiling"], made["ended"]) == ("INTERNAL", "CONFIDENTIAL", False)
    assert shown(cli, "main") == made


def test_new_is_internal_under_restricted_by_default(cli: Run) -> None:
    [made] = rows(cli("session", "new", "main", "--json"))
    assert (made["taint"], made["ceiling"]) == ("INTERNAL", "RESTRICTED")


def test_new_makes_up_a_name_that_can_be_used(cli: Run) -> None:
    [first], [second] = (rows(cli("session", "new", "--json")) for _ in range(2))
    assert first["name"] != second["name"]
    assert cli("save", "k", "x", "--session", first["name"]).code == 0


def test_new_takes_its_name_from_the_common_option_too(cli: Run) -> None:
    [made] = rows(cli("session", "new", "--session", "main", "--level", "INTERNAL", "--json"))
    assert (made["name"], made["taint"]) == ("main", "INTERNAL")


def test_a_name_is_used_once(cli: Run) -> None:
    cli("session", "new", "main")
    assert cli("session", "new", "main", "--json").error["argument"] == "name"
    cli("session", "reset", "main", "--yes")
    assert cli("session", "new", "main", "--json").error["argument"] == "name"


def test_an_empty_name_is_refused_and_not_made_up(cli: Run) -> None:
    ran = cli("session", "new", "", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "name")


def test_a_new_session_above_its_ceiling_is_refused(cli: Run) -> None:
    ran = cli("session", "new", "main", "--level", "RESTRICTED", "--ceiling", "INTERNAL", "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")


def test_list_shows_every_session_of_the_agent_alone_as_json_lines(cli: Run) -> None:
    cli("session", "new", "b", "--level", "RESTRICTED")
    cli("session", "new", "a", "--level", "PUBLIC")
    cli("session", "new", "other", "--agent", "other")
    cli("session", "reset", "a", "--yes")
    assert [(row["name"], row["taint"], row["ended"]) for row in rows(cli("session", "list", "--json"))] == [
        ("a", "PUBLIC", True),
        ("b", "RESTRICTED", False),
    ]


def test_list_with_a_level_shows_less(cli: Run) -> None:
    cli("session", "new", "high", "--level", "CONFIDENTIAL")
    cli("session", "new", "low", "--level", "INTERNAL")
    cli("session", "new", "lowest", "--level", "PUBLIC")
    for level, names in (
        ("CONFIDENTIAL", ["high", "low", "lowest"]),
        ("INTERNAL", ["low", "lowest"]),
        ("PUBLIC", ["lowest"]),
    ):
        assert [row["name"] for row in rows(cli("session", "list", "--level", level, "--json"))] == names


def test_list_of_none_is_empty(cli: Run) -> None:
    ran = cli("session", "list")
    assert (ran.code, ran.out) == (0, "")
    assert "no sessions" in ran.err


def test_raise_only_rises(cli: Run) -> None:
    cli("session", "new", "main")
    assert rows(cli("session", "raise", "main", "confidential", "--json"))[0]["taint"] == "CONFIDENTIAL"
    assert rows(cli("session", "raise", "main", "INTERNAL", "--json"))[0]["taint"] == "CONFIDENTIAL"
    ran = cli("session", "raise", "main", "PUBLIC")
    assert (ran.code, ran.err) == (0, "nothing was changed: a taint only rises\n")
    assert ran.out.startswith("taint CONFIDENTIAL  ")
    assert cli("session", "raise", "main", "RESTRICTED").err == ""


def test_raise_stops_at_the_ceiling(cli: Run) -> None:
    cli("session", "new", "main", "--ceiling", "INTERNAL")
    ran = cli("session", "raise", "main", "RESTRICTED", "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")
    assert shown(cli, "main")["taint"] == "INTERNAL"


def test_ceiling_cannot_go_below_the_taint(cli: Run) -> None:
    cli("session", "new", "main", "--level", "INTERNAL")
    assert rows(cli("session", "ceiling", "main", "CONFIDENTIAL", "--json"))[0]["ceiling"] == "CONFIDENTIAL"
    assert cli("session", "ceiling", "main", "PUBLIC", "--json").error["code"] == "REFUSED"
    assert shown(cli, "main")["ceiling"] == "CONFIDENTIAL"


def test_reset_ends_a_session_for_ever(cli: Run) -> None:
    cli("session", "new", "main")
    [row] = rows(cli("session", "reset", "main", "--yes", "--json"))
    assert row["ended"]
    assert shown(cli, "main") == row
    for words in (("raise", "main", "INTERNAL"), ("ceiling", "main", "INTERNAL"), ("reset", "main", "--yes")):
        ran = cli("session", *words, "--json")
        assert (ran.code, ran.error["code"]) == (1, "REFUSED")
        assert "session ended" in ran.error["message"]


def test_renew_ends_a_session_and_lets_a_new_one_have_its_name(cli: Run) -> None:
    [old] = rows(cli("session", "new", "main", "--level", "CONFIDENTIAL", "--json"))
    [would] = rows(cli("session", "renew", "main", "--dry-run", "--json"))
    assert would == {"dry_run": True, **old}
    [row] = rows(cli("session", "renew", "main", "--yes", "--json"))
    assert row == {**old, "name": old["id"], "ended": True}
    [new] = rows(cli("session", "new", "main", "--level", "PUBLIC", "--json"))
    assert (new["taint"], new["id"] != old["id"]) == ("PUBLIC", True)
    cli("session", "reset", "main", "--yes")
    ran = cli("session", "renew", "--session", "main", "--yes")
    assert (ran.code, ran.out.startswith("taint PUBLIC"), "  ended  " in ran.out) == (0, True, True)


def test_renew_asks_and_says_what_it_means(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("session", "new", "main")
    assert "give --yes" in cli("session", "renew", "main").err
    asked: list[str] = []
    monkeypatch.setattr(cli_session, "agreed", lambda question, **_: asked.append(question))
    ran = cli("session", "renew", "main")
    assert (ran.code, ran.err) == (1, "nothing was changed\n")
    assert "only if the conversation that will use its name is a new one" in asked[0]
    assert not shown(cli, "main")["ended"]


def test_a_renewal_that_leaves_something_in_a_file_says_so(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("session", "new", "main")
    monkeypatch.setattr(Clearing, "scrub", lambda *_: False)
    ran = cli("session", "renew", "main", "--yes", "--json")
    assert (ran.code, ran.json["ended"]) == (3, True)
    assert "run `tidegate purge --older-than AGE`" in ran.err


def test_a_reset_that_leaves_something_in_a_file_says_so(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    cli("session", "new", "main")
    monkeypatch.setattr(Clearing, "scrub", lambda *_: False)
    ran = cli("session", "reset", "main", "--yes", "--json")
    assert (ran.code, ran.json["ended"]) == (3, True)
    assert "run `tidegate purge --older-than AGE`" in ran.err


def test_p4_what_an_older_control_store_lacks_is_shown_and_ended(cli: Run, home: Path) -> None:
    assert rows(cli("session", "reset", "--lost", "--json")) == []
    cli("session", "new", "main")
    older = (home / "control.db").read_bytes()
    [made] = rows(cli("session", "new", "other", "--json"))
    cli("session", "raise", "other", "CONFIDENTIAL")
    (home / "control.db").write_bytes(older)
    assert cli("session", "new", "other", "--json").error["code"] == "REFUSED"
    [lost] = rows(cli("session", "reset", "--lost", "--dry-run", "--json"))
    assert lost == {**made, "dry_run": True, "name": made["id"], "taint": "CONFIDENTIAL"}
    assert cli("session", "reset", "--lost").code == 2
    assert cli("session", "reset", "main", "--lost", "--yes", "--json").error["argument"] == "name"
    assert cli("session", "new", "other", "--json").error["code"] == "REFUSED"
    assert cli("session", "reset", "--lost", "--yes").code == 0
    assert shown(cli, made["id"])["ended"]
    assert rows(cli("session", "new", "other", "--json"))[0]["taint"] == "INTERNAL"


def test_p4_of_what_is_lost_a_reset_that_leaves_something_in_a_file_says_so(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Owner, "lost", lambda _: [SessionRow("s", "assistant", "s", Level.PUBLIC, Level.PUBLIC, None)])
    monkeypatch.setattr(Owner, "end_lost", lambda _: False)
    assert cli("session", "reset", "--lost", "--yes").code == 3
    monkeypatch.setattr(cli_session, "agreed", lambda *_, **__: False)
    assert cli("session", "reset", "--lost").code == 1


def test_a_dry_run_of_a_reset_changes_nothing(cli: Run) -> None:
    [made] = (cli("session", "new", "main"), *rows(cli("session", "show", "main", "--json")))[1:]
    assert rows(cli("session", "reset", "main", "--dry-run", "--json")) == [{"dry_run": True, **made}]
    assert "would end" in cli("session", "reset", "main", "--dry-run").out
    assert shown(cli, "main") == made


def test_a_reset_without_a_terminal_needs_yes(cli: Run) -> None:
    cli("session", "new", "main")
    ran = cli("session", "reset", "main", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "yes")
    assert not shown(cli, "main")["ended"]


@pytest.mark.parametrize(("answer", "code", "ended"), [(b"y\n", 0, True), (b"n\n", 1, False), (b"\n", 1, False)])
def test_a_reset_on_a_terminal_asks(cli: Run, answer: bytes, code: int, ended: bool) -> None:
    cli("session", "new", "main")
    ran = cli("session", "reset", "main", stdin=answer, terminal=True)
    assert (ran.code, "permanently?" in ran.err, "permanently?" in ran.out) == (code, True, False)
    assert shown(cli, "main")["ended"] is ended


def test_a_reset_whose_question_is_not_answered_changes_nothing(cli: Run) -> None:
    cli("session", "new", "main")
    assert cli("session", "reset", "main", terminal=True).code == 130
    assert not shown(cli, "main")["ended"]


@pytest.mark.parametrize(
    "words",
    [
        ("show", "nobody"),
        ("raise", "nobody", "INTERNAL"),
        ("ceiling", "nobody", "INTERNAL"),
        ("reset", "nobody", "--yes"),
    ],
)
def test_an_unknown_session_is_refused(cli: Run, words: tuple[str, ...]) -> None:
    ran = cli("session", *words, "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")


def test_a_session_of_another_agent_is_unknown(cli: Run) -> None:
    cli("session", "new", "main", "--agent", "other")
    assert cli("session", "show", "main").code == 1


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (("show",), "name"),
        (("reset", "--yes"), "name"),
        (("show", "main", "--session", "other"), "name"),
        (("show", "main", "--level", "PUBLIC"), "level"),
        (("raise", "main", "INTERNAL", "--level", "PUBLIC"), "level"),
        (("raise", "--session", "main", "INTERNAL"), "session"),
        (("ceiling", "--session", "main", "INTERNAL"), "session"),
        (("raise", "main", "TOP"), "target"),
        (("new", "a\x1bb"), "name"),
        (("new", "a", "--ceiling", "9"), "ceiling"),
        (("raise", "main"), None),
    ],
)
def test_a_bad_argument_is_refused_by_name(cli: Run, words: tuple[str, ...], argument: str | None) -> None:
    cli("session", "new", "main")
    ran = cli("session", *words, "--json")
    assert (ran.code, ran.error["code"]) == (2, "INVALID_ARGUMENT")
    assert argument is None or ran.error["argument"] == argument


def test_a_name_given_in_both_ways_may_agree(cli: Run) -> None:
    cli("session", "new", "main")
    assert cli("session", "show", "main", "--session", "main").code == 0
