"""The memory of a Triggerfish store: rows with keys `memory:<agent>:<LEVEL>:<key>` and a JSON value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.records.jsonl import NotJsonError, read_object
from tidegate.transfer.importers.labels import highest, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import Clue, Database, Memories, Read, SourceFile, require, some_of

_PARTS = ("agentId", "classification", "key")
_FIRST, _END = "memory:", "memory;"  # ';' is the character after ':'
_NAMES_MAX, _NAME_CHARS_MAX = 10, 64  # in a message
_EXPECTED = "holds no memories of that agent of Triggerfish: their keys are memory:<agent>:<LEVEL>:<key>"

StoreRow = tuple[str, object] | None
"""A key and its value; None for a row that is no text."""


def sniff(clue: Clue) -> bool:
    """Return whether a clue shows a Triggerfish store: no other database can be imported."""
    return isinstance(clue, Database)


def reader(file: SourceFile) -> Read:
    """Return what reads the memories of one agent of a store. Raises: InvalidArgument where it is not said which."""
    from tidegate.storage.sqlite.key_values import read_pairs  # the engine is loaded when it is needed

    there = agents(read_pairs(file.path, _FIRST, _END))
    ambiguous = file.agent is None and len(there) > 1
    require(not ambiguous, f"holds memories of several agents; choose one: {_shortened(there)}")
    agent = "".join(there) if file.agent is None else file.agent
    return lambda: some_of(read_rows(read_pairs(file.path, _FIRST, _END), agent), _EXPECTED)


def agents(rows: Iterable[StoreRow]) -> list[str]:
    """Return whose memories the rows are, by name."""
    return sorted({row[0].split(":", 3)[1] for row in rows if row is not None and row[0].count(":") >= 3})


def read_rows(rows: Iterable[StoreRow], agent: str) -> Memories:
    """Yield the memories of one agent of that store."""
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
        record: dict[str, Any] = read_object(value) if isinstance(value, str) else {}
    except NotJsonError as error:
        return Rejected(place, f"its value is {error}")
    if any(name in record and record[name] != part for name, part in zip(_PARTS, parts, strict=True)):
        return Rejected(place, "its key and its value say different things")  # one of them may hide a higher level
    if record.get("expired") is True:
        return Rejected(place, "was deleted at the source", refused=False)
    _, level, key = parts
    return RawMemory(
        place=place,
        key=key,
        content=record.get("content"),
        tags=record.get("tags"),
        label=highest((level, label_in(record))),
        created_at=record.get("createdAt"),
        updated_at=record.get("updatedAt"),
    )


def _shortened(names: list[str]) -> str:
    """Return the first of many names, and how many more there are."""
    shown = ", ".join(name[:_NAME_CHARS_MAX] for name in names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown}, and {len(names) - _NAMES_MAX} more"
