"""Similar keys: what a session may see already holds nearly the same, as a hint to the model that saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tidegate.core import variants as records
from tidegate.core.gate import Answer
from tidegate.records.memory import SavedWithSimilar, SimilarKey
from tidegate.records.record import Record, RecordKind
from tidegate.search.nearness import NEAR_MAX, RARE_MAX, nearness
from tidegate.search.ranking import best_first
from tidegate.storage.base import View

_Variant = tuple[int, str]
"""The depth in the view, and the key."""


def with_similar(view: View, saved: SavedWithSimilar, *, words: Sequence[Sequence[str]]) -> Answer[SavedWithSimilar]:
    """Return what was saved, with the keys of up to three visible memories that are near, the nearest first.

    words: those of the saved text, each as its terms. Only the view decides which of them are rare (P5).
    """
    with view.snapshot():
        near = nearness([_holders(view, saved.key, terms) for terms in words])
        found = [record for depth in range(len(view.visible)) for record in _visible(view, depth, near)]
    best = best_first(_Near(near[depth, record.key], record.updated_at, record.key, record) for depth, record in found)
    named = [each.record for each in best[:NEAR_MAX]]
    similar = tuple(SimilarKey(record.key, record.level, record.origin) for record in named)
    return Answer(replace(saved, similar=similar), [record for _, record in found])


@dataclass(frozen=True, slots=True)
class _Near:
    score: float
    updated_at: datetime
    key: str
    record: Record


def _holders(view: View, key: str, terms: Sequence[str]) -> list[_Variant]:
    """Return the memories that hold a word, except those under the key; at most a few more than RARE_MAX."""
    found: list[_Variant] = []
    for depth, compartment in enumerate(view.visible):
        keys = compartment.holders(terms, limit=RARE_MAX + 2)  # one of them may be under the key
        found += [(depth, other) for other in keys if other != key]
        if len(found) > RARE_MAX:
            break
    return found


def _visible(view: View, depth: int, near: dict[_Variant, float]) -> list[tuple[int, Record]]:
    """Return the near memories of one level that are live and not shadowed."""
    keys = [key for at, key in near if at == depth]
    found = view.visible[depth].read_several(RecordKind.MEMORY, keys, chars_max=0) if keys else {}
    live = [record for record in found.values() if record.live]
    return [(depth, record) for record in records.unshadowed(view, depth, RecordKind.MEMORY, live)]
