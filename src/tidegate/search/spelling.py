"""Spelling: what a query word that no visible memory has may have been meant to be.

It asks only the vocabulary of the visible compartments, and only for words that none of them has.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.search.analysis import Query, Word
from tidegate.search.segmentation import PieceKind, is_unspaced

VOCABULARY_MAX = 2_000
"""How many terms of a range are read, in code point order."""

_CHARS_MIN = 4  # shorter words have too many neighbours
_CHARS_MAX = 32
_WORD = re.compile(rf"(?<!\S)[^\W\d_]{{{_CHARS_MIN - 1},{_CHARS_MAX}}}(?!\S)")
_TWO_ERRORS_CHARS_MIN = 8
_SUGGESTIONS_MAX = 16
_WEIGHT = 0.8


def words_of(terms: str) -> list[str]:
    """Return the vocabulary of index terms with spaces between them: each word once, in code point order.

    Words of letters alone, neither short nor long, in scripts that write with spaces.
    """
    found = sorted(set(_WORD.findall(terms)))
    return found if terms.isascii() else [word for word in found if not is_unspaced(word)]


def is_word(term: str) -> bool:
    """Return whether an index term belongs in the vocabulary."""
    return words_of(term) == [term]


def unknown(query: Query, frequencies: Mapping[str, int]) -> list[Word]:
    """Return the words of a query that may be misspelled: long enough to tell, and in no visible memory in any form."""
    return [
        word
        for word in query.words
        if word.kind is PieceKind.WORD
        and len(word.text) >= _CHARS_MIN
        and not any(map(str.isdigit, word.text))
        and not is_unspaced(word.text)
        and not any(frequencies.get(term) for term in word.terms)
    ]


def ranges(word: Word) -> list[tuple[str, str]]:
    """Return the ranges of terms to search for the intended word: from the first of each pair, below the second.

    The first two letters are assumed to be right, or swapped.
    """
    first, second = word.text[0], word.text[1]
    starts = dict.fromkeys((first + second, second + first))
    return [(start, start[0] + chr(ord(start[1]) + 1)) for start in starts]


def closest(word: Word, vocabulary: Iterable[str]) -> tuple[str, ...]:
    """Return terms with few errors, those with the fewest first, then in code point order, at most sixteen.

    vocabulary: terms of the ranges. One letter missing, extra, changed or swapped with its neighbour is an
    error; words of eight letters may have two.
    """
    errors_max = _errors_max(word)
    near = {term for term in vocabulary if abs(len(term) - len(word.text)) <= errors_max}
    found = sorted((errors, term) for term in near if (errors := _errors(word.text, term, errors_max)) <= errors_max)
    return tuple(term for _, term in found[:_SUGGESTIONS_MAX])


def corrected(query: Query, suggestions: Mapping[str, tuple[str, ...]], frequencies: Mapping[str, int]) -> Query:
    """Return the query with the best suggestions for its unknown words, by their text, at a slightly lower weight.

    frequencies: in how many visible memories each suggested term occurs; terms in none are left out (P8).
    """
    words = []
    for word in query.words:
        known = [term for term in suggestions.get(word.text, ()) if frequencies.get(term)]
        errors = {term: _errors(word.text, term, _errors_max(word)) for term in known}
        terms = tuple(term for term in known if errors[term] == min(errors.values()))
        words.append(replace(word, terms=terms, weight=word.weight * _WEIGHT) if terms else word)
    return Query(tuple(words))


def _errors_max(word: Word) -> int:
    return 2 if len(word.text) >= _TWO_ERRORS_CHARS_MIN else 1


def _errors(a: str, b: str, most: int) -> int:
    """Return the number of errors between two words, or more than `most`.

    It takes at most 4 ** `most` steps after the common beginning.
    """
    if not most:
        return int(a != b)
    start = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        start += 1
    a, b = a[start:], b[start:]
    if not a or not b:
        return len(a) + len(b)
    ways = [(a[1:], b[1:]), (a[1:], b), (a, b[1:])]
    if a[:2] == b[1::-1]:
        ways.append((a[2:], b[2:]))
    return 1 + min(_errors(x, y, most - 1) for x, y in ways)
