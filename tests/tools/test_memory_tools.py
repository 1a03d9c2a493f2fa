"""The five tools: their results field by field, and what they take for an argument."""

from __future__ import annotations

from typing import Any

import pytest
from jsonschema import validate

from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, TidegateError
from tidegate.policy.events import LEVEL_ARGUMENTS
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store
from tidegate.tools import TOOLS

LONG = "word " * 200


def call(session: Session, name: str, /, **arguments: Any) -> dict[str, Any]:
    """A result that keeps to the tool's output schema."""
    result = session.call_tool(name, arguments)
    validate(result, TOOLS[name].output_schema)
    return result


def refusal(session: Session, name: str, /, **arguments: Any) -> TidegateError:
    """An error whose shown form keeps to the tool's output schema as well."""
    with pytest.raises(TidegateError) as raised:
        session.call_tool(name, arguments)
    validate({"error": raised.value.to_dict()}, TOOLS[name].output_schema)
    return raised.value


# Results


def test_save_answers_what_was_stored(session: Session) -> None:
    assert call(session, "memory_save", key="user-name", content="Ada", tags=["persona"]) == {
        "saved": True,
        "key": "user-name",
        "classification": "PUBLIC",
        "version": 1,
        "status": "created",
    }


def test_save_tells_created_updated_and_unchanged_apart(session: Session) -> None:
    statuses = [call(session, "memory_save", key="k", content=content)["status"] for content in ("a", "b", "b")]
    assert statuses == ["created", "updated", "unchanged"]


def test_get_answers_the_whole_memory(session: Session) -> None:
    call(session, "memory_save", key="user-name", content=LONG, tags=["b", "a"])
    result = call(session, "memory_get", key="user-name")
    assert list(result) == [
        "found",
        "key",
        "content",
        "classification",
        "tags",
        "version",
        "origin",
        "created_at",
        "updated_at",
    ]
    assert (result["content"], result["tags"], result["origin"]) == (LONG, ["a", "b"], "agent")


def test_times_are_utc_to_the_microsecond(session: Session) -> None:
    call(session, "memory_save", key="k", content="x")
    shown = call(session, "memory_get", key="k")
    assert shown["created_at"] == shown["updated_at"]
    assert shown["created_at"].startswith("2030-01-01T00:00:")
    assert shown["created_at"].endswith(".000000Z")


def test_get_of_nothing_answers_only_the_key(session: Session) -> None:
    assert call(session, "memory_get", key="nothing") == {"found": False, "key": "nothing"}


def test_get_of_nothing_answers_the_key_in_the_form_it_would_be_stored_in(session: Session) -> None:
    assert call(session, "memory_get", key="cafe\u0301")["key"] == "caf\u00e9"


def test_get_says_that_a_lower_variant_is_newer(store: Store) -> None:
    high, low = store.session("assistant", "high", Level.INTERNAL), store.session("assistant", "low")
    call(high, "memory_save", key="k", content="old")
    assert "newer_below" not in call(high, "memory_get", key="k")
    call(low, "memory_save", key="k", content="new")
    assert call(high, "memory_get", key="k")["newer_below"] == "PUBLIC"


def test_search_answers_query_results_and_completeness(session: Session) -> None:
    call(session, "memory_save", key="tea", content="likes green tea", tags=["preference"])
    result = call(session, "memory_search", query="which tea?")
    assert list(result) == ["query", "results", "complete"]
    assert (result["query"], result["complete"]) == ("which tea?", True)
    assert [list(hit) for hit in result["results"]] == [
        ["key", "content", "classification", "tags", "origin", "updated_at", "score"]
    ]


@pytest.mark.parametrize("query", ["", "   ", "***", '"""', "nothing of the kind"])
def test_search_without_hits_is_an_empty_list(session: Session, query: str) -> None:
    call(session, "memory_save", key="tea", content="likes green tea")
    assert call(session, "memory_search", query=query)["results"] == []


