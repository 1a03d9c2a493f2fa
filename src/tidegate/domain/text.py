"""Text analysis: what the search index holds of a memory, and what a query asks of it.

Both sides go through the same steps, so nothing in a query is syntax and no language is named. A word is
indexed as it is written (folded) and, where that differs, under its stem; a query word may match either.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import Stemmer

from tidegate.domain.segment import Kind, Piece, fold, pieces

ANALYSIS_VERSION = 1
"""Stored with each index. An index of another version is rebuilt."""

QUERY_WORDS_MAX = 64
"""Of a longer query the first so many distinct words count."""

_FUNCTION_WORDS = frozenset(
    "a an the and or but if of at by for with about to from in on as is am are was were be been being have has had"
    " do does did will would could should can may might i me my you your he him his she her it its we us our they"
    " them their this that these those what which who whom whose when where why how there here not no so than too"
    " s t d ll m re ve don".split(" ")
)


@dataclass(frozen=True, slots=True)
class Columns:
    """The index terms of a memory in order, column by column."""

    key: tuple[str, ...]
    tags: tuple[str, ...]
    content: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a query: it matches where any of its terms does, and the best one counts."""

    text: str
    terms: tuple[str, ...]
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a query, each once, in order. False when there is nothing to search for."""

    words: tuple[Word, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def terms(self) -> tuple[str, ...]:
        """All terms of all words, each once, in order."""
        return tuple(dict.fromkeys(term for word in self.words for term in word.terms))


def analyse(key: str, tags: Sequence[str], content: str) -> Columns:
    """The index terms of a memory. Deterministic; time grows with the length of the text."""
    return Columns(tuple(_index_terms([key])), tuple(_index_terms(tags)), tuple(_index_terms([content])))


def analyse_query(text: str) -> Query:
    """The words that a query asks for. Every character is literal; no words, an empty query."""
    stemmer = Stemmer.Stemmer("english", 0)  # P11: no cache of word forms
    words: dict[tuple[str, ...], Word] = {}
    for piece in pieces(text):
        terms = tuple(_terms(piece, stemmer))
        words.setdefault(terms, Word(terms[0], terms, _weight(piece)))
        if len(words) == QUERY_WORDS_MAX:
            break
    return Query(tuple(words.values()))


def _index_terms(texts: Iterable[str]) -> Iterator[str]:
    stemmer = Stemmer.Stemmer("english", 0)  # P11: no cache of word forms
    for text in texts:
        for piece in pieces(text):
            yield from _terms(piece, stemmer)


def _terms(piece: Piece, stemmer: Stemmer.Stemmer) -> Iterator[str]:
    word = fold(piece.text)
    yield word
    if piece.kind is Kind.WORD:
        stem = fold(stemmer.stemWord(piece.text))
        if stem != word:
            yield stem


def _weight(piece: Piece) -> float:
    if piece.kind is Kind.CHARACTER:
        return 0.25
    return 0.1 if piece.text in _FUNCTION_WORDS else 1.0
