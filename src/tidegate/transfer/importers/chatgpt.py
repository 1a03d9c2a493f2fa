"""ChatGPT: the `memory.json` of its data export."""

from __future__ import annotations

from tidegate.transfer.importers.labels import highest, label_beside, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for
from tidegate.transfer.importers.source_file import (
    SHARED,
    Clue,
    Document,
    Memories,
    Read,
    SourceFile,
    entries_in,
    read_document,
)

_LISTS = ("memories", "memory", "results")
_EXPECTED = "has no ChatGPT memories; expected a list, or a list in `memories`"


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to ChatGPT: entries that are texts or have content, as others' may."""
    entries = entries_in(clue.value, _LISTS) if isinstance(clue, Document) else []
    return SHARED * sum(isinstance(each, str) or (isinstance(each, dict) and "content" in each) for each in entries)


def reader(file: SourceFile) -> Read:
    """Return a reader of ChatGPT's memories."""
    return lambda: read_document(file, read_chatgpt, lists=_LISTS, expected=_EXPECTED)


def read_chatgpt(document: object) -> Memories:
    """Yield the memories of a list of objects or of texts, or of an object with such a list."""
    label = label_beside(document, _LISTS)
    for number, item in enumerate(entries_in(document, _LISTS), 1):
        yield _memory(f"entry {number}", {"content": item} if isinstance(item, str) else item, label)


def _memory(place: str, item: object, label: object) -> RawMemory | Rejected:
    if not isinstance(item, dict):
        return Rejected(place, "is not a memory")
    if item.get("enabled") is False:
        return Rejected(place, "was disabled at the source", refused=False)
    content = first_of(item, "content", "memory", "text", "value")
    identity = item.get("id")
    return RawMemory(
        place=place,
        key=f"chatgpt-{identity}" if isinstance(identity, str | int) else key_for(Source.CHATGPT, str(content)),
        content=content,
        tags=item.get("tags"),
        label=highest((label, label_in(item))),
        created_at=first_of(item, "created_at", "create_time", "created_timestamp"),
        updated_at=first_of(item, "updated_at", "update_time", "updated_timestamp"),
    )
