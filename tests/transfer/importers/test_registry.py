"""Sources: told apart by what is in them, never left, never changed; one that is not there is an error."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.scene import AGENT, Open, Scene

from tidegate.errors import InvalidArgument, LimitExceeded
from tidegate.policy.levels import Level
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.registry import open_source

ENTITY = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea"]}
PRINTED = "## Identity\n[2024-05-01] - Lives in Oslo\n"
SECTIONS = "**Work**\n\nBuilds boats.\n\n**Home**\n\nHas cats.\n"
PRETTY = json.dumps({"results": [{"id": "1", "memory": "likes tea"}]}, indent=2)


def found(path: Path, source: Source | None = None, agent: str | None = None) -> list[RawMemory | Rejected]:
    return list(open_source(path, source, agent).read())


def pairs(path: Path, source: Source | None = None) -> list[tuple[object, object]]:
    return [(each.key, each.content) for each in found(path, source) if isinstance(each, RawMemory)]


@pytest.fixture
def put(tmp_path: Path) -> Any:
    def write(content: str | bytes | object, name: str = "source") -> Path:
        path = tmp_path / name
        if not isinstance(content, str | bytes):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    ("content", "name", "source"),
    [
        ({"format": "tidegate-export", "level": "PUBLIC"}, "x", Source.TIDEGATE),
        ({"key": "k", "content": "c"}, "x", Source.TIDEGATE),
        ('{"key": "k"\n{"key": "k", "content": "c"}\n', "x", Source.TIDEGATE),
        (ENTITY, "memory.json", Source.MCP),
        ({"entities": [ENTITY], "relations": []}, "x", Source.MCP),
        (PRETTY, "x", Source.MEM0),
        ('{"id": "1", "content": "c", "state": "active"}\n{"id": "2"}\n', "memories.jsonl", Source.MEM0),
        ([{"content": "Lives in Oslo", "enabled": True}], "memory.json", Source.CHATGPT),
        ([{"conversations_memory": SECTIONS}], "memories.json", Source.CLAUDE),
        ("# Plan\n", "plan.md", Source.MARKDOWN),
        (PRINTED, "plan.MD", Source.MARKDOWN),
    ],
)
def test_a_file_is_told_by_what_is_in_it(put: Any, content: Any, name: str, source: Source) -> None:
    assert open_source(put(content, name)).source is source


@pytest.mark.parametrize(
    "content",
    [
        "some text\n",
        [{"title": "t", "map": {}}],
        {"a": 1},
        "[1, 2",
        "\n\n",
        "[]",
        "3",
        "[x] a task\n",
        PRINTED,
        SECTIONS,
    ],
)
def test_what_cannot_be_told_is_asked_for(put: Any, content: Any) -> None:
    with pytest.raises(
        InvalidArgument, match="file: its format is not recognised; name it with --from: tidegate, mcp, mcp-"
    ):
        open_source(put(content))


def test_each_kind_can_be_read_in_each_of_its_forms(put: Any) -> None:
    ada = [("Ada", "likes tea")]
    assert pairs(put(ENTITY)) == pairs(put({"entities": [ENTITY]}, "g")) == ada
    assert pairs(put(json.dumps({"entities": [ENTITY]}, indent=1)), Source.MCP) == ada
    tea = [("mem0-1", "likes tea")]
    assert pairs(put(PRETTY)) == pairs(put({"id": "1", "memory": "likes tea"})) == tea
    assert pairs(put([{"id": "1", "memory": "likes tea"}]), Source.MEM0) == tea
    oslo = [("chatgpt-m", "Lives in Oslo")]
    assert pairs(put([{"id": "m", "content": "Lives in Oslo"}])) == oslo
    sections = [("claude-work", "Builds boats."), ("claude-home", "Has cats.")]
    assert pairs(put([{"conversations_memory": SECTIONS}])) == sections
    assert pairs(put("text", "note.txt"), Source.MARKDOWN) == [("note.txt", "text")]


def test_a_file_that_is_not_what_the_owner_says_is_refused_by_line(put: Any) -> None:
    assert found(put("text"), Source.MCP) == [Rejected("line 1", "not JSON (column 1)")]
    assert found(put("text"), Source.TIDEGATE) == [Rejected("line 1", "not JSON (column 1)")]


@pytest.mark.parametrize("source", [Source.CHATGPT, Source.CLAUDE])
@pytest.mark.parametrize("text", [PRINTED, SECTIONS, "- One\n- Two\n"])
def test_a_printed_list_of_a_chat_service_is_refused(put: Any, source: Source, text: str) -> None:
    with pytest.raises(InvalidArgument, match=r"file: has no .* memories"):
        found(put(text), source)


@pytest.mark.parametrize("content", [{"a": 1}, {"entities": 3, "results": "x"}])
@pytest.mark.parametrize(
    ("source", "expected"),
    [(Source.MCP, "is not a graph"), (Source.MEM0, "no mem0 memories"), (Source.CHATGPT, "no ChatGPT memories")],
)
def test_a_document_of_another_kind_is_an_error_that_says_what_was_expected(
    put: Any, content: Any, source: Source, expected: str
) -> None:
    with pytest.raises(InvalidArgument, match=f"file: .*{expected}"):
        found(put(content), source)


def test_what_holds_nothing_of_its_kind_is_an_error(put: Any, tmp_path: Path) -> None:
    for content in ({"entities": [ENTITY]}, json.dumps(ENTITY) + "\n" + json.dumps(ENTITY)):
        with pytest.raises(InvalidArgument, match="file: has no Claude memories; expected"):
            found(put(content), Source.CLAUDE)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InvalidArgument, match=r"file: has no notes; their names must end in \.md or \.markdown"):
        found(tmp_path / "folder")
    with pytest.raises(InvalidArgument, match="file: has no memories of that Triggerfish agent"):
        found(store(tmp_path / "t.db", row("PUBLIC", "k", "x", "a")), agent="b")


@pytest.mark.parametrize(
    ("names", "named"),
    [
        (["memory.json"], "memory.json"),
        (["user.json", "conversations.json", "memories.JSONL", "x.txt"], "memories.JSONL"),
        (["a.json", "b.jsonl", "conversations.json"], "a.json, b.jsonl or conversations.json"),
        (["a.json", "b.json", "c.json", "d.json"], "a.json, b.json or c.json"),
    ],
)
def test_a_folder_without_notes_names_the_file_to_import(tmp_path: Path, names: list[str], named: str) -> None:
    for name in names:
        (tmp_path / name).touch()
    with pytest.raises(InvalidArgument, match=f"must end in .*; if its memories are in {named}, import that file$"):
        found(tmp_path)


@pytest.mark.parametrize("source", [None, Source.CHATGPT, Source.CLAUDE])
@pytest.mark.parametrize(
    "conversation",
    [
        {"title": "Tea", "create_time": 1.5, "mapping": {"a": {"message": {"content": {"parts": ["x"]}}}}},
        {"uuid": "u", "name": "Tea", "chat_messages": [{"text": "x", "content": []}]},
    ],
    ids=["chatgpt", "claude"],
)
def test_conversations_are_not_memories_and_the_error_names_the_file(
    put: Any, conversation: object, source: Source | None
) -> None:
    for document in ([conversation], {"conversations": [conversation]}):
        with pytest.raises(InvalidArgument, match=r"file: conversations are not memories; import memory\.json"):
            found(put(document, "conversations.json"), source)


def test_what_is_of_its_kind_and_empty_holds_no_memories(put: Any) -> None:
    assert found(put({"entities": [], "relations": []}), Source.MCP) == []
    assert found(put([]), Source.MEM0) == found(put({"results": []}), Source.MEM0) == []
    assert found(put({"conversations_memory": ""}), Source.CLAUDE) == []
    assert found(put({"format": "tidegate-export", "version": 1, "level": "PUBLIC"})) == []


@pytest.mark.parametrize("start", [b"PK\x03\x04", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"])
def test_an_archive_is_refused_with_advice(put: Any, start: bytes) -> None:
    with pytest.raises(InvalidArgument, match="is an archive; unpack it"):
        open_source(put(start + b"rest of it, long enough"))


def test_an_empty_file_is_refused(put: Any) -> None:
    with pytest.raises(InvalidArgument, match="is empty"):
        open_source(put(b""))


def test_a_document_of_any_size_is_not_read(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.files.DOCUMENT_BYTES_MAX", 20)
    with pytest.raises(LimitExceeded, match="21 bytes; the limit for a file of this kind is 20"):
        open_source(put("[" * 21))


def test_a_text_in_neither_encoding_is_refused(put: Any) -> None:
    with pytest.raises(InvalidArgument, match="is neither UTF-8 nor UTF-16"):
        found(put(b"text \xff", "note.md"))
    assert pairs(put(PRETTY.encode("utf-16"))) == pairs(put(PRETTY))


# What is not there


@pytest.mark.parametrize("name", ["none.jsonl", "none/none", "", "a\0b", "source/x"])
def test_d16_a_source_that_is_not_there_is_an_error(put: Any, tmp_path: Path, name: str) -> None:
    put("x")
    with pytest.raises(InvalidArgument, match="file: "):
        open_source(f"{tmp_path}/{name}" if name else "")


def test_d16_a_source_that_vanishes_deletes_nothing(scene: Scene) -> None:
    notes = scene.folder / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("A")
    (notes / "b.md").write_text("B")
    assert scene.take(notes).counts == (2, 0, 0, 0, 0)
    before = scene.export()
    (notes / "b.md").unlink()
    assert scene.take(notes).counts == (0, 0, 1, 0, 0)
    notes.rename(scene.folder / "elsewhere")
    with pytest.raises(InvalidArgument, match="file: does not exist or cannot be read; nothing was changed"):
        scene.take(notes)
    assert scene.export() == before


def test_a_pipe_is_found_out_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidArgument, match="is not a plain file"):
        open_source(tmp_path / "pipe")


def test_a_file_that_fails_while_it_is_read_is_an_error(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put("[" * 20)

    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("tidegate.files.decode", fail)
    with pytest.raises(InvalidArgument, match="does not exist or cannot be read"):
        open_source(path)


# Folders of notes


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "b.md").write_text("B")
    (folder / "a.markdown").write_text("A")
    (folder / "deep" / "c.MD").write_text("C")
    (folder / "deep" / "er" / "d.md").write_text("D")
    (folder / "deep" / "image.png").write_bytes(b"\x89PNG")
    return folder


def test_the_notes_of_a_folder_are_keyed_by_their_paths(notes: Path) -> None:
    assert open_source(notes).source is Source.MARKDOWN
    assert pairs(notes) == [("a", "A"), ("b", "B"), ("deep/c", "C"), ("deep/er/d", "D")]


def test_what_is_hidden_is_not_read(notes: Path) -> None:
    for name in (".trash", ".git", "node_modules", "venv", "deep/site-packages"):
        (notes / name / "x").mkdir(parents=True)
        (notes / name / "x" / "gone.md").write_text("X")
    (notes / ".draft.md").write_text("X")
    assert len(found(notes)) == 4


def test_i11_no_link_is_followed_out_of_the_folder_or_within_it(notes: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.md").write_text("SECRET")
    (notes / "link.md").symlink_to(outside / "secret.md")
    (notes / "inner.md").symlink_to(notes / "b.md")
    (notes / "folder").symlink_to(outside)
    (notes / "loop").symlink_to(notes)
    unread = [each for each in found(notes) if isinstance(each, Rejected)]
    assert {(each.place, each.reason) for each in unread} == {
        ("link.md", "is a link; links are not followed"),
        ("inner.md", "is a link; links are not followed"),
    }
    assert "SECRET" not in repr(found(notes))


def test_what_is_no_note_under_a_notes_name_is_refused(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.transfer.importers.markdown.NOTE_BYTES_MAX", 3)
    os.mkfifo(notes / "pipe.md")
    (notes / "long.md").write_text("long")
    (notes / "bytes.md").write_bytes(b"\xff\xfe\x00")
    reasons = {each.place: each.reason for each in found(notes) if isinstance(each, Rejected)}
    assert reasons == {
        "pipe.md": "is not a plain file",
        "long.md": "is longer than 3 bytes",
        "bytes.md": "is neither UTF-8 nor UTF-16",
    }


def forbid(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Have the system open no file or folder of this name."""
    honest = os.open

    def fail(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if path == name:
            raise PermissionError
        return honest(path, flags, *args, **kwargs)

    monkeypatch.setattr("os.open", fail)


def test_a_note_or_folder_that_cannot_be_read_is_told(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, "b.md")
    assert [each for each in found(notes) if isinstance(each, Rejected)] == [Rejected("b.md", "cannot be read")]


def test_a_folder_that_cannot_be_entered_is_an_error(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forbid(monkeypatch, "deep")
    with pytest.raises(InvalidArgument, match="a folder cannot be read; nothing was changed"):
        found(notes)


def test_the_folder_itself_may_be_named_by_a_link(notes: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(notes)
    assert pairs(tmp_path / "link") == [("a", "A"), ("b", "B"), ("deep/c", "C"), ("deep/er/d", "D")]


def test_i11_keys_that_look_like_paths_are_stored_as_they_are_and_name_no_file(scene: Scene) -> None:
    odd = ["../x", "..\\x", "/etc/x", "C:\\x", "%2e%2e%2fx", "a/../../x", "~/x", "con", "nul.txt"]
    path = scene.lines(*({"key": key, "content": "c"} for key in [*odd, "a\0b", "k" * 300]))
    taken = scene.take(path)
    assert taken.counts == (len(odd), 0, 0, 0, 2)
    scene.store.transfer(AGENT).export_to(scene.folder / "out.jsonl", Level.PUBLIC)
    assert {each["key"] for each in scene.export()[1:]} == set(odd)
    assert {entry.name for entry in scene.folder.iterdir()} == {"source.jsonl", "out.jsonl"}


def test_a_note_labelled_higher_is_refused_by_its_path(scene: Scene) -> None:
    notes = scene.folder / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("---\nclassification: RESTRICTED\ntags: [x]\n---\nCANARY")
    taken = scene.take(notes, Level.INTERNAL)
    higher = "is higher than INTERNAL, the level of this import; to import it, use `--level RESTRICTED`"
    assert taken.said == [f"refused: a.md: classification: {higher}"]


def test_one_note_is_named_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("A")
    (note,) = found(tmp_path / "a.md")
    assert note.place == "a.md"


def test_a_folder_is_taken_for_nothing_but_notes(notes: Path) -> None:
    with pytest.raises(InvalidArgument, match="is a folder; only notes are imported"):
        open_source(notes, Source.CLAUDE)


# Triggerfish


def store(path: Path, *rows: tuple[str, object], table: str = "kv") -> Path:
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.execute(f"CREATE TABLE {table} (key TEXT PRIMARY KEY, value TEXT NOT NULL)")
    connection.executemany(f"INSERT INTO {table} VALUES (?, ?)", rows)
    connection.close()
    return path


def row(level: str, key: str, content: str, agent: str = "main", **fields: Any) -> tuple[str, str]:
    value = {"key": key, "agentId": agent, "classification": level, "content": content, "tags": ["t"], **fields}
    return f"memory:{agent}:{level}:{key}", json.dumps(value)


def test_triggerfish_rows_are_imported_up_to_the_level_and_refused_by_row_above(scene: Scene) -> None:
    path = store(
        scene.folder / "triggerfish.db",
        row("PUBLIC", "a:b", "low", updatedAt="2025-01-02T03:04:05.678Z"),
        row("INTERNAL", "plan", "own"),
        row("CONFIDENTIAL", "code", "CANARY"),
        row("SECRET", "odd", "CANARY"),
        row("PUBLIC", "gone", "x", expired=True),
        ("session:1", "{}"),
        ("memory", "{}"),
    )
    before = path.read_bytes()
    taken = scene.take(path, Level.INTERNAL)
    assert taken.done.source is Source.TRIGGERFISH
    assert taken.said == [
        "refused: row 1: classification: is higher than INTERNAL, the level of this import; to import it, "
        "use `--level CONFIDENTIAL`",
        "note: row 4: was deleted at the source",
        "refused: row 5: classification: must be PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED",
    ]
    lines = {each["key"]: each for each in scene.export(Level.INTERNAL)[1:]}
    assert {key: (each["content"], each["classification"], each["tags"]) for key, each in lines.items()} == {
        "a:b": ("low", "INTERNAL", ["t"]),
        "plan": ("own", "INTERNAL", ["t"]),
    }
    assert lines["a:b"]["updated_at"] == "2025-01-02T03:04:05.678000Z"
    assert path.read_bytes() == before
    assert scene.take(path, Level.INTERNAL).counts == (0, 0, 2, 1, 2)


def test_triggerfish_levels_can_be_moved_one_by_one(scene: Scene) -> None:
    path = store(scene.folder / "t.db", *(row(str(level), "k", f"at {level}") for level in Level))
    for level in Level:
        scene.take(path, level, exact=True)
    assert [(each["classification"], each["content"]) for each in scene.export(Level.RESTRICTED)[1:]] == [
        (str(level), f"at {level}") for level in Level
    ]


def test_p6_of_several_agents_one_must_be_chosen(opening: Open) -> None:
    scene = opening()
    path = store(scene.folder / "t.db", row("PUBLIC", "k", "of a", "a"), row("PUBLIC", "k", "of b", "b"))
    with pytest.raises(InvalidArgument, match="has memories of several agents; choose one with --source-agent: a, b"):
        scene.take(path)
    scene.take(path, source_agent="b")
    assert scene.content("k") == "of b"
    with pytest.raises(InvalidArgument, match="no memories of that Triggerfish agent"):
        scene.take(path, source_agent="c")


def test_rows_that_are_not_utf_8_are_refused_and_the_others_imported(scene: Scene) -> None:
    path = store(scene.folder / "t.db", row("PUBLIC", "a", "low"), row("PUBLIC", "c", "low"))
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO kv VALUES ('memory:main:PUBLIC:b', CAST(x'ff' AS TEXT))")
    connection.execute("INSERT INTO kv VALUES (CAST(x'6d656d6f72793aff' AS TEXT), '{}')")
    connection.close()
    taken = scene.take(path)
    assert taken.said == ["refused: row 2: is not UTF-8", "refused: row 4: is not UTF-8"]
    assert taken.counts == (2, 0, 0, 0, 2)


def test_many_agents_of_a_file_do_not_make_a_long_message(tmp_path: Path) -> None:
    path = store(tmp_path / "t.db", *(row("PUBLIC", "k", "x", f"{number:05}{'a' * 1000}") for number in range(1000)))
    with pytest.raises(InvalidArgument, match=r"00009a+, and 990 more$") as caught:
        open_source(path)
    assert len(str(caught.value)) < 1000


def test_mem0_entries_with_odd_categories_are_refused_alone(scene: Scene) -> None:
    odd = {"id": "m2", "memory": "x", "category_ids": [{}]}
    taken = scene.take(scene.file(json.dumps([{"id": "m1", "memory": "x"}, odd]), "m.json"), source=Source.MEM0)
    assert taken.said == ["refused: entry 2: tags: each must be a string"]
    assert taken.counts == (1, 0, 0, 0, 1)


def test_a_database_of_another_kind_is_refused(tmp_path: Path, put: Any) -> None:
    with pytest.raises(InvalidArgument, match="has no table of keys and values"):
        open_source(store(tmp_path / "other.db", table="items"))
    with pytest.raises(InvalidArgument, match="no memories of that Triggerfish agent"):
        found(store(tmp_path / "empty.db"))
    with pytest.raises(InvalidArgument, match="is a database; only Triggerfish"):
        open_source(tmp_path / "empty.db", Source.MEM0)
    with pytest.raises(InvalidArgument, match="cannot be read as a database"):
        open_source(put(b"SQLite format 3\0" + b"x" * 2_000))
    with pytest.raises(InvalidArgument, match="cannot be read as a database"):
        open_source(put("text that is long enough"), Source.TRIGGERFISH)


def test_a_database_is_read_without_a_trace_and_also_while_it_is_in_use(tmp_path: Path) -> None:
    path = store(tmp_path / "t.db", row("PUBLIC", "a", "x"))
    assert len(found(path)) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["t.db"]
    user = apsw.Connection(str(path))
    user.execute("INSERT INTO kv VALUES (?, ?)", row("PUBLIC", "b", "y"))
    assert len(found(path)) == 2
    user.close()
    assert len(found(path)) == 2


def test_i13_a_database_is_opened_by_path_and_never_by_uri(tmp_path: Path) -> None:
    path = store(tmp_path / "file:a?mode=rwc#b", row("PUBLIC", "k", "c"))
    assert [each.place for each in found(path)] == ["row 1"]
    assert [entry.name for entry in tmp_path.iterdir() if "file:a?mode=rwc#b" not in entry.name] == []
