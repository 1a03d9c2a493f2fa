"""Invisible and deceptive characters, which could smuggle text past the owner's eye to a model (P18).

The set comes from Unicode's properties, not from a list by hand: every character without a form of its own (categories
C and Z), and every character that is not drawn (Default_Ignorable_Code_Point).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from unicodedata import combining

# Default_Ignorable_Code_Point, DerivedCoreProperties.txt of Unicode 14.0. It reserves room for later versions.
_IGNORABLE = (
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Letters, marks and symbols that are drawn as nothing; no property lists them.
_BLANK = "\u2800\ufffc\U00013441\U00013442\U00016fe4\U0001d159"
# Prepended_Concatenation_Mark, PropList.txt of Unicode 14.0: the format characters that are drawn.
_DRAWN = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")

# The scripts whose letters join, by the first words of the letters' names.
_CURSIVE = (
    "ARABIC LETTER|SYRIAC LETTER|MANDAIC LETTER|NKO LETTER|MONGOLIAN LETTER|PHAGS-PA LETTER|ADLAM |MANICHAEAN LETTER|"
    "PSALTER PAHLAVI LETTER|HANIFI ROHINGYA LETTER|SOGDIAN LETTER|OLD UYGHUR LETTER|CHORASMIAN LETTER"
).split("|")

_NON_JOINER, _JOINER, _AS_EMOJI = "\u200c", "\u200d", "\ufe0f"
_BY_NEIGHBOURS = _NON_JOINER + _JOINER + _AS_EMOJI
_SKIN_TONES = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
_VIRAMA = 9  # Canonical_Combining_Class
_CHARS_BEFORE = 6
"""How far before a joiner its letter may be: the letter may carry marks."""

# Candidates for an escape: everything but letters and digits, and the few letters that are named.
_SUSPECT = re.compile(rf"[^\w\n\t\x20-\x7e]|[{_IGNORABLE}{_BLANK}]")
_NOT_DRAWN = re.compile(f"[{_IGNORABLE}{_BLANK}]")


def code(char: str) -> str:
    """Return an escape that names the character."""
    number = ord(char)
    if char == "\r":
        return "\\r"
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"


def escape_invisible(text: str, write: Callable[[str], str] = code) -> str:
    """Return the text with invisible and deceptive characters escaped. Line feeds and tabs stay."""
    return "".join(_pieces(text, 0, len(text), write))


def escape_line(text: str) -> str:
    """Return the text on one line, with line feeds and tabs escaped as well."""
    return escape_invisible(text).replace("\n", "\\n").replace("\t", "\\t")


def escape_json(text: str) -> str:
    """Return the same JSON text with an escape for each character that a reader does not see, swallows or obeys."""
    return escape_invisible(text, _json_code)


def decided(text: str) -> str:
    """Return the text without a last character whose escape depends on the next one."""
    return text[:-1] if text.endswith(tuple(_BY_NEIGHBOURS)) else text


class Escaper:
    """Escapes lines that arrive in pieces as if they had arrived in one, with one kind of line end."""

    def __init__(self) -> None:
        self._before = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """Return all that can be shown now: not a last character whose escape depends on the next one."""
        text = (self._held + piece).replace("\r\n", "\n")
        sure = text[:-1] if text.endswith("\r") else decided(text)
        self._held = text[len(sure) :]
        return self._escaped(sure, self._held)

    def end(self) -> str:
        """Return the text that was held back. Nothing follows it."""
        held, self._held = self._held, ""
        return self._escaped(held, "")

    def _escaped(self, text: str, after: str) -> str:
        start = len(self._before)
        seen = self._before + text
        self._before = seen[-_CHARS_BEFORE:]
        return "".join(_pieces(seen + after, start, len(seen), code))


def _json_code(char: str) -> str:
    """Return a character as JSON writes it: in two halves beyond the first 65,536."""
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def _pieces(text: str, start: int, end: int, write: Callable[[str], str]) -> Iterator[str]:
    at = start
    for suspect in _SUSPECT.finditer(text, start, end):
        if _is_unseen(suspect[0]) and not _spells(text, suspect.start()):
            yield text[at : suspect.start()]
            yield write(suspect[0])
            at = suspect.end()
    yield text[at:end]


@lru_cache(maxsize=4096)
def _is_unseen(char: str) -> bool:
    from apsw.unicode import category, is_extended_pictographic  # loads the engine; --help must not wait for it

    if _NOT_DRAWN.match(char):
        return True
    # Code points reserved for pictographs of later versions count, too.
    return category(char)[0] in "CZ" and char not in _DRAWN and not is_extended_pictographic(char)


def _spells(text: str, at: int) -> bool:
    """Return whether a joiner or a selector visibly changes what is drawn."""
    from apsw.unicode import is_extended_pictographic

    char = text[at]
    if char not in _BY_NEIGHBOURS:
        return False
    before, after = text[max(0, at - _CHARS_BEFORE) : at], text[at + 1 : at + 2]
    last = before[-1:]
    if char == _AS_EMOJI:
        return is_extended_pictographic(last) or (last in tuple("0123456789#*") and after == "\u20e3")
    if char == _JOINER and is_extended_pictographic(after):
        return is_extended_pictographic(before[-2:-1] if last == _AS_EMOJI or last in _SKIN_TONES else last)
    letter = _letter(before)
    if last and combining(last) == _VIRAMA:
        return char == _JOINER or after.isalpha()
    if after and combining(after) == _VIRAMA:
        return letter.isalpha() and not letter.isascii()
    joined = _script(letter), _script(after)
    if char == _NON_JOINER:
        return joined[0] == joined[1] != ""
    return (joined[0] == "") != (joined[1] == "")  # no effect between two letters that join anyway


def _letter(before: str) -> str:
    """Return the last character that is not a mark."""
    from apsw.unicode import category

    for char in reversed(before):
        if category(char)[0] != "M" or _is_unseen(char):
            return char
    return ""


@lru_cache(maxsize=4096)
def _script(char: str) -> str:
    """Return the script of a letter, if its letters join."""
    from apsw.unicode import codepoint_name

    name = codepoint_name(char) if char else None
    return next((script for script in _CURSIVE if (name or "").startswith(script)), "")
