"""What a source is: whatever fills most of the file, told by the names of fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tidegate.errors import InvalidArgument
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.registry import IMPORTERS, open_source, recognise
from tidegate.transfer.importers.source_file import Clue, Document, Folder, Line, PlainText

GRAPH = {"source": "kim", "relationship": "likes", "target": "tea"}
ENTITY = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["x"]}
TEA = {"id": "1", "memory": "Likes tea", "user_id": "kim"}
BASIC = "---\ntitle: Tea\ntype: note\npermalink: drinks/tea\n---\n# Tea\n"


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"format": "tidegate-export", "level": "PUBLIC"}, Source.TIDEGATE),
        ({"key": "k", "content": "c"}, Source.TIDEGATE),
        ({"type": "entity", "name": "Ada"}, Source.MCP),
        ({"type": "relation"}, Source.MCP),
        ({"id": "1", "content": "c", "state": "active"}, Source.MEM0),
        ({"id": "1", "content": "c"}, None),
        ({"entities": []}, None),
        ([1], None),
        (None, None),
    ],
)
def test_a_line_is_told(value: Any, source: Source | None) -> None:
    assert recognise(Line(value)) is source


@pytest.mark.parametrize(
    ("value", "source"),
    [
        ({"entities": [], "relations": []}, Source.MCP),
        ({"relations": []}, Source.MCP),
        ({"results": [TEA], "relations": []}, Source.MEM0),
        ({"results": [TEA], "relations": [GRAPH]}, Source.MEM0),
        ({"results": [], "relations": []}, Source.MEM0),
        ({"results": [], "relations": [GRAPH]}, Source.MEM0),
        ({"relations": [GRAPH]}, Source.MEM0),
        ({"relations": [{"source": "kim", "relationship": "likes", "destination": "tea"}]}, Source.MEM0),
        ({"relations": [{"from": "a", "to": "b", "relationType": "r"}]}, Source.MCP),
        ({"id": "1", "user_id": "u", "conversations_memory": "x"}, Source.CLAUDE),
        ([{"content": "x"}, {"content": "y", "hash": "h"}], Source.MEM0),
        ([*({"content": "x"} for _ in range(9)), {"content": "y", "state": "active"}], Source.CHATGPT),
        ([{"title": "odd"}, TEA], Source.MEM0),
        ({"memories": [{"content": "x", "content_hash": "h", "tags": []}]}, Source.MEMORY_SERVICE),
        ({"results": [{"memory": {"content": "x", "content_hash": "h"}}]}, Source.MEMORY_SERVICE),
        ({"export_metadata": {}, "memories": []}, Source.MEMORY_SERVICE),
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
    assert recognise(Document(value)) is source


@pytest.mark.parametrize(
    ("clue", "source"),
    [
        (PlainText("plan.MD", "# Plan"), Source.MARKDOWN),
        (PlainText("plan.md", '{"key": '), Source.MARKDOWN),
        (PlainText("plan.md", BASIC), Source.BASIC_MEMORY),
        (PlainText("plan.md", BASIC.replace("permalink", "link")), Source.MARKDOWN),
        (PlainText("plan.md", f"# Text\n{BASIC}"), Source.MARKDOWN),
        (PlainText("plan.txt", BASIC), None),
        (PlainText("plan.txt", "[2024-05-01] - Lives in Oslo"), None),
    ],
)
def test_what_is_no_json_is_told_by_its_kind_and_name(clue: Clue, source: Source | None) -> None:
    assert recognise(clue) is source


def test_each_source_has_one_importer() -> None:
    assert sorted(each.name for each in IMPORTERS) == sorted(Source)


def sources(*lines: str, path: Path, name: str = "source") -> Source:
    (path / name).write_text("".join(f"{line}\n" for line in lines))
    return open_source(path / name).source


@pytest.mark.parametrize("damaged", ["{", '{"id": ', "\ufffd", "[1,", "{}{}", '{"a": 1, "a": 2}', "3", "not json"])
def test_a_damaged_first_line_does_not_decide(tmp_path: Path, damaged: str) -> None:
    export = json.dumps({"key": "k", "content": "c"})
    assert sources(damaged, json.dumps(TEA), json.dumps(TEA), path=tmp_path) is Source.MEM0
    assert sources(damaged, json.dumps(ENTITY), path=tmp_path) is Source.MCP
    assert sources(damaged, export, path=tmp_path) is Source.TIDEGATE
    assert sources(damaged, json.dumps(ENTITY), export, export, path=tmp_path) is Source.TIDEGATE
    found = list(open_source(tmp_path / "source").read())
    assert [isinstance(each, Rejected) for each in found] == [True, True, False, False]


def test_a_note_with_a_line_of_json_in_it_is_a_note(tmp_path: Path) -> None:
    line = json.dumps({"key": "k", "content": "c"})
    assert sources("# Format", "Each line is", line, "and no more.", path=tmp_path, name="n.md") is Source.MARKDOWN
    assert sources('{"title": "x"}', "body", path=tmp_path, name="n.md") is Source.MARKDOWN
    assert sources("{{title}}", "body", path=tmp_path, name="n.md") is Source.MARKDOWN
    with pytest.raises(InvalidArgument, match="its format is not recognised"):
        sources("Each line is", "so:", line, path=tmp_path)


def test_a_line_of_a_document_is_not_a_file_of_lines(tmp_path: Path) -> None:
    text = json.dumps({"results": [TEA, TEA]}, indent=0)
    assert sources(text, path=tmp_path) is Source.MEM0
    assert sources("[", json.dumps(TEA), ",", json.dumps(TEA), "]", path=tmp_path) is Source.MEM0
    assert [each.place for each in open_source(tmp_path / "source").read()] == ["entry 1", "entry 2"]


def test_a_folder_is_of_basic_memory_if_one_note_is(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A")
    assert recognise(Folder(tmp_path)) is Source.MARKDOWN
    (tmp_path / "b.md").write_text(BASIC)
    assert recognise(Folder(tmp_path)) is Source.BASIC_MEMORY


def test_a_file_too_long_for_one_document_is_told_by_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.files.DOCUMENT_BYTES_MAX", 20)
    assert sources("{", json.dumps(TEA), json.dumps(TEA), path=tmp_path) is Source.MEM0


def test_both_lists_of_a_document_are_read(tmp_path: Path) -> None:
    (tmp_path / "source").write_text(json.dumps({"results": [], "memories": [TEA], "relations": [GRAPH]}))
    opened = open_source(tmp_path / "source")
    memory, graph = opened.read()
    assert (opened.detected, isinstance(memory, RawMemory)) == (True, True)
    assert graph == Rejected("relations", "mem0 derived them from the memories; they are left out", refused=False)
    assert not open_source(tmp_path / "source", Source.MEM0).detected
