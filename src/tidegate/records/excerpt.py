"""Excerpts: contents short enough to list, cut between characters as a reader sees them."""

from __future__ import annotations

import json

from tidegate.records.jsonl import json_line
from tidegate.records.limits import ANSWER_BYTES_MAX, EXCERPT_CHARS_MAX
from tidegate.records.memory import Memory

LOOK_AHEAD = EXCERPT_CHARS_MAX + 1
"""The number of code points that is enough to make an excerpt."""

_FIELDS_BYTES = 256  # names, punctuation, level, origin, time and score of one memory in an answer
_encode = json.JSONEncoder(ensure_ascii=False).encode
_ENVELOPE_BYTES = 4096  # the rest of an answer: its own names and a cursor


def cut(text: str, chars_max: int) -> str:
    """Return the first `chars_max` code points of a text and, on its own line, how many are left out."""
    if len(text) <= chars_max:
        return text
    return f"{text[:chars_max]}\n{left_out(len(text) - chars_max, 'character')}"


def cut_as_data(text: str, chars_max: int) -> str:
    """Return a text of up to `chars_max` code points unchanged, else its start as JSON with the number left out."""
    if len(text) <= chars_max:
        return text
    return json_line({"text": text[:chars_max], "note": left_out(len(text) - chars_max, "character")})


def left_out(count: int, thing: str) -> str:
    """Return the note about things that did not fit."""
    return f"[1 {thing} is left out]" if count == 1 else f"[{count} {thing}s are left out]"


def excerpt(content: str) -> tuple[str, bool]:
    """Return the content, cut to `EXCERPT_CHARS_MAX` code points at a grapheme boundary, and whether it was cut."""
    if len(content) <= EXCERPT_CHARS_MAX:
        return content, False
    if content.isascii():
        # CR LF is the only grapheme of two ASCII characters.
        whole = content[EXCERPT_CHARS_MAX - 1 : EXCERPT_CHARS_MAX + 1] != "\r\n"
        return content[: EXCERPT_CHARS_MAX - (not whole)], True
    from apsw.unicode import grapheme_next_break  # tables that a store opens without

    end = 0
    while (following := grapheme_next_break(content, end)) <= EXCERPT_CHARS_MAX:
        end = following
    return content[: end or EXCERPT_CHARS_MAX], True


class AnswerSize:
    """Counts how much still fits into one answer of search or list (`ANSWER_BYTES_MAX` as JSON)."""

    def __init__(self, *, echoed: str = "") -> None:
        self._left = ANSWER_BYTES_MAX - _ENVELOPE_BYTES - _json_bytes(echoed)

    def takes(self, memory: Memory) -> bool:
        """Count the memory, and return whether it still fits."""
        self._left -= _FIELDS_BYTES + _json_bytes(memory.key) + _json_bytes(memory.content)
        self._left -= sum(_json_bytes(tag) + 2 for tag in memory.tags)
        return self._left >= 0


def _json_bytes(text: str) -> int:
    return len(_encode(text).encode())
