"""The small scope: every trace of a few operations over four levels, two agents and two keys.

A session at each level of each agent is there before, opened when it is first used. What only reads is asked once after
every shorter trace: that a read changes nothing is part of what is checked, so reads in between add nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.yardstick import traces as t
from tests.yardstick.agreement import contents_differ, differs, stored_differs
from tests.yardstick.backends import Backend
from tests.yardstick.interference import Concern, Observer, Remains, answered, compare, part_from, remains, sight
from tests.yardstick.model import Model
from tests.yardstick.worlds import World, time_of

from tidegate.policy.levels import Level

AGENTS = ("ada", "adam")
KEYS = ("a", "b")
CONTENTS = ("tea", "tea", "green tea")  # by place: what is saved twice at one level is unchanged, then updated
BASE = {t.Seat(agent, level.name): level for agent in AGENTS for level in Level}
PLACES = {seat: place for place, seat in enumerate(BASE)}
FIRST = len(BASE)  # opening steps have fixed indices, so that nothing shifts
OBSERVERS = tuple(Observer(agent, level) for agent in AGENTS for level in Level)


def changes(depth: int, first: t.Op | None = None) -> Iterator[t.Trace]:
    """All traces of exactly `depth` operations that change something, up to exchanging agents or a lone key.

    first: only those that begin with it.
    """
    start = () if first is None else (first,)
    for ops in _grown(start, depth - len(start)):
        keys = {op.key for op in ops if isinstance(op, t.Save | t.Delete)}
        if keys != {KEYS[1]}:
            yield placed(ops)


def beginnings() -> list[t.Op]:
    """Every operation that a trace can begin with."""
    return list(_next(()))


def placed(ops: tuple[t.Op, ...]) -> t.Trace:
    """The operations after the opening of the sessions that they use."""
    used = {seat for op in ops for seat in _seats(op)}
    opened = [t.Step(PLACES[seat], t.Open(seat, level)) for seat, level in BASE.items() if seat in used]
    return (*opened, *(t.Step(FIRST + place, op) for place, op in enumerate(ops)))


def reads(steps: t.Trace) -> list[t.Step]:
    """What every session that lives after the trace can ask."""
    model, index = _after(steps), FIRST + len(steps)
    seats = [seat for seat, session in model.sessions.items() if not session.ended]
    asked: list[t.Op] = [op for seat in seats for op in _questions(seat)]
    return [t.Step(index, op) for op in asked]


def _grown(ops: tuple[t.Op, ...], depth: int) -> Iterator[tuple[t.Op, ...]]:
    if depth == 0:
        yield ops
        return
    for op in _next(ops):
        yield from _grown((*ops, op), depth - 1)


def _next(ops: tuple[t.Op, ...]) -> Iterator[t.Op]:
    """Every operation that may follow; until another is there, the first agent stands for both."""
    model = _after(placed(ops))
    seats = {*BASE, *model.sessions}
    first = next((seat.agent for op in ops for seat in _seats(op)), AGENTS[0])
    for seat in sorted(seats, key=str):
        if ops or seat.agent == first:
            yield from _operations(seat, model, len(ops))


def _operations(seat: t.Seat, model: Model, place: int) -> Iterator[t.Op]:
    session = model.sessions.get(seat)
    taint = session.taint if session else BASE[seat]
    for key in KEYS:
        yield t.Save(seat, key, CONTENTS[place])
        yield t.Delete(seat, key)
    for level in Level:
        if level > taint:
            yield t.Raise(seat, level)
    yield t.Reset(seat)
    yield t.Open(t.Seat(seat.agent, f"kid{place}"), Level.PUBLIC, None, seat)
    if session and session.parent:
        yield t.End(seat)


def _questions(seat: t.Seat) -> Iterator[t.Op]:
    for key in KEYS:
        yield t.Get(seat, key)
    yield t.Search(seat, "tea", 1)
    yield t.Pages(seat, None, 1)


def _seats(op: t.Op) -> Iterator[t.Seat]:
    if isinstance(op, t.Restart | t.Owned):
        return
    if isinstance(op, t.Open) and op.parent in BASE:
        yield op.parent
    if op.seat in BASE:
        yield op.seat


def _after(steps: t.Trace) -> Model:
    model = Model()
    for step in steps:
        model.answer(step, time_of(step.index))
    return model


class Scope:
    """Checks traces on one backend, and remembers what was left of the shorter ones."""

    def __init__(self, backend: Backend, depth: int) -> None:
        self.depth = depth
        self._backend = backend
        self._parts: dict[t.Trace, Remains] = {}

    def wrong(self, steps: t.Trace) -> str:
        """What is not as the model says, or by which observer, and by what, the trace is told from its part of it."""
        model, found = Model(), list[Concern]()
        left = self._run(steps)
        for step in steps:
            concern, answer = answered(model, step)
            found.append(concern)
            said = differs(step, answer, left.outcomes[step.index], model)
            if said:
                return said
        stored = (contents_differ(held, model, agent, level) for (agent, level), held in left.compartments.items())
        return next(filter(None, stored), "") or next(filter(None, (self._told(left, found, o) for o in OBSERVERS)), "")

    def wrong_read(self, steps: t.Trace) -> str:
        """What any session is told that it should not be after the trace, or how asking changed anything."""
        world, model = World(self._backend, agents=AGENTS), Model()
        try:
            for step in (*steps, *reads(steps)):
                said = differs(step, model.answer(step, time_of(step.index)), world.step(step), model)
                if said:
                    return said
            return stored_differs(world, model)
        finally:
            world.close()

    def _told(self, left: Remains, found: list[Concern], observer: Observer) -> str:
        part = part_from(found, observer)
        if len(part.kept) == len(found):
            return ""
        alone = self._parts.get(part.kept) or self._parts.setdefault(part.kept, self._run(part.kept))
        whole = sight(left, part.watched, observer)
        told = "\n".join(compare(whole, sight(alone, part.watched, observer)))
        return told and f"{observer}: {told}"

    def _run(self, steps: t.Trace) -> Remains:
        world = World(self._backend, agents=AGENTS)
        try:
            return remains(world, world.run(steps), AGENTS, Level.RESTRICTED)
        finally:
            world.close()
