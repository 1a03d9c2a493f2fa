"""The importers, and the choice of one for a file: the one that recognises it, or the one that the owner names.

A new importer is a module beside this one with the functions `sniff` and `reader`, a name in `Source`, and a row in
`IMPORTERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.files import TextLine
from tidegate.transfer.importers import chatgpt, claude, markdown, mcp_memory, mem0, tidegate_export, triggerfish
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importers.source_file import (
    Clue,
    Database,
    Document,
    FirstLine,
    Folder,
    PlainText,
    Read,
    SourceFile,
    json_of,
    require,
)


@dataclass(frozen=True, slots=True)
class Importer:
    """One source of memories.

    sniff: whether a clue shows that a file is of this source. reader: returns a function that reads the file, as often
    as needed; raises InvalidArgument if the file cannot be read as the owner asks.
    """

    name: Source
    sniff: Callable[[Clue], bool]
    reader: Callable[[SourceFile], Read]


IMPORTERS = (
    Importer(Source.TIDEGATE, tidegate_export.sniff, tidegate_export.reader),
    Importer(Source.CLAUDE, claude.sniff, claude.reader),
    Importer(Source.MCP, mcp_memory.sniff, mcp_memory.reader),
    Importer(Source.MEM0, mem0.sniff, mem0.reader),
    Importer(Source.CHATGPT, chatgpt.sniff, chatgpt.reader),
    Importer(Source.MARKDOWN, markdown.sniff, markdown.reader),
    Importer(Source.TRIGGERFISH, triggerfish.sniff, triggerfish.reader),
)
"""In the order in which they are tried: ChatGPT after Claude and mem0, whose entries may also have content."""

_BY_NAME = {importer.name: importer for importer in IMPORTERS}
_SQLITE = b"SQLite format 3\0"
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_UNPACK = "unpack it and import the file in it, or, if it is a backup, use `tidegate restore-backup`"


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source and its reader. modified_at: the time of the last write, in seconds since 1970."""

    source: Source
    modified_at: float | None
    read: Read


def open_source(path: str | Path, source: Source | None = None, agent: str | None = None) -> OpenedSource:
    """Return the file or folder that the owner named, ready to be read.

    source: the kind of source; None to detect it. agent: the agent to import from, if the source holds several.
    Raises: InvalidArgument when it is missing, unreadable or of another kind; LimitExceeded.
    """
    place = files.named(path)
    if files.is_folder(place):
        return _open_as(Folder(), place, source, agent, "is a folder; only Markdown notes are imported from a folder")
    start = files.read_head(place, len(_SQLITE))
    require(start != b"", "is empty")
    require(not start.startswith(_PACKED), f"is an archive; {_UNPACK}")
    if start == _SQLITE or source is Source.TRIGGERFISH:
        return _open_as(Database(), place, source, agent, "is a database; only Triggerfish databases are imported")
    return _open_text(place, source, agent)


def _open_as(clue: Clue, place: Path, source: Source | None, agent: str | None, otherwise: str) -> OpenedSource:
    importer = recognise(clue) if source is None else _BY_NAME[source]
    if importer is None or not importer.sniff(clue):
        raise InvalidArgument(f"file: {otherwise}", argument="file")
    return OpenedSource(importer.name, None, importer.reader(SourceFile(place, agent)))


def _open_text(place: Path, source: Source | None, agent: str | None) -> OpenedSource:
    first_line = next(files.read_lines(place), TextLine(1, "")).text or ""
    value = json_of(first_line)
    importer = recognise(FirstLine(value))
    file = SourceFile(place, agent, first_line, in_known_lines=importer is not None)
    if source is not None:
        importer = _BY_NAME[source]
    elif importer is None:  # last: a file of JSON Lines may be too long to read as one document
        importer = recognise(Document(file.document()))
        if importer is None and value is None:
            importer = recognise(PlainText(place.name, first_line))
    if importer is None:
        raise InvalidArgument(
            f"file: its format is not recognised; name it with --from: {', '.join(Source)}", argument="file"
        )
    return OpenedSource(importer.name, files.modified_at(place), importer.reader(file))


def recognise(clue: Clue) -> Importer | None:
    """Return the first importer that recognises a file by this clue; None if none does."""
    return next((importer for importer in IMPORTERS if importer.sniff(clue)), None)
