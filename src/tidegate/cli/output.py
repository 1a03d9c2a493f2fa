"""Output for the terminal: exact JSON, or lines that stored text can neither break, hide nor forge."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO

from tidegate.records.invisible_text import escape_invisible, escape_line
from tidegate.records.jsonable import jsonable
from tidegate.records.jsonl import json_line

if TYPE_CHECKING:
    from tidegate.errors import TidegateError
    from tidegate.records.memory import Explanation

_ESCAPED = "backslashreplace"
escape = escape_line  # the commands' name for it

_PLAIN = re.compile(r"[\w.:/+-]+")
_MARKS = {"pending": "[ ]", "in_progress": "[~]", "done": "[x]"}  # of to-dos


def escape_lines(text: str, *, indent: str) -> str:
    """Return the text with its line ends and tabs. Each line is escaped and indented, so none can pass for ours."""
    return indent + escape_invisible(text.replace("\r\n", "\n")).replace("\n", f"\n{indent}")


def to_json(value: object) -> str:
    """Return one line of JSON: exact when parsed, without raw control characters for the terminal."""
    return json_line(jsonable(value))


def emit(text: str) -> None:
    """Write one line of results to standard output, without control characters, even if stored text contains some."""
    sys.stdout.write(escape_invisible(text.replace("\n", "\\n")) + "\n")


REMAINS = (
    "not complete: a reader was active or the disk is full, so a file may still hold removed data; "
    "run `tidegate purge --older-than AGE`"
)
"""The message when removed data may still be in a file."""


def warn(text: str) -> None:
    """Write a line that is not a result to standard error, if anybody can read it there."""
    try:
        sys.stderr.write(escape(text) + "\n")
        sys.stderr.flush()
    except OSError:  # the result and the exit code say all that matters
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard what a stream could not write: the interpreter would try again at exit, and end with another code."""
    with suppress(OSError):  # a host's stream may have no descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def speak_utf8() -> None:
    """Set all three streams to UTF-8, whatever the locale, with unchanged line ends.

    A closed standard input or output is an error when it is used, a closed standard error is not.
    """
    for name, mode, errors, way in (
        ("stdin", "r", "strict", os.O_WRONLY),  # the wrong way, so that its use fails as that of a closed one
        ("stdout", "w", _ESCAPED, os.O_RDONLY),
        ("stderr", "w", _ESCAPED, os.O_WRONLY),
    ):
        if getattr(sys, name) is None:
            # Occupy its descriptor: otherwise the next file opened would receive what the stream is sent.
            setattr(sys, name, open(os.open(os.devnull, way), mode))  # noqa: SIM115
        # A host may have replaced the stream by another kind, and then has chosen the encoding.
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors, newline="\n")


def saved(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line on a save, and one for each similar key."""
    where = f"{result['classification']}, version {result['version']}"
    yield f"saved {escape(result['key'])} at {where}: {result['status']}"
    for each in result.get("similar", ()):
        yield f"  similar: {escape(each['key'])} at {each['classification']}"


def found(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a memory: lines about it, then its content, indented."""
    yield _heading(result)
    yield f"  version {result['version']}, from {result['origin']}, created {result['created_at']}"
    if newer := result.get("newer_below"):
        yield f"  note: a {newer} memory under this key was saved later"
    if result["tags"]:
        yield f"  tags: {tags_line(result['tags'])}"
    yield ""
    yield from escape_lines(result["content"], indent="  ").split("\n")


def short(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a memory of a list or a search: a line about it, its tags, and the first line of its content."""
    yield _heading(result)
    if result["tags"]:
        yield f"  tags: {tags_line(result['tags'])}"
    first, _, more = result["content"].replace("\r\n", "\n").strip("\n").partition("\n")
    yield f"  {escape(first)}{' …' if more or result.get('truncated') else ''}"


def explained(explanation: Explanation) -> Iterator[str]:
    """Yield the terms of a search, and each hit with its score and its parts."""
    for word, terms in explanation.words.items():
        yield f"{escape(word)}: {escape(' '.join(terms))}"
    yield f"looked up: {escape(' '.join(explanation.looked_up)) or 'nothing'}"
    if explanation.common:
        common = ", ".join(" ".join(terms) for terms in explanation.common)
        yield f"too common to look up, searched in the newest memories: {escape(common)}"
    for hit, parts in zip(explanation.found, explanation.parts, strict=True):
        yield f"{escape(hit.key)} [{hit.classification}] {parts.score}"
        yield f"    bm25 {parts.bm25} + common {parts.common} + ngrams {parts.ngrams} + feedback {parts.feedback}"


def deleted(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line on a delete."""
    shows = f"; the {result['still_visible']} memory is visible again" if "still_visible" in result else ""
    yield f"deleted {escape(result['key'])} at {result['classification']}{shows}"


def todo_list(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield a to-do list, one line per to-do."""
    for each in result["todos"]:
        yield f"{_MARKS[each['state']]} {escape(each['content'])}"
    if not result["todos"]:
        yield "no to-dos"


def counted(number: int, one: str, more: str = "") -> str:
    """Return a number with its noun. more: the plural, if it is not formed with an s."""
    return f"{number} {one if number == 1 else more or f'{one}s'}"


NO_MEMORY = "key: no memory has this key"


def at_most(lines: Sequence[str], most: int) -> Iterator[str]:
    """Yield the first lines, and then how many are left out, if some are."""
    yield from lines[:most]
    if len(lines) > most:
        yield f"… and {len(lines) - most} more"


def elsewhere(error: TidegateError) -> str:
    """Return the level of a visible variant that the session did not act on; "" without one."""
    level = error.details.get("visible_at")
    return "" if level is None else f"; one exists at {level}"


def tags_line(tags: Iterable[str]) -> str:
    """Return tags on one line, each recognisable as one tag."""
    return ", ".join(map(word, tags))


def word(text: str) -> str:
    """Return a tag or a name as it is, or as JSON if it could be read as more than one word."""
    return text if _PLAIN.fullmatch(text) and escape(text) == text else to_json(text)


def _heading(result: Mapping[str, Any]) -> str:
    # The key comes last, so that it cannot forge anything after it.
    score = f"  {result['score']:.6f}" if "score" in result else ""
    return f"{result['classification']:<12}  {result['updated_at']}{score}  {escape(result['key'])}"
