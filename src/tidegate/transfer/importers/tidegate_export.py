"""Tidegate's own export, as `transfer/export.py` writes it, or similar lines written by hand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidegate.files import TextLine
from tidegate.transfer.export import FORMAT, VERSION
from tidegate.transfer.importers.labels import UNREADABLE, highest, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import OWN, SHARED, Clue, Line, Memories, Read, SourceFile, object_of

_FIELDS = frozenset({"key", "content", "tags", "classification", "origin", "version", "created_at", "updated_at"})


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to an export: its headings and its memories."""
    match clue:
        case Line({"format": written}) if written == FORMAT:
            return OWN
        case Line({"key": _, "content": _}):
            return OWN
        case Line({"key": _}):
            return SHARED
    return 0


def reader(file: SourceFile) -> Read:
    """Return a reader of an export."""
    return lambda: read_export(file.lines())


def read_export(lines: Iterable[TextLine]) -> Memories:
    """Yield the memories of one export, of several in a row, or of lines written by hand.

    A line without a label takes that of the heading above it; without a heading it has none. Below a heading that
    cannot be read, it is refused.
    """
    label: object = None
    for line in lines:
        record = object_of(line)
        if isinstance(record, Rejected):
            yield record
            label = UNREADABLE if '"format"' in (line.text or "") else label
        elif record.get("format") == FORMAT:
            label = highest((_stated(record, "level"), label_in(record)))
            if record.get("version") != VERSION:
                yield Rejected(line.place, "the export is from a newer version of Tidegate; upgrade to import it")
        else:
            yield _memory(line.place, record, label)
            label = UNREADABLE if "content" not in record and label_in(record) is not None else label


def _memory(place: str, record: Mapping[str, Any], label: object) -> RawMemory | Rejected:
    unknown = sorted(record.keys() - _FIELDS)
    if unknown:  # it may carry something that matters, such as a level under another name
        return Rejected(place, f"{unknown[0][:64]!a} is not a field of an export")
    return RawMemory(
        place=place,
        key=record.get("key"),
        content=record.get("content"),
        tags=record.get("tags"),
        label=_stated(record, "classification") if "classification" in record else label,
        created_at=record.get("created_at"),
        updated_at=record.get("updated_at"),
    )


def _stated(record: Mapping[str, Any], name: str) -> object:
    """Return the label in a field; `UNREADABLE` if the field is there and empty, None if it is not there."""
    return (record[name] or UNREADABLE) if name in record else None
