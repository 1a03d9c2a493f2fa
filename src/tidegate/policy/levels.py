"""Levels of classification: four, in one fixed order."""

from __future__ import annotations

from enum import IntEnum


class Level(IntEnum):
    """PUBLIC < INTERNAL < CONFIDENTIAL < RESTRICTED. A total order, so join is `max` and meet is `min`."""

    PUBLIC = 0
    INTERNAL = 1
    CONFIDENTIAL = 2
    RESTRICTED = 3

    def can_flow_to(self, target: Level) -> bool:
        """Return whether information at this level may become visible at `target`."""
        return self <= target

    def __str__(self) -> str:
        return self._name_  # `name` is looked up in Python


_BY_NAME = {level.name: level for level in Level}


def read_label(label: object) -> Level | None:
    """Return the level that a stored label names exactly; None for anything else, which no session may read (P17)."""
    return _BY_NAME.get(label) if isinstance(label, str) else None
