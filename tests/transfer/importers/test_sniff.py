"""What a source is, told by the names of its fields."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importers.registry import IMPORTERS, recognise
from tidegate.transfer.importers.source_file import Clue, Database, Document, FirstLine, Folder, PlainText


def source_of(clue: Clue) -> Source | None:
    importer = recognise(clue)
    return importer.name if importer else None


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"format": "tidegate-export", "level": "PUBLIC"}, Source.TIDEGATE),
        ({"key": "k", "content": "c"}, Source.TIDEGATE),
        ({"type": "entity", "name": "Ada"}, Source.MCP),
        ({"type": "relation"}, Source.MCP),
        ({"id": "1", "content": "c", "state": "active"}, Source.MEM0),
        ({"id": "1", "content": "c"}, None),
        ({"id": "1", "user_id": "u", "conversations_memory": "x"}, None),
        ({"entities": []}, None),
        ([1], None),
        (None, None),
    ],
)
def test_a_line_is_told(value: Any, source: Source | None) -> None:
    assert source_of(FirstLine(value)) is source


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"entities": [], "relations": []}, Source.MCP),
        ({"relations": []}, Source.MCP),
        ([{"conversations_memory": "x", "account_uuid": "a"}], Source.CLAUDE),
        ({"project_memories": {}}, Source.CLAUDE),
        ([{"id": "1", "memory": "x"}], Source.MEM0),
        ({"results": [{"id": "1", "memory": "x", "hash": "h"}]}, Source.MEM0),
        ({"memories": [{"content": "x", "state": "active"}], "categories": []}, Source.MEM0),
        ({"memories": [{"content": "x", "enabled": True}]}, Source.CHATGPT),
        ([{"content": "x", "created_at": "2024-01-01"}], Source.CHATGPT),
        (["x"], Source.CHATGPT),
        ([{"title": "t", "mapping": {}}], None),
        ([3], None),
        ([], None),
        ({"results": [], "memories": []}, None),
        (3, None),
    ],
)
def test_a_document_is_told(value: Any, source: Source | None) -> None:
    assert source_of(Document(value)) is source


@pytest.mark.parametrize(
    ("clue", "source"),
    [
        (Folder(), Source.MARKDOWN),
        (Database(), Source.TRIGGERFISH),
        (PlainText("plan.MD", "# Plan"), Source.MARKDOWN),
        (PlainText("plan.md", '{"key": '), Source.TIDEGATE),
        (PlainText("plan.txt", "[2024-05-01] - Lives in Oslo"), None),
    ],
)
def test_what_is_no_json_is_told_by_its_kind_and_name(clue: Clue, source: Source | None) -> None:
    assert source_of(clue) is source


def test_each_source_has_one_importer() -> None:
    assert sorted(each.name for each in IMPORTERS) == sorted(Source)
