"""Ranking: which query terms to look up, and the order of the matches.

BM25 over statistics of the visible compartments together, and of nothing else (P5): scores from different
compartments are comparable, and hidden memories do not affect them.
"""

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from operator import attrgetter, mul
from typing import Protocol, TypeVar

from tidegate.search.analysis import Query

COLUMN_WEIGHTS = (3.0, 2.0, 1.0)
"""The weights of a match in key, tags and content."""

CANDIDATES_MAX = 96
"""The maximum number of matches from one compartment."""

PROBE_TERMS_MAX = 64
"""The maximum number of terms that phase one looks up."""

PROBE_POSTINGS_MAX = 6_000
"""The maximum number of index entries that phase one reads in all compartments: 3 to 6 ms of work."""

FREQUENCY_MAX = 4_000
"""Counting the memories with a term may stop here: the term is then too common to look up."""

_K1 = 1.2
_B = 0.5


@dataclass(frozen=True, slots=True)
class Statistics:
    """Live memories of one or several compartments: their number and total terms by column."""

    documents: int = 0
    lengths: tuple[int, int, int] = (0, 0, 0)

    def __add__(self, other: "Statistics") -> "Statistics":
        key, tags, content = (a + b for a, b in zip(self.lengths, other.lengths, strict=True))
        return Statistics(self.documents + other.documents, (key, tags, content))


@dataclass(frozen=True, slots=True)
class Match:
    """How often the terms looked up occur in a memory, and the lengths of its key, tags and content in terms.

    counts: four numbers for each term that occurs: its place among those looked up; how often in key, tags, content.
    """

    counts: Sequence[int]
    lengths: tuple[int, int, int]


UNCOUNTED = Match((), (0, 0, 0))
"""The match of a memory whose text will decide its score."""


class Ranked(Protocol):
    """The values that the final order depends on."""

    @property
    def score(self) -> float: ...
    @property
    def updated_at(self) -> datetime: ...
    @property
    def key(self) -> str: ...


RankedT = TypeVar("RankedT", bound=Ranked)


def idf(frequency: int, statistics: Statistics) -> float:
    """Return the weight of a term that occurs in `frequency` memories; never below zero."""
    return math.log1p(max(statistics.documents - frequency + 0.5, 0.5) / (frequency + 0.5))


def select_terms(query: Query, frequencies: Mapping[str, int]) -> tuple[str, ...]:
    """Return the terms to look up in phase one, rarest first, within the bound on postings.

    frequencies: in how many visible memories each term occurs, counted in each compartment up to FREQUENCY_MAX;
    absent or 0: in none. Nothing is chosen if no term exists or all are common.
    """
    known = ((frequencies.get(term, 0), place, term) for place, term in enumerate(query.terms))
    found = sorted(each for each in known if 0 < each[0] < FREQUENCY_MAX)
    walked = accumulate(frequency for frequency, _, _ in found)
    affordable = bisect_right(list(walked), PROBE_POSTINGS_MAX)
    return tuple(term for _, _, term in found[: min(affordable, PROBE_TERMS_MAX)])


def select_common(query: Query, frequencies: Mapping[str, int], probe: Collection[str]) -> tuple[tuple[str, ...], ...]:
    """Return the rarest three words that are too common for phase one, each as its terms: the newest memories with
    all of them are searched, which costs little however many have them. Empty when phase one needs none.
    """
    left: list[tuple[bool, int, int, tuple[str, ...]]] = []
    for place, word in enumerate(query.words):
        terms = tuple(term for term in word.terms if frequencies.get(term))
        if not set(terms) <= set(probe):
            left.append((word.weight < 1, max(frequencies[term] for term in terms), place, terms))
    if probe:
        left = [each for each in left if not each[0]]
    left.sort()
    return tuple(each[-1] for each in left[:3]) if len(left) > 1 or not probe else ()


class Scorer:
    """BM25F of one query: counts are weighted and normalised by the column's average length before they saturate."""

    def __init__(
        self, query: Query, terms: Sequence[str], frequencies: Mapping[str, int], statistics: Statistics
    ) -> None:
        """Prepare for matches that count `terms`. frequencies: as for `select_terms`."""
        self._weights = [word.weight for word in query.words]
        words = defaultdict[str, list[int]](list)
        for place, word in enumerate(query.words):
            for term in word.terms:
                words[term].append(place)
        # For each term: the places of the words that it is a form of, and its weight.
        self._terms = [(words[term], idf(frequencies.get(term, 0), statistics)) for term in terms]
        self._slopes = [_B * statistics.documents / total if total else 0.0 for total in statistics.lengths]

    def score(self, match: Match) -> float:
        """Return how well a memory answers the query, rounded to 6 decimals; 0 when nothing matches."""
        lengths, slopes, weights = match.lengths, self._slopes, COLUMN_WEIGHTS
        key = weights[0] / (1 - _B + slopes[0] * lengths[0])
        tags = weights[1] / (1 - _B + slopes[1] * lengths[1])
        content = weights[2] / (1 - _B + slopes[2] * lengths[2])
        best = [0.0] * len(self._weights)
        each = iter(match.counts)
        for place, in_key, in_tags, in_content in zip(each, each, each, each, strict=True):
            words, rarity = self._terms[place]
            found = key * in_key + tags * in_tags + content * in_content
            worth = rarity * found * (_K1 + 1) / (found + _K1)
            for word in words:
                if worth > best[word]:
                    best[word] = worth
        total: float = sum(map(mul, self._weights, best))
        return round(total, 6)


def best_first(matches: Iterable[RankedT]) -> list[RankedT]:
    """Return the matches by score, then newest first, then by key in code point order."""
    by_key = sorted(matches, key=attrgetter("key"))
    return sorted(by_key, key=attrgetter("score", "updated_at"), reverse=True)