def test_list_answers_memories_in_key_order_and_a_cursor_that_goes_on(session: Session) -> None:
    for key in ("b", "a", "c"):
        call(session, "memory_save", key=key, content="x")
    first = call(session, "memory_list", limit=2)
    second = call(session, "memory_list", limit=2, cursor=first["next_cursor"])
    assert [memory["key"] for memory in first["memories"] + second["memories"]] == ["a", "b", "c"]
    assert list(first["memories"][0]) == ["key", "content", "classification", "tags", "origin", "updated_at"]
    assert second["next_cursor"] is None


def test_list_of_nothing_is_an_empty_list(session: Session) -> None:
    assert call(session, "memory_list") == {"memories": [], "next_cursor": None}


def test_list_with_a_tag_is_those_that_carry_exactly_it(session: Session) -> None:
    for tag in ("test", "testing", "my-test"):
        call(session, "memory_save", key=tag, content="x", tags=[tag])
    assert [memory["key"] for memory in call(session, "memory_list", tag="test")["memories"]] == ["test"]


@pytest.mark.parametrize(("name", "arguments"), [("memory_search", {"query": "word"}), ("memory_list", {})])
def test_long_contents_are_cut_and_marked(session: Session, name: str, arguments: dict[str, str]) -> None:
    call(session, "memory_save", key="long", content=LONG)
    call(session, "memory_save", key="short", content="word")
    result = call(session, name, **arguments)
    shown = {memory["key"]: memory for memory in result.get("results") or result["memories"]}
    assert shown["long"]["truncated"] is True
    assert shown["long"]["content"] == LONG[:500]
    assert "truncated" not in shown["short"]


def test_delete_answers_what_was_deleted(session: Session) -> None:
    call(session, "memory_save", key="k", content="x")
    assert call(session, "memory_delete", key="k") == {"deleted": True, "key": "k", "classification": "PUBLIC"}


def test_delete_says_what_shows_again(store: Store) -> None:
    call(store.session("assistant", "low"), "memory_save", key="k", content="low")
    high = store.session("assistant", "high", Level.INTERNAL)
    call(high, "memory_save", key="k", content="high")
    assert call(high, "memory_delete", key="k") == {
        "deleted": True,
        "key": "k",
        "classification": "INTERNAL",
        "still_visible": "PUBLIC",
    }


def test_delete_of_nothing_is_an_error_that_says_where_the_key_is_visible(store: Store) -> None:
    call(store.session("assistant", "low"), "memory_save", key="k", content="low")
    high = store.session("assistant", "high", Level.INTERNAL)
    assert isinstance(error := refusal(high, "memory_delete", key="k"), NotFound)
    assert error.to_dict()["visible_at"] == "PUBLIC"
    assert "visible_at" not in refusal(high, "memory_delete", key="other").to_dict()


# Arguments


@pytest.mark.parametrize(
    ("tags", "stored"),
    [
        (["b", "a"], ["a", "b"]),
        ('["a","b"]', ["a", "b"]),
        ("solo", ["solo"]),
        ("", []),
        ("[]", []),
        ([], []),
        (None, []),
        (["a", ""], ["a"]),
        ([" a ", "a"], ["a"]),
        ("[not json", ["[not json"]),
    ],
)
def test_tags_come_as_a_list_one_string_or_a_list_in_a_string(
    session: Session, tags: object, stored: list[str]
) -> None:
    call(session, "memory_save", key="k", content="x", tags=tags)
    assert call(session, "memory_get", key="k")["tags"] == stored


@pytest.mark.parametrize("tags", [5, True, {"a": "b"}, [5], [None], [["a"]], "[1]"])
def test_tags_of_another_kind_are_refused_by_name(session: Session, tags: object) -> None:
    assert isinstance(error := refusal(session, "memory_save", key="k", content="x", tags=tags), InvalidArgument)
    assert error.to_dict()["argument"] == "tags"
    assert call(session, "memory_list")["memories"] == []


def test_null_is_as_if_left_out(session: Session) -> None:
    call(session, "memory_save", key="k", content="word", tags=None)
    assert len(call(session, "memory_search", query="word", max_results=None)["results"]) == 1
    assert len(call(session, "memory_list", tag=None, limit=None, cursor=None)["memories"]) == 1


