"""Reads the labels in a memory's own tags and text, in one place for every importer (P10)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidegate.transfer.importers.front_matter import UnreadableError, split
from tidegate.transfer.importers.labels import (
    UNREADABLE,
    highest,
    label_in,
    label_in_tags,
    labels_in_observations,
)
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.source_file import Memories

_TEXT_READ = frozenset(Source) - {Source.TIDEGATE, Source.MARKDOWN, Source.BASIC_MEMORY}
"""An export says the level of each memory, whatever is in its text; notes were read as such."""


def with_own_labels(source: Source, memories: Iterable[RawMemory | Rejected]) -> Memories:
    """Yield the memories of a source, each with the highest of its label and those in its tags and its text."""
    for each in memories:
        if isinstance(each, Rejected):
            yield each
            continue
        text = each.content if source in _TEXT_READ and isinstance(each.content, str) else ""
        yield replace(each, label=highest((each.label, label_in_tags(each.tags), label_in_text(text))))


def label_in_text(text: str) -> object:
    """Return the highest label in a text that is read as a note; `UNREADABLE` if its front matter may hide one."""
    try:
        fields, _ = split(text.removeprefix("\ufeff"))
        head = label_in(fields)
    except UnreadableError:
        head = label_in(text) if text.lstrip().startswith("{") else UNREADABLE
    return highest((head, *labels_in_observations(text)))
