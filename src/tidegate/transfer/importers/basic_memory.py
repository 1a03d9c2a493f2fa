"""basic-memory: its Markdown notes, whose front matter names them, with observations and relations in their text."""

from __future__ import annotations

import re
from dataclasses import replace

from tidegate.transfer.importers.front_matter import UnreadableError, split
from tidegate.transfer.importers.markdown import KNOWN, Note, is_note, memory_of, notes_in, reader_of
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import OWN, Clue, Folder, PlainText, Read, SourceFile

_TITLE, _TYPE, _PERMALINK = "title", "type", "permalink"
_HEAD_CHARS_MAX = 4096  # where its fields are looked for
_HEAD = re.compile(r"\ufeff?---\r?\n(?P<block>.*?)^---", re.DOTALL | re.MULTILINE)
_FIELDS = tuple(re.compile(rf"^{name}:", re.MULTILINE) for name in (_TITLE, _TYPE, _PERMALINK))
_USUAL_TYPE = "note"


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to basic-memory: a note with its three fields, or a folder with one such note."""
    match clue:
        case Folder(path):
            return OWN * any(isinstance(each, Note) and _is_its(each.text) for each in notes_in(path))
        case PlainText(name, text):
            return OWN * (is_note(name) and _is_its(text))
    return 0


def _is_its(text: str) -> bool:
    head = _HEAD.match(text[:_HEAD_CHARS_MAX])
    return head is not None and all(each.search(head["block"]) for each in _FIELDS)


def reader(file: SourceFile) -> Read:
    """Return a reader of one note or of a folder of notes."""
    return reader_of(file, read_note)


def read_note(note: Note) -> RawMemory | Rejected:
    """Return the memory of one note. A note that basic-memory has not named yet is read as any other."""
    try:
        fields, body = split(note.text.removeprefix("\ufeff"))
    except UnreadableError as error:
        return Rejected(note.name, str(error))
    title, kind, permalink = (fields.get(name) for name in (_TITLE, _TYPE, _PERMALINK))
    known = {*KNOWN, _TYPE, _PERMALINK}
    if isinstance(title, str) and title.casefold() in body.casefold():
        known.add(_TITLE)  # elsewhere it would be lost with the front matter
    memory = memory_of(note, fields, body, known=known)
    tags = memory.tags if isinstance(memory.tags, list) else [memory.tags]
    return replace(
        memory,
        key=permalink if isinstance(permalink, str) else memory.key,
        tags=[*tags, kind] if isinstance(kind, str) and kind != _USUAL_TYPE else memory.tags,
    )
