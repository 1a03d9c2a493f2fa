"""What a reader does not see, or is deceived by: text could be smuggled in it, past an owner's eye to a model (P18)."""

from __future__ import annotations

import re

# What a terminal obeys, or ends a line with, or turns round: controls but line feed and tab, separators, annotations;
# lone surrogates, which cannot be sent anywhere; all that Unicode says is not to be shown (Default_Ignorable); and
# blanks that look like nothing, or like a space.
_HIDDEN = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff"
    "\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    "\u2800\U00013441\U00013442\U00016fe4\U0001d159"
)
# Joiners spell words of many scripts, and emoji; U+FE0F makes an emoji of the sign before it. They stay where they may
# do that, and at the start, since a text may come in bits.
_JOINERS = "\u200c\u200d"
_SIGNS = "\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u27bf\u2900-\u2bff\u3030-\u303d\u3297\u3299\U0001f000-\U0001faff"
_SPELLING = (
    f"(?<![^\x00-\x7f{_HIDDEN}{_JOINERS}][{_JOINERS}])"
    f"(?<![{_SIGNS}]\ufe0f)(?<![0-9#*]\ufe0f(?=\u20e3))"
    f"(?<!\\A[{_JOINERS}\ufe0f])"
)

UNSEEN = re.compile(f"[{_HIDDEN}{_JOINERS}\ufe0f]{_SPELLING}")
"""One character that must not stand as it is. Line feeds and tabs may."""


def escape(text: str) -> str:
    """The text, each of these as an escape that says which character it stands for."""
    return UNSEEN.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
