"""The keys of a conversation's messages: those of one session stand together, in order."""

from __future__ import annotations

_DIGITS = 12


def key_of(session: str, number: int) -> str:
    """Return the key of a message; that of number 0 is before all of the session's, and no message has it."""
    return f"{session}/{number:0{_DIGITS}}"


def number_of(key: str) -> int:
    """Return a message's place in its conversation, from 1."""
    return int(key[-_DIGITS:])


def session_of(key: str) -> str:
    """Return the id of the session whose message it is."""
    return key[: -_DIGITS - 1]


def is_of(key: str, session: str) -> bool:
    """Return whether a message is this session's, not that of another whose id begins in the same way (P6)."""
    return session_of(key) == session
