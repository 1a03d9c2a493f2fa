"""What an import reads from: told apart by what is in it, or named by the owner; read as often as needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import files
from tidegate.errors import InvalidArgument
from tidegate.files import TextLine
from tidegate.records.jsonl import NotJsonError, read_value
from tidegate.transfer.export import read_export
from tidegate.transfer.importers import chat_services as foreign_chat
from tidegate.transfer.importers import folder
from tidegate.transfer.importers import markdown as foreign_notes
from tidegate.transfer.importers import mcp_memory as foreign_mcp
from tidegate.transfer.importers import mem0 as foreign_mem0
from tidegate.transfer.importers import triggerfish as foreign_triggerfish
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.sniffing import source_of_document, source_of_line

Read = Callable[[], Iterator[RawMemory | Rejected]]

_SQLITE = b"SQLite format 3\0"
_UNPACK = "unpack it, and import the file of memories in it; a backup goes back by `tidegate restore-backup`"
_PACKED = (b"PK\x03\x04", b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_FIRST, _END = "memory:", "memory;"  # ';' is the character after ':'
_NAMES_MAX, _NAME_CHARS_MAX = 10, 64  # in a message
_LINES = {Source.TIDEGATE: read_export, Source.MCP: foreign_mcp.read_lines, Source.MEM0: foreign_mem0.read_lines}
_DOCUMENTS: dict[Source, Callable[[Any], Iterator[RawMemory | Rejected]]] = {
    Source.MCP: foreign_mcp.read_graph,
    Source.MEM0: foreign_mem0.read_document,
    Source.CHATGPT: foreign_chat.read_chatgpt,
    Source.CLAUDE: foreign_chat.read_claude,
}
_LISTS = {
    Source.MCP: ("entities", "relations"),
    Source.MEM0: ("results", "memories"),
    Source.CHATGPT: ("memories", "memory", "results"),
    Source.CLAUDE: ("conversations_memory", "project_memories", "memory_files"),
}
"""Where a document of each kind has its memories. One in which these are empty is of its kind, and holds none."""
_EXPECTED = {
    Source.MCP: "is no graph of the MCP memory server: it has `entities` and `relations`, or one of them a line",
    Source.MEM0: "holds no memories of mem0: they are a list, or one in `results` or `memories`, or one a line",
    Source.CHATGPT: "holds no memories of ChatGPT: they are a list, or one in `memories`, or a printed list",
    Source.CLAUDE: "holds no memories of Claude: they are in `conversations_memory`, `project_memories` or "
    "`memory_files`, or a printed list",
    Source.MARKDOWN: f"holds no notes: their names end in {' or '.join(foreign_notes.SUFFIXES)}",
    Source.TRIGGERFISH: "holds no memories of that agent of Triggerfish: their keys are memory:<agent>:<LEVEL>:<key>",
}


@dataclass(frozen=True, slots=True)
class OpenedSource:
    """A source, and how to read it. modified_at: when it was last written, in seconds since 1970."""

    source: Source
    modified_at: float | None
    read: Read


def open_source(path: str | Path, source: Source | None = None, agent: str | None = None) -> OpenedSource:
    """The file or folder that the owner named.

    source: what it is; None to find out. agent: whose memories to take from a source that holds several agents'.
    Raises: InvalidArgument when it is not there, cannot be read, or is not what it should be; LimitExceeded.
    """
    place = files.named(path)
    if files.is_folder(place):
        _require(source in (None, Source.MARKDOWN), "is a folder, and only notes in Markdown come in one")
        return OpenedSource(Source.MARKDOWN, None, lambda: _some_of(Source.MARKDOWN, folder.read_folder(place)))
    start = files.head(place, len(_SQLITE))
    _require(start != b"", "is empty")
    _require(not start.startswith(_PACKED), f"is an archive; {_UNPACK}")
    if start == _SQLITE or source is Source.TRIGGERFISH:
        _require(source in (None, Source.TRIGGERFISH), "is a database, and only Triggerfish's memories come in one")
        return OpenedSource(Source.TRIGGERFISH, None, _triggerfish(place, agent))
    text = _Text(place)
    chosen = source or text.source()
    return OpenedSource(chosen, files.modified_at(place), text.reader(chosen))


def _triggerfish(path: Path, agent: str | None) -> Read:
    from tidegate.storage.sqlite.key_values import read_pairs  # the engine is loaded when it is needed

    there = foreign_triggerfish.agents(read_pairs(path, _FIRST, _END))
    _require(agent is not None or len(there) < 2, f"holds memories of several agents; choose one: {_some(there)}")
    chosen = agent if agent is not None else "".join(there)
    rows = foreign_triggerfish.read_rows
    return lambda: _some_of(Source.TRIGGERFISH, rows(read_pairs(path, _FIRST, _END), chosen))


def _some_of(source: Source, read: Iterator[RawMemory | Rejected]) -> Iterator[RawMemory | Rejected]:
    """What was read. Raises: InvalidArgument, with what was expected, when that was nothing at all."""
    nothing = True
    for each in read:
        nothing = False
        yield each
    _require(not nothing, _EXPECTED[source])


def _some(names: list[str]) -> str:
    """The first of many names, and how many more there are."""
    shown = ", ".join(name[:_NAME_CHARS_MAX] for name in names[:_NAMES_MAX])
    return shown if len(names) <= _NAMES_MAX else f"{shown}, and {len(names) - _NAMES_MAX} more"


class _Text:
    """A text file, looked into no further than it takes to tell what it is."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._line = next(files.read_lines(path), TextLine(1, ""))
        self._first = _value(self._line.text or "")

    def source(self) -> Source:
        """What it is. Raises: InvalidArgument when that cannot be told."""
        found = source_of_line(self._first) or source_of_document(self._document())
        if found is None and self._first is None:
            found = self._source_of_text()
        if found is None:
            raise InvalidArgument(f"from: cannot be told; say what it is: {', '.join(Source)}", argument="from")
        return found

    def reader(self, source: Source) -> Read:
        """How to read it as what it is."""
        if source is Source.TIDEGATE or (source in _LINES and not self._is_document()):
            return lambda: _LINES[source](files.read_lines(self._path))
        if source is Source.MARKDOWN:
            name = self._path.name
            return lambda: iter([foreign_notes.read_note(name, name, self._text(), self._modified_at())])
        return lambda: self._read(source)

    def _read(self, source: Source) -> Iterator[RawMemory | Rejected]:
        document = self._document()
        if document is not None and _holds_none(source, document):
            return iter(())
        return _some_of(source, self._printed(source) if document is None else _DOCUMENTS[source](document))

    def _printed(self, source: Source) -> Iterator[RawMemory | Rejected]:
        _require(not isinstance(self._first, dict), _EXPECTED[source])  # JSON, a value a line
        text = self._text()
        if source is Source.CLAUDE and foreign_chat.has_headings(text) and not foreign_chat.has_dates(text):
            yield from foreign_chat.read_sections(text, "claude", "memory", ["claude"])
        else:
            yield from foreign_chat.read_entries(text, source)

    def _source_of_text(self) -> Source | None:
        if (self._line.text or "").startswith("{"):
            return Source.TIDEGATE  # lines of which the first is damaged
        if self._path.name.lower().endswith(foreign_notes.SUFFIXES):
            return Source.MARKDOWN
        return Source.CHATGPT if foreign_chat.has_dates(self._text()) else None

    def _is_document(self) -> bool:
        return source_of_line(self._first) is None and self._document() is not None

    def _document(self) -> Any:
        """The JSON value that the file as a whole is, or None."""
        return _value(self._text()) if (self._line.text or "").startswith(("{", "[")) else None

    def _text(self) -> str:
        return files.read_text(self._path)

    def _modified_at(self) -> float:
        return files.modified_at(self._path)


def _value(text: str) -> Any:
    try:
        return read_value(text)
    except NotJsonError:
        return None


def _holds_none(source: Source, document: Any) -> bool:
    lists = [document[name] for name in _LISTS[source] if name in document] if isinstance(document, dict) else []
    return document == [] or (bool(lists) and not any(lists))


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise InvalidArgument(f"file: {otherwise}", argument="file")
