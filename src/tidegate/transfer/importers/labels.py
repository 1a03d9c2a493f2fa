"""Labels in other programs' data: the highest one counts, in any spelling of its key and at any depth (P10)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

from tidegate.policy.levels import Level
from tidegate.records.jsonl import NotJsonError, read_value

UNREADABLE = ""
"""A label that names no level. Its memory is refused (P17)."""

_NAME = "classification"
_OTHER_NAMES = ("level", "taint", "sensitivity", _NAME)
_TAGS = ("tag", "tags", "category", "categories", "label", "labels", "keyword", "keywords", "type")
_GAP = r"[\s\u200b\u2060\ufeff]"
_OBSERVATION = re.compile(
    rf"^[^\w\[\]\n]{{0,40}}(?:\d{{1,9}}[.)]{_GAP}{{1,9}})?(?:\[.\]{_GAP}{{1,9}})?"
    rf"\[(?P<field>[^\[\]\n]{{1,200}})\](?P<text>[^(\[\n].*)$",
    re.MULTILINE,
)
_HASHTAG_OR_CONTEXT = re.compile(r"#\S+|\([^()]*\)")
_VALUES = re.compile(r"[^\s(),.;\u200b\u2060\ufeff]+")
_WORDS = re.compile(r"[^\W\d_]+")
_MARKUP = "*_`~:"
_BETWEEN_TAGS = re.compile(r"[,;\n]")
_SIGN = re.compile(r"[:=/]")
_JSON_STARTS = ("{", "[", '"')
_IN_OBJECT = re.compile(
    rf"[{{,\"']\s{{0,9}}{_NAME}\W{{0,3}}[:=]"
    rf"|(?:level|taint|sensitivity)\W{{0,3}}[:=]\s{{0,9}}[\"']?(?:{'|'.join(Level.__members__)})\b",
    re.IGNORECASE,
)


class _Key(Enum):
    """What a key says about the texts below it."""

    LABEL = auto()  # exactly `classification`: its value must name a level
    LEVEL = auto()  # another word for it: the levels that its values name count
    TAGS = auto()  # its values are tags, such as `classification:restricted`


def named_level(label: object) -> Level | None:
    """Return the level that a label names, in any letter case; None for anything else."""
    return Level.__members__.get(label.upper()) if isinstance(label, str) else None


def label_in(value: object) -> object:
    """Return the highest label anywhere in a JSON value; `UNREADABLE` if one names no level, None if there is none.

    A label is any value of `classification`, and a level named in a value of `level`, `security_level`, `sensitivity`
    and the like; in tags, `classification:restricted` and the like. In a key, case, accents and all but letters and
    digits are ignored. A text that is itself JSON is read as such.
    """
    return highest(_labels(value))


def label_in_tags(tags: object) -> object:
    """Return the highest label in tags: a list of them, or a text with commas between them."""
    return label_in({"tags": tags})


def label_beside(document: object, lists: Iterable[str]) -> object:
    """Return the label of a complete document: of everything in it except its lists of memories."""
    if not isinstance(document, dict):
        return None
    return label_in({name: held for name, held in document.items() if name not in lists or not isinstance(held, list)})


def labels_in_observations(text: str) -> Iterable[object]:
    """Yield the labels that lines of a note state as basic-memory does: `- [classification] RESTRICTED #tag (context)`.

    The word in brackets names a field. The levels in the text after it count. If there are none, a single word is its
    value, and a sentence states no label.
    """
    for each in _OBSERVATION.finditer("\n".join(text.splitlines())):
        key, stated = _key(each["field"]), each["text"]
        if key not in (_Key.LABEL, _Key.LEVEL):
            continue
        levels = list(_levels_in(stated))
        yield from levels
        value = _HASHTAG_OR_CONTEXT.sub(" ", stated.lstrip(_MARKUP))
        if key is _Key.LABEL and not levels and value[:1].isspace() and len(_VALUES.findall(value)) == 1:
            yield UNREADABLE


def highest(labels: Iterable[object]) -> object:
    """Return the highest of some labels, as `label_in` does. None among them means no label."""
    levels = [named_level(label) for label in labels if label is not None]
    if None in levels:
        return UNREADABLE
    return str(max((level for level in levels if level is not None), default="")) or None


def may_be_in_object(text: str) -> bool:
    """Return whether a text that is no readable object may have a label in one."""
    return _IN_OBJECT.search(text) is not None


def _labels(value: object) -> Iterator[object]:
    # Without recursion: a value may be of any depth. Each is read under the last key above it that says something.
    unread: list[tuple[object, _Key | None]] = [(value, None)]
    while unread:
        each, above = unread.pop()
        if isinstance(each, Mapping):
            for name, held in each.items():
                key = _key(str(name))
                if key is _Key.LABEL:
                    yield held if isinstance(held, str) else UNREADABLE
                elif key is None or above is _Key.LEVEL:
                    key = above
                unread += [(held, key), (str(name), above)]
        elif isinstance(each, list):
            unread += ((item, above) for item in each)
        elif isinstance(each, str):
            if above is _Key.LEVEL:
                yield from _levels_in(each)
            elif above is _Key.TAGS:
                yield from _labels_in_tag_text(each)
            if each.lstrip().startswith(_JSON_STARTS):
                inner = _json_in(each)
                yield UNREADABLE if inner is None and each.lstrip()[0] == "{" and may_be_in_object(each) else None
                unread.append((inner, above))


def _labels_in_tag_text(text: str) -> Iterator[object]:
    """Yield the labels of tags such as `classification:restricted` or `team:level=internal`."""
    for tag in _BETWEEN_TAGS.split(unicodedata.normalize("NFKC", text)):
        start = 0
        for sign in _SIGN.finditer(tag):
            name, start = tag[start : sign.start()], sign.end()
            key = _key("".join(name.split()[-1:])) or _key(name)
            if key in (_Key.LABEL, _Key.LEVEL):
                levels = list(_levels_in(tag[start:]))
                is_field = key is _Key.LABEL and sign[0] != "/"  # `classification/binary` is a tag below another
                yield from levels or ([UNREADABLE] if is_field else [])
                break


def _levels_in(text: str) -> Iterator[str]:
    """Yield the levels that words of a text name, whatever signs are around them."""
    for word in _WORDS.findall(text if text.isascii() else f"{text} {_seen(text)}"):
        if named_level(word) is not None:
            yield word.upper()


def _seen(text: str) -> str:
    """Return a text as people see it: without invisible characters, and with plain letters for wide ones."""
    return "".join(char for char in unicodedata.normalize("NFKC", text) if unicodedata.category(char) != "Cf")


def _json_in(text: str) -> object:
    try:
        return read_value(text)
    except NotJsonError:
        return None


def _key(name: str) -> _Key | None:
    letters = "".join(char for char in unicodedata.normalize("NFKD", name).casefold() if char.isalnum())
    if letters == _NAME:
        return _Key.LABEL
    if any(other in letters for other in _OTHER_NAMES):
        return _Key.LEVEL
    return _Key.TAGS if letters.endswith(_TAGS) else None
