"""Every trace of up to three operations: four levels, two agents, two keys, with raise, reset, child and end.

Each is held against the reference model (P1 to P4, P7 to P9), and told from its part by every observer (P5, P6).
"""

from __future__ import annotations

import pytest
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.scope import OBSERVERS, Scope, beginnings, changes, reads

from tidegate.policy.levels import Level

DEPTH = {"inmemory": 3, "sqlite": 2}
"""How many operations a trace has at most; the last may be one that only reads."""


@pytest.fixture(scope="module")
def scope(backend: Backend) -> Scope:
    return Scope(backend, DEPTH[backend.name])


@pytest.mark.parametrize("first", beginnings(), ids=t.brief)
def test_every_trace_answers_as_the_model_and_tells_no_observer_of_what_it_may_not_see(
    scope: Scope, first: t.Op
) -> None:
    for depth in range(1, scope.depth + 1):
        for steps in changes(depth, first):
            wrong = scope.wrong(steps)
            assert not wrong, f"\n{t.show(steps)}\n{wrong}"


@pytest.mark.parametrize("first", beginnings(), ids=t.brief)
def test_after_every_shorter_trace_each_read_is_the_models_and_changes_nothing(scope: Scope, first: t.Op) -> None:
    for depth in range(scope.depth):
        for steps in changes(depth, first if depth else None):
            wrong = scope.wrong_read(steps)
            assert not wrong, f"\n{t.show(steps)}\n{wrong}"


def test_the_scope_holds_every_kind_of_change_and_read_at_every_level_for_both_agents() -> None:
    traces = list(changes(2))
    ops = {step.op for steps in traces for step in steps if step.index >= len(OBSERVERS)}
    assert {type(op) for op in ops} == {t.Save, t.Delete, t.Raise, t.Reset, t.Open, t.End}
    assert {type(step.op) for step in reads(traces[0])} == {t.Get, t.Search, t.Pages}
    saves = {(op.seat.agent, op.seat.label, op.key) for op in ops if isinstance(op, t.Save)}
    assert len(saves) == 2 * 2 * len(Level) + 1  # and one by a child that the first operation made
    assert len(traces) == len(set(traces)) > 1_000
