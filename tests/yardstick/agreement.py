"""Whether a store does what the model says: every answer, where each session stands, and all that is stored."""

from __future__ import annotations

from dataclasses import asdict

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.model import Answer, Item, Model, match
from tests.yardstick.worlds import Outcome, World, contents, plain, time_of

from tidegate.domain.audit import first_break
from tidegate.domain.rank import Statistics
from tidegate.domain.text import analyse
from tidegate.policy.levels import Level
from tidegate.storage.base import Reading


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
    session = None if isinstance(step.op, t.Restart) else model.sessions.get(step.op.seat)
    if session is not None and outcome.standing is not None:
        row, stands = outcome.standing, (session.taint, session.ceiling, session.ended)
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
                wrong = compartment_differs(compartment, model, agent, level)
            if wrong:
                return f"{agent} {level}: {wrong}"
    return ""


def compartment_differs(compartment: Reading, model: Model, agent: str, level: Level) -> str:
    """How one compartment differs: its records, its statistics, its audit chain."""
    live = sorted((item for item in model.items.get((agent, level), {}).values() if item.live), key=lambda i: i.key)
    found = contents(compartment)
    expected = [_record(item, agent) for item in live]
    records = [{name: record[name] for name in expected[0]} for record in found["records"]] if expected else []
    if records != expected or len(found["records"]) != len(expected):
        return f"holds {found['records']!r}; expected {expected!r}"
    if compartment.statistics() != sum((_counted(item) for item in live), Statistics()):
        return f"counts {found['statistics']!r}"
    entries = list(compartment.entries())
    actions = [str(entry.event.action) for entry in entries]
    if actions != model.audit.get((agent, level), []):
        return f"audit says {actions}; expected {model.audit.get((agent, level), [])}"
    return "" if first_break(entries) is None else "the audit chain does not hold"


def _record(item: Item, agent: str) -> dict[str, object]:
    return {name: value for name, value in asdict(item).items() if name != "live"} | {"agent": agent}


def _counted(item: Item) -> Statistics:
    return Statistics(1, match(analyse(item.key, item.tags, item.content), ()).lengths)
