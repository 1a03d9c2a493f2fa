"""mcp-memory-service: its export, its dashboard's, and what its HTTP interface answers."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.transfer.importers.labels import UNREADABLE
from tidegate.transfer.importers.memory_service import read_memories
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

ENTRY: dict[str, Any] = {
    "content": "The boat leaves at nine.",
    "content_hash": "6f1ed002ab5595859014ebf0951522d9",
    "tags": ["travel", "boat"],
    "created_at": 1714557600.25,
    "updated_at": 1714644000.5,
    "memory_type": "fact",
    "metadata": {"source": "laptop"},
    "export_source": "laptop",
}
EXPORT = {
    "export_metadata": {"source_machine": "laptop", "total_memories": 1, "exporter_version": "5.0.1"},
    "memories": [ENTRY],
}


def only(entry: object) -> RawMemory:
    (found,) = read_memories({"memories": [entry]})
    assert isinstance(found, RawMemory)
    return found


def test_an_export_gives_texts_tags_types_and_times() -> None:
    (found,) = read_memories(EXPORT)
    assert isinstance(found, RawMemory)
    assert str(found.key).startswith("mcp-memory-service-the-boat-leaves-at-nine-")
    assert (found.content, found.tags, found.label) == (ENTRY["content"], ["travel", "boat", "fact"], None)
    assert (found.created_at, found.updated_at) == (1714557600.25, 1714644000.5)


def test_a_list_and_the_results_of_a_search_read_the_same() -> None:
    expected = list(read_memories(EXPORT))
    assert list(read_memories([ENTRY])) == expected
    assert list(read_memories({"results": [{"memory": ENTRY, "similarity_score": 0.9}], "query": "boat"})) == expected


def test_the_usual_type_is_no_tag_and_tags_may_be_one_text() -> None:
    assert only({**ENTRY, "tags": " a, b,, ", "memory_type": "note"}).tags == ["a", "b"]
    assert only({**ENTRY, "tags": '["a", "b"]', "memory_type": "note"}).tags == ["a", "b"]
    assert only({**ENTRY, "tags": None, "memory_type": None}).tags == []
    assert only({**ENTRY, "tags": 5}).tags == [5, "fact"]  # the import refuses it


def test_a_time_may_be_there_as_text_alone() -> None:
    found = only({"content": "x", "content_hash": "h", "created_at_iso": "2024-05-01T10:00:00Z"})
    assert (found.created_at, found.updated_at) == ("2024-05-01T10:00:00Z", None)


@pytest.mark.parametrize(
    ("extra", "label"),
    [
        ({"metadata": {"classification": "RESTRICTED"}}, "RESTRICTED"),
        ({"metadata": {"deep": [{"Security-Level": "internal"}]}}, "INTERNAL"),
        ({"metadata": '{"classification": "RESTRICTED"}'}, "RESTRICTED"),
        ({"metadata": "no JSON"}, None),
        ({"tags": ["classification:restricted"]}, "RESTRICTED"),
        ({"tags": "a, proj:level:Confidential"}, "CONFIDENTIAL"),
        ({"tags": ["topic:restricted", "level:beginner", 5]}, None),
        ({"tags": ["classification:secret"]}, UNREADABLE),
        ({"classification": "secret"}, UNREADABLE),
    ],
)
def test_p10_a_label_in_metadata_or_tags_counts(extra: dict[str, Any], label: object) -> None:
    assert only({**ENTRY, **extra}).label == label


def test_p10_a_label_of_the_export_or_beside_a_result_counts_for_its_memories() -> None:
    (found,) = read_memories({**EXPORT, "export_metadata": {"classification": "INTERNAL"}})
    assert isinstance(found, RawMemory)
    assert found.label == "INTERNAL"
    assert only({"memory": ENTRY, "level": "RESTRICTED"}).label == "RESTRICTED"


def test_what_is_no_memory_is_refused_and_what_was_deleted_stays_so() -> None:
    assert list(read_memories(["x", {**ENTRY, "deleted_at": 1714557600.0}])) == [
        Rejected("entry 1", "is not a memory"),
        Rejected("entry 2", "was deleted at the source", refused=False),
    ]
