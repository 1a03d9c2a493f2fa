"""Segmentation: the words of a text, in any script, without being told the language.

Words come in lower case and compatibility form (NFKC) but still with their accents, which stemmers need;
`fold` takes these off. Scripts that write without spaces are cut into overlapping pieces. Once folded, a
piece holds only a-z, digits and characters outside ASCII, so that a tokenizer that breaks at ASCII
punctuation keeps it whole.
"""

import enum
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

WORD_CHARS_MAX = 64
"""Of a longer word only the beginning counts."""


class Kind(enum.Enum):
    """What sort of thing a piece is, which decides how it may match."""

    WORD = "word"
    """Written with spaces around it, or a part of such a word: `user`, `name`, `2031`."""
    JOINED = "joined"
    """Neighbouring parts of one compound put together: `username` of `user-name`, `04·09` of `2031-04-09`."""
    GRAM = "gram"
    """Two or three neighbouring characters of a script without spaces."""
    CHARACTER = "character"
    """One character of a script without spaces, or an emoji or another symbol."""


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    kind: Kind


def _marks() -> str:
    """The combining marks of living scripts: Python's \\w leaves them out, which would cut Hindi at its vowels."""
    blocks = ((0x300, 0x1B00), (0x1CD0, 0x1E00), (0x20D0, 0x2100), (0x302A, 0x309B), (0xA66F, 0xAC00))
    points = (chr(point) for low, high in blocks for point in range(low, high))
    return "".join(mark for mark in points if unicodedata.category(mark)[0] == "M")


_MARKS = _marks()
# Chinese, Japanese and Korean: pairs. Korean does write spaces, but glues particles to its words.
_PAIRED = "\u3005\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
# Thai, Lao, Burmese, Khmer, Javanese: threes, since a syllable takes two to four characters.
_TRIPLED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua980-\ua9df\uaa60-\uaa7f"

# Parts held together by single joints, with the sign of C++ and C# behind; or one symbol. No nested choice: linear.
_CHUNK = re.compile(rf"[\w{_MARKS}]+(?:[-./@:\\&][\w{_MARKS}]+)*(?:[+#]{{1,2}}(?!\w))?|[^\w\s\x00-\x7f{_MARKS}]")
_JOINT = re.compile(r"[-./@:\\&]")
_UNSPACED = re.compile(f"([{_PAIRED}]+)|([{_TRIPLED}]+)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x200C, 0x200D, 0x2060, 0xFE0E, 0xFE0F, 0xFEFF), None)
_SIGNS = str.maketrans("+#", "\uff0b\uff03")  # an index term has no ASCII punctuation
_STRIPPED = re.compile("[\u0300-\u036f\u0483-\u0487\u0591-\u05c7\u0610-\u061a\u0640\u064b-\u065f\u0670\u06d6-\u06ed\u093c\u09bc\u0a3c]")
_LETTERS = str.maketrans(
    {"ß": "ss", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i", "ς": "σ"}
    | {"ى": "ي", "ة": "ه", "ک": "ك", "ی": "ي"}
)


def fold(word: str) -> str:
    """The word without accents and variant letters; vowel signs that carry the sound (Hindi, Thai) stay."""
    if word.isascii():
        return word
    bare = _STRIPPED.sub("", unicodedata.normalize("NFD", word))
    return unicodedata.normalize("NFC", bare).translate(_LETTERS)


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of a text in order; the parts of a compound stand before their joined forms."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    for match in _CHUNK.finditer(text.replace("_", "-")):
        yield from _chunk(match[0])


def _chunk(chunk: str) -> Iterator[Piece]:
    if len(chunk) == 1 and not chunk.isalnum():
        if unicodedata.category(chunk)[0] == "S" and not "\U0001f3fb" <= chunk <= "\U0001f3ff":
            yield Piece(chunk, Kind.CHARACTER)
        return
    name = chunk.rstrip("+#")
    previous = ""
    for part in _JOINT.split(name):
        words = _CAMEL.split(part)
        for word in words:
            yield from _word(word.lower()[:WORD_CHARS_MAX])
        if len(words) > 1:
            yield Piece(part.lower()[:WORD_CHARS_MAX], Kind.JOINED)
        if previous:
            between = "\u00b7" if previous[-1].isdigit() and part[0].isdigit() else ""
            yield Piece((previous + between + part).lower()[:WORD_CHARS_MAX], Kind.JOINED)
        previous = part
    if name != chunk:
        yield Piece((previous + chunk[len(name) :]).lower().translate(_SIGNS), Kind.JOINED)


def _word(word: str) -> Iterator[Piece]:
    if word.isascii() or not _UNSPACED.search(word):
        yield Piece(word, Kind.WORD)
        return
    for number, run in enumerate(_UNSPACED.split(word)):
        if not run:
            continue
        if number % 3 == 0:
            yield Piece(run, Kind.WORD)
        else:
            yield from _grams(run, size=number % 3 + 1)


def _grams(run: str, *, size: int) -> Iterator[Piece]:
    if size == 2:
        for character in run:
            yield Piece(character, Kind.CHARACTER)
    if len(run) < size and size > 2:
        yield Piece(run, Kind.GRAM)
    for start in range(len(run) - size + 1):
        yield Piece(run[start : start + size], Kind.GRAM)
