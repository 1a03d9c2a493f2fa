"""Segmentation: the words of a text, in any script and any language.

Words come in lower case and compatibility form (NFKC) but still with their accents, which stemmers need;
`fold` removes these. Scripts that write without spaces are cut into overlapping pieces. A piece has only a-z,
digits and characters outside ASCII, so a tokenizer that breaks at ASCII punctuation does not split it.
"""

import enum
import re
import unicodedata
from functools import cache
from itertools import groupby, pairwise
from typing import Literal, NamedTuple

WORD_CHARS_MAX = 64
"""How many characters of a word count, from its start."""

_ROOM_CHARS = 256  # growth allowed to a short text beyond double its size; real texts stay below


class PieceKind(enum.Enum):
    """The sort of a piece, which decides how it may match."""

    WORD = "word"
    """A word written with spaces around it, or a part of one: `user`, `name`, `2031`."""
    JOINED = "joined"
    """Parts of a compound joined, neighbours and all: `username` from `user-name`, `20310409` from `2031-04-09`."""
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

    unspaced: runs that are cut into pairs, or into threes; unspaced_letter: any letter of them. gap: anything between
    words. accent: also vowel points and the Arabic stretch, but no vowel signs or tones of Hindi or Thai, and no Kana
    voicing. digits: not in ASCII. alike, variant: what the tables have. persian: a joiner or a space between a word and
    such a part of it as Persian also writes together; in other scripts a joiner only shapes letters. spaced_number:
    telephone, card and account numbers, thousands with spaces; its groups are bounded, so it is linear.
    """

    chunk: re.Pattern[str]
    unspaced: re.Pattern[str]
    unspaced_letter: re.Pattern[str]
    gap: re.Pattern[str]
    accent: re.Pattern[str]
    digits: re.Pattern[str]
    alike: re.Pattern[str]
    variant: re.Pattern[str]
    persian: re.Pattern[str]
    spaced_number: re.Pattern[str]


@cache
def _patterns() -> _Patterns:
    """Return the patterns that are slow to compile, so that opening a store does not wait for them.

    The first text, whatever it holds, compiles all of them, so that no later text takes longer because of its content.
    """
    marks = _marks()
    word = rf"\w[\w{marks}]*"  # nothing to retry, so linear
    joint = r"(?:[-./@:\\&]|(?<=\d)[,'](?=(?:\d\d[,']){0,3}\d{3}(?!\d)))"  # 1,234,567 and 12,34,567
    return _Patterns(
        chunk=re.compile(rf"{word}(?:{joint}{word})*(?:[+#]{{1,2}}(?!\w))?|[^\w\s\x00-\x7f{marks}]"),
        unspaced=re.compile(f"([{_PAIRED}]+)|([{_TRIPLED}]+)"),
        unspaced_letter=re.compile(f"[{_PAIRED}{_TRIPLED}]"),
        gap=re.compile(rf"[^\w{marks}]+|_+"),
        accent=re.compile(f"[{_ACCENTS}]"),
        digits=re.compile(r"[^\D0-9]+"),
        alike=re.compile(f"[{''.join(_ALIKE)}]"),
        variant=re.compile(f"[{''.join(_VARIANTS)}]"),
        persian=re.compile(
            r"(?<=[\u0620-\u06ff])\u200c(?=[\u0620-\u06ff])"
            r"| (?:(?<=\bم[یي] )|(?<=\bنم[یي] ))(?=[\u0620-\u06ff])"
            r"|(?<=[\u0620-\u06ff]) (?=(?:ها|ها[یي]|ها[یي][یي]|تر|تر[یي]ن)\b)"
        ),
        spaced_number=re.compile(r"(?<![\w:])(?:[A-Z]{2})?\d{1,12}(?:[ ()./-]{1,2}\d{1,12})+(?![\w:])"),
    )


_JOINT = re.compile(r"([-./@:\\&])")
_PUNCTUATION = re.compile(r"[-./@:\\&,'+#]")  # all that a chunk can have
_COMMA = re.compile("[,']")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NUMBER_EDGE = re.compile(r"(?<=\d)(?=[^\W\d])|(?<=\D)(?=\d)")
_NUMBER_PARTS_MAX = 4
_DATE_TIME = re.compile(r"(?<=-\d\d)T(?=\d\d:)")
_SPACED_NUMBER_CHARS = range(5, 35)
_SPACED_DIGITS = re.compile(r"\d(?:[ ()][ ()./-]?|[./-][ ()])\d")  # faster, and most texts have none
_GAP_ASCII = dict.fromkeys((point for point in range(128) if not chr(point).isalnum()), " ")
_ALIKE = (
    dict.fromkeys("\u00ad\u200b\u200c\u200d\u2060\ufe0e\ufe0f\ufeff", "")  # joiners, selectors
    | dict.fromkeys("\u058a\u05be\u2010\u2011\u2012\u2013\u2212", "-")
    # Unicode counts most of these as letters.
    | dict.fromkeys("\u2018\u2019\u201b\u02b9\u02bb\u02bc\u02bd\u02be\u02bf\u02c8\u02ee\u07f4\u07f5\ua78b\ua78c", "'")
    | {"\u066b": ".", "\u066c": ","}  # Arabic: of decimals, of thousands
)
_PERSIAN_HINTS = ("\u200c", "م\u06cc ", "م\u064a ", " ها", " تر")
_SIGNS = str.maketrans("+#", "\uff0b\uff03")  # full-width: an index term has no ASCII punctuation
_SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
# Any mark that is not a letter; a letter or a space begins a new run. And the two letters that normalise to marks.
# In a run of 32 each 32nd character is one, and 8 in a row of each fourth: few texts are looked through completely.
_MARKS_RUNS = {step: re.compile(rf"(?:[^\w\s\x00-\x7f]|[\uff9e\uff9f]){{{32 // step}}}") for step in (32, 4, 1)}
_VARIANTS = {"ß": "ss", "þ": "th", "æ": "ae", "œ": "oe"} | dict(zip("øłđðıςىةکی", "olddiσيهكي", strict=True))


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a text in order; the parts of a compound come before their joined forms.

    The time is linear in the length of the text. ASCII punctuation alone gives no pieces.
    """
    found: list[Piece] = []
    text = _plain(text).replace("_", "&")  # the rarest joint: `foo_bar-baz` has two kinds
    for chunk in _patterns().chunk.findall(text):
        if (chunk.isalpha() and (chunk.islower() or chunk.istitle() or chunk.isupper())) or chunk.isdecimal():
            found.append((chunk.lower()[:WORD_CHARS_MAX], _WORD))
        elif not chunk.isascii() and (run := _patterns().unspaced.match(chunk)):
            _unspaced(chunk, found, paired=bool(run[1]))
        elif chunk.isalnum() or (len(chunk) > 1 and not _PUNCTUATION.search(chunk)):
            _part(chunk, found)
        elif len(chunk) > 1:
            for compound in _DATE_TIME.split(chunk):
                _compound(compound, found)
        elif unicodedata.category(chunk)[0] == "S" and chunk not in _SKIN_TONES:
            found.append((chunk, _CHARACTER))
    if _SPACED_DIGITS.search(text):
        _spaced_numbers(text, found)
    return found


