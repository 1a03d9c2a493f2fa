"""What is new or changed in a server's tools, in short or whole, for the owner to judge. All of it is their text."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import takewhile
from typing import TYPE_CHECKING

from tidegate.cli.output import at_most, counted, word
from tidegate.policy.servers import Pin

if TYPE_CHECKING:
    from tidegate.gateway.pins import Definition

IN_SHORT = "this is the short form; --full leaves nothing out"
_LINE_CHARS_MAX = 100
_WORD_CHARS_MAX = 60
_VALUE_CHARS_MAX = 300
_CONTEXT_CHARS = 20  # shown before and after a difference
_ARGUMENTS_MAX = 20
_PLACES_MAX = 40
_DEPTH_MAX = 8  # below this, a part of a definition is compared whole
_ABSENT = object()


def question(server: str, pins: Iterable[Pin]) -> str:
    """Return what the owner is asked, with the number of tools of each kind."""
    count = Counter(pins)
    news = [f"{count[pin]} {pin}" for pin in (Pin.NEW, Pin.CHANGED) if count[pin]]
    asked = []
    if news:
        asked.append(f"trust {' and '.join(news)} tool{'' if count[Pin.NEW] + count[Pin.CHANGED] == 1 else 's'}")
    if count[Pin.GONE]:
        asked.append(f"forget {counted(count[Pin.GONE], 'gone tool')}")
    text = " and ".join(asked)
    return f"{text[:1].upper()}{text[1:]} of {server}?"


def short(tool: str, pin: Pin, before: Definition | None, after: Definition | None) -> Iterator[str]:
    """Yield a tool in short: what changed in it or, if it is new or gone, its description and its arguments.

    P14: what is cut off ends with the number of characters or places that are left out.
    """
    yield f"{pin}: {tool}"
    if before is not None and after is not None:
        places = list(_differences((), before.to_dict(), after.to_dict()))
        for place in places[:_PLACES_MAX]:
            yield from _place(*place)
        if len(places) > _PLACES_MAX:
            yield f"  … and {counted(len(places) - _PLACES_MAX, 'more place')}"
    elif (definition := after or before) is not None:
        yield f"  {_first_line(definition.description or '')}"
        yield f"  arguments: {_arguments(definition.input_schema)}"


def whole(tool: str, pin: Pin, before: Definition | None, after: Definition | None) -> Iterator[str]:
    """Yield the difference between both definitions, line by line."""
    yield f"{pin}: {tool}"
    for line in difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=2):
        if not line.startswith(("---", "+++", "@@")):
            yield f"  {line}"


def _lines(definition: Definition | None) -> list[str]:
    if definition is None:
        return []
    return json.dumps(definition.to_dict(), indent=1, ensure_ascii=False, sort_keys=True).split("\n")


def _first_line(description: str) -> str:
    text = description.strip()
    lines = text.splitlines()
    return _cut(text, len(lines[0]) if lines else 0, _LINE_CHARS_MAX) if text else "no description"


def _arguments(schema: Mapping[str, object]) -> str:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not properties:
        return "none"
    needed = required if isinstance(required, list) else []
    found = [f"{_word(name)}{'' if name in needed else '?'}: {_type(each)}" for name, each in properties.items()]
    return ", ".join(at_most(found, _ARGUMENTS_MAX))


def _type(schema: object) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    kinds = kind if isinstance(kind, list) else [kind]
    return "|".join(_word(each) if isinstance(each, str) else "any" for each in kinds[:_ARGUMENTS_MAX])


def _differences(
    path: tuple[str, ...], before: object, after: object
) -> Iterator[tuple[tuple[str, ...], str | None, str | None]]:
    """Yield each place that differs, with both values as JSON; None where there is no value.

    JSON is compared, as in the hash: in Python, True equals 1.
    """
    old, new = _json(before), _json(after)
    if old == new:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping) and len(path) < _DEPTH_MAX:
        for name in dict.fromkeys([*before, *after]):
            yield from _differences((*path, name), before.get(name, _ABSENT), after.get(name, _ABSENT))
    else:
        yield path, old, new


def _place(path: tuple[str, ...], old: str | None, new: str | None) -> Iterator[str]:
    """Yield a place, then its old and its new value."""
    left, right = old or "", new or ""
    start = _same(left, right)
    same_after = _same(left[start:][::-1], right[start:][::-1])
    yield f"  {'.'.join(map(_word, path))}"
    for mark, value in (("-", old), ("+", new)):
        if value is not None:
            yield f"    {mark} {_excerpt(value, start, same_after)}"


def _same(left: str, right: str) -> int:
    """Return how many characters are the same at the start of both."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def _excerpt(value: str, start: int, same_after: int) -> str:
    """Return the part of a value that differs, with a few characters before and after it."""
    begin, end = max(0, start - _CONTEXT_CHARS), len(value) - max(0, same_after - _CONTEXT_CHARS)
    part = value[begin:end]
    return f"{'… ' if begin else ''}{_cut(part, len(part), _VALUE_CHARS_MAX)}{' …' if end < len(value) else ''}"


def _cut(text: str, wanted: int, most: int) -> str:
    """Return the first characters of a text, at most `most`, and how many are left out, if some are."""
    shown = text[: min(wanted, most)]
    left_out = len(text) - len(shown)
    return f"{shown} … and {counted(left_out, 'more character')}" if left_out else shown


def _word(text: str) -> str:
    name = word(text)
    return _cut(name, len(name), _WORD_CHARS_MAX)


def _json(value: object) -> str | None:
    return None if value is _ABSENT else json.dumps(value, ensure_ascii=False, sort_keys=True)
