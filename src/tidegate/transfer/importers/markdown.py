"""Notes in Markdown: the file's name is the key, front matter gives tags and times, the rest is the content."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidegate.transfer.importers.raw_memory import NO_LABEL, RawMemory

SUFFIXES = (".md", ".markdown")
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_TAGS = ("tags", "tag")
_CREATED = ("created_at", "created", "date")
_UPDATED = ("updated_at", "updated", "modified")
_LABEL = ("classification",)
_KNOWN = frozenset((*_TAGS, *_CREATED, *_UPDATED, *_LABEL))


def read_note(place: str, name: str, text: str, modified_at: float) -> RawMemory:
    """The memory that one note is.

    name: its path in the folder, with `/`, whatever the system uses. modified_at: of the file, in seconds since 1970.
    Front matter with any other field than those known stays in the content, so that nothing of it is lost.
    """
    fields, body = _front_matter(text)
    return RawMemory(
        place=place,
        key=_without_suffix(name),
        content=body,
        tags=next((fields[name] for name in _TAGS if name in fields), []),
        label=next((fields[name] or NO_LABEL for name in _LABEL if name in fields), None),
        created_at=_time(fields, _CREATED),
        updated_at=_time(fields, _UPDATED) or modified_at,
    )


def _without_suffix(name: str) -> str:
    return next((name[: -len(suffix)] for suffix in SUFFIXES if name.lower().endswith(suffix)), name)


def _time(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)


def _front_matter(text: str) -> tuple[dict[str, object], str]:
    """Its fields, and the content: what follows it, or all of the text."""
    lines = text.removeprefix("\ufeff").split("\n")
    ends = [number for number, line in enumerate(lines) if line.rstrip() in ("---", "...")]
    if len(ends) < 2 or ends[0] != 0:
        return {}, text.removeprefix("\ufeff")
    fields = _fields(lines[1 : ends[1]])
    if fields is None:
        return {}, text.removeprefix("\ufeff")
    body = "\n".join(lines[ends[1] + 1 :])
    whole = not body.strip() or not fields.keys() <= _KNOWN
    return fields, text.removeprefix("\ufeff") if whole else body.lstrip("\r\n")


def _fields(lines: list[str]) -> dict[str, object] | None:
    """The fields of front matter that is plain enough: names with a value, or with a list. None for any other."""
    fields: dict[str, object] = {}
    items: list[str] | None = None
    for line in (line.rstrip() for line in lines):
        field, item = _field(line), _item(line)
        if item is not None and items is not None:
            items.append(_plain(item))
        elif field is not None and field[0] not in fields:
            name, value = field
            items = [] if not value else None
            fields[name] = _value(name, value) if items is None else items
        elif line and not line.startswith("#"):
            return None
    return fields


def _field(line: str) -> tuple[str, str] | None:
    """The name and the value of a line of front matter."""
    name, colon, value = line.partition(":")
    plain = colon and _NAME.fullmatch(name.rstrip()) and (not value or value[0].isspace())
    return (name.rstrip().lower(), value.strip()) if plain else None


def _item(line: str) -> str | None:
    """What stands after the dash of a list in front matter."""
    text = line.lstrip()
    return text[1:].strip() if text.startswith("-") and text[1:2].isspace() else None


def _value(name: str, value: str) -> object:
    if name in _TAGS:
        inner = value[1:-1] if value.startswith("[") and value.endswith("]") else value
        return [_plain(part.strip().lstrip("#")) for part in inner.split(",") if part.strip()]
    return _plain(value)


def _plain(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value
