"""The findings of an examination: the problem, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """ERROR: something is lost, open to others, not working, or unknown. WARNING: it works, and needs attention."""

    ERROR = "error"
    WARNING = "warning"


class Remedy(StrEnum):
    """How a repair can fix a finding inside a compartment."""

    INDEX = "index"  # rebuild the search index from the memories
    TAGS = "tags"  # rebuild the table of tags from the memories


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem.

    where: a file, by its path below the home. advice: what to do.
    remedy: how a repair can rebuild it from the other data. repaired: it was repaired just now.
    """

    severity: Severity
    where: str
    problem: str
    advice: str
    remedy: Remedy | None = None
    repaired: bool = False


def error(where: str, problem: str, advice: str, *, remedy: Remedy | None = None, repaired: bool = False) -> Finding:
    """Return a finding that must be fixed."""
    return Finding(Severity.ERROR, where, problem, advice, remedy, repaired)


def warning(where: str, problem: str, advice: str, *, remedy: Remedy | None = None, repaired: bool = False) -> Finding:
    """Return a finding that needs attention."""
    return Finding(Severity.WARNING, where, problem, advice, remedy, repaired)