def fold(word: str) -> str:
    """Return the text without accents and variant letters; vowel signs that carry the sound stay."""
    if word.isascii():
        return word
    bare = _patterns().accent.sub("", _normal("NFD", word))
    return _patterns().variant.sub(lambda letter: _VARIANTS[letter[0]], _normal("NFC", bare))


def skeleton(text: str) -> str:
    """Return the folded words of a text with spaces around each, for searching parts of words."""
    if text.isascii():
        return f" {text.lower().translate(_GAP_ASCII)} "
    return f" {_patterns().gap.sub(' ', fold(_plain(text).lower()))} "


def is_unspaced(text: str) -> bool:
    """Return whether the text has a script that writes without spaces."""
    return not text.isascii() and _patterns().unspaced_letter.search(text) is not None


def grams(run: str) -> list[str]:
    """Return the overlapping pieces of a run in a script without spaces: threes for Thai and similar, else pairs."""
    found = _patterns().unspaced.search(run)
    size = 3 if found is not None and found[2] else 2
    return [run[start : start + size] for start in range(max(len(run) - size + 1, 1))]


def _plain(text: str) -> str:
    """Return the text in compatibility form, with ASCII digits, joints and apostrophes, and with spaces around
    scripts that write none. It is cut where it grows too much: one letter can expand to 18.
    """
    if text.isascii():
        return text
    text = _normal("NFKC", text)[: 2 * len(text) + _ROOM_CHARS]
    text = _patterns().digits.sub(lambda run: "".join(str(unicodedata.decimal(digit)) for digit in run[0]), text)
    if any(hint in text for hint in _PERSIAN_HINTS):
        text = _patterns().persian.sub("-", text)
    text = _patterns().alike.sub(lambda sign: _ALIKE[sign[0]], text)
    return _patterns().unspaced.sub(r" \g<0> ", text) if is_unspaced(text) else text


