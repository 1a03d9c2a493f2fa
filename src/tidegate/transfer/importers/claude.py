"""Claude: the `memories.json` of its data export."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate.transfer.importers.labels import highest, label_in
from tidegate.transfer.importers.own_labels import label_in_text
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, first_of, slug
from tidegate.transfer.importers.source_file import (
    OWN,
    Clue,
    Document,
    Memories,
    Read,
    SourceFile,
    read_document,
)

_FIELDS = _SUMMARY, _PROJECTS, _FILES = "conversations_memory", "project_memories", "memory_files"
_EXPECTED = "has no Claude memories; expected `conversations_memory`, `project_memories` or `memory_files`"
_MARKED = re.compile(r"#{1,6}\s")
_BOLD = re.compile(r"\*\*(?P<stars>[^*]+?):?\*\*:?|__(?P<lines>[^_]+?):?__:?")
_REPEATED = {1: "", 2: "+"}
_FENCE = re.compile(r"(```|~~~)")


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to Claude: an account, or a list of them."""
    if not isinstance(clue, Document):
        return 0
    accounts = clue.value if isinstance(clue.value, list) else [clue.value]
    return OWN * sum(isinstance(each, dict) and bool(each.keys() & set(_FIELDS)) for each in accounts)


def reader(file: SourceFile) -> Read:
    """Return a reader of Claude's memories."""
    return lambda: read_document(file, read_claude, lists=_FIELDS, expected=_EXPECTED)


def read_claude(document: object) -> Memories:
    """Yield the memories of one account or of several: each section of its summary and of each project's summary."""
    accounts = document if isinstance(document, list) else [document]
    for number, account in enumerate(accounts, 1):
        place = f"account {number}" if len(accounts) > 1 else "memory"
        if not isinstance(account, dict):
            yield Rejected(place, "is not a memory")
        elif len(accounts) > 1 and not account.keys() & set(_FIELDS):
            yield Rejected(place, "has no memories of a known form")
        else:
            beside = {name: held for name, held in account.items() if name not in (_SUMMARY, _FILES)}
            label = label_in(beside)  # it may concern any of its texts
            for found in _account(place, account):
                yield replace(found, label=highest((label, found.label))) if isinstance(found, RawMemory) else found


def read_sections(text: str, key: str, place: str, tags: Iterable[str] = ()) -> Iterator[RawMemory]:
    """Yield the memories of a text: one per section, named after its heading. A label in the text is that of each."""
    label = label_in_text(text)
    used: Counter[str] = Counter()
    for section in _sections(text):
        content = "\n".join(section.lines).strip()
        if content:
            name = "-".join(part for part in (key, slug(section.heading)) if part)
            used[name] += 1
            unique = f"{name}{_REPEATED.get(used[name], f'+{used[name]}')}"  # no slug contains a plus
            yield RawMemory(
                place=f"{place}, line {section.number}", key=unique, content=content, tags=list(tags), label=label
            )


def _account(place: str, account: Mapping[str, object]) -> Memories:
    summary, projects, files = (account.get(name) for name in _FIELDS)
    for name, found, kind in zip(_FIELDS, (summary, projects, files), (str, dict, list), strict=True):
        if found is not None and not isinstance(found, kind):
            yield Rejected(place, f"`{name}` is not of a known form")
    if isinstance(summary, str):
        yield from read_sections(summary, "claude", place, ["claude"])
    for identity, text in projects.items() if isinstance(projects, dict) else ():
        if isinstance(text, str):
            yield from read_sections(text, f"claude-project-{identity}", f"{place}, project {identity}", ["claude"])
        else:
            yield Rejected(f"{place}, project {identity}", "is not a text")
    for number, file in enumerate(files if isinstance(files, list) else (), 1):
        yield _file(f"{place}, file {number}", file)


def _file(place: str, file: object) -> RawMemory | Rejected:
    names = ("path", "name", "file_name"), ("content", "text")
    name, content = (first_of(file, *each) for each in names) if isinstance(file, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(content, str):
        return Rejected(place, "is not a known kind of file")
    return RawMemory(place=place, key=f"claude-file-{name}", content=content, tags=["claude"], label=label_in(file))


@dataclass(slots=True)
class _Section:
    """The lines under one heading, "" before the first. number: of the line of its heading."""

    number: int
    heading: str = ""
    lines: list[str] = field(default_factory=list)


def _sections(text: str) -> list[_Section]:
    sections = [_Section(1)]
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        heading = _heading(line.strip())
        if heading is not None:
            sections.append(_Section(number, heading.strip("*_ ")))
        elif not _FENCE.match(line):
            sections[-1].lines.append(line)
    return sections


def _heading(line: str) -> str | None:
    """Return the words of a heading; None for any other line. Takes linear time."""
    if _MARKED.match(line):
        return line.lstrip("#")
    match = _BOLD.fullmatch(line)
    return match and (match["stars"] or match["lines"])
