"""What mem0 gives: the answer of `get_all`, an export of its platform, or the files of an OpenMemory backup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidegate.files import TextLine
from tidegate.transfer.export import parsed
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for

_GONE = "deleted"


def read_lines(lines: Iterable[TextLine]) -> Iterator[RawMemory | Rejected]:
    """The memories of a `memories.jsonl`: one object a line."""
    for line in lines:
        item = parsed(line)
        yield item if isinstance(item, Rejected) else _memory(line.place, item, {})


def read_document(document: object) -> Iterator[RawMemory | Rejected]:
    """The memories of a list, or of an object with a list of `results` or `memories`."""
    names: dict[object, object] = {}
    items = document
    if isinstance(document, dict):
        items = first_of(document, "results", "memories")
        categories = document.get("categories")
        known = [each for each in categories if isinstance(each, dict)] if isinstance(categories, list) else []
        names = {str(each.get("id")): each.get("name") for each in known}
    for number, item in enumerate(items if isinstance(items, list) else (), 1):
        yield _memory(f"entry {number}", item, names)


def _memory(place: str, item: object, names: Mapping[object, object]) -> RawMemory | Rejected:
    if not isinstance(item, dict):
        return Rejected(place, "is not a memory")
    if item.get("state") == _GONE or item.get("deleted_at") is not None:
        return Rejected(place, "was deleted at the source", refused=False)
    content = first_of(item, "memory", "content", "text", "data")
    identity = item.get("id")
    return RawMemory(
        place=place,
        key=f"mem0-{identity}" if isinstance(identity, str | int) else key_for(Source.MEM0, str(content)),
        content=content,
        tags=_tags(item, names),
        created_at=item.get("created_at"),
        updated_at=item.get("updated_at"),
    )


def _tags(item: Mapping[str, Any], names: Mapping[object, object]) -> list[object]:
    categories, ids = item.get("categories"), item.get("category_ids")
    tags = list(categories) if isinstance(categories, list) else []
    tags += [names.get(each, each) if isinstance(each, str) else each for each in ids] if isinstance(ids, list) else []
    return tags if item.get("state") in (None, "active") else [*tags, item["state"]]
