"""The file or folder that an owner imports: the clues to recognise it by, and the ways to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.files import TextLine
from tidegate.records.jsonl import NotJsonError, read_object, read_value
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected

Memories = Iterator[RawMemory | Rejected]
Read = Callable[[], Memories]
"""Reads a source from its beginning; an import does so twice."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A clue: it is a folder."""


@dataclass(frozen=True, slots=True)
class Database:
    """A clue: it is an SQLite database."""


@dataclass(frozen=True, slots=True)
class FirstLine:
    """A clue: the JSON value of the file's first line."""

    value: object


@dataclass(frozen=True, slots=True)
class Document:
    """A clue: the JSON value of the complete file."""

    value: object


@dataclass(frozen=True, slots=True)
class PlainText:
    """A clue: the name of a file whose first line is not JSON, and that line."""

    name: str
    first_line: str


Clue = Folder | Database | FirstLine | Document | PlainText


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file or folder to read. agent: the agent to import from, if the file holds several; None if not given.

    first_line: of a text file; "" for other files. in_known_lines: an importer recognises the first line.
    """

    path: Path
    agent: str | None
    first_line: str = ""
    in_known_lines: bool = False

    def in_lines(self) -> bool:
        """Return whether it is JSON Lines rather than one JSON value. Raises: InvalidArgument, LimitExceeded."""
        return self.in_known_lines or self.document() is None

    def lines(self) -> Iterator[TextLine]:
        """Yield the lines that are not blank. Raises: InvalidArgument."""
        return files.read_lines(self.path)

    def document(self) -> Any:
        """Return the JSON value of the complete file; None if it is not one. Raises: InvalidArgument, LimitExceeded.

        It is read from the file each time: memory holds nothing of it, and a change is noticed.
        """
        return json_of(self.text()) if self.first_line.startswith(("{", "[")) else None

    def text(self) -> str:
        """Return the complete text. Raises: InvalidArgument, LimitExceeded."""
        return files.read_text(self.path)


def json_of(text: str) -> Any:
    """Return the JSON value of a text; None if it is not JSON."""
    try:
        return read_value(text)
    except NotJsonError:
        return None


def object_of(line: TextLine) -> dict[str, Any] | Rejected:
    """Return the JSON object of a line."""
    if line.text is None:
        return Rejected(line.place, line.reason)
    try:
        return read_object(line.text)
    except NotJsonError as error:
        return Rejected(line.place, str(error).replace("(line 1, ", "("))


def first_entry(document: object) -> object:
    """Return the first entry of a list, or of the list in `results` or `memories`; None if there is no such list."""
    lists = [document]
    if isinstance(document, dict):
        lists = [document.get(name) for name in ("results", "memories")]
    return next((each[0] for each in lists if isinstance(each, list) and each), None)


def read_document(
    file: SourceFile, read: Callable[[Any], Memories], *, lists: tuple[str, ...], expected: str
) -> Memories:
    """Yield the memories of a JSON document; none if it or all its lists are empty.

    lists: the fields in which such a document has its memories. Raises: InvalidArgument, with `expected`, if there is
    no document, or nothing of this kind in it; LimitExceeded.
    """
    document = file.document()
    require(document is not None, expected)
    there = [document[name] for name in lists if name in document] if isinstance(document, dict) else []
    if document != [] and not (there and not any(there)):
        yield from some_of(read(document), expected)


def some_of(memories: Memories, expected: str) -> Memories:
    """Yield the memories. Raises: InvalidArgument, with `expected`, if there are none."""
    nothing = True
    for each in memories:
        nothing = False
        yield each
    require(not nothing, expected)


def require(condition: bool, otherwise: str) -> None:
    """Raise InvalidArgument about the file unless the condition holds."""
    if not condition:
        raise InvalidArgument(f"file: {otherwise}", argument="file")
