"""The complete security state of a session, in one value."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.policy.levels import Level


@dataclass(frozen=True, slots=True)
class SessionState:
    """The taint of a session, its ceiling, and whether it has ended.

    taint: the highest level of anything it has read. It only rises (P4).
    ceiling: the level that the taint may never pass.
    """

    taint: Level
    ceiling: Level
    ended: bool = False
