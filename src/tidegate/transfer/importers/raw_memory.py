"""Memories as other programs keep them: what an importer yields, unchecked."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Source(StrEnum):
    """What an import can read, as the owner names it."""

    TIDEGATE = "tidegate"
    MCP = "mcp"
    MEMORY_SERVICE = "mcp-memory-service"
    MEM0 = "mem0"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    BASIC_MEMORY = "basic-memory"
    MARKDOWN = "markdown"
    TRIGGERFISH = "triggerfish"


@dataclass(frozen=True, slots=True, kw_only=True)
class RawMemory:
    """One memory of a source. The values are as the source has them, of any type.

    place: its place in the source, for people: a line, an entry, a row, a note; never content.
    label: the level that the source claims for it; None if it claims none.
    written_at: when its own file was written, in seconds since 1970; None if it has no file of its own.
    """

    place: str
    key: object
    content: object
    tags: object = None
    label: object = None
    created_at: object = None
    updated_at: object = None
    written_at: float | None = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something in a source that gives no memory. refused: it has a fault that the owner should know of."""

    place: str
    reason: str
    refused: bool = True


_WORD = re.compile(r"\w+")
_SLUG_CHARS_MAX = 40
_DIGEST_CHARS = 12


def slug(text: str) -> str:
    """Return the first words of a text, as part of a key."""
    return "-".join(_WORD.findall(text.casefold()[:400]))[:_SLUG_CHARS_MAX].strip("-_")


def key_for(source: Source, text: str) -> str:
    """Return a key for a text without one: the same for equal texts, different for others."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_CHARS]
    return "-".join(part for part in (source, slug(text), digest) if part)


def first_of(record: Mapping[str, object], *names: str) -> object:
    """Return the first of these fields that is not null; None if all are."""
    return next((record[name] for name in names if record.get(name) is not None), None)
