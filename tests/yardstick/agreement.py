"""Whether a store does what the model says: every answer, where each session stands, and all that is stored."""

from __future__ import annotations

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.chains import first_break
from tests.yardstick.model import Answer, Item, Model, match
from tests.yardstick.worlds import Contents, Outcome, World, contents, plain, time_of

from tidegate.policy.levels import Level
from tidegate.records.record import Record
from tidegate.search.analysis import analyse
from tidegate.search.ranking import Statistics


def disagreement(backend: Backend, steps: t.Trace) -> str:
    """The first thing that is not as the model says; empty when all is."""
    world, model = World(backend), Model()
    try:
        for step in steps:
            expected = model.answer(step, time_of(step.index))
            wrong = differs(step, expected, world.step(step), model)
            if wrong:
                return wrong
        return stored_differs(world, model)
    finally:
        world.close()


def differs(step: t.Step, expected: Answer, outcome: Outcome, model: Model) -> str:
    """How an outcome is not as expected."""
    said = plain(expected)
    answer = error_of(outcome.answer) if "error" in outcome.answer and "error" in expected else outcome.answer
    if answer != said:
        return f"step {step.index} answers {outcome.answer!r}; expected {said!r}"
    session = None if isinstance(step.op, t.Restart | t.Owned) else model.sessions.get(step.op.seat)
    if session is not None and outcome.state is not None:
        row, stands = outcome.state, (session.taint, session.ceiling, session.ended)
        if (row.taint, row.ceiling, row.ended) != stands:
            return f"step {step.index} leaves {row!r}; expected taint, ceiling and end {stands!r}"
    return ""


def error_of(answer: Answer) -> Answer:
    """An error without its text, and without what repeats it: the code and details that programs rely on."""
    kept = {"error", "rule", "argument", "visible_at"} if answer["error"] != "NOT_FOUND" else {"error", "visible_at"}
    return {name: value for name, value in answer.items() if name in kept}


def stored_differs(world: World, model: Model) -> str:
    """How what is stored is not as the model has it, compartment by compartment (P2, P3, P9)."""
    for agent in sorted({agent for agent, _ in (*model.items, *model.audit)}):
        for level in Level:
            with world.compartment(agent, level) as compartment:
                wrong = contents_differ(contents(compartment), model, agent, level)
            if wrong:
                return wrong
    return ""


def contents_differ(found: Contents, model: Model, agent: str, level: Level) -> str:
    """How one compartment differs: its records, its statistics, its audit chain."""
    live = sorted((item for item in model.items.get((agent, level), {}).values() if item.live), key=lambda i: i.key)
    actions, expected = [str(entry.event.action) for entry in found.entries], model.audit.get((agent, level), [])
    if [_stored(record) for record in found.records] != [_expected(item, agent) for item in live]:
        return f"{agent} {level} holds {found.records!r}; expected {live!r}"
    if found.statistics != sum((_counted(item) for item in live), Statistics()):
        return f"{agent} {level} counts {found.statistics!r}"
    if actions != expected:
        return f"{agent} {level}: the audit says {actions}; expected {expected}"
    return "" if first_break(found.entries, found.place) is None else f"{agent} {level}: the audit chain does not hold"


def _stored(each: Record) -> tuple[object, ...]:
    times = (each.created_at, each.updated_at, each.deleted_at)
    return each.agent, each.level, each.key, each.content, each.tags, each.version, str(each.origin), each.pinned, times


def _expected(item: Item, agent: str) -> tuple[object, ...]:
    times = (item.created_at, item.updated_at, None)
    return agent, item.level, item.key, item.content, item.tags, item.version, item.origin, item.pinned, times


def _counted(item: Item) -> Statistics:
    return Statistics(1, match(analyse(item.key, item.tags, item.content), ()).lengths)
