"""The form of arguments and answers: what clients send, and what they stumbled over elsewhere."""

from __future__ import annotations

import re
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator
from tests.conftest import Run

from tidegate.errors import InvalidArgument, NotFound
from tidegate.session import Session
from tidegate.tools import TOOLS

KEYS = ["a:b", "a/b", "a?b", "a#b", "a%2Fb", "a b", "a+b", "é", "..", ".", "a//b", "a;b", "*", "%", "../x", "con"]


def save(session: Session, key: str, content: str, **more: Any) -> dict[str, Any]:
    return session.call_tool("memory_save", {"key": key, "content": content, **more})


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ('["a","b"]', ["a", "b"]),
        ("solo", ["solo"]),
        ("", []),
        ([], []),
        (None, []),
        (["a", ""], ["a"]),
        ([" a ", "a"], ["a"]),
    ],
)
def test_p01_tags_come_in_any_form_a_model_sends(session: Session, sent: object, stored: list[str]) -> None:
    save(session, "k", "c", tags=sent)
    assert session.call_tool("memory_get", {"key": "k"})["tags"] == stored


def test_p04_a_tag_is_no_prefix_and_no_pattern(session: Session) -> None:
    for tag in ("test", "testing", "my-test", "test2", "tes", "t_st"):
        save(session, f"key-{tag}", "c", tags=[tag])
    assert [each["key"] for each in session.call_tool("memory_list", {"tag": "test"})["memories"]] == ["key-test"]
    assert session.call_tool("memory_list", {"tag": "t%"})["memories"] == []


@pytest.mark.parametrize("key", ["*", "%", "_", "k*"])
def test_p07_a_pattern_deletes_nothing(session: Session, key: str) -> None:
    save(session, "k", "c")
    with pytest.raises(NotFound):
        session.call_tool("memory_delete", {"key": key})
    assert session.call_tool("memory_get", {"key": "k"})["found"]


def test_p07_an_empty_key_deletes_nothing_on_any_surface(session: Session, cli: Run) -> None:
    save(session, "k", "c")
    with pytest.raises(InvalidArgument, match="key"):
        session.call_tool("memory_delete", {"key": ""})
    cli("save", "k", "c")
    assert (cli("delete", "").code, cli("delete").code, cli("get", "k").code) == (2, 2, 0)


def test_p08_what_is_not_there_is_not_found_before_and_after(session: Session, cli: Run) -> None:
    def deleted() -> list[object]:
        try:
            return [session.call_tool("memory_delete", {"key": "k"})["deleted"]]
        except NotFound as error:
            return [error.code]

    assert deleted() == ["NOT_FOUND"]
    save(session, "k", "c")
    assert (deleted(), deleted()) == ([True], ["NOT_FOUND"])
    assert session.call_tool("memory_get", {"key": "k"}) == {"found": False, "key": "k"}
    cli("save", "k", "c")
    ran = [cli("delete", "k", "--json") for _ in range(2)]
    assert ([each.code for each in ran], ran[1].error["code"]) == ([0, 1], "NOT_FOUND")


def test_p09_one_content_may_have_two_keys(session: Session) -> None:
    statuses = [save(session, "k1", "same", tags=["a"])["status"], save(session, "k2", "same", tags=["b"])["status"]]
    assert (statuses, [memory.key for memory in session.memory.list()]) == (["created", "created"], ["k1", "k2"])


def test_p10_a_save_that_is_sent_twice_is_one_memory(session: Session) -> None:
    versions = [save(session, "k", "c")["version"] for _ in range(2)]
    kept = session.memory.get("k")
    assert kept is not None
    assert (versions, kept.created_at < kept.updated_at) == ([1, 1], True)
    assert len(list(session.memory.list())) == 1


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_search", {"query": "a", "max_results": None}),
        ("memory_list", {"tag": None, "limit": None, "cursor": None}),
        ("memory_save", {"key": "k", "content": "c", "tags": None}),
    ],
)
def test_p12_null_is_as_if_left_out(session: Session, tool: str, arguments: dict[str, object]) -> None:
    assert session.call_tool(tool, arguments)


@pytest.mark.parametrize(
    ("named", "arguments"),
    [
        ("field 3", {"key": "k", "content": "c", "reason": "r"}),
        ("content", {"key": "k"}),
        ("content", {"key": "k", "content": 5}),
        ("content", {"key": "k", "content": ""}),
        ("key", {"content": "c"}),
    ],
)
def test_p12_what_is_wrong_is_refused_by_its_place(session: Session, named: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument, match=named):
        session.call_tool("memory_save", arguments)


@pytest.mark.parametrize("name", TOOLS)
def test_p13_strict_clients_take_every_tool(name: str) -> None:
    tool = TOOLS[name]
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name)
    for validator in (Draft7Validator, Draft202012Validator):
        validator.check_schema(tool.input_schema)
        validator.check_schema(tool.output_schema)
    for asked in tool.input_schema["properties"].values():
        assert isinstance(asked["type"], str)
        assert asked["description"]
        assert ("items" in asked) == (asked["type"] == "array")


def test_p14_each_key_reaches_exactly_its_own_memory(session: Session) -> None:
    for key in KEYS:
        save(session, key, f"content of {key}")
    for key in KEYS:
        assert session.call_tool("memory_get", {"key": key})["content"] == f"content of {key}"
    session.call_tool("memory_delete", {"key": "a/b"})
    assert [memory.key for memory in session.memory.list()] == sorted(set(KEYS) - {"a/b"})
