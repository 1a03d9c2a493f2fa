"""Front matter: the fields at the head of a note, in YAML, TOML or JSON.

A label in it must never be lost (P10). So a complete YAML library reads it, as nodes: scalars stay the text that they
are. A note whose front matter cannot be read is refused, and so is one that may hide a label elsewhere.
"""

from __future__ import annotations

import json
import re
import string
import tomllib
from collections.abc import Iterable, Mapping
from io import StringIO
from itertools import takewhile
from typing import Any

from tidegate.policy.levels import Level
from tidegate.transfer.importers.labels import UNREADABLE, highest, label_in, may_be_in_object

CHARS_MAX = 64 * 1024
"""The maximum length of front matter."""

DEPTH_MAX = 8
"""How deep lists and mappings in it may be nested."""

_YAML, _TOML = "---", "+++"
_ENDS = {_YAML: (_YAML, "..."), _TOML: (_TOML,)}
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "value")
)
_NULLS = ("", "~", "null", "Null", "NULL")
_MENTION = re.compile(r"(?:^|\r)[^\w\r\n]*classification\W{0,3}[:=：]", re.IGNORECASE | re.MULTILINE)
_LEVELS = "|".join(Level.__members__)
_NAMED = re.compile(rf"(?:level|taint|sensitivity)\W{{0,3}}[:=]\s{{0,9}}[\"']?(?:{_LEVELS})\b", re.IGNORECASE)
_LEVEL_HELD = re.compile(rf"[:=：]\W{{0,9}}(?:{_LEVELS})\b", re.IGNORECASE)
_STATED = re.compile(rf"[&!\\]|(?<![^\W\d_] )\b(?:{_LEVELS})\b", re.IGNORECASE)
"""A level that may be a value, not a word within a sentence."""

_BOLD = re.compile(r"\s*\*\*\S")  # neither YAML nor TOML begins so
_LIKE_FIELD = re.compile(r"^(?!\*\*[^\"'\n]*$).*?(?::(?!//)|[：={%])", re.MULTILINE)
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_PLACE = r"\{\{[\w :.,/+-]*\}\}"
_PLACES = re.compile(
    rf"^(?P<before>[ ]*(?:-[ ]+)*(?:\w[\w .-]*:[ ]+)?)(?P<places>{_PLACE}(?:[ T,:._/-]*{_PLACE})+)(?=\s*$)",
    re.MULTILINE,
)
_OBJECT = re.compile(r'\{\s*"')
_TEMPLATES = ("{{", "{%")  # no object begins so
_UNSEEN = f"\ufeff\u200b\u2060\x85\xa0\u2028\u2029{string.whitespace}"


class UnreadableError(ValueError):
    """Front matter that cannot be read, or that may hide a label. The text says why, without any content."""


