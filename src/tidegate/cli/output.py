"""What the terminal gets: JSON that is exact, or lines that stored text can neither break, hide nor forge."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tidegate.records.invisible_text import escape_invisible, escape_line
from tidegate.records.jsonable import jsonable
from tidegate.records.jsonl import json_line

if TYPE_CHECKING:
    from tidegate.errors import TidegateError
    from tidegate.records.memory import Explanation

_ESCAPED = "backslashreplace"
escape = escape_line  # the name by which commands know it

_PLAIN = re.compile(r"[\w.:/+-]+")
_MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}  # of to-dos


def escape_lines(text: str, *, indent: str) -> str:
    """Return the text with its line ends and tabs, each line escaped and indented, so that none can pass for ours."""
    return indent + escape_invisible(text.replace("\r\n", "\n")).replace("\n", f"\n{indent}")


def to_json(value: object) -> str:
    """Return one line of JSON: exact when parsed, and without a raw control character on the terminal."""
    return json_line(jsonable(value))


def emit(text: str) -> None:
    """Write one line of results to standard output, whatever was stored in it, with nothing that a terminal obeys."""
    sys.stdout.write(escape_invisible(text.replace("\n", "\\n")) + "\n")


REMAINS = (
    "not complete: others were reading, or the disk is full, and some of it may still be in a file; "
    "`tidegate purge` removes it"
)
"""What to say when something was removed, and a reader was in the way."""


def warn(text: str) -> None:
    """Write a line for the reader that is no result to standard error."""
    sys.stderr.write(escape(text) + "\n")


def speak_utf8() -> None:
    """Set all three streams to UTF-8 whatever the locale, with line ends as they are written. A closed one is empty."""
    for name, mode, errors in (("stdin", "r", "strict"), ("stdout", "w", _ESCAPED), ("stderr", "w", _ESCAPED)):
        if getattr(sys, name) is None:
            # Its descriptor must be taken: the next file opened would be written to as if it were the stream.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        # A host may have put another kind of stream in its place; then it has chosen the encoding.
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors, newline="\n")


def saved(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a save, in a sentence."""
    where = f"{result['classification']}, version {result['version']}"
    yield f"saved {escape(result['key'])} at {where}: {result['status']}"


def found(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a memory: a line about it, then its content, indented."""
    yield _heading(result)
    yield f"  version {result['version']}, from {result['origin']}, created {result['created_at']}"
    if newer := result.get("newer_below"):
        yield f"  note: a {newer} memory under this key was saved later"
    if result["tags"]:
        yield f"  tags: {tags_line(result['tags'])}"
    yield ""
    yield from escape_lines(result["content"], indent="  ").split("\n")


def short(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a memory of a list or a search: a line about it, its tags, and the content on one line."""
    yield _heading(result)
    if result["tags"]:
        yield f"  tags: {tags_line(result['tags'])}"
    yield f"  {escape(result['content'])}{' …' if result.get('truncated') else ''}"


def explained(explanation: Explanation) -> Iterator[str]:
    """Yield the terms of a search, and each hit with its score by parts."""
    for word, terms in explanation.words.items():
        yield f"{escape(word)}: {escape(' '.join(terms))}"
    yield f"looked up: {escape(' '.join(explanation.looked_up)) or 'nothing'}"
    if explanation.common:
        common = ", ".join(" ".join(terms) for terms in explanation.common)
        yield f"too common to look up, sought in the newest memories: {escape(common)}"
    for hit, parts in zip(explanation.found, explanation.parts, strict=True):
        yield f"{escape(hit.key)} [{hit.classification}] {parts.score}"
        yield f"    bm25 {parts.bm25} + common {parts.common} + parts {parts.ngrams} + company {parts.feedback}"


def deleted(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a delete, in a sentence."""
    shows = f"; the {result['still_visible']} memory shows again" if "still_visible" in result else ""
    yield f"deleted {escape(result['key'])} at {result['classification']}{shows}"


def todo_list(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a to-do list, a line each."""
    for each in result["todos"]:
        yield f"{_MARKS[each['state']]} {escape(each['content'])}"
    if not result["todos"]:
        yield "nothing to do"


def counted(number: int, one: str, more: str = "") -> str:
    """Return so many of something, in words. more: its plural, where that is not formed by an s."""
    return f"{number} {one if number == 1 else more or f'{one}s'}"


def elsewhere(error: TidegateError) -> str:
    """Return where the variant is that the session sees and did not act on; "" without one."""
    level = error.details.get("visible_at")
    return "" if level is None else f"; there is one at {level}"


def tags_line(tags: Iterable[str]) -> str:
    """Return tags on one line, each unmistakably one."""
    return ", ".join(map(word, tags))


def word(text: str) -> str:
    """Return a tag or a name as it is, or as JSON where it could be taken for more than one word."""
    return text if _PLAIN.fullmatch(text) and escape(text) == text else to_json(text)


def _heading(result: Mapping[str, Any]) -> str:
    # The key comes last, where nothing after it could be forged.
    score = f"  {result['score']:.6f}" if "score" in result else ""
    return f"{result['classification']:<12}  {result['updated_at']}{score}  {escape(result['key'])}"
