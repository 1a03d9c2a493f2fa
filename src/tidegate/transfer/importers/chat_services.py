"""What chat services hand out of their memory: ChatGPT's and Claude's, as JSON or as the text that they print."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source, first_of, key_for, slug

_MARKED = re.compile(r"#{1,6}\s")
_BOLD = re.compile(r"\*\*(?P<stars>[^*]+?):?\*\*:?|__(?P<lines>[^_]+?):?__:?")
_BULLET = re.compile(r"(?:[-*+\u2022\u2013]|\d{1,4}[.)])\s+")
# Both services are asked for `[date saved, if available] - memory`; any other bracket is part of the memory.
_DATED = re.compile(
    r"\[(?P<date>\d{4}-\d\d[^\]]{0,30}|(?i:unknown|no date|date unknown|n/a|not available))\]"
    r"\s*(?:[-:\u2013\u2014]\s*)?(?P<text>.+)",
    re.DOTALL,
)
_REPEATED = {1: "", 2: "+"}
_FENCE = re.compile(r"(```|~~~)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")


def read_chatgpt(document: object) -> Iterator[RawMemory | Rejected]:
    """The memories of ChatGPT's `memory.json`: a list of objects or of texts, or an object with such a list."""
    items = first_of(document, "memories", "memory", "results") if isinstance(document, dict) else document
    for number, item in enumerate(items if isinstance(items, list) else (), 1):
        yield _chatgpt(f"entry {number}", {"content": item} if isinstance(item, str) else item)


def read_claude(document: object) -> Iterator[RawMemory | Rejected]:
    """The memories of Claude's `memories.json`: each section of the summary, and of each project's, is one."""
    accounts = document if isinstance(document, list) else [document]
    for number, account in enumerate(accounts, 1):
        place = f"account {number}" if len(accounts) > 1 else "memory"
        if isinstance(account, dict):
            yield from _claude(place, account)
        else:
            yield Rejected(place, "is not a memory")


def read_entries(text: str, source: Source) -> Iterator[RawMemory]:
    """The memories of a printed list: one an entry; the heading above it is its tag, `[date]` before it its time."""
    for section in _sections(text):
        for number, entry in _entries(section):
            match = _DATED.fullmatch(entry)
            date, content = (match["date"].strip(), match["text"]) if match else ("", entry)
            yield RawMemory(
                place=f"line {number}",
                key=key_for(source, content),
                content=content,
                tags=[section.heading] if section.heading else [],
                updated_at=date if _DATE.fullmatch(date) else None,
            )


def read_sections(text: str, key: str, place: str, tags: Iterable[str] = ()) -> Iterator[RawMemory]:
    """The memories of a text in sections: one a section, named after its heading."""
    used: Counter[str] = Counter()
    for section in _sections(text):
        content = "\n".join(line for _, line in section.lines).strip()
        if content:
            name = "-".join(part for part in (key, slug(section.heading)) if part)
            used[name] += 1
            unique = f"{name}{_REPEATED.get(used[name], f'+{used[name]}')}"  # no slug has a plus in it
            yield RawMemory(place=f"{place}, line {section.number}", key=unique, content=content, tags=list(tags))


def has_headings(text: str) -> bool:
    """Whether a text is in sections."""
    return any(section.heading for section in _sections(text))


def has_dates(text: str) -> bool:
    """Whether a text is a list whose entries begin with `[date]`, as both services print it when asked to."""
    return any(_DATED.fullmatch(entry) for section in _sections(text) for _, entry in _entries(section))


def _chatgpt(place: str, item: object) -> RawMemory | Rejected:
    if not isinstance(item, dict):
        return Rejected(place, "is not a memory")
    if item.get("enabled") is False:
        return Rejected(place, "was switched off at the source", refused=False)
    content = first_of(item, "content", "memory", "text", "value")
    identity = item.get("id")
    return RawMemory(
        place=place,
        key=f"chatgpt-{identity}" if isinstance(identity, str | int) else key_for(Source.CHATGPT, str(content)),
        content=content,
        tags=item.get("tags"),
        created_at=first_of(item, "created_at", "create_time", "created_timestamp"),
        updated_at=first_of(item, "updated_at", "update_time", "updated_timestamp"),
    )


def _claude(place: str, account: Mapping[str, object]) -> Iterator[RawMemory | Rejected]:
    summary, projects = account.get("conversations_memory"), account.get("project_memories")
    if isinstance(summary, str):
        yield from read_sections(summary, "claude", place, ["claude"])
    for identity, text in projects.items() if isinstance(projects, dict) else ():
        if isinstance(text, str):
            yield from read_sections(text, f"claude-project-{identity}", f"{place}, project {identity}", ["claude"])
        else:
            yield Rejected(f"{place}, project {identity}", "is not a text")
    files = account.get("memory_files")
    for number, file in enumerate(files if isinstance(files, list) else (), 1):
        yield _file(f"{place}, file {number}", file)


def _file(place: str, file: object) -> RawMemory | Rejected:
    if not isinstance(file, dict):
        return Rejected(place, "is not a file of a kind that is known")
    name, content = first_of(file, "path", "name", "file_name"), first_of(file, "content", "text")
    if not isinstance(name, str) or not isinstance(content, str):
        return Rejected(place, "is not a file of a kind that is known")
    return RawMemory(place=place, key=f"claude-file-{name}", content=content, tags=["claude"])


@dataclass(slots=True)
class _Section:
    """Lines under one heading, with their numbers; before the first heading it is ""."""

    number: int
    heading: str = ""
    lines: list[tuple[int, str]] = field(default_factory=list)


def _sections(text: str) -> list[_Section]:
    sections = [_Section(1)]
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        heading = _heading(line.strip())
        if heading is not None:
            sections.append(_Section(number, heading.strip("*_ ")))
        elif not _FENCE.match(line):
            sections[-1].lines.append((number, line))
    return sections


def _heading(line: str) -> str | None:
    """What a line says as a heading; None for one that is none. In linear time, whatever the line."""
    if _MARKED.match(line):
        text = line.lstrip("#").strip()
        return text.rstrip("#").rstrip() or text
    match = _BOLD.fullmatch(line)
    return match and (match["stars"] or match["lines"])


def _entries(section: _Section) -> Iterator[tuple[int, str]]:
    """Entries with the number of their first line. A line that goes on is indented, or follows a paragraph's."""
    entry: list[str] = []
    start = 0
    for number, line in [*section.lines, (0, "")]:
        bullet = _BULLET.match(line)
        begins = bullet is not None or bool(_DATED.fullmatch(line)) or not line.strip()
        if begins and entry:
            yield start, "\n".join(entry)
            entry = []
        if line.strip():
            start = start if entry else number
            entry.append(line[bullet.end() :].strip() if bullet else line.strip())
