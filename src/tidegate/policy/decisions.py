"""What the policy answers."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.policy.levels import Level


@dataclass(frozen=True, slots=True)
class Allow:
    """Go on, at `level`: the classification of what is written, or the taint after a raise."""

    level: Level


@dataclass(frozen=True, slots=True)
class Deny:
    """Stop. `rule` is the property that says so; `hint` tells the caller what to do, and carries no content."""

    rule: str
    hint: str


Decision = Allow | Deny
