"""Numbers and sizes at the edge, and beyond it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conftest import Run
from tests.server.mcp_peer import serving

import tidegate
from tidegate.errors import InvalidArgument, LimitExceeded
from tidegate.session import Session
from tidegate.storage.sqlite import compartment as sqlite_compartment

ANSWER_BYTES_MAX = 100_000
MEBIBYTE = 1024 * 1024


@pytest.mark.parametrize("number", [-1, 0, 101, 10**9, 2**63, 2**63 - 1, 1.5, "5", True, math.nan, math.inf, {}])
def test_x01_a_number_of_results_that_is_none_is_refused_by_name(session: Session, number: object) -> None:
    with pytest.raises(InvalidArgument, match="max_results"):
        session.call_tool("memory_search", {"query": "a", "max_results": number})


@pytest.mark.parametrize(("number", "found"), [(1, 1), (None, 10), (100, 12), (10.0, 10)])
def test_x01_a_number_of_results_that_is_one_counts(session: Session, number: object, found: int) -> None:
    session.memory.save_many([(f"k{n}", "apple", ()) for n in range(12)])
    results = session.call_tool("memory_search", {"query": "apple", "max_results": number})["results"]
    assert len(results) == found


def test_x03_a_long_list_is_whole_and_each_answer_bounded(either: Session) -> None:
    either.memory.save_many([(f"k{n:04}", "content " * 70, ["t"]) for n in range(5_000)])
    keys: list[str] = []
    arguments: dict[str, Any] = {"tag": "t", "limit": 200}
    while True:
        answer = either.call_tool("memory_list", arguments)
        assert len(json.dumps(answer, ensure_ascii=False).encode()) <= ANSWER_BYTES_MAX
        keys += [memory["key"] for memory in answer["memories"]]
        if (cursor := answer["next_cursor"]) is None:
            break
        arguments["cursor"] = cursor
    assert keys == [f"k{n:04}" for n in range(5_000)]


def test_x04_f06_answers_about_large_memories_are_bounded_and_get_is_whole(either: Session) -> None:
    content = "pear " + "x" * (MEBIBYTE - 5)
    either.memory.save_many([(f"k{n:02}", content, ()) for n in range(40)])
    found = either.call_tool("memory_search", {"query": "pear", "max_results": 40})
    listed = either.call_tool("memory_list", {"limit": 200})
    for answer in (found, listed):
        assert len(json.dumps(answer, ensure_ascii=False).encode()) <= ANSWER_BYTES_MAX
    assert all(each["truncated"] and len(each["content"]) <= 500 for each in found["results"] + listed["memories"])
    assert len(found["results"]) == 40
    assert either.call_tool("memory_get", {"key": "k39"})["content"] == content


def test_f06_a_list_of_long_memories_is_short_and_says_that_there_is_more(session: Session) -> None:
    session.memory.save_many([(f"k{n:03}", "word " * 4_000, ()) for n in range(300)])
    answer = session.call_tool("memory_list", {})
    assert (len(answer["memories"]), answer["next_cursor"] is not None) == (50, True)
    assert len(json.dumps(answer).encode()) <= ANSWER_BYTES_MAX


def test_x09_a_content_over_the_limit_is_refused_alike_by_library_tool_mcp_and_command_line(
    session: Session, cli: Run
) -> None:
    content = "x" * (MEBIBYTE + 1)
    with pytest.raises(LimitExceeded) as by_library:
        session.memory.save("k", content)
    with pytest.raises(LimitExceeded) as by_tool:
        session.call_tool("memory_save", {"key": "k", "content": content})
    with serving(session) as peer:
        by_mcp = peer.greet().call("memory_save", key="k", content=content)
    by_command = cli("save", "k", "-", "--json", stdin=content.encode())
    told = {
        json.dumps(error, sort_keys=True)
        for error in (
            by_library.value.to_dict(),
            by_tool.value.to_dict(),
            by_mcp["error"],
            by_command.error,
        )
    }
    assert len(told) == 1
    assert str(MEBIBYTE) in told.pop()
    assert by_command.code == 2


@pytest.mark.parametrize(
    "tags",
    [[f"t{n}" for n in range(100_000)], ["t" * 100_000], [f"t{n}" for n in range(65)]],
    ids=["many", "long", "65"],
)
def test_x11_too_many_or_too_long_tags_are_a_limit(session: Session, tags: list[str]) -> None:
    with pytest.raises(LimitExceeded, match="tags") as refused:
        session.call_tool("memory_save", {"key": "x", "content": "y", "tags": tags})
    assert "64" in refused.value.message


def test_x11_tags_that_repeat_are_one(session: Session) -> None:
    session.call_tool("memory_save", {"key": "x", "content": "y", "tags": ["t"] * 10_000})
    assert session.call_tool("memory_get", {"key": "x"})["tags"] == ["t"]


def test_x10_thousands_of_one_tag_are_listed_whole(session: Session) -> None:
    session.memory.save_many([(f"k{n:04}", "c", ["old"]) for n in range(2_000)])
    assert len(list(session.memory.list(tag="old"))) == 2_000


@pytest.mark.parametrize("query", [sqlite_compartment._PAGE, sqlite_compartment._PAGE_OF_TAG], ids=["all", "of a tag"])
def test_f03_the_last_page_costs_what_the_first_does_for_none_is_scanned_or_sorted(tmp_path: Path, query: str) -> None:
    with tidegate.open(tmp_path) as store:
        store.session("assistant").memory.save("k", "c", ["t"])
    database = apsw.Connection(str(tmp_path / "agents" / "assistant" / "public.db"), flags=apsw.SQLITE_OPEN_READONLY)
    plan = [str(row[3]) for row in database.execute(f"EXPLAIN QUERY PLAN {query}", ("",) * query.count("?"))]
    database.close()
    assert any("key>?" in step for step in plan), plan
    table_steps = [step for step in plan if not step.startswith("SCAN rule ")]  # the owner's rules of expiry: a few
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in table_steps), plan
