"""Labels in other programs' data: the highest one counts, in any spelling of its key and at any depth (P10)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping

from tidegate.policy.levels import Level

UNREADABLE = ""
"""A label that names no level. Its memory is refused (P17)."""

_NAME = "classification"
_OBSERVATION = re.compile(
    r"^[ \t]{0,40}(?:(?:[-*+]|\d{1,9}[.)])[ \t]{1,9})?\[(?P<field>[^\[\]()\n]{1,200})\][ \t]{1,9}(?P<text>\S.*)$",
    re.MULTILINE,
)
_WORDS = re.compile(r"[^\s(),.;]+")
_OTHER_NAMES = ("level", "taint", "sensitivity", _NAME)


def named_level(label: object) -> Level | None:
    """Return the level that a label names, in any letter case; None for anything else."""
    return Level.__members__.get(label.upper()) if isinstance(label, str) else None


def label_in(value: object) -> object:
    """Return the highest label anywhere in a JSON value; `UNREADABLE` if one names no level, None if there is none.

    A label is any value of `classification`, and a value of `level`, `security_level`, `sensitivity` and the like that
    names a level. In a key, case, accents and all but letters and digits are ignored.
    """
    return highest(_labels(value))


def label_beside(document: object, lists: Iterable[str]) -> object:
    """Return the label of a complete document: of everything in it except its lists of memories."""
    if not isinstance(document, dict):
        return None
    return label_in({name: held for name, held in document.items() if name not in lists or not isinstance(held, list)})


def labels_in_observations(text: str) -> Iterable[object]:
    """Yield the labels that lines of a note state as basic-memory does: `- [classification] RESTRICTED #tag (context)`.

    The word in brackets names a field. A single word after it is its value; of a sentence, the levels in it are.
    """
    for each in _OBSERVATION.finditer(text):
        words = [word for word in _WORDS.findall(each["text"]) if not word.startswith("#")]
        levels = [word for word in words if named_level(word) is not None]
        for value in levels or (words if len(words) == 1 else ()):
            yield label_in({each["field"]: value})


def highest(labels: Iterable[object]) -> object:
    """Return the highest of some labels, as `label_in` does. None among them means no label."""
    levels = [named_level(label) for label in labels if label is not None]
    if None in levels:
        return UNREADABLE
    return str(max((level for level in levels if level is not None), default="")) or None


def _labels(value: object) -> Iterable[object]:
    # Without recursion: a value may be of any depth.
    unread = [value]
    while unread:
        each = unread.pop()
        if isinstance(each, Mapping):
            for name, held in each.items():
                yield _label(str(name), held)
                unread.append(held)
        elif isinstance(each, list):
            unread += each


def _label(name: str, value: object) -> object:
    letters = "".join(char for char in unicodedata.normalize("NFKD", name).casefold() if char.isalnum())
    if letters == _NAME:
        return value if isinstance(value, str) else UNREADABLE
    if not any(other in letters for other in _OTHER_NAMES):
        return None
    named = [each.strip() for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)]
    return highest(each for each in named if named_level(each) is not None)