def _normal(form: Literal["NFC", "NFD", "NFKC"], text: str) -> str:
    """Return the text in a normal form; in a run of marks longer than any language writes, each 32 separately.

    Sorting marks takes time quadratic in their number: a run of one mebibyte would take more than an hour.
    """
    if len(text) <= WORD_CHARS_MAX or not all(run.search(text[step - 1 :: step]) for step, run in _MARKS_RUNS.items()):
        return unicodedata.normalize(form, text)
    bounds = (0, *(run.end() for run in _MARKS_RUNS[1].finditer(text)), len(text))
    return "".join(unicodedata.normalize(form, text[start:end]) for start, end in pairwise(bounds))


def _compound(chunk: str, found: list[Piece]) -> None:
    """Add the words of a compound; then joined: neighbours, all with one sort of joint between them, and all."""
    name = chunk.rstrip("+#")
    parts, joints = (split := _JOINT.split(name))[::2], split[1::2]
    for place, part in enumerate(parts):
        if "," in part or "'" in part:
            parts[place] = _thousands(part, found)
        else:
            _part(part, found)
        if place:
            pair = parts[place - 1 : place + 1]
            found.append((("\u00b7" if _are_numbers(pair) else "").join(pair).lower()[:WORD_CHARS_MAX], _JOINED))
    start = 0
    for _, alike in groupby(joints):
        end = start + len(list(alike))
        _whole(parts[start : end + 1], found)
        start = end
    if len(set(joints)) > 1:
        _whole(parts, found)
    if name != chunk:
        signed = parts[-1][: WORD_CHARS_MAX - 2] + chunk[len(name) :].translate(_SIGNS)
        found.append((signed.lower(), _JOINED))


def _whole(parts: list[str], found: list[Piece]) -> None:
    """Add the parts joined, if they are no longer than a word. Two are added as neighbours, except numbers."""
    if (len(parts) > 2 or _are_numbers(parts)) and sum(map(len, parts)) <= WORD_CHARS_MAX:
        found.append(("".join(parts).lower(), _JOINED))


def _are_numbers(pair: list[str]) -> bool:
    return pair[0][-1].isdigit() and pair[1][0].isdigit()


def _thousands(number: str, found: list[Piece]) -> str:
    """Add the groups of a number like 1,234,567, and the number without the signs between them; return it."""
    groups = _COMMA.split(number)
    for group in groups:
        _part(group, found)
    joined = "".join(groups)
    found.append((joined.lower()[:WORD_CHARS_MAX], _JOINED))
    return joined


def _part(part: str, found: list[Piece]) -> None:
    """Add the words of a part without joints, in order, and the part if it has several."""
    runs = [part] if part.isalpha() else _NUMBER_EDGE.split(part)
    if len(runs) > 2 and _is_code(runs):
        runs = [part]
    for run in runs:
        words = _CAMEL.split(run)
        found.extend((word.lower()[:WORD_CHARS_MAX], _WORD) for word in words)
        if len(words) > 1:
            found.append((run.lower()[:WORD_CHARS_MAX], _JOINED))
    if len(runs) > 1:
        found.append((part.lower()[:WORD_CHARS_MAX], _JOINED))


def _is_code(runs: list[str]) -> bool:
    """Return whether letters and numbers in turn are one word, like B2B; 12h30 and iPhone15Pro are three."""
    has_single_letter = any(len(run) == 1 and run.isalpha() for run in runs)
    return len(runs) > _NUMBER_PARTS_MAX or (has_single_letter and not runs[0].isdigit())


def _unspaced(run: str, found: list[Piece], *, paired: bool) -> None:
    """Add a run in a script without spaces, in pieces."""
    if paired:
        found.extend((character, _CHARACTER) for character in run)
    if not paired or len(run) > 1:
        found.extend((gram, _GRAM) for gram in grams(run))


def _spaced_numbers(text: str, found: list[Piece]) -> None:
    """Add numbers that are written in groups, without the spaces and the zero that is not dialled from abroad."""
    for number in _patterns().spaced_number.findall(text):
        if _SPACED_DIGITS.search(number):
            joined = "".join(filter(str.isalnum, number.replace("(0)", "")))
            if len(joined) in _SPACED_NUMBER_CHARS:
                found.append((joined.lower(), _JOINED))
