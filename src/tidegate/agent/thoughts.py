"""Thoughts that a model writes into its answer, between tags such as `<think>` and `</think>`.

They stand only at the start of a response, so a tag after the first word of the answer is text. Some servers put the
opening tag into the prompt. Then a response begins inside the thoughts, and only their end tells. So the text of a
model that may do this is held until its first end tag or its end; after one response without such a tag, it is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAGS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}
_LONGEST = max(map(len, _TAGS.values()))
_OPENINGS = {end: opening for opening, end in _TAGS.items()}
_ENDS = re.compile("|".join(map(re.escape, _OPENINGS)), re.IGNORECASE)
_QUOTES = frozenset("\"'“”‘’«»„")
_OPENS_QUOTE = re.compile(r"(?:\A|[\s(\[])[\"'“‘«„]\Z")


@dataclass(slots=True)
class ThinkingHabit:
    """What a model was seen to do. plain: its prompt opens no thoughts. unopened: it does, so only the end comes."""

    plain: bool = False
    unopened: bool = False


class ThoughtFilter:
    """Takes the thoughts out of one response, however it is cut into pieces."""

    def __init__(self, habit: ThinkingHabit) -> None:
        self._habit = habit
        self._pending = ""  # not decided yet
        self._end = ""  # of the thoughts that the text is in
        self._holding = False
        self._answering = False
        self._thought = False

    def feed(self, piece: str) -> str:
        """Return the part of the answer that this piece decides."""
        if self._answering:
            return piece
        self._pending += piece
        while True:
            if self._end:
                going_on = self._leave(self._pending.lower().find(self._end), self._end)
            elif self._holding:
                at, end = _lone_end(self._pending, len(piece))
                going_on = self._leave(at, end)
                self._habit.unopened |= going_on
            else:
                going_on = self._enter()
            if not going_on:
                return self._answer() if self._answering else ""

    def finish(self, *, cut: bool) -> str:
        """Return the rest of the answer. cut: the response is not whole."""
        if self._holding:
            at, end = _lone_end(self._pending, len(self._pending), final=True)
            if self._leave(at, end):
                self._habit.unopened = True
            elif cut and self._habit.unopened:
                return ""  # its thoughts have not ended
            elif not cut and self._pending.strip():
                self._habit.plain = not self._habit.unopened
        return "" if self._end or self._answering else self._answer()

    def _enter(self) -> bool:
        """Look for thoughts at the start. Return whether they begin."""
        start = self._pending.lstrip().lower()
        for opening, end in _TAGS.items():
            if start.startswith(opening):
                self._pending, self._end = self._pending.lstrip()[len(opening) :], end
                return True
        if any(opening.startswith(start) for opening in _TAGS):
            return False
        self._holding = not (self._habit.plain or self._thought)
        self._answering = not self._holding
        return self._holding

    def _leave(self, at: int, end: str) -> bool:
        """Leave the thoughts if their end was found, and return whether it was."""
        if at < 0:
            if self._end:
                self._pending = self._pending[-_LONGEST:]
            return False
        if self._end:
            self._habit.plain = not self._habit.unopened  # it opens its thoughts itself
        self._pending, self._end, self._holding, self._thought = self._pending[at + len(end) :], "", False, True
        return True

    def _answer(self) -> str:
        text, self._pending = self._pending, ""
        return text.lstrip() if self._thought else text


def without_thoughts(text: str, *, cut: bool = False) -> str:
    """Return a whole response without its thoughts."""
    thoughts = ThoughtFilter(ThinkingHabit())
    return thoughts.feed(text) + thoughts.finish(cut=cut)


def _lone_end(text: str, new: int, *, final: bool = False) -> tuple[int, str]:
    """Return the place of the first end tag that nothing opened, and the tag; -1 if there is none.

    new: how many characters at the end were not searched before. Tags in code or in quotes, or after their opening,
    are text.
    """
    for found in _ENDS.finditer(text, max(0, len(text) - new - _LONGEST - 1)):
        end = found[0].lower()
        if not final and found.end() == len(text):
            return -1, ""  # what follows may be a quote
        if _OPENINGS[end] not in text[: found.start()].lower() and not _is_quoted(text, found.start(), found.end()):
            return found.start(), end
    return -1, ""


def _is_quoted(text: str, start: int, end: int) -> bool:
    before = text[:start]
    line = before.rpartition("\n")[2]
    in_code = before.count("```") % 2 == 1 or line.count("`") % 2 == 1
    return in_code or (_OPENS_QUOTE.search(before) is not None and text[end : end + 1] in _QUOTES)
