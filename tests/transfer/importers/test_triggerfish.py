"""Triggerfish's rows: key and value must say the same, and each row keeps its label."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.triggerfish import agents, read_rows

VALUE = {
    "key": "plan:b",
    "agentId": "main",
    "classification": "CONFIDENTIAL",
    "content": "Sail in May.",
    "tags": ["boat"],
    "createdAt": "2025-01-01T00:00:00.000Z",
    "updatedAt": "2025-01-02T00:00:00.000Z",
    "expired": False,
    "sourceSessionId": "s1",
}
KEY = "memory:main:CONFIDENTIAL:plan:b"


def rows(**changes: Any) -> list[tuple[str, object]]:
    return [(KEY, json.dumps({**VALUE, **changes}))]


def test_a_row_that_is_no_text_is_refused_by_its_number() -> None:
    assert agents([None, *rows()]) == ["main"]
    found = list(read_rows([None, *rows()], "main"))
    assert found[0] == Rejected("row 1", "is not UTF-8")
    assert isinstance(found[1], RawMemory)


def test_a_row_is_a_memory_with_its_label_and_times() -> None:
    assert list(read_rows(rows(), "main")) == [
        RawMemory(
            place="row 1",
            key="plan:b",
            content="Sail in May.",
            tags=["boat"],
            label="CONFIDENTIAL",
            created_at="2025-01-01T00:00:00.000Z",
            updated_at="2025-01-02T00:00:00.000Z",
        )
    ]


def test_agents_are_compared_whole() -> None:
    mixed = [*rows(), ("memory:main2:PUBLIC:x", "{}"), ("memory:broken", "{}")]
    assert agents(mixed) == ["main", "main2"]
    assert [each.place for each in read_rows(mixed, "main")] == ["row 1", "row 3"]
    assert list(read_rows(mixed, "main"))[1] == Rejected("row 3", "its key is not a memory's")


def test_a_deleted_row_stays_deleted() -> None:
    assert list(read_rows(rows(expired=True), "main")) == [
        Rejected("row 1", "was deleted at the source", refused=False)
    ]


@pytest.mark.parametrize("change", [{"classification": "RESTRICTED"}, {"agentId": "other"}, {"key": "plan"}])
def test_a_row_whose_key_and_value_differ_is_refused(change: dict[str, str]) -> None:
    assert list(read_rows(rows(**change), "main")) == [Rejected("row 1", "its key and its value disagree")]


@pytest.mark.parametrize("value", ["{", "[]", "not json"])
def test_a_value_that_is_not_an_object_is_refused(value: str) -> None:
    (found,) = read_rows([(KEY, value)], "main")
    assert isinstance(found, Rejected)
    assert found.refused


def test_a_value_that_is_not_text_has_no_content() -> None:
    (found,) = read_rows([(KEY, b"x")], "main")
    assert isinstance(found, RawMemory)
    assert found.content is None
