"""The decision table, whole: every event over every standing, against an oracle that shares no code with the rules."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

import pytest
from tests.yardstick.oracle import (
    DEPTH_MAX,
    GENERATIONS_MAX,
    No,
    Verdict,
    Yes,
    after_tool,
    before_tool,
    change_ceiling,
    open_session,
    output,
    owner_act,
    raise_taint,
    schedule,
    use_session,
)

from tidegate.policy import rules
from tidegate.policy.decisions import Allow, Decision, Deny
from tidegate.policy.events import (
    CeilingChange,
    OwnerAct,
    PolicyEvent,
    PostToolResponse,
    PreOutput,
    PreToolCall,
    Scheduling,
    SessionOpen,
    SessionUse,
    TaintRaise,
)
from tidegate.policy.levels import Level
from tidegate.policy.session_state import SessionState

LIVING = [SessionState(taint, ceiling) for taint in Level for ceiling in Level]
ENDED = [SessionState(taint, ceiling, ended=True) for taint in Level for ceiling in Level]
STANDINGS: list[SessionState | None] = [None, *LIVING, *ENDED]
TOOLS = ("memory_get", "memory_save")
LABELS: list[tuple[str, Level | None]] = [(agent, label) for agent in ("ada", "adam") for label in (None, *Level)]


def agrees(decision: Decision, verdict: Verdict) -> bool:
    """Whether the rules said what the oracle says: the same level, or a denial for one of its reasons."""
    if isinstance(verdict, Yes):
        return decision == Allow(verdict.level)
    return isinstance(decision, Deny) and decision.rule in verdict.rules


def cases() -> Iterator[tuple[PolicyEvent, Verdict]]:
    """Every event there is, with the oracle's verdict."""
    for state in STANDINGS:
        yield SessionUse(state), use_session(state)
        yield PreOutput(state, None), output(state, None)
        for tool in (*TOOLS, "memory_purge", ""):
            yield PreToolCall(state, tool, TOOLS), before_tool(state, tool in TOOLS)
        for level in Level:
            yield TaintRaise(state, level), raise_taint(state, level)
            yield OwnerAct(state, level), owner_act(state, level)
            yield PreOutput(state, level), output(state, level)
        for ceiling, highest in itertools.product(Level, Level):
            yield CeilingChange(state, ceiling, highest), change_ceiling(state, ceiling, highest)
        for ceiling, generation in itertools.product(Level, range(GENERATIONS_MAX + 3)):
            yield Scheduling(state, ceiling, generation), schedule(state, ceiling, generation)
        for level, ceiling, depth in itertools.product(Level, Level, range(DEPTH_MAX + 3)):
            yield SessionOpen(level, ceiling, state, depth), open_session(level, ceiling, state, depth)


def results() -> Iterator[tuple[PolicyEvent, Verdict]]:
    """Every answer of up to two records, for every standing."""
    origins = [list(chosen) for size in range(3) for chosen in itertools.product(LABELS, repeat=size)]
    for state, labels in itertools.product(STANDINGS, origins):
        yield PostToolResponse(state, "ada", labels), after_tool(state, "ada", labels)


def test_every_decision_is_the_oracles() -> None:
    wrong = [(event, verdict) for event, verdict in cases() if not agrees(rules.decide(event), verdict)]
    assert not wrong, wrong[0]


def test_every_answer_that_leaves_is_judged_as_the_oracle_judges() -> None:
    wrong = [(event, verdict) for event, verdict in results() if not agrees(rules.decide(event), verdict)]
    assert not wrong, wrong[0]


def test_the_oracle_itself_says_both_yes_and_no_to_every_event() -> None:
    seen = {(type(event), type(verdict)) for event, verdict in itertools.chain(cases(), results())}
    events = (PreToolCall, PostToolResponse, PreOutput, TaintRaise, SessionUse, OwnerAct, SessionOpen, CeilingChange)
    events += (Scheduling,)
    assert seen == {(event, answer) for event in events for answer in (Yes, No)}


def test_a_denial_names_no_level_and_no_agent() -> None:
    hints = {d.hint for event, _ in itertools.chain(cases(), results()) if isinstance(d := rules.decide(event), Deny)}
    assert hints
    for hint in hints:
        assert hint
        assert not any(level.name.lower() in hint.lower() for level in Level), hint
        assert "ada" not in hint


def test_a_denial_of_a_result_is_one_text_whatever_was_wrong() -> None:
    before = SessionState(Level.PUBLIC, Level.RESTRICTED)
    hidden = [label for label in LABELS if label != ("ada", Level.PUBLIC)]
    denials = {rules.decide(PostToolResponse(before, "ada", [label])) for label in hidden}
    assert len(denials) == 1
    assert isinstance(denials.pop(), Deny)


@pytest.mark.parametrize("event", [None, object(), "PRE_TOOL_CALL", 0, SessionState(Level.PUBLIC, Level.RESTRICTED)])
def test_an_unknown_event_is_denied(event: object) -> None:
    decision = rules.decide(cast(PolicyEvent, event))
    assert isinstance(decision, Deny)
    assert decision.rule == "P17"


def test_an_allowed_raise_never_lowers_the_taint() -> None:
    for state, source in itertools.product(LIVING, Level):
        decision = rules.decide(TaintRaise(state, source))
        if isinstance(decision, Allow):
            assert state.taint.can_flow_to(decision.level)
            assert source.can_flow_to(decision.level)
            assert decision.level.can_flow_to(state.ceiling)
