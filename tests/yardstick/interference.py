"""P5 and P6, as security.md states them: what an observer sees does not change when what it may not depend on is gone.

An operation concerns the lowest level at which it may be felt: that of its session before it; of a reset, an end or a
ceiling also the sessions below it in the tree, and of an end the parent that its taint joins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.model import Model, Session
from tests.yardstick.worlds import Outcome, World, contents, time_of

from tidegate.policy.levels import Level


@dataclass(frozen=True, slots=True)
class Observer:
    """All sessions of one agent at or below one level."""

    agent: str
    level: Level

    def __str__(self) -> str:
        return f"{self.agent} at {self.level}"


@dataclass(frozen=True, slots=True)
class Part:
    """What of a trace an observer may depend on, and which of its outcomes it sees."""

    kept: t.Trace
    watched: frozenset[int]


def part_of(steps: t.Trace, observer: Observer) -> Part:
    """The steps that stay for the observer. Taints are the model's, so the code under test has no say in it."""
    model, kept, watched = Model(), list[t.Step](), set[int]()
    for step in steps:
        acting, felt = _acting(model, step.op), _felt(model, step.op)
        answer = model.answer(step, time_of(step.index))
        if isinstance(step.op, t.Restart):
            kept.append(step)
        elif step.op.seat.agent == observer.agent:
            if "error" in answer and isinstance(step.op, t.Ceiling | t.Reset):
                felt = acting  # what was refused changed nothing
            if felt.can_flow_to(observer.level):
                kept.append(step)
            if acting.can_flow_to(observer.level):
                watched.add(step.index)
    return Part(tuple(kept), frozenset(watched))


def differences(backend: Backend, steps: t.Trace, observer: Observer) -> list[str]:
    """What the observer could tell the two worlds apart by; empty when P5 holds for this trace."""
    part = part_of(steps, observer)
    whole = sight(backend, steps, observer, part.watched)
    alone = sight(backend, part.kept, observer, part.watched)
    return list(compare(whole, alone))


Sight = dict[str, object]


def sight(backend: Backend, steps: t.Trace, observer: Observer, watched: frozenset[int]) -> Sight:
    """Everything that the observer sees in a world that runs these steps, by name."""
    world = World(backend, agents=[observer.agent])
    try:
        outcomes = world.run(steps)
        seen: Sight = {f"step {index}": masked(outcomes[index], observer.level) for index in sorted(watched)}
        return seen | remains(world, observer)
    finally:
        world.close()


def remains(world: World, observer: Observer) -> Sight:
    """What lies in the observer's compartments at the end: records, statistics, audit; and its sessions."""
    seen: Sight = {}
    for level in Level:
        if level.can_flow_to(observer.level):
            with world.compartment(observer.agent, level) as compartment:
                seen |= {f"{level} {name}": value for name, value in contents(compartment).items()}
    rows = [row for row in world.rows(observer.agent) if row.taint.can_flow_to(observer.level)]
    return seen | {"sessions": [asdict(row) for row in rows]}


def masked(outcome: Outcome, level: Level) -> object:
    """An outcome as the level sees it: of a session that has risen above it, only that it has."""
    answer, standing = outcome.answer, outcome.standing
    if "taint" in answer and not Level[answer["taint"]].can_flow_to(level):
        answer = answer | {"taint": "above"}
    if standing is not None and not standing.taint.can_flow_to(level):
        standing = replace(standing, taint=Level.RESTRICTED, ceiling=Level.RESTRICTED)
    return answer, list(answer), outcome.raw, standing


def compare(whole: Sight, alone: Sight) -> Iterator[str]:
    """Where two sights differ."""
    for name in whole | alone:
        if whole.get(name) != alone.get(name):
            yield f"{name}: {whole.get(name)!r} against {alone.get(name)!r} alone"


def _acting(model: Model, op: t.Op) -> Level:
    """The taint before the operation of the session that asks and is answered."""
    if isinstance(op, t.Restart):
        return Level.PUBLIC
    session = model.sessions.get(op.seat)
    if isinstance(op, t.Open) and (session is None or not op.seat.named):
        parent = model.sessions.get(op.parent) if op.parent else None
        return parent.taint if parent else op.level
    return session.taint if session else Level.PUBLIC


def _felt(model: Model, op: t.Op) -> Level:
    """The lowest taint before the operation of any session that it changes, or that is told of it."""
    acting = _acting(model, op)
    session = None if isinstance(op, t.Restart) else model.sessions.get(op.seat)
    match op:
        case t.Open(parent=t.Seat() as parent) if parent in model.sessions:
            above = model.sessions[parent]
            return min(acting, above.taint) if session is None or session.parent is above else acting
        case t.Reset() | t.Ceiling() | t.End() if session is not None:
            felt = [session.taint, *(each.taint for each in model.sessions.values() if _is_under(each, session))]
            if isinstance(op, t.End) and session.parent is not None and not session.parent.ended:
                felt.append(session.parent.taint)
            return min(felt)
        case _:
            return acting


def _is_under(session: Session, root: Session) -> bool:
    above = session.parent
    return above is not None and not session.ended and (above is root or _is_under(above, root))
