"""The memory server's graph: each entity becomes one memory, with what it is related to."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.yardstick.growth import grows_linearly

from tidegate.files import TextLine
from tidegate.transfer.importers.mcp_memory import read_graph, read_lines
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

ADA = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea", "writes programs"]}
WORKS = {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "works at"}


def lines(*records: Any) -> list[TextLine]:
    return [TextLine(number, json.dumps(record)) for number, record in enumerate(records, 1)]


def test_an_entity_is_one_memory_with_its_observations_and_relations() -> None:
    assert list(read_lines(lines(ADA, WORKS))) == [
        RawMemory(place="line 1", key="Ada", content="likes tea\nwrites programs\nAda works at Acme", tags=["person"])
    ]


def test_what_read_graph_answers_reads_the_same() -> None:
    graph = {"entities": [ADA], "relations": [WORKS]}
    (found,) = read_graph(graph)
    assert found == RawMemory(
        place="entity 1", key="Ada", content="likes tea\nwrites programs\nAda works at Acme", tags=["person"]
    )


def test_an_observation_that_is_known_is_not_added_again_however_many_there_are() -> None:
    (twice,) = read_lines(lines({**ADA, "observations": ["a", "a"]}, {**ADA, "observations": ["a", "b"]}))
    assert isinstance(twice, RawMemory)
    assert twice.content == "a\na\nb"

    def work(size: int) -> None:
        many = [{**ADA, "observations": [f"{place} {number}" for number in range(size)]} for place in "ab"]
        (found,) = read_lines(lines(*many))
        assert isinstance(found, RawMemory)
        assert str(found.content).count("\n") == 2 * size - 1

    assert grows_linearly(work, 50_000)


def test_an_entity_without_observations_still_has_a_content() -> None:
    (found,) = read_lines(lines({**ADA, "observations": []}))
    assert isinstance(found, RawMemory)
    assert found.content == "Ada: person"


def test_a_relation_of_an_entity_that_is_not_there_is_kept() -> None:
    (found,) = read_lines(lines(WORKS))
    assert found == RawMemory(place="line 1", key="Ada", content="Ada works at Acme", tags=[])


def test_entities_of_one_name_are_one_memory_without_repetition() -> None:
    (found,) = read_lines(lines(ADA, {**ADA, "observations": ["likes tea", "is tall"]}))
    assert isinstance(found, RawMemory)
    assert found.content == "likes tea\nwrites programs\nis tall"


@pytest.mark.parametrize(
    "record",
    [
        {"type": "other"},
        {"type": "entity", "name": "Ada"},
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": "tea"},
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": [1]},
        {"type": "entity", "name": None, "entityType": "person", "observations": []},
        {"type": "relation", "from": "Ada", "to": 1, "relationType": "knows"},
    ],
)
def test_a_line_that_is_neither_entity_nor_relation_is_refused_by_number(record: Any) -> None:
    assert list(read_lines(lines(record))) == [Rejected("line 1", "is neither an entity nor a relation")]


def test_a_damaged_line_is_refused_and_the_others_are_read() -> None:
    found = list(read_lines([TextLine(1, "{"), *lines(ADA)]))
    assert found[0] == Rejected("line 1", "not JSON (column 2)")
    assert isinstance(found[1], RawMemory)


def test_an_item_of_a_graph_that_is_no_object_is_refused() -> None:
    assert list(read_graph({"entities": [3], "relations": None})) == [
        Rejected("entity 1", "is neither an entity nor a relation")
    ]


def test_what_is_no_graph_is_refused() -> None:
    assert list(read_graph([ADA])) == [Rejected("file", "has neither entities nor relations")]


def test_a_list_that_is_none_is_refused_beside_one_that_is() -> None:
    relation = {"from": "Ada", "to": "Acme", "relationType": "works at"}
    refused, ada = read_graph({"entities": {"Ada": {}}, "relations": [relation]})
    assert refused == Rejected("entities", "is not a list")
    assert isinstance(ada, RawMemory)
    assert list(read_graph({"entities": None, "relations": []})) == []
