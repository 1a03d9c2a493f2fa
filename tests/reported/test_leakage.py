"""What other systems told to those who should not know; the two-world tests look for all of it at once."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tidegate.errors import InvalidArgument, TidegateError
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store


def answer(session: Session, tool: str, **arguments: Any) -> object:
    try:
        return session.call_tool(tool, arguments)
    except TidegateError as error:
        return error.to_dict()


def test_l03_a_failed_first_save_shows_nothing_of_an_agent_with_a_like_name(store: Store) -> None:
    store.session("kim", "main").memory.save("secret", "the code is 4417")
    other = store.session("kim1", "main")
    with pytest.raises(InvalidArgument):
        other.call_tool("memory_save", {"key": "k", "content": ""})
    assert answer(other, "memory_search", query="secret code 4417") == {
        "query": "secret code 4417",
        "results": [],
        "complete": True,
    }


@pytest.mark.parametrize("tool", ["memory_get", "memory_delete", "memory_search"])
def test_l10_what_is_hidden_answers_like_what_never_was(store: Store, tool: str) -> None:
    store.session("assistant", level=Level.RESTRICTED).memory.save("hidden-one", "never to be told")
    public = store.session("assistant", "main")
    name = "query" if tool == "memory_search" else "key"
    hidden, nothing = answer(public, tool, **{name: "hidden-one"}), answer(public, tool, **{name: "nothing-one"})
    assert str(hidden).replace("hidden-one", "nothing-one") == str(nothing)


def test_l11_saving_what_is_hidden_above_answers_like_a_fresh_save(store: Store) -> None:
    high = store.session("assistant", level=Level.RESTRICTED)
    high.memory.save("h2", "the same content")
    public = store.session("assistant", "main")
    saves = [("copy", "the same content"), ("h2", "another content")]
    for key, content in saves:
        assert answer(public, "memory_save", key=key, content=content) == {
            "saved": True,
            "key": key,
            "classification": "PUBLIC",
            "version": 1,
            "status": "created",
        }
    kept = high.memory.get("h2")
    assert kept is not None
    assert (kept.content, kept.classification, kept.version) == ("the same content", Level.RESTRICTED, 1)


def test_l13_a_child_starts_no_lower_than_its_parent(store: Store) -> None:
    parent = store.session("assistant", level=Level.CONFIDENTIAL)
    child = store.session("assistant", parent=parent, level=Level.PUBLIC)
    assert child.call_tool("memory_save", {"key": "c1", "content": "c"})["classification"] == "CONFIDENTIAL"


def test_l17_neither_a_save_nor_a_refusal_writes_content_to_logs_or_streams(
    session: Session, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = {"key": "tok_live_ABC", "content": "password=hunter2", "tags": ["x"]}
    with caplog.at_level(logging.DEBUG):
        session.call_tool("memory_save", secret)
        refused = answer(session, "memory_save", **secret, extra="hunter2")
    said = caplog.text + "".join(capfd.readouterr()) + str(refused)
    assert "INVALID_ARGUMENT" in said
    assert "hunter2" not in said
    assert "tok_live" not in said
