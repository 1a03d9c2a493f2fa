"""Nearness: which memories share the rare words of a text, so that one fact does not get two keys.

It asks only which memories hold a word, and stops where a word is common: the work is small, however many there are.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from typing import TypeVar

from tidegate.search.analysis import analyse_query
from tidegate.search.segmentation import PieceKind

RARE_MAX = 12
"""A word that more memories hold is common, and counts for nothing."""

NEAR_MAX = 3
"""How many near memories are named."""

_WORDS_MAX = 8
_CHARS_MAX = 400  # of a key and its content, from the start
_SHARED_MIN = 2
_PART_MIN = 0.4  # of the words that are not common

PlaceT = TypeVar("PlaceT")


def telling_words(key: str, content: str) -> list[tuple[str, ...]]:
    """Return the words that may be rare, each as its terms: the longest, without function words."""
    words = analyse_query(f"{key} {content}"[:_CHARS_MAX]).words
    telling = [word for word in words if word.weight == 1 and word.kind is not PieceKind.JOINED]
    telling.sort(key=lambda word: -len(word.text))  # stable: else in the order of the text
    return [word.terms for word in telling[:_WORDS_MAX]]


def nearness(holders: Sequence[Collection[PlaceT]]) -> dict[PlaceT, float]:
    """Return the memories that are near, each with a score: higher is nearer.

    holders: of each word, the memories that hold it; more than RARE_MAX need not be complete. A near memory holds two
    rare words and a good part of all. The rarer a shared word, the more it counts.
    """
    rare = [places for places in holders if len(places) <= RARE_MAX]
    shared, scores = Counter[PlaceT](), dict[PlaceT, float]()
    for places in rare:
        for place in places:
            shared[place] += 1
            scores[place] = scores.get(place, 0.0) + 1 / len(places)
    least = max(_SHARED_MIN, _PART_MIN * len(rare))
    return {place: round(scores[place], 6) for place, count in shared.items() if count >= least}
