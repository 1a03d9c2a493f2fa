"""The memory of a Triggerfish store: rows with keys `memory:<agent>:<LEVEL>:<key>` and a JSON value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidegate.records.jsonl import NotJsonError, read_object
from tidegate.transfer.importers.labels import highest, label_in
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import Clue, Memories, Read, SourceFile, require, some_of

_PARTS = ("agentId", "classification", "key")
_FIRST, _END = "memory:", "memory;"  # ';' is the character after ':'
_NAMES_MAX, _NAME_CHARS_MAX = 10, 64  # in a message
_EXPECTED = "has no memories of that Triggerfish agent; expected keys memory:<agent>:<LEVEL>:<key>"

StoreRow = tuple[str, object] | None
"""A key and its value; None for a row that is not text."""


def weigh(_: Clue) -> int:
    """Return 0: a store is a database, which its first bytes tell, and no clue."""
    return 0


def reader(file: SourceFile) -> Read:
    """Return a reader of one agent's memories in a store. Raises: InvalidArgument if the agent is ambiguous."""
    from tidegate.storage.sqlite.key_values import read_pairs  # load the engine only when needed

    there = agents(read_pairs(file.path, _FIRST, _END))
    ambiguous = file.agent is None and len(there) > 1
    require(not ambiguous, f"has memories of several agents; choose one with --source-agent: {_shortened(there)}")
    agent = "".join(there) if file.agent is None else file.agent
    return lambda: some_of(read_rows(read_pairs(file.path, _FIRST, _END), agent), _EXPECTED)


def agents(rows: Iterable[StoreRow]) -> list[str]:
    """Return the names of the agents in the rows, sorted."""
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
            yield Rejected(f"row {number}", "its key is not a memory's")
        elif parts[1] == agent:
            yield _memory(f"row {number}", parts[1:], value)


def _memory(place: str, parts: list[str], value: object) -> RawMemory | Rejected:
    try:
        record: dict[str, Any] = read_object(value) if isinstance(value, str) else {}
    except NotJsonError as error:
        return Rejected(place, f"its value is {error}")
    if any(name in record and record[name] != part for name, part in zip(_PARTS, parts, strict=True)):
        return Rejected(place, "its key and its value disagree")  # one of them may hide a higher level
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
    """Return the first names, and the number of the others."""
    shown = ", ".join(name[:_NAME_CHARS_MAX] for name in names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown}, and {len(names) - _NAMES_MAX} more"
