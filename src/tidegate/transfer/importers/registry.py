"""The importers, and the choice of one for a file: the one whose things fill most of it, or the one that is named.

A new importer is a module beside this one with the functions `weigh` and `reader`, a name in `Source`, and a row in
`IMPORTERS`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.transfer.importers import (
    basic_memory,
    chatgpt,
    claude,
    markdown,
    mcp_memory,
    mem0,
    memory_service,
    tidegate_export,
    triggerfish,
)
from tidegate.transfer.importers.own_labels import with_own_labels
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importers.source_file import (
    Clue,
    Document,
    Folder,
    Line,
    PlainText,
    Read,
    SourceFile,
    entries_in,
    json_of,
    require,
)


@dataclass(frozen=True, slots=True)
class Importer:
    """One source of memories.

    weigh: how much a clue belongs to this source; 0 for not at all. reader: returns a function that reads the file, as
    often as needed; raises InvalidArgument if the file cannot be read as the owner asks.
    """

    name: Source
    weigh: Callable[[Clue], int]
    reader: Callable[[SourceFile], Read]


IMPORTERS = (
    Importer(Source.TIDEGATE, tidegate_export.weigh, tidegate_export.reader),
    Importer(Source.CLAUDE, claude.weigh, claude.reader),
    Importer(Source.MCP, mcp_memory.weigh, mcp_memory.reader),
    Importer(Source.MEMORY_SERVICE, memory_service.weigh, memory_service.reader),
    Importer(Source.MEM0, mem0.weigh, mem0.reader),
    Importer(Source.CHATGPT, chatgpt.weigh, chatgpt.reader),
    Importer(Source.BASIC_MEMORY, basic_memory.weigh, basic_memory.reader),
    Importer(Source.MARKDOWN, markdown.weigh, markdown.reader),
    Importer(Source.TRIGGERFISH, triggerfish.weigh, triggerfish.reader),
)
"""Of two with the same weight, the first is taken."""

_READERS = {importer.name: importer.reader for importer in IMPORTERS}
_OF_FOLDERS = (Source.MARKDOWN, Source.BASIC_MEMORY)
_SQLITE = b"SQLite format 3\0"
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_NOT_MEMORIES = (
    "conversations are not memories; import memory.json (ChatGPT) or memories.json (Claude) from the same data export"
)
_UNPACK = "unpack it and import the file in it, or, if it is a backup, use `tidegate restore-backup`"


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source and its reader.

    detected: whether the kind of source was detected. modified_at: the time of the last write, in seconds since 1970.
    """

    source: Source
    detected: bool
    modified_at: float | None
    read: Read


def open_source(path: str | Path, source: Source | None = None, agent: str | None = None) -> OpenedSource:
    """Return the file or folder that the owner named, ready to be read.

    source: the kind of source; None to detect it. agent: the agent to import from, if the source holds several.
    Raises: InvalidArgument when it is missing, unreadable or of another kind; LimitExceeded.
    """
    file = SourceFile(files.named(path), agent)
    if files.is_folder(file.path):
        chosen = source or recognise(Folder(file.path)) or Source.MARKDOWN
        require(chosen in _OF_FOLDERS, "is a folder; only notes are imported from a folder")
        return _opened(chosen, source, file, None)
    start = files.read_head(file.path, len(_SQLITE))
    require(not start.startswith(_PACKED), f"is an archive; {_UNPACK}")
    if start == _SQLITE or source is Source.TRIGGERFISH:
        chosen = source or Source.TRIGGERFISH
        require(chosen is Source.TRIGGERFISH, "is a database; only Triggerfish databases are imported")
        return _opened(chosen, source, file, None)
    return _open_text(file, source)


def _open_text(file: SourceFile, source: Source | None) -> OpenedSource:
    by_line, one_value = _weigh_lines(file)
    document = file.document() if one_value and files.size_of(file.path) <= files.DOCUMENT_BYTES_MAX else None
    require(source in _OF_FOLDERS or not _has_conversations(document), _NOT_MEMORIES)
    as_document = _weigh(Document(document))
    weights = as_document if any(as_document.values()) else by_line
    chosen = source or _heaviest(weights) or recognise(PlainText(file.path.name, file.text()))
    if chosen is None:
        require(files.size_of(file.path) > 0, "is empty")
        raise InvalidArgument(
            f"file: its format is not recognised; name it with --from: {', '.join(Source)}", argument="file"
        )
    in_lines = document is None or (weights is by_line and by_line[chosen] > 0)
    return _opened(chosen, source, replace(file, in_lines=in_lines), files.modified_at(file.path))


def _has_conversations(document: object) -> bool:
    """Return whether a document is the `conversations.json` of a data export, as ChatGPT or Claude writes it."""
    entries = entries_in(document, ("conversations",))
    return any(isinstance(each, dict) and each.keys() & {"mapping", "chat_messages"} for each in entries[:1])


def _opened(chosen: Source, named: Source | None, file: SourceFile, modified_at: float | None) -> OpenedSource:
    read = _READERS[chosen](file)
    return OpenedSource(chosen, named is None, modified_at, lambda: with_own_labels(chosen, read()))


def recognise(clue: Clue) -> Source | None:
    """Return the source to which a clue belongs most; None if it belongs to none."""
    return _heaviest(_weigh(clue))


def _weigh(clue: Clue) -> Counter[Source]:
    return Counter({importer.name: importer.weigh(clue) for importer in IMPORTERS})


def _weigh_lines(file: SourceFile) -> tuple[Counter[Source], bool]:
    """Return what all lines weigh together, and whether the file may be one JSON value.

    They weigh nothing where most lines are other text: a note may have an example in it.
    """
    weights = Counter[Source]()
    number = objects = 0
    begins_whole = False
    for number, line in enumerate(file.lines(), 1):
        text = line.text or ""
        value = json_of(text)
        objects += text.startswith("{")  # also a damaged one
        if number == 1:
            begins_whole = value is not None
        if isinstance(value, dict):
            weights.update(_weigh(Line(value)))
    mostly_objects, one_value = 2 * objects >= number, number == 1 or not begins_whole
    return weights if mostly_objects else Counter(), one_value


def _heaviest(weights: Counter[Source]) -> Source | None:
    chosen = max(_READERS, key=lambda source: weights[source])
    return chosen if weights[chosen] else None
