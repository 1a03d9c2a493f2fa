"""The lines of an export: a heading that says its level, then one memory a line, each with its own label."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from tidegate.files import TextLine
from tidegate.policy.levels import Level
from tidegate.records.jsonl import NotJsonError, read_object
from tidegate.records.record import Record
from tidegate.records.times import write_timestamp
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, label_of

FORMAT = "tidegate-export"
VERSION = 1
_FIELDS = frozenset({"key", "content", "tags", "classification", "origin", "version", "created_at", "updated_at"})


def heading(agent: str, level: Level, memories: int, at: datetime) -> dict[str, Any]:
    """The first line of an export."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": agent,
        "level": level.name,
        "memories": memories,
        "exported_at": write_timestamp(at),
    }


def exported(record: Record) -> dict[str, Any]:
    """The line of one memory."""
    return {
        "key": record.key,
        "content": record.content,
        "tags": list(record.tags),
        "classification": record.level.name,
        "origin": record.origin,
        "version": record.version,
        "created_at": write_timestamp(record.created_at),
        "updated_at": write_timestamp(record.updated_at),
    }


def read_export(lines: Iterable[TextLine]) -> Iterator[RawMemory | Rejected]:
    """The memories of one export, or of several one after the other, or of lines that somebody wrote by hand.

    A line without a label has that of the heading above it; without a heading it has none.
    """
    label: object = None
    for line in lines:
        record = parsed(line)
        if isinstance(record, Rejected):
            yield record
        elif record.get("format") == FORMAT:
            label = label_of(record, "level")
            if record.get("version") != VERSION:
                yield Rejected(line.place, "the export is of a newer version of Tidegate")
        else:
            yield _memory(line.place, record, label)


def parsed(line: TextLine) -> dict[str, Any] | Rejected:
    """The object that a line holds."""
    if line.text is None:
        return Rejected(line.place, line.reason)
    try:
        return read_object(line.text)
    except NotJsonError as error:
        return Rejected(line.place, str(error).replace("(line 1, ", "("))


def _memory(place: str, record: Mapping[str, Any], label: object) -> RawMemory | Rejected:
    unknown = sorted(record.keys() - _FIELDS)
    if unknown:  # it may say something that would have to be heeded, such as a level under another name
        return Rejected(place, f"{_shown(unknown[0])} is not a field of an export")
    return RawMemory(
        place=place,
        key=record.get("key"),
        content=record.get("content"),
        tags=record.get("tags"),
        label=label_of(record) if "classification" in record else label,
        created_at=record.get("created_at"),
        updated_at=record.get("updated_at"),
    )


def _shown(name: str) -> str:
    return ascii(name[:64])
