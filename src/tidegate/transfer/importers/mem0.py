"""mem0: the answer of `get_all`, an export of its platform, or the files of an OpenMemory backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.files import TextLine
from tidegate.transfer.importers import claude
from tidegate.transfer.importers.labels import highest, label_beside, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for
from tidegate.transfer.importers.source_file import (
    Clue,
    Document,
    FirstLine,
    Memories,
    Read,
    SourceFile,
    first_entry,
    object_of,
    read_document,
)

_FIELDS = frozenset({"memory", "user_id", "hash", "state", "categories", "category_ids"})
_LISTS = ("results", "memories")
_EXPECTED = "has no mem0 memories; expected a list, a list in `results` or `memories`, or one memory a line"


def sniff(clue: Clue) -> bool:
    """Return whether a clue shows mem0's memories: an entry with one of its fields; on a line, also with an id."""
    match clue:
        case FirstLine({"id": _} as entry):
            return _is_entry(entry) and not claude.sniff(Document(entry))  # Claude's accounts may have such fields
        case Document(value):
            return _is_entry(first_entry(value))
    return False


def reader(file: SourceFile) -> Read:
    """Return a reader of mem0's memories."""
    if file.in_lines():
        return lambda: read_lines(file.lines())
    return lambda: read_document(file, read_entries, lists=_LISTS, expected=_EXPECTED)


def read_lines(lines: Iterable[TextLine]) -> Memories:
    """Yield the memories of a `memories.jsonl`: one object per line."""
    for line in lines:
        item = object_of(line)
        yield item if isinstance(item, Rejected) else _memory(line.place, item, {}, None)


def read_entries(document: object) -> Memories:
    """Yield the memories of a list, or of an object with a list of `results` or `memories`."""
    names: dict[object, object] = {}
    items = document
    if isinstance(document, dict):
        items = first_of(document, *_LISTS)
        categories = document.get("categories")
        known = [each for each in categories if isinstance(each, dict)] if isinstance(categories, list) else []
        names = {str(each.get("id")): each.get("name") for each in known}
    label = label_beside(document, _LISTS)
    for number, item in enumerate(items if isinstance(items, list) else (), 1):
        yield _memory(f"entry {number}", item, names, label)


def _is_entry(item: object) -> bool:
    return isinstance(item, dict) and bool(_FIELDS & item.keys())


def _memory(place: str, item: object, names: Mapping[object, object], label: object) -> RawMemory | Rejected:
    if not isinstance(item, dict):
        return Rejected(place, "is not a memory")
    if item.get("state") == "deleted" or item.get("deleted_at") is not None:
        return Rejected(place, "was deleted at the source", refused=False)
    content = first_of(item, "memory", "content", "text", "data")
    identity = item.get("id")
    return RawMemory(
        place=place,
        key=f"mem0-{identity}" if isinstance(identity, str | int) else key_for(Source.MEM0, str(content)),
        content=content,
        tags=_tags(item, names),
        label=highest((label, label_in(item))),
        created_at=item.get("created_at"),
        updated_at=item.get("updated_at"),
    )


def _tags(item: Mapping[str, Any], names: Mapping[object, object]) -> list[object]:
    categories, ids = item.get("categories"), item.get("category_ids")
    tags = list(categories) if isinstance(categories, list) else []
    tags += [names.get(each, each) if isinstance(each, str) else each for each in ids] if isinstance(ids, list) else []
    return tags if item.get("state") in (None, "active") else [*tags, item["state"]]
