"""Segmentation: the words of a text, in any script and any language.

Words come in lower case and compatibility form (NFKC) but still with their accents, which stemmers need;
`fold` removes these. Scripts that write without spaces are cut into overlapping pieces. A piece has only a-z,
digits and characters outside ASCII, so a tokenizer that breaks at ASCII punctuation does not split it.
"""

import enum
import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

WORD_CHARS_MAX = 64
"""How many characters of a word count, from its start."""

_ROOM_CHARS = 256  # growth allowed to a short text beyond double its size; real texts stay below


class PieceKind(enum.Enum):
    """The sort of a piece, which decides how it may match."""

    WORD = "word"
    """A word written with spaces around it, or a part of one: `user`, `name`, `2031`."""
    JOINED = "joined"
    """Neighbouring parts of a compound joined: `username` from `user-name`, `2031·04` from `2031-04-09`."""
    GRAM = "gram"
    """Two or three neighbouring characters of a script without spaces."""
    CHARACTER = "character"
    """One character of such a script, an emoji or another symbol."""


Piece = tuple[str, PieceKind]
"""A future term, and its sort."""

_WORD, _JOINED, _GRAM, _CHARACTER = PieceKind


def _marks() -> str:
    """Return the combining marks of living scripts: Python's \\w omits them, which would cut Hindi at its vowels."""
    blocks = ((0x300, 0x1B00), (0x1CD0, 0x1E00), (0x20D0, 0x2100), (0x302A, 0x309B), (0xA66F, 0xAC00))
    points = (chr(point) for low, high in blocks for point in range(low, high))
    return "".join(mark for mark in points if unicodedata.category(mark)[0] == "M")


