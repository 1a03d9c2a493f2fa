"""What the policy answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidegate.policy.levels import Level


class PolicyRule(StrEnum):
    """The properties of the security model that a refusal can name; docs/security.md says what each demands."""

    P1 = "P1"
    P4 = "P4"
    P7 = "P7"
    P10 = "P10"
    P13 = "P13"
    P14 = "P14"
    P15 = "P15"
    P17 = "P17"


@dataclass(frozen=True, slots=True)
class Allow:
    """Go on, at `level`: the classification of what is written, or the taint after a raise."""

    level: Level


@dataclass(frozen=True, slots=True)
class Deny:
    """Stop. `rule` is the property that says so; `hint` tells the caller what to do, and carries no content."""

    rule: PolicyRule
    hint: str


Decision = Allow | Deny
