"""Text analysis: the index terms of a memory, and the words of a query.

Both go through the same steps, so nothing in a query is syntax and nobody names a language. A word is indexed
as written (folded), with its accents if it has any, and under its stem; a query word matches if any of its
forms does.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.search.language import Stemmers, function_word_languages, guess, is_function_word, likely, script
from tidegate.search.segmentation import Piece, PieceKind, fold, pieces

ANALYSIS_VERSION = 3
"""Stored with each index. An index of another version is rebuilt."""

INDEXED_CHARS_MAX = 65_536
"""How many characters of a content are searched, from its start: this bounds the cost of a save."""

QUERY_CHARS_MAX = 4_096
QUERY_WORDS_MAX = 64
"""How many characters and distinct words of a query count, from its start."""

_FUNCTION_WEIGHT = 0.3
_CHARACTER_WEIGHT = 0.25
_LABEL = re.compile(r"[^\n]{1,80}?:\s")  # `Caroline (8 May): ...`, `Deployment: ...`
_ACCENTED = "\u00b4"  # marks the form with accents; no folded form has it


@dataclass(frozen=True, slots=True)
class Columns:
    """The index terms of a memory in order, column by column."""

    key: tuple[str, ...]
    tags: tuple[str, ...]
    content: tuple[str, ...]

    @property
    def lengths(self) -> tuple[int, int, int]:
        """Return the number of terms by column."""
        return len(self.key), len(self.tags), len(self.content)

    @property
    def terms(self) -> set[str]:
        """Return all terms, each once."""
        return {*self.key, *self.tags, *self.content}


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a query: it matches if any of its terms does, and the best term counts.

    text: the folded word. weight: 1, less for function words and for single characters of scripts without spaces.
    """

    text: str
    terms: tuple[str, ...]
    weight: float = 1.0
    kind: PieceKind = PieceKind.WORD


@dataclass(frozen=True, slots=True)
class Query:
    """The words of a query, each once, in order. False without a word to search for."""

    words: tuple[Word, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.words)

    @property
    def terms(self) -> tuple[str, ...]:
        """Return all terms of all words, each once, in order."""
        return tuple(dict.fromkeys(term for word in self.words for term in word.terms))


def analyse(key: str, tags: Sequence[str], content: str) -> Columns:
    """Return the index terms of a memory. Deterministic; the time is linear in the length of the text.

    The words before a first colon label the rest: they are entered twice, to weigh more.
    """
    content = content[:INDEXED_CHARS_MAX]
    label = _LABEL.match(content)
    content_pieces = pieces(content) + (pieces(label[0]) if label else [])
    found = (pieces(key), [piece for tag in tags for piece in pieces(tag)], content_pieces)
    words = dict.fromkeys(text for column in found for text, kind in column if kind is PieceKind.WORD)
    forms = _forms(words, Stemmers(guess(words, content)))
    return Columns(*(tuple(_terms(column, forms)) for column in found))


def analyse_query(text: str) -> Query:
    """Return the words of a query. Every character is literal; without words the query is empty."""
    text = text[:QUERY_CHARS_MAX]
    found = list(dict.fromkeys(pieces(text)))
    written = [text for text, kind in found if kind is PieceKind.WORD]
    guessed = guess(written, text)
    languages, ascii_text = likely(guessed), text.isascii()
    forms = _forms(written, Stemmers(guessed, english_too=True))
    words: dict[tuple[str, ...], Word] = {}
    for piece in found:
        if (terms := tuple(_terms([piece], forms))) and len(words) < QUERY_WORDS_MAX:
            weight = _weight(piece, languages, ascii_text=ascii_text)
            words.setdefault(terms, Word(terms[0], terms, weight, piece[1]))
    return Query(tuple(words.values()))


def _weight(piece: Piece, languages: frozenset[str], *, ascii_text: bool) -> float:
    text, kind = piece
    if kind is PieceKind.CHARACTER:
        return _CHARACTER_WEIGHT
    if kind is PieceKind.WORD and not languages.isdisjoint(function_word_languages(text, ascii_text=ascii_text)):
        return _FUNCTION_WEIGHT
    return 1.0


def _terms(found: Iterable[Piece], forms: Mapping[str, list[str]]) -> list[str]:
    terms: list[str] = []
    word, joined = PieceKind.WORD, PieceKind.JOINED
    for text, kind in found:
        if kind is word:
            terms += forms[text]
        elif term := fold(text) if kind is joined else text:  # the others do not fold
            terms.append(term)
    return terms


def _forms(words: Iterable[str], stemmers: Stemmers) -> dict[str, list[str]]:
    """Return each word's terms: the folded word, its stems, and its form with accents, if they differ.

    Function words of any language have no stems: these would be stubs of a letter or two.
    """
    scripts: dict[str, list[str]] = {}
    for word in words:
        scripts.setdefault(script(word), []).append(word)
    forms: dict[str, list[str]] = {}
    for written_in, group in scripts.items():
        for word, *stems in zip(group, *stemmers.stems(written_in, group), strict=True):
            forms[word] = terms = [folded] if (folded := fold(word)) else []
            for stem in () if is_function_word(word) else stems:
                if stem and stem not in terms:
                    terms.append(stem)
            if folded != word and written_in == "latin":
                terms.append(word + _ACCENTED)
    return forms
