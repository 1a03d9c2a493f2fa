"""The memory verbs on the command line: the tools' results exactly, or lines for people; and the exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Ran, Run

import tidegate
from tidegate import Level


def saved(cli: Run, key: str, content: str, *words: str) -> None:
    assert cli("save", key, content, *words).code == 0


def test_save_prints_exactly_the_tools_result(cli: Run) -> None:
    ran = cli("save", "user-name", "Ada Lovelace", "--tag", "b", "--tag", "a", "--json")
    expected = {"saved": True, "key": "user-name", "classification": "INTERNAL", "version": 1, "status": "created"}
    assert (ran.code, ran.json, ran.err) == (0, expected, "")


def test_get_prints_exactly_the_tools_result_with_the_owner_as_origin(cli: Run) -> None:
    saved(cli, "user-name", "Ada Lovelace", "--tag", "b", "--tag", "a")
    found = cli("get", "user-name", "--json").json
    assert (found["found"], found["content"], found["tags"]) == (True, "Ada Lovelace", ["a", "b"])
    assert (found["version"], found["origin"], found["classification"]) == (1, "owner", "INTERNAL")


def test_every_verb_answers_as_the_tool_does(cli: Run, home: Path) -> None:
    saved(cli, "a", "apples and pears")
    calls = {
        ("get", "a"): ("memory_get", {"key": "a"}),
        ("search", "pears", "-n", "3"): ("memory_search", {"query": "pears", "max_results": 3}),
        ("list", "--limit", "5"): ("memory_list", {"limit": 5}),
    }
    with tidegate.open(home) as store:
        session = store.session("assistant")
        for words, (tool, arguments) in calls.items():
            assert cli(*words, "--json").json == session.call_tool(tool, arguments)


def test_get_of_nothing_is_exit_1_and_an_answer(cli: Run) -> None:
    ran = cli("get", "nothing", "--json")
    assert (ran.code, ran.json) == (1, {"found": False, "key": "nothing"})
    ran = cli("get", "nothing")
    assert (ran.code, ran.out) == (1, "")
    assert "no memory under this key" in ran.err


def test_a_read_makes_nothing(cli: Run, home: Path) -> None:
    for words in (("get", "a"), ("search", "a"), ("list",), ("session", "list")):
        cli(*words)
    assert not home.exists()


def test_no_hits_is_exit_0(cli: Run) -> None:
    ran = cli("search", "nothing", "--json")
    assert (ran.code, ran.json) == (0, {"query": "nothing", "results": [], "complete": True})
    assert cli("search", "nothing").code == cli("list").code == 0


@pytest.mark.parametrize("query", ["", " ", "?!"])
def test_a_search_without_a_word_says_so_and_not_where_else_to_look(cli: Run, query: str) -> None:
    saved(cli, "k", "What?!")
    ran = cli("search", query)
    assert (ran.code, ran.out, ran.err) == (
        0,
        "",
        "no match: the query holds no word; `tidegate list` shows every memory\n",
    )


def test_search_shows_the_best_match_first(cli: Run) -> None:
    saved(cli, "one", "the launch is in May")
    saved(cli, "two", "the launch of the launch pad: launch")
    saved(cli, "three", "unrelated")
    ran = cli("search", "launch")
    headings = [line for line in ran.out.splitlines() if not line.startswith("  ")]
    assert [line.split()[-1] for line in headings] == ["two", "one"]


def test_a_list_goes_on_at_its_cursor(cli: Run) -> None:
    for key in "cab":
        saved(cli, key, "x")
    first = cli("list", "--limit", "2", "--json").json
    rest = cli("list", "--cursor", first["next_cursor"], "--json").json
    assert [memory["key"] for memory in first["memories"] + rest["memories"]] == ["a", "b", "c"]
    assert f"--cursor {first['next_cursor']}" in cli("list", "--limit", "2").err


def test_a_list_by_tag_is_by_the_whole_tag(cli: Run) -> None:
    saved(cli, "a", "x", "--tag", "test")
    saved(cli, "b", "x", "--tag", "testing")
    assert [memory["key"] for memory in cli("list", "--tag", "test", "--json").json["memories"]] == ["a"]


def test_delete_says_what_shows_again(cli: Run) -> None:
    saved(cli, "k", "low", "--level", "PUBLIC")
    saved(cli, "k", "high", "--level", "INTERNAL")
    ran = cli("delete", "k", "--level", "INTERNAL", "--json")
    assert ran.json == {"deleted": True, "key": "k", "classification": "INTERNAL", "still_visible": "PUBLIC"}
    saved(cli, "k", "high", "--level", "INTERNAL")
    assert "the PUBLIC memory is visible again" in cli("delete", "k", "--level", "INTERNAL").out


def test_delete_says_where_the_key_is_visible_that_it_did_not_delete(cli: Run) -> None:
    cli("save", "k", "low", "--level", "PUBLIC")
    cli("save", "k", "high", "--level", "RESTRICTED")
    ran = cli("delete", "k", "--level", "INTERNAL")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "tidegate: key: no memory has this key at INTERNAL; one exists at PUBLIC; use --level PUBLIC\n"
    assert cli("delete", "k", "--level", "INTERNAL", "--json").error == {
        "code": "NOT_FOUND",
        "message": "key: no memory has this key at INTERNAL",
        "argument": "key",
        "visible_at": "PUBLIC",
    }
    nowhere = "tidegate: key: no memory has this key at INTERNAL; find the key with `tidegate search`\n"
    assert cli("delete", "other").err == nowhere, "an owner has commands, and no tools"
    cli("session", "new", "high", "--level", "RESTRICTED")
    assert "at RESTRICTED; find" in cli("delete", "other", "--session", "high").err


def test_a_list_is_cut_by_n_as_a_search_is(cli: Run) -> None:
    for key in ("a", "b", "c"):
        cli("save", key, "x")
    assert len(cli("list", "-n", "2", "--json").json["memories"]) == 2
    assert len(cli("list", "--limit", "2", "--json").json["memories"]) == 2


@pytest.mark.parametrize("hidden", [False, True])
def test_p5_who_finds_nothing_is_told_how_to_look_in_words_that_depend_on_nothing_hidden(
    cli: Run, hidden: bool
) -> None:
    cli("session", "new", "main")
    if hidden:
        cli("save", "k", "secret", "--tag", "t", "--level", "CONFIDENTIAL")
    hint = "is visible at INTERNAL; --level RESTRICTED sees every level\n"
    assert cli("list").err == f"no memory {hint}"
    assert cli("search", "nothing").err == f"no match {hint}"
    assert cli("search", "nothing", "--level", "RESTRICTED").err == "no match\n"
    assert cli("list", "--tag", "t").err == f"no memory with this tag {hint}"
    assert cli("list", "--session", "main").err == "no memory is visible to this session\n"
    said = "no memory under this key is visible at INTERNAL; --level RESTRICTED sees every level\n"
    assert cli("get", "k", "--level", "INTERNAL").err == said
    assert cli("get", "other", "--level", "RESTRICTED").err == "no memory under this key\n"
    assert cli("get", "k", "--json").stderr == b""


def test_delete_of_nothing_is_not_found(cli: Run) -> None:
    ran = cli("delete", "k", "--json")
    assert (ran.code, ran.error["code"]) == (1, "NOT_FOUND")
    assert cli("delete", "k").code == 1


def test_an_ephemeral_session_is_at_exactly_its_level(cli: Run) -> None:
    saved(cli, "k", "high", "--level", "CONFIDENTIAL")
    assert cli("get", "k", "--level", "INTERNAL").code == 1
    assert cli("get", "k", "--level", "confidential").code == 0
    assert cli("get", "k", "--level", "RESTRICTED", "--json").json["classification"] == "CONFIDENTIAL"


def test_nothing_is_stored_about_an_ephemeral_session(cli: Run) -> None:
    saved(cli, "k", "x", "--level", "INTERNAL")
    assert cli("session", "list", "--json").out == ""


def test_agents_do_not_see_each_other(cli: Run) -> None:
    saved(cli, "k", "x", "--agent", "a")
    assert cli("get", "k", "--agent", "a").code == 0
    assert cli("get", "k", "--agent", "a-b").code == cli("get", "k").code == 1


@pytest.mark.parametrize(
    "words", [("--json", "--level", "INTERNAL", "get", "k"), ("get", "k", "--json", "--level", "INTERNAL")]
)
def test_common_options_go_before_or_after_the_verb(cli: Run, words: tuple[str, ...]) -> None:
    saved(cli, "k", "x", "--level", "INTERNAL")
    assert cli(*words).json["found"]


def test_of_a_common_option_given_twice_the_last_counts(cli: Run) -> None:
    saved(cli, "k", "x", "--agent", "b")
    assert cli("--agent", "a", "get", "k", "--agent", "b").code == 0


def test_standard_input_is_taken_as_it_is(cli: Run) -> None:
    text = "\ufeffa\r\nb\rc\n\u2028d\x85e\x1b[2J ✓ 完成 🚀\n"
    assert cli("save", "k", "-", stdin=text.encode()).code == 0
    assert cli("get", "k", "--json").json["content"] == text


def test_without_a_content_standard_input_is_read(cli: Run) -> None:
    assert cli("save", "k", stdin=b"piped").code == 0
    assert cli("get", "k", "--json").json["content"] == "piped"


def test_without_a_content_on_a_terminal_nothing_is_waited_for(cli: Run) -> None:
    ran = cli("save", "k", "--json", terminal=True)
    assert (ran.code, ran.error["argument"]) == (2, "content")


def test_standard_input_that_is_not_utf_8_is_refused(cli: Run) -> None:
    ran = cli("save", "k", "-", "--json", stdin=b"caf\xe9")
    assert (ran.code, ran.error["argument"]) == (2, "content")
    assert cli("get", "k").code == 1


def refused(ran: Ran, code: str, argument: str | None = None) -> None:
    assert ran.code == {"INVALID_ARGUMENT": 2, "LIMIT": 2, "NOT_FOUND": 1, "REFUSED": 1, "STORAGE": 3}[code]
    assert ran.error["code"] == code
    assert argument is None or ran.error["argument"] == argument


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (("save", "", "x"), "key"),
        (("save", " ", "x"), "key"),
        (("save", "a\x1bb", "x"), "key"),
        (("save", "k\u202e", "x"), "key"),
        (("save", "k", ""), "content"),
        (("save", "k", "a\udce9"), "content"),
        (("save", "k", "x", "--tag", "a\nb"), "tags"),
        (("search", "x", "-n", "0"), "max_results"),
        (("search", "x", "-n", "101"), "max_results"),
        (("search", "x", "-n", str(2**63)), "max_results"),
        (("search", "x", "-n", "1.5"), "max_results"),
        (("list", "--limit", "201"), "limit"),
        (("list", "--cursor", "forged"), "cursor"),
        (("list", "--tag", ""), "tag"),
        (("get", "k", "--agent", "../x"), "agent"),
        (("get", "k", "--agent", "con"), "agent"),
        (("get", "k", "--level", "SECRET"), "level"),
        (("get", "k", "--session", "a", "--level", "PUBLIC"), "level"),
        (("get",), None),
        (("get", "a", "b"), None),
        (("get", "a", "--bogus"), None),
        (("bogus",), None),
        (("save", "--json", "--", "k"), "content"),
    ],
)
def test_a_bad_argument_is_refused_by_name(cli: Run, words: tuple[str, ...], argument: str | None) -> None:
    refused(cli("--json", *words), "INVALID_ARGUMENT", argument)


def test_a_limit_names_limit_and_actual_size(cli: Run) -> None:
    ran = cli("save", "k", "-", "--json", stdin=b"x" * (1024 * 1024 + 1))
    refused(ran, "LIMIT", "content")
    assert (ran.error["limit"], ran.error["actual"]) == (1024 * 1024, 1024 * 1024 + 1)
    refused(cli("save", "k" * 257, "x", "--json"), "LIMIT", "key")


def test_the_homes_settings_hold(cli: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[limits]\nkey_chars_max = 3\n")
    refused(cli("save", "four", "x", "--json"), "LIMIT", "key")
    (home / "config.toml").write_text("[limits]\nkey_chars_max = 3,\n")
    ran = cli("save", "k", "x", "--json")
    refused(ran, "INVALID_ARGUMENT", "config.toml")
    assert ran.error["line"] == 2


def test_an_error_is_one_line_for_people(cli: Run) -> None:
    ran = cli("save", "a\x1b[2J\nb", "x")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("tidegate: key: must not contain")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err


def test_an_unknown_session_is_refused(cli: Run) -> None:
    refused(cli("get", "k", "--session", "nobody", "--json"), "REFUSED")


def test_a_named_session_acts_at_its_taint(cli: Run) -> None:
    assert cli("session", "new", "main", "--level", "INTERNAL").code == 0
    assert cli("save", "k", "x", "--session", "main", "--json").json["classification"] == "INTERNAL"
    assert cli("session", "raise", "main", "CONFIDENTIAL").code == 0
    assert cli("save", "k", "x", "--session", "main", "--json").json["classification"] == "CONFIDENTIAL"


def test_a_session_that_was_reset_is_refused(cli: Run) -> None:
    cli("session", "new", "main")
    cli("session", "reset", "main", "--yes")
    ran = cli("get", "k", "--session", "main", "--json")
    refused(ran, "REFUSED")
    assert "session ended" in ran.error["message"]


@pytest.mark.parametrize(
    "key", ["../x", "a:b", "con", "*", "%", "'; DROP TABLE memories;--", "A", "a", "-k", "--json", "~/x"]
)
def test_a_key_is_literal(cli: Run, key: str) -> None:
    others = {"../y", "a:c", "nul", "x*", "k"}
    for other in others:
        saved(cli, other, "other")
    assert cli("save", "--", key, "mine").code == 0
    assert cli("--json", "get", "--", key).json["content"] == "mine"
    assert cli("delete", "--", key).code == 0
    assert {memory["key"] for memory in cli("list", "--json").json["memories"]} == others


HOSTILE = "\x1b[2J\x1b]52;c;ZXZpbA==\a \x9b31m good\b\b\b\bevil \rforged\nPUBLIC  forged \u202etxt\u202c"


def test_w05_stored_text_cannot_work_the_terminal_but_json_is_exact(cli: Run) -> None:
    assert cli("save", "k", "-", stdin=HOSTILE.encode()).code == 0
    for words in (("get", "k"), ("list",), ("search", "forged evil")):
        shown = cli(*words).out
        assert "forged" in shown
        assert not set("\x1b\a\b\r\x9b\u202e\u202c") & set(shown)
        assert sum(not line.startswith("  ") for line in shown.splitlines() if line) == 1
    assert cli("get", "k", "--json").json["content"] == HOSTILE
    assert json.loads(cli("list", "--json").out)["memories"][0]["content"] == HOSTILE


def test_a_newer_lower_memory_is_pointed_out(cli: Run) -> None:
    saved(cli, "k", "high", "--level", Level.INTERNAL.name)
    saved(cli, "k", "low", "--level", "PUBLIC")
    assert "a PUBLIC memory under this key was saved later" in cli("get", "k", "--level", "INTERNAL").out


def test_a_search_that_ended_early_says_so(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.session import Session

    monkeypatch.setattr(Session, "call_tool", lambda *_: {"query": "q", "results": [], "complete": False})
    assert "ended early" in cli("search", "q").err


def test_explain_shows_the_terms_and_each_score_by_its_parts(cli: Run) -> None:
    saved(cli, "tea", "green tea before the launch")
    shown = cli("search", "launhc", "--explain")
    assert shown.code == 0
    assert shown.out.splitlines()[:2] == ["launhc: launch", "looked up: launch"]
    explained = cli("search", "launhc of greens", "--explain", "--json").json
    (hit,) = explained["results"]
    (parts,) = explained["explanation"]["parts"]
    assert hit["score"] == parts["score"]
    assert abs(parts["score"] - sum(parts[name] for name in ("bm25", "common", "ngrams", "feedback"))) < 1e-5


def test_explain_says_when_nothing_was_looked_up(cli: Run) -> None:
    assert "looked up: nothing" in cli("search", "quartz", "--explain").out


def test_a_search_takes_a_tag_and_times(cli: Run) -> None:
    saved(cli, "a", "green tea", "--tags", "Drink, green", "--tag", "x,y")
    saved(cli, "b", "black tea")
    assert cli("get", "a", "--json").json["tags"] == ["Drink", "green", "x,y"]
    for words, keys in {
        ("--tag", "drink"): ["a"],
        ("--tag", "X,Y", "--since", "2020-01-01"): ["a"],
        ("--until", "2020-01-01"): [],
        ("--tag", "x"): [],
    }.items():
        assert [each["key"] for each in cli("search", "tea", *words, "--json").json["results"]] == keys
        explained = cli("search", "tea", *words, "--explain", "--json").json
        assert [each["key"] for each in explained["results"]] == keys
    assert cli("search", "tea", "--tag", "none").err.startswith("no match with these filters is visible")
    assert cli("search", "tea", "--since", "soon").code == 2
    assert cli("list", "--tag", "DRINK", "--json").json["memories"][0]["key"] == "a"
