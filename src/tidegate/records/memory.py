"""The answers of the five verbs, with the fields of the tools' results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import overload

from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.record import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory(JsonObject):
    """One memory, as its session sees it.

    content: complete from get; list and search cut it to 500 code points at a grapheme boundary and set `truncated`.
    newer_below: the level of a visible lower variant with a later update (get only).
    """

    key: str
    content: str
    classification: Level
    tags: tuple[str, ...]
    version: int
    origin: Origin
    created_at: datetime
    updated_at: datetime
    truncated: bool = False
    newer_below: Level | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit(Memory):
    """A memory that matches. score: higher is better; to 6 decimals, comparable within one search."""

    score: float


@dataclass(frozen=True, slots=True, eq=False)
class Hits(JsonObject, Sequence[Hit]):
    """The hits of a search, best first; equal to a list of the same hits.

    complete: false when the work budget or the answer's size ended the search early.
    """

    hits: tuple[Hit, ...]
    complete: bool

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Hit, ...]: ...
    def __getitem__(self, index: int | slice) -> Hit | tuple[Hit, ...]:
        return self.hits[index]

    def __len__(self) -> int:
        return len(self.hits)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Hits):
            return (self.hits, self.complete) == (other.hits, other.complete)
        return list(self.hits) == other if isinstance(other, list) else NotImplemented

    def __hash__(self) -> int:
        return hash((self.hits, self.complete))


@dataclass(frozen=True, slots=True)
class ScoreParts(JsonObject):
    """A hit's score and the parts that it sums: BM25 of the words looked up, and the gains from its text.

    common: words too common to look up. ngrams: parts of words. feedback: words that the best hits share.
    """

    score: float
    bm25: float
    common: float
    ngrams: float
    feedback: float


@dataclass(frozen=True, slots=True)
class Explanation(JsonObject):
    """How a search found its hits.

    words: each word of the query with its terms, corrected if no memory holds it.
    looked_up: the terms that found candidates. common: the terms that were searched for in the newest memories only.
    parts: of each hit, in their order.
    """

    words: dict[str, tuple[str, ...]]
    looked_up: tuple[str, ...]
    common: tuple[tuple[str, ...], ...]
    found: Hits
    parts: tuple[ScoreParts, ...]


@dataclass(frozen=True, slots=True)
class Page(JsonObject):
    """Some memories in key order, and the cursor to continue from; None at the end."""

    memories: tuple[Memory, ...]
    next_cursor: str | None


class Status(StrEnum):
    """The effect of a save."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class SimilarKey(JsonObject):
    """A visible memory that holds nearly the same as one that was saved."""

    key: str
    classification: Level
    origin: Origin


@dataclass(frozen=True, slots=True)
class Saved(JsonObject):
    """A save that is stored and audited."""

    key: str
    classification: Level
    version: int
    status: Status


@dataclass(frozen=True, slots=True)
class SavedWithSimilar(Saved):
    """The same, with the keys of up to three visible memories that may hold the same fact, the nearest first."""

    similar: tuple[SimilarKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Deleted(JsonObject):
    """A delete that is stored and audited. still_visible: the level of the lower variant that shows again."""

    key: str
    classification: Level
    still_visible: Level | None = None