def split(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a note, by lower-case name, and the text below its front matter.

    Values are texts, lists, mappings, or None for an empty value or an unfilled template.
    Without front matter: no fields, and the complete text. Raises: UnreadableError.
    """
    lines = _lines(text)
    start = next((place for place, line in enumerate(lines) if line.strip(_UNSEEN)), len(lines))
    opening = lines[start].strip(_UNSEEN) if start < len(lines) else ""
    if opening in _ENDS:
        block, rest = _until_end(lines[start + 1 :], _ENDS[opening], indented=lines[start].startswith((" ", "\t")))
    elif opening.startswith("{"):
        return _json(text.lstrip(_UNSEEN), text)
    else:
        _check_no_label("".join(lines[start:]))
        return {}, text
    if rest is None:
        _check_no_field(block)
        return {}, text
    if sum(map(len, block)) > CHARS_MAX:
        raise UnreadableError(f"its front matter is longer than {CHARS_MAX} characters")
    whole = "".join(block)
    is_text = _is_text("".join(lines[start + 1 :]))
    value = {} if is_text else _read_yaml(whole, above=start + 1) if opening == _YAML else _read_toml(whole)
    _check_no_label("".join(rest))
    if is_text:
        return {}, text
    if not value:  # below a block without a field, its last line may open another, as in YAML
        _check_no_label("".join([f"{_YAML}\n", *rest]))
    if not isinstance(value, dict):
        if label_in(value) is not None or _MENTION.search(whole):
            raise UnreadableError("its front matter has a label that is not in a field")
        return {}, text
    return _by_small_name(value), "".join(rest)


def _lines(text: str) -> list[str]:
    """Return the lines as every reader of front matter sees them: other line breaks of Unicode end none."""
    return list(StringIO(text, newline=""))


def _until_end(lines: list[str], ends: Iterable[str], *, indented: bool) -> tuple[list[str], list[str] | None]:
    """Return the lines before the end of the front matter, and those below it; None if it has no end."""
    bare = str.strip if indented else str.rstrip
    place = next((place for place, line in enumerate(lines) if bare(line) in ends), None)
    return (lines, None) if place is None else (lines[:place], lines[place + 1 :])


def _check_no_field(block: list[str]) -> None:
    """Raise UnreadableError unless the lines after an opening line without an end are plain text."""
    if _is_text("".join(block)):
        return
    first = "".join(takewhile(str.strip, block))
    fields = _read_yaml(first[:CHARS_MAX])
    hidden = label_in(fields) is not None or _NAMED.search(first)
    if hidden or _MENTION.search("".join(block)) or (fields and isinstance(fields, dict)):
        raise UnreadableError("its front matter has no end: add a line with --- below it")


def _check_no_label(text: str) -> None:
    """Raise UnreadableError if a text begins with a labelled block: a second one, or one of another kind."""
    lines = _lines(text.lstrip(_UNSEEN))
    opened = len(list(takewhile(_is_mark, lines)))  # several where blocks are empty
    start = "".join(lines[: opened or 1])
    in_flow = opened or start.startswith("{")
    block = list(takewhile(lambda line: not _is_mark(line), lines[opened:]))
    ended = len(block) + opened < len(lines)
    if not in_flow and not ended:
        return
    whole, first = "".join(block), "".join(takewhile(str.strip, block))
    label = _label_in_yaml(whole if opened else first)
    if not in_flow and first != whole and label in (None, UNREADABLE) and not _LEVEL_HELD.search(whole):
        # A paragraph, then others, then a rule: in text that is no YAML, `Classification: mammals` is no label.
        label, start, first = None if label is None else _label_in_yaml(whole), "", ""
    in_prose = not in_flow and label != UNREADABLE and not _STATED.search(whole)
    hidden = label is not None and not in_prose
    # An empty line below it makes the opening line a rule between two parts of the text.
    mentioned = _MENTION.search(start + (whole if opened and ended and first else first))
    if hidden or mentioned or (in_flow and may_be_in_object(start + first)):
        raise UnreadableError("it has a label outside its front matter, or in front matter of an unknown kind")


def _is_text(text: str) -> bool:
    """Return whether what follows an opening line is plainly text: it begins in bold, and nothing in it may be a label.

    Then the opening line is a rule.
    """
    if not _BOLD.match(text):
        return False
    first = "".join(takewhile(str.strip, _lines(text.lstrip())))
    return not (_MENTION.search(text) or _LEVEL_HELD.search(text) or _LIKE_FIELD.search(first))


def _is_mark(line: str) -> bool:
    return line.startswith((_YAML, _TOML)) or line.rstrip() == "..."


def _by_small_name(fields: Mapping[str, Any]) -> dict[str, Any]:
    by_name = {name.strip().lower(): value for name, value in fields.items()}
    if len(by_name) < len(fields):
        raise UnreadableError("its front matter has the same field twice")
    return by_name


# YAML


def _read_yaml(text: str, *, above: int | None = None) -> Any:
    """Return the value of a block. above: the number of lines of the note above it, for the error; None: not known."""
    import yaml  # load it only when needed: other commands do not wait for it

    try:
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.YAMLError:
            node = yaml.compose(_mended(text), Loader=yaml.SafeLoader)
        return _plain_yaml(node, set(), 0) if node is not None else {}
    except (yaml.YAMLError, RecursionError) as error:
        line = _bad_line(error, len(_lines(text)))
        where = "" if above is None or line is None else f" (line {above + line})"
        raise UnreadableError(f"its front matter is not readable YAML{where}") from None


def _bad_line(error: Exception, lines: int) -> int | None:
    """Return the line of a block with the mistake, from 1; None if it is not known. lines: of the block."""
    found, opened = (getattr(error, name, None) for name in ("problem_mark", "context_mark"))
    # What is never closed is noticed at the end.
    mark = opened if found and opened and found.line >= lines else found
    return min(mark.line + 1, lines) if mark else None


def _label_in_yaml(text: str) -> object:
    """Return the label in the beginning of a text; None also if it is not readable YAML."""
    try:
        return label_in(_read_yaml(text[:CHARS_MAX]))
    except UnreadableError:
        return None


def _mended(text: str) -> str:
    """Return YAML with spaces for tabs between words, and with nothing for several unfilled templates in a row.

    YAML allows such tabs, but PyYAML does not. Nothing else changes, so no label is lost.
    """
    if _OTHER_BREAKS.search(text):
        return text
    lines = (line[: len(line) - len(rest := line.lstrip(" \t"))] + rest.replace("\t", " ") for line in _lines(text))
    return _PLACES.sub(_emptied, "".join(lines))


def _emptied(match: re.Match[str]) -> str:
    """Return a field without its templates; the field as it is if a label may be in one."""
    fields = (place.strip("{").partition(":") for place in match["places"].split("}}"))
    label = highest(label_in({name: value.strip()}) for name, _, value in fields)
    return match["before"] if label is None else match[0]


def _plain_yaml(node: Any, seen: set[int], depth: int) -> Any:
    """Return a node as texts, lists, mappings and None."""
    if node.tag not in _PLAIN_TAGS:
        raise UnreadableError("its front matter has a value of an unknown kind")
    if id(node) in seen:
        raise UnreadableError("its front matter has an alias")
    if depth > DEPTH_MAX:
        raise UnreadableError(f"its front matter is nested deeper than {DEPTH_MAX}")
    seen.add(id(node))
    if isinstance(node.value, str):
        return None if node.style is None and node.value in _NULLS else node.value
    if node.tag.endswith(":seq"):
        return [_plain_yaml(each, seen, depth + 1) for each in node.value]
    if _is_template(node):
        if label_in(_plain_yaml(node.value[0][0], seen, depth + 1)) is not None:
            raise UnreadableError("its front matter has a label in a template")
        return None
    found: dict[str, Any] = {}
    for name, value in node.value:
        if not isinstance(name.value, str) or name.tag not in _PLAIN_TAGS:  # a merge key among them
            raise UnreadableError("its front matter has a name that is not text")
        if name.value in found:
            raise UnreadableError("its front matter has the same field twice")
        found[name.value] = _plain_yaml(value, seen, depth + 1)
    return found


def _is_template(node: Any) -> bool:
    """Return whether a mapping is `{{…}}`, an unfilled place in a template."""
    pairs = node.value
    return bool(node.flow_style and len(pairs) == 1 and pairs[0][0].tag.endswith(":map") and pairs[0][1].value == "")


# TOML and JSON


def _read_toml(text: str) -> Any:
    try:
        return _plain(tomllib.loads(text), 0)
    except (ValueError, RecursionError):
        raise UnreadableError("its front matter is not readable TOML") from None


def _json(text: str, whole: str) -> tuple[dict[str, Any], str]:
    """Return the fields of a note that begins with a JSON object, and the text below it."""
    head = text.lstrip()
    try:
        value, end = json.JSONDecoder(object_pairs_hook=_once).raw_decode(head[:CHARS_MAX])
        fields = _by_small_name(_plain(value, 0))
    except UnreadableError:
        raise
    except (ValueError, RecursionError):
        if _OBJECT.match(head) or (not head.startswith(_TEMPLATES) and _MENTION.search(head[:CHARS_MAX])):
            raise UnreadableError("its front matter is not readable JSON") from None
        _check_no_label(head)
        return {}, whole
    _check_no_label(head[end:])
    return fields, head[end:]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise UnreadableError("its front matter has the same field twice")
    return dict(pairs)


def _plain(value: Any, depth: int) -> Any:
    """Return a value of TOML or JSON as texts, lists, mappings and None."""
    if depth > DEPTH_MAX:
        raise UnreadableError(f"its front matter is nested deeper than {DEPTH_MAX}")
    if isinstance(value, dict):
        return {name: _plain(held, depth + 1) for name, held in value.items()}
    if isinstance(value, list):
        return [_plain(each, depth + 1) for each in value]
    return value if value is None or isinstance(value, str) else str(value)
