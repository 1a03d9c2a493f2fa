"""mem0: the answer of `get_all`, an export of its platform, or the files of an OpenMemory backup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.files import TextLine
from tidegate.transfer.importers.labels import highest, label_beside, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for
from tidegate.transfer.importers.source_file import (
    OWN,
    Clue,
    Document,
    Line,
    Memories,
    Read,
    SourceFile,
    entries_in,
    object_of,
    read_document,
)

_FIELDS = frozenset({"memory", "user_id", "hash", "state", "categories", "category_ids"})
_LISTS = ("results", "memories")
_RELATIONS = "relations"
_ENDS = frozenset({"target", "destination"})
_EXPECTED = "has no mem0 memories; expected a list, a list in `results` or `memories`, or one memory a line"


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to mem0: entries with one of its fields, on a line also an id; graph relations."""
    match clue:
        case Line({"id": _} as entry):
            return OWN * _is_entry(entry)
        case Document(value):
            known = [*filter(_is_entry, entries_in(value, _LISTS)), *filter(_is_relation, _relations(value))]
            with_graph = isinstance(value, dict) and isinstance(value.get("results"), list) and _RELATIONS in value
            return OWN * len(known) + OWN * with_graph
    return 0


def reader(file: SourceFile) -> Read:
    """Return a reader of mem0's memories."""
    if file.in_lines:
        return lambda: read_lines(file.lines())
    return lambda: read_document(file, read_entries, lists=(*_LISTS, _RELATIONS), expected=_EXPECTED)


def read_lines(lines: Iterable[TextLine]) -> Memories:
    """Yield the memories of a `memories.jsonl`: one object per line."""
    for line in lines:
        item = object_of(line)
        yield item if isinstance(item, Rejected) else _memory(line.place, item, {}, None)


def read_entries(document: object) -> Memories:
    """Yield the memories of a list, or of an object with a list of `results` or `memories`.

    The relations of its graph are drawn from the memories. They are left out, and that is said.
    """
    names: dict[object, object] = {}
    if isinstance(document, dict):
        categories = document.get("categories")
        known = [each for each in categories if isinstance(each, dict)] if isinstance(categories, list) else []
        names = {str(each.get("id")): each.get("name") for each in known}
    label = label_beside(document, _LISTS)
    for number, item in enumerate(entries_in(document, _LISTS), 1):
        yield _memory(f"entry {number}", item, names, label)
    if isinstance(document, dict) and document.get(_RELATIONS):
        yield Rejected(_RELATIONS, "mem0 derived them from the memories; they are left out", refused=False)


def _relations(document: object) -> list[Any]:
    found = document.get(_RELATIONS) if isinstance(document, dict) else None
    return found if isinstance(found, list) else []


def _is_relation(item: object) -> bool:
    """Return whether it is a relation of mem0's graph; the last field has had both names."""
    return isinstance(item, dict) and {"source", "relationship"} <= item.keys() and bool(_ENDS & item.keys())


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
