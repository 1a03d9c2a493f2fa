"""Checks of a caller's arguments. Each error names the argument, says what to do, and never repeats a value (P12)."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice

from tidegate.errors import InvalidArgument, LimitExceeded
from tidegate.policy.levels import Level
from tidegate.records.limits import Limits
from tidegate.records.tags import distinct_tags

_AGENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
# Names of devices on Windows, with any suffix after a dot.
_DEVICE = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
# U+061C, U+200E, U+200F: bidi marks. U+202A..202E, U+2066..2069: bidi controls. U+2028, U+2029: separators.
_DECEIVING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_SENT_TAGS_MAX = 20_000
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def check_agent(agent: object) -> str:
    """Check an agent id: 1 to 64 of `a-z 0-9 . _ -`, starting with a letter or digit, not a device name."""
    text = _text("agent", agent)
    if not _AGENT.fullmatch(text) or _DEVICE.fullmatch(text) or text.endswith("."):
        raise InvalidArgument(
            "agent: must be 1 to 64 of a-z, 0-9, '.', '_' and '-', start with a letter or digit, and not be a "
            "Windows device name such as con or nul",
            argument="agent",
        )
    return text


def check_key(key: object, limits: Limits, argument: str = "key") -> str:
    """Check a key, and return it in NFC; case and spaces are kept."""
    return _label(argument, key, limits.key_chars_max)


def check_content(content: object, limits: Limits, argument: str = "content") -> str:
    """Check that the content is at most `content_bytes_max` bytes of UTF-8, and return it exactly as sent."""
    text = _text(argument, content)
    if not text:
        raise InvalidArgument(f"{argument}: must not be empty", argument=argument)
    size = len(text.encode())
    if size > limits.content_bytes_max:
        raise _too_much(argument, "bytes of UTF-8", limits.content_bytes_max, size)
    return text


def check_tags(tags: object, limits: Limits, argument: str = "tags") -> tuple[str, ...]:
    """Check tags, and return them in NFC, trimmed, in code-point order; of those that compare alike, the first.

    In one string, commas separate tags, unless it is a JSON list. In a list, a comma is a part of its tag.
    """
    sent = _items(tags, argument)
    if len(sent) > _SENT_TAGS_MAX:  # before looking at any
        raise _too_much(argument, "tags", limits.tags_max, len(sent))
    if not all(isinstance(item, str) for item in sent):
        raise InvalidArgument(f"{argument}: each must be a string", argument=argument)
    items = [str(item).strip() for item in sent]
    distinct = distinct_tags(_label(argument, item, limits.tag_chars_max) for item in items if item != "")
    if len(distinct) > limits.tags_max:
        raise _too_much(argument, "tags", limits.tags_max, len(distinct))
    return distinct


def check_arguments(arguments: object) -> Mapping[str, object]:
    """Check the arguments of a tool call, and return them by name. A model may send anything."""
    if not arguments:
        return {}
    if not isinstance(arguments, (dict, Mapping)):  # most are dicts: the abstract class is slower to ask
        raise InvalidArgument("arguments: must be an object", argument="arguments")
    return arguments


def check_item(item: object) -> Sequence[object]:
    """Check one item to save: key, content, perhaps tags. A string or a dict would unpack into something else."""
    if isinstance(item, list | tuple) and len(item) in (2, 3):
        return item
    raise InvalidArgument("items: each must be (key, content) or (key, content, tags)", argument="items")


def check_tag(tag: object, limits: Limits) -> str | None:
    """Check a tag to filter by, and return it as `check_tags` would store it; None for no filter."""
    return None if tag is None else _label("tag", tag.strip() if isinstance(tag, str) else tag, limits.tag_chars_max)


def check_query(query: object, limits: Limits) -> str:
    """Check the query, and return it as sent; nothing in it is syntax."""
    text = _text("query", query)
    if len(text) > limits.query_chars_max:
        raise _too_much("query", "characters", limits.query_chars_max, len(text))
    return text


def check_beginning(query: object, limits: Limits) -> str:
    """Check a text of any length to search by, and return as much of it as a query may have."""
    return _text("query", query)[: limits.query_chars_max]


def check_level(level: object, argument: str = "level") -> Level:
    """Check that the host's own code passed a `Level`, not a word or a number."""
    if not isinstance(level, Level):
        raise InvalidArgument(f"{argument}: must be a Level, such as Level.PUBLIC", argument=argument)
    return level


def check_number(argument: str, value: object, *, default: int, most: int) -> int:
    """Check a whole number from 1 to `most`; 10.0 counts as 10, None as the default."""
    if value is None:
        return default
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else 0
    if 1 <= number <= most and number == int(number):
        return int(number)
    raise InvalidArgument(f"{argument}: must be a whole number from 1 to {most}", argument=argument)


def check_names(names: Iterable[object], known: Collection[str], argument: str = "arguments") -> None:
    """Check that every name is known; refuse the first unknown one by its place.

    P12: not by its name, which is the caller's own text: an error goes further than the caller.
    """
    for place, name in enumerate(names, 1):
        if name not in known:
            known_ones = ", ".join(known) or "none"
            raise InvalidArgument(
                f"{argument}: field {place} has an unknown name; known names: {known_ones}", argument=argument
            )


def require(arguments: Mapping[str, object], *names: str) -> None:
    """Check that each of `names` is present and not null."""
    for name in names:
        if arguments.get(name) is None:
            raise InvalidArgument(f"{name}: is required", argument=name)


def _text(argument: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidArgument(f"{argument}: must be a string", argument=argument)
    if _UNSTORABLE.search(value):
        raise InvalidArgument(f"{argument}: must not contain NUL or lone surrogates", argument=argument)
    return value


def _label(argument: str, value: object, chars_max: int) -> str:
    """Check a key or tag, and return it in NFC: one visible line in its apparent order."""
    if isinstance(value, str) and value.isascii() and value.isprintable() and len(value) <= chars_max and value.strip():
        return value  # the usual case: no check below would refuse or change it
    text = _text(argument, value)
    # Normalising is quadratic in runs of combining marks, so check the length first; NFC shortens by less than 4.
    if len(text) > 4 * chars_max:
        raise _too_much(argument, "characters", chars_max, len(text))
    text = unicodedata.normalize("NFC", text)
    if len(text) > chars_max:
        raise _too_much(argument, "characters", chars_max, len(text))
    if not text.strip():
        raise InvalidArgument(f"{argument}: must not be empty or blank", argument=argument)
    if _DECEIVING.search(text):
        raise InvalidArgument(
            f"{argument}: must not contain control characters, line separators or bidirectional controls",
            argument=argument,
        )
    return text


def _items(tags: object, argument: str) -> list[object]:
    if tags is None:
        return []
    if isinstance(tags, str):
        return _listed(tags)
    if isinstance(tags, list | tuple):
        return list(tags)
    if isinstance(tags, Iterable) and not isinstance(tags, Mapping | bytes | bytearray):
        return list(islice(tags, _SENT_TAGS_MAX + 1))  # a generator may never end
    raise InvalidArgument(f"{argument}: must be a list of strings", argument=argument)


def _listed(text: str) -> list[object]:
    """Read a JSON list in a string, as some models send; in any other string commas separate the tags."""
    if text.lstrip().startswith("["):
        try:
            parsed = json.loads(text)
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, list):
            return parsed
    return list[object](text.split(","))


def _too_much(argument: str, unit: str, limit: int, actual: int) -> LimitExceeded:
    return LimitExceeded(
        f"{argument}: {actual} {unit}; the limit is {limit}", argument=argument, limit=limit, actual=actual
    )
