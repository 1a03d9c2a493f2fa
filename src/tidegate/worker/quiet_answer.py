"""The quiet answer: the word NOTHING in any dressing, with nothing else left."""

from __future__ import annotations

import html
import json
import re
import unicodedata

from tidegate.agent.thoughts import without_thoughts

NOTHING = "NOTHING"

_CHARS_MAX = 2_000
"""A longer answer is not quiet, so a long one costs nothing to read."""
_MARKUP = re.compile(
    r"</?(?:answer|b|blockquote|body|br|code|div|em|final|h[1-6]|html|i|li|ol|p|pre|response|s|span|strong|u|ul) ?/?>",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ >]*(?:```|~~~) ?(?:json|markdown|md|plaintext|text|txt)\b", re.MULTILINE | re.IGNORECASE)
_NUMBER = re.compile(r"^[ >]*\d{1,2}[.)](?=\s)", re.MULTILINE)


def is_quiet(answer: str) -> bool:
    """Return whether an answer has nothing to tell the owner.

    Thoughts, markup, fences, list numbers, punctuation and emoji count as dressing, and so do letters of another width
    or style. Any other letter or digit is something to tell.
    """
    text = without_thoughts(answer)
    if len(text) > _CHARS_MAX:
        return False
    for dressing in (_MARKUP, _FENCE, _NUMBER):
        text = dressing.sub("", text)
    bare = unicodedata.normalize("NFKC", html.unescape(_unquoted(text))).casefold()
    left = "".join(filter(str.isalnum, bare))
    return not bare.strip() or re.fullmatch(rf"(?:{NOTHING.casefold()})+", left) is not None


def _unquoted(text: str) -> str:
    """Return what a JSON string holds; any other text as it is."""
    try:
        held = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return held if isinstance(held, str) else text
