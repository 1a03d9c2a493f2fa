"""Tags: stored as they were written, compared folded, so that `Work` and `work` are one tag."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from tidegate.records.record import RecordKind


def fold_tag(tag: str) -> str:
    """Return the form in which tags are compared: NFKC, without case, trimmed."""
    if tag.isascii():
        return tag.lower().strip()
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", tag).casefold()).strip()


def distinct_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return the tags in code-point order; of those that compare alike, only the first."""
    first: dict[str, str] = {}
    for tag in tags:
        first.setdefault(fold_tag(tag), tag)
    return tuple(sorted(first.values()))


def as_compared(kind: RecordKind, tag: str) -> str:
    """Return a tag as records of this kind compare it: memories folded, all others as it is."""
    return fold_tag(tag) if kind is RecordKind.MEMORY else tag


def found_under(kind: RecordKind, tags: Iterable[str]) -> set[str]:
    """Return the tags under which a record is found, as they are compared."""
    return {as_compared(kind, tag) for tag in tags}
