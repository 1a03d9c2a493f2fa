"""A second opinion on every decision, written from security.md without looking at the rules.

Levels are sets of names here: a level is everything at or below it, "may flow" is "subset", join is union. Only the
answer is compared, never the way to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidegate.policy.levels import Level
from tidegate.policy.session_state import SessionState

DOWN: dict[Level, frozenset[str]] = {
    Level.PUBLIC: frozenset({"PUBLIC"}),
    Level.INTERNAL: frozenset({"PUBLIC", "INTERNAL"}),
    Level.CONFIDENTIAL: frozenset({"PUBLIC", "INTERNAL", "CONFIDENTIAL"}),
    Level.RESTRICTED: frozenset({"PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"}),
}
UP = {names: level for level, names in DOWN.items()}
DEPTH_MAX = 4
GENERATIONS_MAX = 3


@dataclass(frozen=True)
class Yes:
    """Allowed, at this level."""

    level: Level


@dataclass(frozen=True)
class No:
    """Denied; any of these properties may be named, since more than one may forbid it."""

    rules: frozenset[str]


Verdict: TypeAlias = Yes | No


def before_tool(state: SessionState | None, known: bool) -> Verdict:
    """P13, P7: a living session. P17: a known tool. P2: the level is the live taint."""
    broken = _not_living(state) | (set() if known else {"P17"})
    return _verdict(broken, state.taint if state else Level.PUBLIC)


def after_tool(state: SessionState | None, agent: str, origins: list[tuple[str, Level | None]]) -> Verdict:
    """P1, P6: each record is the caller's and may flow to its taint. P4: only while the session lives."""
    broken = _not_living(state)
    if any(owner != agent for owner, _ in origins):
        broken |= {"P1"}
    if any(label is None or state is None or not DOWN[label] <= DOWN[state.taint] for _, label in origins):
        broken |= {"P1"}
    return _verdict(broken, state.taint if state else Level.PUBLIC)


def output(state: SessionState | None, clearance: Level | None) -> Verdict:
    """P14: what goes out is a write to a sink, and nothing goes where nobody said what may. P4: only while it lives."""
    broken = _not_living(state)
    if clearance is None or (state is not None and not DOWN[state.taint] <= DOWN[clearance]):
        broken |= {"P14"}
    return _verdict(broken, state.taint if state else Level.PUBLIC)


def raise_taint(state: SessionState | None, source: Level) -> Verdict:
    """P4: taint' = taint ⊔ source, never over the ceiling."""
    broken = _not_living(state)
    if state is None:
        return _verdict(broken, source)
    joined = DOWN[state.taint] | DOWN[source]
    if not joined <= DOWN[state.ceiling]:
        broken |= {"P4"}
    return _verdict(broken, UP[joined])


def use_session(state: SessionState | None) -> Verdict:
    """P13, P7: only a living session is resumed, ended, or made a parent."""
    return _verdict(_not_living(state), state.taint if state else Level.PUBLIC)


def open_session(level: Level, ceiling: Level, parent: SessionState | None, depth: int) -> Verdict:
    """P4: not over its own ceiling. P15: a living parent, at or above its taint, under its ceiling, not too deep."""
    if parent is None:
        return _verdict(set() if DOWN[level] <= DOWN[ceiling] else {"P4"}, level)
    broken = _not_living(parent)
    joined = DOWN[level] | DOWN[parent.taint]
    if depth > DEPTH_MAX or not DOWN[ceiling] <= DOWN[parent.ceiling]:
        broken |= {"P15"}
    if not joined <= DOWN[ceiling]:
        broken |= {"P4"}
    return _verdict(broken, UP[joined])


def schedule(state: SessionState | None, ceiling: Level, generation: int) -> Verdict:
    """P16: at the live taint. P15: under its maker's ceiling, not too many generations on. P4: under its own."""
    broken = _not_living(state)
    if state is None:
        return _verdict(broken, ceiling)
    if generation > GENERATIONS_MAX or not DOWN[ceiling] <= DOWN[state.ceiling]:
        broken |= {"P15"}
    if not DOWN[state.taint] <= DOWN[ceiling]:
        broken |= {"P4"}
    return _verdict(broken, state.taint)


def owner_act(state: SessionState | None, level: Level) -> Verdict:
    """P4: in a living session, and at its taint as it is then, not as it was."""
    broken = _not_living(state)
    if state is not None and DOWN[state.taint] != DOWN[level]:
        broken |= {"P4"}
    return _verdict(broken, level)


def change_ceiling(state: SessionState | None, ceiling: Level, highest: Level) -> Verdict:
    """P4: a ceiling under the taint would make the taint a lie. P15: so it would that of a child."""
    broken = _not_living(state)
    if state is not None and not DOWN[state.taint] <= DOWN[ceiling]:
        broken |= {"P4"}
    if not DOWN[highest] <= DOWN[ceiling]:
        broken |= {"P15"}
    return _verdict(broken, ceiling)


def _not_living(state: SessionState | None) -> set[str]:
    if state is None:
        return {"P13"}
    return {"P7"} if state.ended else set()


def _verdict(broken: set[str], level: Level) -> Verdict:
    return No(frozenset(broken)) if broken else Yes(level)
