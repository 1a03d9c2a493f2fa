"""A change of one session as a value: its audit entries, and the state to store after them."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.audit.chain import Action
from tidegate.policy.levels import Level
from tidegate.storage.control import SessionRow

REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class SessionChange:
    """level: of the chain that gets the entries. taint, ceiling: the new values, or None for no change."""

    level: Level
    entries: tuple[tuple[Action, str], ...]
    taint: Level | None = None
    ceiling: Level | None = None
    ends: bool = False


def raising(row: SessionRow, level: Level, reason: str, *before: tuple[Action, str]) -> SessionChange:
    """Return the change that raises a session, entered at its new level.

    before: entries before that of the raise.
    """
    if level == row.taint:
        return SessionChange(level, before)
    entry = (Action.RAISE, f"{row.taint} to {level}: {reason[:REASON_CHARS_MAX]}")
    return SessionChange(level, (*before, entry), taint=level)
