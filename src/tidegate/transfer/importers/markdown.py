"""Notes in Markdown, one or a folder of them: the file's name is the key, front matter gives tags and times.

The walk never leaves its folder: it follows no link and reads nothing hidden or installed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.transfer.importers.front_matter import UnreadableError, split
from tidegate.transfer.importers.labels import highest, label_in, labels_in_observations
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import SHARED, Clue, Folder, PlainText, Read, SourceFile, some_of

NOTE_BYTES_MAX = 16 * 1024 * 1024
"""The longest note in a folder."""

_SUFFIXES = (".md", ".markdown")
_EXPECTED = f"has no notes; their names must end in {' or '.join(_SUFFIXES)}"
_NAMED_MAX = 3  # files in a message
_INSTALLED = frozenset({"node_modules", "site-packages", "venv"})  # made by programs, not notes
_TAGS = ("tags", "tag")
_CREATED = ("created_at", "created", "date")
_UPDATED = ("updated_at", "updated", "modified")
KNOWN = frozenset((*_TAGS, *_CREATED, *_UPDATED, "classification"))
"""The fields that become parts of a memory."""


@dataclass(frozen=True, slots=True)
class Note:
    """One note. name: its path in the folder, with `/` on every system. modified_at: of the file, since 1970."""

    name: str
    text: str
    modified_at: float


ReadNote = Callable[[Note], RawMemory | Rejected]


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to notes: a folder, or a text with the name of one."""
    match clue:
        case Folder():
            return SHARED
        case PlainText(name=name):
            return SHARED * is_note(name)
    return 0


def is_note(name: str) -> bool:
    """Return whether a file has the name of a note."""
    return name.lower().endswith(_SUFFIXES)


def reader(file: SourceFile) -> Read:
    """Return a reader of one note, with any suffix, or of a folder of notes."""
    return reader_of(file, read_note)


def reader_of(file: SourceFile, read: ReadNote) -> Read:
    """Return a reader of a note or a folder of them, which reads each in its own way."""
    if files.is_folder(file.path):
        return lambda: some_of(
            (each if isinstance(each, Rejected) else read(each) for each in notes_in(file.path)),
            _EXPECTED + _other_file(file.path),
        )
    return lambda: iter([read(Note(file.path.name, file.text(), files.modified_at(file.path)))])


def _other_file(folder: Path) -> str:
    """Return advice to import a file of the folder, if memories may be in one; otherwise ""."""
    try:
        names = sorted(name for name in os.listdir(folder) if name.lower().endswith((".json", ".jsonl")))
    except OSError:  # the reading says so
        return ""
    named = [name for name in names if name.lower().startswith("memor")] or names
    *others, last = named[:_NAMED_MAX] or [""]
    either = f"{', '.join(others)} or {last}" if others else last
    return f"; if its memories are in {either}, import that file" if either else ""


def notes_in(folder: Path) -> Iterator[Note | Rejected]:
    """Yield the notes of a folder and its subfolders, in the order of their names. Raises: InvalidArgument."""
    try:
        yield from _walk(os.path.realpath(folder))  # the folder itself may be a link; links in it are not followed
    except OSError:
        raise InvalidArgument("file: a folder cannot be read; nothing was changed", argument="file") from None


def _walk(folder: str) -> Iterator[Note | Rejected]:
    # By descriptor: a folder that is renamed or replaced by a link during the walk is still the one entered.
    for place, below, names, descriptor in os.fwalk(folder, follow_symlinks=False, onerror=_raise):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in _INSTALLED)
        relative = os.path.relpath(place, folder).replace(os.sep, "/")
        for name in sorted(names):
            if is_note(name) and not name.startswith("."):
                yield _note_in(name if relative == "." else f"{relative}/{name}", name, descriptor)


def _note_in(path: str, name: str, folder: int) -> Note | Rejected:
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(name, flags, dir_fd=folder), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return Rejected(path, "is not a plain file")
            if status.st_size > NOTE_BYTES_MAX:
                return Rejected(path, f"is longer than {NOTE_BYTES_MAX} bytes")
            return Note(path, files.decode(file.read()), status.st_mtime)
    except OSError as error:
        link = error.errno == errno.ELOOP
        return Rejected(path, "is a link; links are not followed" if link else "cannot be read")
    except InvalidArgument:
        return Rejected(path, "is neither UTF-8 nor UTF-16")


def _raise(error: OSError) -> None:
    raise error


def read_note(note: Note) -> RawMemory | Rejected:
    """Return the memory of one note."""
    try:
        return memory_of(note, *split(note.text.removeprefix("\ufeff")), known=KNOWN)
    except UnreadableError as error:
        return Rejected(note.name, str(error))


def memory_of(note: Note, fields: Mapping[str, object], body: str, *, known: Collection[str]) -> RawMemory:
    """Return the memory of a note with these fields and this body.

    Front matter with a field that is not known, or with an unfilled template, stays in the content, so that nothing is
    lost.
    """
    text, name = note.text.removeprefix("\ufeff"), note.name
    whole = not body.strip() or not fields.keys() <= set(known) or "{{" in text[: -len(body)]
    return RawMemory(
        place=name,
        key=next((name[: -len(suffix)] for suffix in _SUFFIXES if name.lower().endswith(suffix)), name),
        content=text if whole else body.lstrip("\r\n"),
        tags=next((_tags(fields[name]) for name in _TAGS if name in fields), []),
        label=highest((label_in(fields), *labels_in_observations(text))),
        created_at=_time(fields, _CREATED),
        updated_at=_time(fields, _UPDATED),
        written_at=note.modified_at,
    )


def _tags(value: object) -> object:
    """Return the tags of a list, or of a text with commas between them."""
    if isinstance(value, str):
        return [part.strip().lstrip("#") for part in value.split(",") if part.strip()]
    if isinstance(value, list):
        return [each.lstrip("#") if isinstance(each, str) else each for each in value if each]
    return value or []


def _time(fields: Mapping[str, object], names: tuple[str, ...]) -> object:
    return next((fields[name] for name in names if fields.get(name)), None)
