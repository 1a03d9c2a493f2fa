"""The answers of the policy."""

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
    """Continue at `level`: the classification of the written record, or the taint after a raise."""

    level: Level


@dataclass(frozen=True, slots=True)
class Deny:
    """Stop. `rule` is the property that requires it; `hint` tells the caller what to do, without content."""

    rule: PolicyRule
    hint: str


Decision = Allow | Deny