# Chinese, Japanese, Korean: pairs. Korean writes spaces, but attaches its particles to the words.
_PAIRED = (
    "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Thai, Lao, Burmese, Khmer, Javanese: threes, because their syllables have two to four characters.
_TRIPLED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua980-\ua9df\uaa60-\uaa7f"
_ACCENTS = (
    "\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c"
)


class _Patterns(NamedTuple):
    """chunk: parts joined by single joints, then the sign of C++ and C#; or one symbol.

    unspaced: runs that are cut into pairs, or into threes. gap: anything between words. accent: also vowel points
    and the Arabic stretch, but no vowel signs or tones of Hindi or Thai, and no Kana voicing.
    """

    chunk: re.Pattern[str]
    unspaced: re.Pattern[str]
    gap: re.Pattern[str]
    accent: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Return the patterns that are slow to compile, so that opening a store does not wait for them.

    The first text, whatever it holds, compiles all of them, so that no later text takes longer because of its content.
    """
    marks = _marks()
    word = rf"\w[\w{marks}]*"  # nothing to retry, so linear
    return _Patterns(
        re.compile(rf"{word}(?:[-./@:\\&]{word})*(?:[+#]{{1,2}}(?!\w))?|[^\w\s\x00-\x7f{marks}]"),
        re.compile(f"([{_PAIRED}]+)|([{_TRIPLED}]+)"),
        re.compile(rf"[^\w{marks}]+|_+"),
        re.compile(f"[{_ACCENTS}]"),
    )


_JOINT = re.compile(r"[-./@:\\&]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_GAP_ASCII = dict.fromkeys((point for point in range(128) if not chr(point).isalnum()), " ")
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFE0E, 0xFE0F, 0xFEFF))  # joiners, selectors
_SIGNS = str.maketrans("+#", "\uff0b\uff03")  # full-width: an index term has no ASCII punctuation
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
# Any mark that is not a letter; a letter or a space begins a new run. And the two letters that normalise to marks.
_MARKS_RUN = re.compile(r"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){32}")
_VARIANTS = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ς": "σ"}
    | {"ى": "ي", "ة": "ه", "ک": "ك", "ی": "ي"}
)


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a text in order; the parts of a compound come before their joined forms.

    The time is linear in the length of the text. ASCII punctuation alone gives no pieces.
    """
    found: list[Piece] = []
    text = _plain(text).replace("_", "-")
    unspaced = not text.isascii() and _patterns().unspaced.search(text) is not None
    for chunk in _patterns().chunk.findall(text):
        if not chunk.isalnum():
            _compound(chunk, found)
        elif (unspaced and is_unspaced(chunk)) or not (chunk.islower() or chunk.istitle() or chunk.isupper()):
            _part(chunk, found)
        else:
            found.append((chunk.lower()[:WORD_CHARS_MAX], _WORD))
    return found


def fold(word: str) -> str:
    """Return the text without accents and variant letters; vowel signs that carry the sound stay."""
    if word.isascii():
        return word
    bare = _patterns().accent.sub("", _normal("NFD", word))
    return _normal("NFC", bare).translate(_VARIANTS)


def skeleton(text: str) -> str:
    """Return the folded words of a text with spaces around each, for searching parts of words."""
    if text.isascii():
        return f" {text.lower().translate(_GAP_ASCII)} "
    return f" {_patterns().gap.sub(' ', fold(_plain(text).lower()))} "


def is_unspaced(text: str) -> bool:
    """Return whether the text has a script that writes without spaces."""
    return not text.isascii() and _patterns().unspaced.search(text) is not None


def grams(run: str) -> list[str]:
    """Return the overlapping pieces of a run in a script without spaces: threes for Thai and similar, else pairs."""
    found = _patterns().unspaced.search(run)
    size = 3 if found is not None and found[2] else 2
    return [run[start : start + size] for start in range(max(len(run) - size + 1, 1))]


def _plain(text: str) -> str:
    """Return the text in compatibility form, cut where it grows too much: one letter can expand to 18."""
    if text.isascii():
        return text
    return _normal("NFKC", text)[: 2 * len(text) + _ROOM_CHARS].translate(_INVISIBLE)


def _normal(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return the text in a normal form; in a run of marks longer than any language writes, each 32 separately.

    Sorting marks takes time quadratic in their number: a run of one mebibyte would take more than an hour.
    """
    if len(text) <= WORD_CHARS_MAX:
        return unicodedata.normalize(form, text)
    bounds = (0, *(run.end() for run in _MARKS_RUN.finditer(text)), len(text))
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in pairwise(bounds))


def _compound(chunk: str, found: list[Piece]) -> None:
    """Add symbols, words with marks or signs, and parts joined together."""
    if len(chunk) == 1:
        if unicodedata.category(chunk)[0] == "S" and chunk not in _SKIN_TONES:
            found.append((chunk, _CHARACTER))
        return
    name = chunk.rstrip("+#")
    previous = ""
    for part in _JOINT.split(name):
        _part(part, found)
        if previous:
            between = "\u00b7" if previous[-1].isdigit() and part[0].isdigit() else ""
            found.append(((previous + between + part).lower()[:WORD_CHARS_MAX], _JOINED))
        previous = part
    if name != chunk:
        signed = previous[: WORD_CHARS_MAX - 2] + chunk[len(name) :].translate(_SIGNS)
        found.append((signed.lower(), _JOINED))


def _part(part: str, found: list[Piece]) -> None:
    words = _CAMEL.split(part)
    for word in words:
        _word(word.lower(), found)
    if len(words) > 1:
        found.append((part.lower()[:WORD_CHARS_MAX], _JOINED))


def _word(word: str, found: list[Piece]) -> None:
    """Add a word; if it has scripts without spaces, add their runs in pieces and the rest as words."""
    if not is_unspaced(word):
        found.append((word[:WORD_CHARS_MAX], _WORD))
        return
    for number, run in enumerate(_patterns().unspaced.split(word)):
        if not run:
            continue
        if number % 3 == 0:
            found.append((run[:WORD_CHARS_MAX], _WORD))
            continue
        if number % 3 == 1:
            found.extend((character, _CHARACTER) for character in run)
        if number % 3 == 2 or len(run) > 1:
            found.extend((gram, _GRAM) for gram in grams(run))
