"""mem0: the answer of `get_all`, platform exports, OpenMemory's backup."""

from __future__ import annotations

import json

import pytest

from tidegate.files import TextLine
from tidegate.transfer.importers.mem0 import read_entries, read_lines
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

ENTRY = {
    "id": "3c90",
    "memory": "likes tea",
    "user_id": "kim",
    "metadata": {"type": "taste"},
    "categories": ["food"],
    "created_at": "2024-07-20T01:30:36.275141-07:00",
    "updated_at": None,
}
FOUND = RawMemory(
    place="entry 1", key="mem0-3c90", content="likes tea", tags=["food"], created_at="2024-07-20T01:30:36.275141-07:00"
)


def test_entries_come_in_a_list_or_under_results_or_memories() -> None:
    for document in ([ENTRY], {"results": [ENTRY]}, {"memories": [ENTRY]}):
        assert list(read_entries(document)) == [FOUND]


def test_openmemory_names_categories_apart_and_text_content() -> None:
    document = {
        "memories": [{"id": "m1", "content": "likes tea", "state": "archived", "category_ids": ["c1", "c9"]}],
        "categories": [{"id": "c1", "name": "food"}],
    }
    (found,) = read_entries(document)
    assert found == RawMemory(place="entry 1", key="mem0-m1", content="likes tea", tags=["food", "c9", "archived"])


def test_openmemory_lines_read_the_same() -> None:
    line = {"id": "m1", "content": "likes tea", "state": "active", "categories": ["food"], "app": None}
    assert list(read_lines([TextLine(1, json.dumps(line)), TextLine(2, "x")])) == [
        RawMemory(place="line 1", key="mem0-m1", content="likes tea", tags=["food"]),
        Rejected("line 2", "not JSON (column 1)"),
    ]


@pytest.mark.parametrize("odd", [{"a": 1}, [1], 5, None])
def test_a_category_that_is_no_text_is_left_for_the_import_to_refuse(odd: object) -> None:
    (found,) = read_entries({"results": [{**ENTRY, "category_ids": ["c1", odd]}], "categories": []})
    assert isinstance(found, RawMemory)
    assert isinstance(found.tags, list)
    assert odd in found.tags


def test_what_was_deleted_at_the_source_stays_so() -> None:
    gone = Rejected("entry 1", "was deleted at the source", refused=False)
    assert list(read_entries([{**ENTRY, "state": "deleted"}])) == [gone]
    assert list(read_entries([{**ENTRY, "deleted_at": "2024-01-01"}])) == [gone]


def test_an_entry_without_an_id_has_a_key_that_follows_from_its_text() -> None:
    first, again, other = read_entries([{"memory": "Likes green tea"}, {"memory": "Likes green tea"}, {"memory": "x"}])
    assert isinstance(first, RawMemory)
    assert isinstance(again, RawMemory)
    assert isinstance(other, RawMemory)
    assert first.key == again.key != other.key
    assert str(first.key).startswith("mem0-likes-green-tea-")


def test_what_is_no_entry_is_refused_and_what_is_no_list_is_empty() -> None:
    assert list(read_entries([3])) == [Rejected("entry 1", "is not a memory")]
    assert list(read_entries({"results": 3})) == []
    assert list(read_entries({"memories": [ENTRY], "categories": "none"})) == [FOUND]


@pytest.mark.parametrize("relations", [[{"source": "kim"}], {"added_entities": [[]]}])
def test_relations_of_the_graph_are_left_out_and_that_is_said(relations: object) -> None:
    memory, graph = read_entries({"results": [ENTRY], "relations": relations})
    assert memory == FOUND
    assert graph == Rejected("relations", "mem0 derived them from the memories; they are left out", refused=False)
    assert list(read_entries({"results": [ENTRY], "relations": []})) == [FOUND]
