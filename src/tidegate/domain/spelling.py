"""Spelling: what a query word that no visible memory holds may have been meant to be.

Only the vocabulary of the visible compartments is asked, and only for words that stand in none of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.domain.segment import Kind, is_unspaced
from tidegate.domain.text import Query, Word

VOCABULARY_MAX = 4_000
"""How many terms of a range are looked at, in code point order."""

_CHARS_MIN = 4  # shorter words have too many neighbours
_TWO_ERRORS_CHARS_MIN = 8
_SUGGESTIONS_MAX = 3
_WEIGHT = 0.8


def unknown(query: Query, frequencies: Mapping[str, int]) -> list[Word]:
    """The words of a query that may be misspelled: in no visible memory in any form, and long enough to tell."""
    return [
        word
        for word in query.words
        if word.kind is Kind.WORD
        and len(word.text) >= _CHARS_MIN
        and not any(map(str.isdigit, word.text))
        and not is_unspaced(word.text)
        and not any(frequencies.get(term) for term in word.terms)
    ]


def ranges(word: Word) -> list[tuple[str, str]]:
    """Where to look for what was meant: terms at or above the first of each pair and below the second.

    The first two letters are taken to be right, or to have changed places.
    """
    first, second = word.text[0], word.text[1]
    starts = dict.fromkeys((first + second, second + first))
    return [(start, start[0] + chr(ord(start[1]) + 1)) for start in starts]


def closest(word: Word, vocabulary: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """The up to three likeliest terms: fewest errors first, then those that stand in most memories.

    vocabulary: terms of the ranges, with the number of visible memories that hold them. One letter left out,
    put in, changed or swapped with its neighbour is an error; words of eight letters may have two.
    """
    errors_max = 2 if len(word.text) >= _TWO_ERRORS_CHARS_MIN else 1
    found = []
    for term, frequency in vocabulary:
        if frequency > 0 and abs(len(term) - len(word.text)) <= errors_max:
            errors = _errors(word.text, term, errors_max)
            if errors <= errors_max:
                found.append((errors, -frequency, term))
    return tuple(term for _, _, term in sorted(found)[:_SUGGESTIONS_MAX])


def corrected(query: Query, suggestions: Mapping[str, tuple[str, ...]]) -> Query:
    """The query with other terms for the words that have suggestions, by their text. These weigh a little less."""
    return Query(
        tuple(
            replace(word, terms=suggestions[word.text], weight=word.weight * _WEIGHT)
            if suggestions.get(word.text)
            else word
            for word in query.words
        )
    )


def _errors(a: str, b: str, most: int) -> int:
    """The errors between two words, or more than `most`. Bounded by 4 ** most steps beside the common beginnings."""
    start = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        start += 1
    a, b = a[start:], b[start:]
    if not a or not b or not most:
        return len(a) + len(b)
    ways = [(a[1:], b[1:]), (a[1:], b), (a, b[1:])]
    if a[:2] == b[1::-1]:
        ways.append((a[2:], b[2:]))
    return 1 + min(_errors(x, y, most - 1) for x, y in ways)
