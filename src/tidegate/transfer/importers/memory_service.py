"""mcp-memory-service: the JSON that its exporter, its dashboard or its HTTP interface writes."""

from __future__ import annotations

from typing import Any

from tidegate.transfer.importers.labels import highest, label_beside, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for
from tidegate.transfer.importers.source_file import (
    OWN,
    Clue,
    Document,
    Memories,
    Read,
    SourceFile,
    entries_in,
    json_of,
    read_document,
)

_LISTS = ("memories", "results")
_HASH, _HEADING = "content_hash", "export_metadata"
_EXPECTED = "has no memories of mcp-memory-service; expected a list, or a list in `memories`"
_USUAL_TYPE = "note"


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to mcp-memory-service: its heading, and entries with a hash of their content."""
    if not isinstance(clue, Document):
        return 0
    heading = isinstance(clue.value, dict) and {_HEADING, "memories"} <= clue.value.keys()
    entries = [_inner(each) for each in entries_in(clue.value, _LISTS)]
    return OWN * (heading + sum(isinstance(each, dict) and _HASH in each for each in entries))


def reader(file: SourceFile) -> Read:
    """Return a reader of such a document."""
    return lambda: read_document(file, read_memories, lists=_LISTS, expected=_EXPECTED)


def read_memories(document: object) -> Memories:
    """Yield the memories of a list, or of an object with a list of `memories` or `results`."""
    label = label_beside(document, _LISTS)
    for number, item in enumerate(entries_in(document, _LISTS), 1):
        yield _memory(f"entry {number}", _inner(item), highest((label, label_in(item))))


def _inner(item: object) -> object:
    """Return the memory in an entry: a search's results have it beside its score."""
    return item["memory"] if isinstance(item, dict) and isinstance(item.get("memory"), dict) else item


def _memory(place: str, item: object, label: object) -> RawMemory | Rejected:
    if not isinstance(item, dict):
        return Rejected(place, "is not a memory")
    if item.get("deleted_at") is not None:
        return Rejected(place, "was deleted at the source", refused=False)
    content, tags = item.get("content"), _tags(item)
    return RawMemory(
        place=place,
        key=key_for(Source.MEMORY_SERVICE, str(content)),
        content=content,
        tags=tags,
        label=label,
        created_at=first_of(item, "created_at", "created_at_iso"),
        updated_at=first_of(item, "updated_at", "updated_at_iso"),
    )


def _tags(item: dict[str, Any]) -> list[object]:
    """Return the tags of a list, of its JSON, or of a text with commas between them, and an unusual type."""
    tags, kind = item.get("tags"), item.get("memory_type")
    if isinstance(tags, str):
        listed = json_of(tags)
        tags = listed if isinstance(listed, list) else [tag for tag in map(str.strip, tags.split(",")) if tag]
    found = list(tags) if isinstance(tags, list) else [tags] if tags is not None else []
    return [*found, kind] if kind and kind != _USUAL_TYPE else found
