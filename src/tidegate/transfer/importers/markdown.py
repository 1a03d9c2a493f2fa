"""Notes in Markdown, one or a folder of them: the file's name is the key, front matter gives tags and times.

A folder is walked without leaving it: no link is followed, nothing hidden or installed is read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.transfer.importers.raw_memory import NO_LABEL, RawMemory, Rejected
from tidegate.transfer.importers.source_file import Clue, Folder, Memories, PlainText, Read, SourceFile, some_of

NOTE_BYTES_MAX = 16 * 1024 * 1024
"""The longest note in a folder."""

_SUFFIXES = (".md", ".markdown")
_EXPECTED = f"holds no notes: their names end in {' or '.join(_SUFFIXES)}"
_INSTALLED = frozenset({"node_modules", "site-packages", "venv"})  # a program put these there, and nobody's notes
_NAME = re.compile(r"[A-Za-z_][\w-]*")
_TAGS = ("tags", "tag")
_CREATED = ("created_at", "created", "date")
_UPDATED = ("updated_at", "updated", "modified")
_LABEL = ("classification",)
_KNOWN = frozenset((*_TAGS, *_CREATED, *_UPDATED, *_LABEL))


def sniff(clue: Clue) -> bool:
    """Return whether a clue shows notes."""
    match clue:
        case Folder():
            return True
        case PlainText(name=name):
            return name.lower().endswith(_SUFFIXES)
    return False


def reader(file: SourceFile) -> Read:
    """Return what reads one note, whatever its name ends in, or a folder of them."""
    if files.is_folder(file.path):
        return lambda: some_of(read_folder(file.path), _EXPECTED)
    name = file.path.name
    return lambda: iter([read_note(name, name, file.text(), files.modified_at(file.path))])


def read_folder(folder: Path) -> Memories:
    """Yield the notes of a folder and those below it, in the order of their names. Raises: InvalidArgument."""
    try:
        yield from _walk(os.path.realpath(folder))  # the folder that was named may be a link; none in it is followed
    except OSError:
        raise InvalidArgument("file: a folder cannot be read; nothing was changed", argument="file") from None


def _walk(folder: str) -> Memories:
    # By descriptor: a folder that is renamed or replaced by a link meanwhile is still the one that was entered.
    for place, below, names, descriptor in os.fwalk(folder, follow_symlinks=False, onerror=_raise):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _INSTALLED)
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in sorted(names):
            if name.lower().endswith(_SUFFIXES) and not name.startswith("."):
                yield _note_in(name if relative == "." else f"{relative}/{name}", name, descriptor)


def _note_in(path: str, name: str, folder: int) -> RawMemory | Rejected:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Rejected(path, "is not a plain file")
            if status.st_size > NOTE_BYTES_MAX:
                return Rejected(path, f"is longer than {NOTE_BYTES_MAX} bytes")
            return read_note(path, path, files.decode(file.read()), status.st_mtime)
    except OSError as error:
        link = error.errno == errno.ELOOP
        return Rejected(path, "is a link, and links are not followed" if link else "cannot be read")
    except InvalidArgument:
        return Rejected(path, "is neither UTF-8 nor UTF-16")


def _raise(error: OSError) -> None:
    raise error


def read_note(place: str, name: str, text: str, modified_at: float) -> RawMemory:
    """Return the memory of one note.

    name: its path in the folder, with `/`, whatever the system uses. modified_at: of the file, in seconds since 1970.
    Front matter with any other field than those known stays in the content, so that nothing of it is lost.
    """
    fields, body = _front_matter(text)
    return RawMemory(
        place=place,
        key=next((name[: -len(suffix)] for suffix in _SUFFIXES if name.lower().endswith(suffix)), name),
        content=body,
        tags=next((fields[name] for name in _TAGS if name in fields), []),
        label=next((fields[name] or NO_LABEL for name in _LABEL if name in fields), None),
        created_at=_time(fields, _CREATED),
        updated_at=_time(fields, _UPDATED) or modified_at,
    )


def _time(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)


def _front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return the fields of front matter, and the content: the text below it, or all of the text."""
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
    """Return the fields of front matter that is plain enough: names with a value or a list. None for any other."""
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
    """Return the name and the value of a line of front matter."""
    name, colon, value = line.partition(":")
    plain = colon and _NAME.fullmatch(name.rstrip()) and (not value or value[0].isspace())
    return (name.rstrip().lower(), value.strip()) if plain else None


def _item(line: str) -> str | None:
    """Return the text after the dash of an item in front matter."""
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
