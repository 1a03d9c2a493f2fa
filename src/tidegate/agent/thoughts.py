"""Thoughts that a model writes into its answer, between tags such as `<think>` and `</think>`.

They stand only at the start of a response. Some servers put the opening tag into the prompt. Then a response begins
inside the thoughts, and only their end tells: all text before it is thoughts. So the text of a model that may do this
is held until that end or its own. Text that was shown before such an end came is withdrawn.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_NAMES = "think|thinking|thoughts?|reasoning|seed:think"
_TOKEN = re.compile(
    rf"```|[`\n]|<\s{{0,8}}(?P<end_tag>/?)\s{{0,8}}(?P<tag>{_NAMES})(?:\s[^<>]{{0,80}})?(?<!/)>"
    r"|\[(?P<end_bracket>/?)(?P<bracket>think)\]|◁(?P<end_triangle>/?)(?P<triangle>think)▷"
    r"|<\|(?:begin|(?P<end_bar>end))_of_(?P<bar>thought)\|>",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    r"(?:<[\s/]{0,17}[a-z:]{0,12}(?:\s[^<>]{0,80})?|<\|[a-z_]{0,16}\|?|[\[◁]/?[a-z]{0,5})\Z", re.IGNORECASE
)
"""What more text may turn into a token."""
_TOKEN_CHARS_MAX = 120
_BLANK = re.compile(
    r"[\s\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff]*"
)
"""Nothing that a reader sees."""
_QUOTES = frozenset("\"'“”‘’«»„")
_OPENS_QUOTE = re.compile(r"(?:\A|[\s(\[>\]▷])[\"'“‘«„]\Z")


@dataclass(slots=True)
class ThinkingHabit:
    """What a model was seen to do. plain: its prompt opens no thoughts. unopened: it does, so only the end comes."""

    plain: bool = False
    unopened: bool = False

    def see_untagged(self) -> None:
        """Learn from a whole response without thoughts."""
        self.plain = not self.unopened

    def see_thoughts(self, *, opened: bool) -> None:
        """Learn from thoughts that ended. opened: the response opened them itself."""
        self.unopened |= not opened
        self.plain = not self.unopened


class ThoughtFilter:
    """Takes the thoughts out of one response, however it is cut into pieces.

    withdrawn: how many of the characters returned so far turned out to be thoughts; they are the first ones.
    """

    def __init__(self, habit: ThinkingHabit) -> None:
        self.withdrawn = 0
        self._habit = habit
        self._unread = ""
        self._before = ""  # the characters before it
        self._pending: list[str] = []  # read, and perhaps of the answer
        self._blank = True  # nothing is read since the start, or since the last thoughts
        self._returned = 0  # characters of the answer
        self._thought = False  # there were thoughts
        self._opened = ""  # the tag of the thoughts that the text is in
        self._opens_itself = False
        self._depth = 0
        self._maybe_ended = False  # an end tag was read in them
        self._mentioned = Counter[str]()  # opening tags in the answer: the same number of end tags is text, too
        self._in_block = self._in_code = False

    def feed(self, piece: str) -> str:
        """Return the part of the answer that this piece decides."""
        self._unread += piece
        self._read(final=False)
        held = self._opened or self._blank or not (self._habit.plain or self._thought)
        return "" if held else self._answer()

    def finish(self, *, cut: bool, at_limit: bool = False) -> str:
        """Return the rest of the answer. cut: the response is not whole. at_limit: because of its length."""
        self._read(final=True)
        if self._opened and (cut or not self._maybe_ended):
            return ""
        if self._opened:  # by the last end tag, though it is in quotes or too few
            rest = self._pending
            self._end_thoughts()
            self._pending = rest
        if self._thought or self._habit.plain:
            return self._answer()
        if cut and (self._habit.unopened or at_limit):
            return ""  # perhaps thoughts that have not ended
        if not cut and not self._blank:
            self._habit.see_untagged()
        return self._answer()

    def _read(self, *, final: bool) -> None:
        """Read what more text cannot change."""
        text, at, limit = self._unread, 0, len(self._unread)
        if not final and (unfinished := _UNFINISHED.search(text, max(0, limit - _TOKEN_CHARS_MAX))):
            limit = unfinished.start()
        elif not final:
            limit -= (limit - len(text.rstrip("`"))) % 3
        for token in _TOKEN.finditer(text, 0, limit):
            before = (self._before + text[max(0, token.start() - 2) : token.start()])[-2:]
            follows = text[token.end() : token.end() + 1]
            in_quotes = _OPENS_QUOTE.search(before) is not None
            if in_quotes and not follows and not final:
                limit = token.start()  # what follows may close the quote
                break
            self._keep(text[at : token.start()])
            at = token.end()
            self._take(token, quoted=self._in_block or self._in_code or (in_quotes and follows in _QUOTES))
        self._keep(text[at:limit])
        self._before = (self._before + text[max(0, limit - 2) : limit])[-2:]
        self._unread = text[limit:]

    def _take(self, token: re.Match[str], *, quoted: bool) -> None:
        name = (token["tag"] or token["bracket"] or token["triangle"] or token["bar"] or "").lower()
        is_end = bool(token["end_tag"] or token["end_bracket"] or token["end_triangle"] or token["end_bar"])
        if self._opened:
            ended = name == self._opened and self._take_inside(is_end=is_end, quoted=quoted)
        elif name and not is_end and self._blank:
            self._opened, self._depth, self._opens_itself, self._maybe_ended = name, 1, True, False
            return
        else:
            ended = bool(name) and not quoted and self._take_outside(name, is_end=is_end)
        if ended:
            self._end_thoughts()
        elif name:
            self._keep("" if self._opened and is_end and name == self._opened else token[0])
        else:
            self._in_code = token[0] == "`" and not self._in_block and not self._in_code
            self._in_block ^= token[0] == "```"
            self._keep(token[0])

    def _take_inside(self, *, is_end: bool, quoted: bool) -> bool:
        """Take a tag of the thoughts that the text is in. Return whether they end."""
        if is_end:
            self._pending, self._maybe_ended = [], True
        if not quoted:
            self._depth += -1 if is_end else 1
        return self._depth == 0

    def _take_outside(self, name: str, *, is_end: bool) -> bool:
        """Take a tag in what looked like the answer. Return whether it was thoughts, which end here."""
        self._mentioned[name] += -1 if is_end else 1
        return self._mentioned[name] < 0

    def _end_thoughts(self) -> None:
        self._habit.see_thoughts(opened=self._opens_itself)
        self.withdrawn += self._returned
        self._returned, self._pending, self._mentioned = 0, [], Counter()
        self._thought, self._blank, self._opened = True, True, ""
        self._in_block = self._in_code = False

    def _keep(self, text: str) -> None:
        self._pending.append(text)
        if self._blank and not self._opened:
            self._blank = _BLANK.fullmatch(text) is not None

    def _answer(self) -> str:
        text, self._pending = "".join(self._pending), []
        if self._thought and not self._returned:
            text = text.lstrip()
        self._returned += len(text)
        return text


def without_thoughts(text: str, *, cut: bool = False, at_limit: bool = False) -> str:
    """Return a whole response without its thoughts."""
    thoughts = ThoughtFilter(ThinkingHabit())
    shown = thoughts.feed(text)
    return shown[thoughts.withdrawn :] + thoughts.finish(cut=cut, at_limit=at_limit)
