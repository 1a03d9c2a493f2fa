"""The memory of a Triggerfish store: rows with keys `memory:<agent>:<LEVEL>:<key>` and a JSON value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidegate.records.jsonl import NotJsonError, read_object
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

_PARTS = ("agentId", "classification", "key")


StoreRow = tuple[str, object] | None
"""A key and its value; None for a row that is no text."""


def agents(rows: Iterable[StoreRow]) -> list[str]:
    """Whose memories the rows are, by name."""
    return sorted({row[0].split(":", 3)[1] for row in rows if row is not None and row[0].count(":") >= 3})


def read_rows(rows: Iterable[StoreRow], agent: str) -> Iterator[RawMemory | Rejected]:
    """The memories of one agent of that store."""
    for number, row in enumerate(rows, 1):
        if row is None:
            yield Rejected(f"row {number}", "is not UTF-8")
            continue
        key, value = row
        parts = key.split(":", 3)
        if len(parts) < 4:
            yield Rejected(f"row {number}", "its key is not one of a memory")
        elif parts[1] == agent:
            yield _memory(f"row {number}", parts[1:], value)


def _memory(place: str, parts: list[str], value: object) -> RawMemory | Rejected:
    try:
        record = read_object(value) if isinstance(value, str) else {}
    except NotJsonError as error:
        return Rejected(place, f"its value is {error}")
    if any(name in record and record[name] != part for name, part in zip(_PARTS, parts, strict=True)):
        return Rejected(place, "its key and its value say different things")  # one of them may hide a higher level
    if record.get("expired") is True:
        return Rejected(place, "was deleted at the source", refused=False)
    return _found(place, parts, record)


def _found(place: str, parts: list[str], record: dict[str, Any]) -> RawMemory:
    _, level, key = parts
    return RawMemory(
        place=place,
        key=key,
        content=record.get("content"),
        tags=record.get("tags"),
        label=level,
        created_at=record.get("createdAt"),
        updated_at=record.get("updatedAt"),
    )