@pytest.mark.parametrize(
    ("name", "arguments", "argument"),
    [
        ("memory_save", {"key": "k"}, "content"),
        ("memory_save", {"content": "x"}, "key"),
        ("memory_save", {"key": "k", "content": None}, "content"),
        ("memory_get", {}, "key"),
        ("memory_search", {"max_results": 5}, "query"),
        ("memory_delete", {"key": None}, "key"),
    ],
)
def test_what_is_required_is_asked_for_by_name(
    session: Session, name: str, arguments: dict[str, Any], argument: str
) -> None:
    error = refusal(session, name, **arguments)
    assert (error.code, error.to_dict()["argument"]) == ("INVALID_ARGUMENT", argument)
    assert error.message == f"{argument}: is required"


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize("unknown", ["reason", "agent", "session", "user", "Key", "self", "work", ""])
def test_unknown_arguments_are_refused_by_place_and_told_which_are_known(
    session: Session, name: str, unknown: str
) -> None:
    required = dict.fromkeys(TOOLS[name].input_schema["required"], "x")
    error = refusal(session, name, **required, **{unknown: "y"})
    known = ", ".join(TOOLS[name].input_schema["properties"])
    assert error.message == f"arguments: field {len(required) + 1} has an unknown name; known names: {known}"
    assert (error.code, error.to_dict()["argument"]) == ("INVALID_ARGUMENT", "arguments")
    assert call(session, "memory_list")["memories"] == []


@pytest.mark.parametrize("content", [5, True, [], {}, ["x"], "", "nul\0", "\ud83d"])
def test_contents_that_cannot_be_kept_are_refused_by_name(session: Session, content: object) -> None:
    error = refusal(session, "memory_save", key="k", content=content)
    assert (error.code, error.to_dict()["argument"]) == ("INVALID_ARGUMENT", "content")
    assert call(session, "memory_get", key="k")["found"] is False


def test_too_much_is_a_limit_with_both_numbers(session: Session) -> None:
    error = refusal(session, "memory_save", key="k" * 257, content="x")
    assert isinstance(error, LimitExceeded)
    assert (error.to_dict()["limit"], error.to_dict()["actual"]) == (256, 257)


@pytest.mark.parametrize(
    "number", [-1, 0, 101, 10**9, 2**63, 2**63 - 1, 1.5, "5", True, [5], float("nan"), float("inf")]
)
def test_max_results_out_of_range_or_of_another_kind_is_refused(session: Session, number: object) -> None:
    error = refusal(session, "memory_search", query="a", max_results=number)
    assert error.message == "max_results: must be a whole number from 1 to 100"


@pytest.mark.parametrize("number", [1, 10.0, 100])
def test_max_results_takes_whole_numbers_in_either_form(session: Session, number: object) -> None:
    assert call(session, "memory_search", query="a", max_results=number)["results"] == []


@pytest.mark.parametrize("number", [0, 201, "x", 1.5])
def test_limit_out_of_range_or_of_another_kind_is_refused(session: Session, number: object) -> None:
    assert refusal(session, "memory_list", limit=number).message == "limit: must be a whole number from 1 to 200"


@pytest.mark.parametrize("cursor", ["x", 5, True, [5], "é", "AAAA"])
def test_a_cursor_that_is_not_ours_is_refused(session: Session, cursor: object) -> None:
    assert refusal(session, "memory_list", cursor=cursor).to_dict()["argument"] == "cursor"


@pytest.mark.parametrize("name", sorted(LEVEL_ARGUMENTS))
@pytest.mark.parametrize("value", ["RESTRICTED", 3, None, {"a": 1}, "\ud800"])
def test_an_argument_that_would_choose_a_level_has_no_effect(session: Session, name: str, value: object) -> None:
    """P2."""
    result = call(session, "memory_save", key="k", content="x", **{name: value})
    assert result["classification"] == "PUBLIC"
    assert session.taint is Level.PUBLIC
