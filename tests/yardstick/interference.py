"""P5 and P6, as security.md states them: what an observer sees does not change when what it may not depend on is gone.

An operation concerns the lowest level at which it may be felt: that of its session before it; of a reset, an end or a
ceiling also the sessions below it in the tree, of an end the parent that its taint joins, and of a reset or an end the
levels of the messages that go with the conversation. The owner's acts concern the levels that they change: a purge its
own, an erasure all of its agent's. The loss of a file is no act: it happens in both worlds, if the file was used.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import TypeAlias

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, SqliteBackend
from tests.yardstick.effort import story
from tests.yardstick.model import Answer, Model, Session
from tests.yardstick.worlds import Contents, Outcome, World, contents, time_of

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.control import SessionRow


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
    """The steps that stay for the observer, and those whose outcomes it sees."""
    return part_from(concerns(steps), observer)


@dataclass(frozen=True, slots=True)
class Concern:
    """A step, the agent whose it is (None: everyone's), the level that is answered, and the lowest that feels it."""

    step: t.Step
    agent: str | None
    acting: Level
    felt: Level


def concerns(steps: t.Trace) -> list[Concern]:
    """Whom each step concerns. Taints are the model's, so the code under test has no say in it."""
    model = Model()
    return [answered(model, step)[0] for step in steps]


def answered(model: Model, step: t.Step) -> tuple[Concern, Answer]:
    """Whom the next step concerns, and the model's answer to it."""
    acting, felt = _acting(model, step.op), _felt(model, step.op)
    answer = model.answer(step, time_of(step.index))
    if answer.get("error") not in (None, "STORAGE") and isinstance(step.op, t.Ceiling | t.Reset):
        felt = acting  # what was refused changed nothing
    agent = _agent(step.op)
    return Concern(step, agent, acting, felt), answer


def part_from(found: list[Concern], observer: Observer) -> Part:
    """The part of one observer."""
    mine = [each for each in found if each.agent in (None, observer.agent)]
    kept = tuple(each.step for each in mine if each.felt.can_flow_to(observer.level))
    watched = (each.step.index for each in mine if each.agent and each.acting.can_flow_to(observer.level))
    return Part(kept, frozenset(watched))


def differences(backend: Backend, steps: t.Trace, observer: Observer, made: Callable[..., World] = World) -> list[str]:
    """What the observer could tell the two worlds apart by; empty when P5 holds for this trace.

    made: what a world is made with, where something else than the core is asked.
    """
    part = part_of(steps, observer)
    whole, alone = (sight(run(backend, each, observer, made), part.watched, observer) for each in (steps, part.kept))
    return list(compare(whole, alone))


def what_tells(
    backend: Backend, seed: str, steps: t.Trace, observer: Observer, made: Callable[..., World] = World
) -> str:
    """What a failing test prints of a trace whose two worlds the observer can tell apart; "" when it cannot."""

    def wrong(shorter: t.Trace) -> str:
        return "\n".join(differences(backend, shorter, observer, made))

    return f"{observer}: {story(seed, steps, wrong)}" if wrong(steps) else ""


def files_seen(backend: SqliteBackend, steps: t.Trace, observer: Observer) -> list[bytes]:
    """The files that the observer may read, as a world that runs these steps leaves them."""
    world = World(backend, agents=[observer.agent])
    world.run(steps)
    world.close()
    return [backend.file(observer.agent, level) for level in Level if level.can_flow_to(observer.level)]


@dataclass(frozen=True, slots=True)
class Remains:
    """All that a world has shown, and all that is left in it."""

    outcomes: dict[int, Outcome]
    compartments: dict[tuple[str, Level], Contents | None]  # None: it cannot be read
    rows: dict[str, list[SessionRow]]


Sight: TypeAlias = dict[str, object]
"""Everything that one observer sees in a world, by name."""


def remains(world: World, outcomes: dict[int, Outcome], agents: Collection[str], highest: Level) -> Remains:
    """What is left of some agents, up to a level."""
    compartments = dict[tuple[str, Level], Contents | None]()
    for agent, level in product(agents, Level):
        if level.can_flow_to(highest):
            compartments[agent, level] = _left_in(world, agent, level)
    return Remains(outcomes, compartments, {agent: world.rows(agent) for agent in agents})


def _left_in(world: World, agent: str, level: Level) -> Contents | None:
    try:
        with world.compartment(agent, level) as compartment:
            return contents(compartment)
    except StorageError:
        return None


def run(backend: Backend, steps: t.Trace, observer: Observer, made: Callable[..., World] = World) -> Remains:
    """A world that runs these steps, as far as it concerns the observer."""
    world = made(backend, agents=[observer.agent])
    try:
        return remains(world, world.run(steps), [observer.agent], observer.level)
    finally:
        world.close()


def sight(left: Remains, watched: frozenset[int], observer: Observer) -> Sight:
    """Its outcomes; records, statistics and audit of its compartments; its sessions."""
    seen: Sight = {f"step {index}": masked(left.outcomes[index], observer.level) for index in sorted(watched)}
    for (agent, level), held in left.compartments.items():
        if agent == observer.agent and level.can_flow_to(observer.level):
            seen[f"compartment {level}"] = held
    return seen | {"sessions": [row for row in left.rows[observer.agent] if row.taint.can_flow_to(observer.level)]}


def masked(outcome: Outcome, level: Level) -> object:
    """An outcome as the level sees it: of a session that has risen above it, only that it has."""
    answer, state = outcome.answer, outcome.state
    if "taint" in answer and not Level[answer["taint"]].can_flow_to(level):
        answer = answer | {"taint": "above"}
    if state is not None and not state.taint.can_flow_to(level):
        state = replace(state, taint=Level.RESTRICTED, ceiling=Level.RESTRICTED)
    return answer, list(answer), outcome.raw, state


def compare(whole: Sight, alone: Sight) -> Iterator[str]:
    """Where two sights differ."""
    for name in whole | alone:
        if whole.get(name) != alone.get(name):
            yield f"{name}: {whole.get(name)!r} against {alone.get(name)!r} alone"


def _agent(op: t.Op) -> str | None:
    """Whose an operation is. A loss stops every process, and so is everyone's."""
    if isinstance(op, t.Restart | t.Lose):
        return None
    return op.agent if isinstance(op, t.Erase | t.Purge) else op.seat.agent


def _acting(model: Model, op: t.Op) -> Level:
    """The taint before the operation of the session that asks and is answered."""
    if isinstance(op, t.Owned):
        return Level.RESTRICTED  # the owner, who sees all levels, is answered
    if isinstance(op, t.Restart):
        return Level.PUBLIC
    if isinstance(op, t.Wake):
        return op.level
    if isinstance(op, t.Renew):
        return Level.RESTRICTED  # as above
    session = model.holder(op.seat)
    if isinstance(op, t.Open) and (session is None or not op.seat.named):
        parent = model.holder(op.parent) if op.parent else None
        return parent.taint if parent else t.DEFAULT if op.level is None else op.level
    return session.taint if session else Level.PUBLIC


def _felt(model: Model, op: t.Op) -> Level:
    """The lowest taint before the operation of any session that it changes, or that is told of it."""
    if isinstance(op, t.Owned):
        return op.level if isinstance(op, t.Purge) else Level.PUBLIC
    if isinstance(op, t.Renew):
        return Level.PUBLIC  # a new session of the name can begin at any level
    acting = _acting(model, op)
    session = None if isinstance(op, t.Restart) else model.holder(op.seat)
    match op:
        case t.Open(parent=t.Seat() as parent) if parent in model.sessions:
            above = model.sessions[parent]
            return min(acting, above.taint) if session is None or session.parent is above else acting
        case t.Reset() | t.Ceiling() | t.End() if session is not None:
            under = [each for each in model.sessions.values() if _is_under(each, session)]
            felt = [session.taint, *(each.taint for each in under)]
            if isinstance(op, t.Reset):  # the conversation goes, at every level at which it was held
                felt += [level for each in (session, *under) for _, level in each.messages]
            if isinstance(op, t.End) and session.parent is not None and not session.parent.ended:
                felt.append(session.parent.taint)
            return min(felt)
        case _:
            return acting


def _is_under(session: Session, root: Session) -> bool:
    above = session.parent
    return above is not None and (not session.ended or bool(session.messages)) and root in session.ancestors
