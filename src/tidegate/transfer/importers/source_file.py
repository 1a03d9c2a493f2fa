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


OWN, SHARED = 3, 1
"""What an importer weighs: a thing that only its program writes, and one that others write as well."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A clue: a folder."""

    path: Path


@dataclass(frozen=True, slots=True)
class Line:
    """A clue: the JSON value of one line of the file. Each line is weighed."""

    value: object


@dataclass(frozen=True, slots=True)
class Document:
    """A clue: the JSON value of the complete file."""

    value: object


@dataclass(frozen=True, slots=True)
class PlainText:
    """A clue: the name of a file that is not known JSON, and its text."""

    name: str
    text: str


Clue = Folder | Line | Document | PlainText


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file or folder to read. agent: the agent to import from, if the file holds several; None if not given.

    in_lines: whether it is JSON Lines rather than one JSON value.
    """

    path: Path
    agent: str | None
    in_lines: bool = False

    def lines(self) -> Iterator[TextLine]:
        """Yield the lines that are not blank. Raises: InvalidArgument."""
        return files.read_lines(self.path)

    def document(self) -> Any:
        """Return the JSON value of the complete file; None if it is not one. Raises: InvalidArgument, LimitExceeded.

        It is read from the file each time: memory holds nothing of it, and a change is noticed.
        """
        first = next(self.lines(), None)
        return json_of(self.text()) if first and (first.text or "").startswith(("{", "[")) else None

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


def entries_in(document: object, lists: tuple[str, ...]) -> list[Any]:
    """Return the entries of a list, or of all these lists of an object."""
    if isinstance(document, dict):
        return [entry for name in lists if isinstance(document.get(name), list) for entry in document[name]]
    return document if isinstance(document, list) else []


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
