"""Text analysis: what the search index holds of a memory, and what a query asks of it.

Both sides go through the same steps, so nothing in a query is syntax and no language is named. A word is
indexed as written (folded), with its accents where it has any, and under its stem; a query word matches
where any of its forms does.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.domain.language import Stemmers, function_word_languages, guess, likely, script
from tidegate.domain.segment import Kind, Piece, fold, pieces

ANALYSIS_VERSION = 2
"""Stored with each index. An index of another version is rebuilt."""

QUERY_CHARS_MAX = 4_096
QUERY_WORDS_MAX = 64
"""Of a longer query the first so many characters and distinct words count."""

_FUNCTION_WEIGHT = 0.3
_CHARACTER_WEIGHT = 0.25
_LABEL = re.compile(r"[^\n]{1,80}?:\s")  # `Caroline (8 May): ...`, `Deployment: ...`
_ACCENTED = "\u00b4"  # ends the form that keeps its accents, which no folded form has


@dataclass(frozen=True, slots=True)
class Columns:
    """The index terms of a memory in order, column by column."""

    key: tuple[str, ...]
    tags: tuple[str, ...]
    content: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a query: it matches where any of its terms does, and the best one counts.

    text: the folded word. weight: 1, less for function words and for single characters of scripts without spaces.
    """

    text: str
    terms: tuple[str, ...]
    weight: float = 1.0
    kind: Kind = Kind.WORD


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
    """The index terms of a memory. Deterministic; the time is linear in the length of the text.

    What stands before a first colon labels the rest and is entered twice, so that it weighs more.
    """
    parts = [pieces(key), [piece for tag in tags for piece in pieces(tag)], pieces(content)]
    if label := _LABEL.match(content):
        parts[2] += pieces(label[0])
    stemmers = Stemmers(_guess((piece for part in parts for piece in part), content))
    known: dict[Piece, list[str]] = {}
    columns = []
    for part in parts:
        column: list[str] = []
        for piece in part:
            if (terms := known.get(piece)) is None:
                terms = known[piece] = _terms(piece, stemmers)
            column += terms
        columns.append(tuple(column))
    return Columns(*columns)


def analyse_query(text: str) -> Query:
    """The words that a query asks for. Every character is literal; no words, an empty query."""
    text = text[:QUERY_CHARS_MAX]
    found = pieces(text)
    guessed = _guess(found, text)
    languages, ascii_text = likely(guessed), text.isascii()
    stemmers = Stemmers(guessed, english_too=True)
    words: dict[tuple[str, ...], Word] = {}
    for piece in dict.fromkeys(found):
        if len(words) == QUERY_WORDS_MAX:
            break
        if terms := tuple(_terms(piece, stemmers)):
            weight = _CHARACTER_WEIGHT if piece.kind is Kind.CHARACTER else 1.0
            if piece.kind is Kind.WORD:
                holders = function_word_languages(piece.text, ascii_text=ascii_text)
                weight = 1.0 if languages.isdisjoint(holders) else _FUNCTION_WEIGHT
            words.setdefault(terms, Word(terms[0], terms, weight, piece.kind))
    return Query(tuple(words.values()))


def _guess(found: Iterable[Piece], text: str) -> dict[str, float]:
    return guess((piece.text for piece in found if piece.kind is Kind.WORD), text)


def _terms(piece: Piece, stemmers: Stemmers) -> list[str]:
    """The folded piece, and for a word its stems and its form with accents, where they differ."""
    written, kind = piece
    folded = fold(written)
    if kind is not Kind.WORD:
        return [folded] if folded else []
    terms = [folded, *stemmers.stems(written)]
    if folded != written and script(written) == "latin":
        terms.append(written + _ACCENTED)
    return list(filter(None, dict.fromkeys(terms)))
