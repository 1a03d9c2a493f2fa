"""Decisions on foreign servers' tools, whole: every event over every standing, against a second opinion on sets."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import cast

import pytest
from tests.yardstick.oracle import DOWN, UP, No, Verdict, Yes

from tidegate.policy.decisions import Allow, Decision, Deny
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.policy.servers import (
    Classification,
    Pin,
    ServerCall,
    ServerEvent,
    ServerResult,
    ServerSend,
    launders,
)
from tidegate.policy.session_state import SessionState

STANDINGS: list[SessionState | None] = [
    None,
    *(SessionState(*each) for each in itertools.product(Level, Level, (False, True))),
]
CLASSIFIED = [Classification(source, sink) for source, sink in itertools.product(Level, Level)]
CLASSIFICATIONS: list[Classification | None] = [None, *CLASSIFIED]
GRANTS: list[Level | None] = [None, *Level]


def not_living(state: SessionState | None) -> set[str]:
    if state is None:
        return {"P13"}
    return {"P7"} if state.ended else set()


def call(state: SessionState | None, tool: Classification | None, pin: Pin) -> Verdict:
    """P14: looked at and classified; taint ⊑ sink. P4: taint ⊔ source ⊑ ceiling, which is the taint from now on."""
    broken = not_living(state)
    if pin is not Pin.TRUSTED:
        broken |= {"P17"} if pin is Pin.UNKNOWN else {"P14"}
    if tool is None:
        broken |= {"P14"}
    if state is None or tool is None:
        return No(frozenset(broken))
    joined = DOWN[state.taint] | DOWN[tool.source]
    if not DOWN[state.taint] <= DOWN[tool.sink]:
        broken |= {"P14"}
    if not joined <= DOWN[state.ceiling]:
        broken |= {"P4"}
    return No(frozenset(broken)) if broken else Yes(UP[joined])


def send(state: SessionState | None, tool: Classification | None, granted: Level | None) -> Verdict:
    """P4: nothing above the sink goes out, except what was settled at a taint that nobody has raised since."""
    broken = not_living(state)
    if tool is None:
        broken |= {"P14"}
    if state is None or tool is None:
        return No(frozenset(broken))
    room = DOWN[tool.sink] | (DOWN[granted] if granted is not None else frozenset())
    if not DOWN[state.taint] <= room:
        broken |= {"P14"}
    return No(frozenset(broken)) if broken else Yes(state.taint)


def result(state: SessionState | None, tool: Classification | None, claimed: Level) -> Verdict:
    """P4: only to a living session that stands at the source or over it, and, from now on, at what the labels claim."""
    broken = not_living(state)
    if tool is None:
        broken |= {"P14"}
    if state is None or tool is None:
        return No(frozenset(broken))
    joined = DOWN[state.taint] | DOWN[claimed]
    if not DOWN[tool.source] <= DOWN[state.taint] or not joined <= DOWN[state.ceiling]:
        broken |= {"P4"}
    return No(frozenset(broken)) if broken else Yes(UP[joined])


def cases() -> Iterator[tuple[ServerEvent, Verdict]]:
    for state, tool in itertools.product(STANDINGS, CLASSIFICATIONS):
        for pin in Pin:
            yield ServerCall(state, tool, pin), call(state, tool, pin)
        for granted in GRANTS:
            yield ServerSend(state, tool, granted), send(state, tool, granted)
        for claimed in Level:
            yield ServerResult(state, tool, claimed), result(state, tool, claimed)


def agrees(decision: Decision, verdict: Verdict) -> bool:
    if isinstance(verdict, Yes):
        return decision == Allow(verdict.level)
    return isinstance(decision, Deny) and decision.rule in verdict.rules


def test_every_decision_is_the_oracles() -> None:
    wrong = [(event, verdict) for event, verdict in cases() if not agrees(decide(event), verdict)]
    assert not wrong, wrong[0]


def test_the_oracle_itself_says_both_yes_and_no_to_every_event() -> None:
    seen = {(type(event), type(verdict)) for event, verdict in cases()}
    assert seen == {(event, answer) for event in (ServerCall, ServerSend, ServerResult) for answer in (Yes, No)}


def test_a_denial_names_no_level() -> None:
    hints = {decision.hint for event, _ in cases() if isinstance(decision := decide(event), Deny)}
    assert len(hints) > 5
    assert not [hint for hint in hints if any(level.name.lower() in hint.lower() for level in Level)]


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            ServerCall(
                SessionState(Level.INTERNAL, Level.RESTRICTED), Classification(Level.PUBLIC, Level.PUBLIC), Pin.TRUSTED
            ),
            "the owner can start a new session",
        ),
        (
            ServerCall(
                SessionState(Level.PUBLIC, Level.PUBLIC), Classification(Level.INTERNAL, Level.INTERNAL), Pin.TRUSTED
            ),
            "the owner can raise the ceiling with `tidegate session ceiling`, or start a new session",
        ),
        (
            ServerCall(SessionState(Level.PUBLIC, Level.RESTRICTED), None, Pin.TRUSTED),
            "the owner can set its source and",
        ),
        (ServerCall(SessionState(Level.PUBLIC, Level.RESTRICTED), None, Pin.NEW), "tidegate tools trust"),
        (ServerCall(SessionState(Level.PUBLIC, Level.RESTRICTED), None, Pin.CHANGED), "tidegate tools trust"),
        (
            ServerResult(
                SessionState(Level.PUBLIC, Level.PUBLIC), Classification(Level.PUBLIC, Level.PUBLIC), Level.INTERNAL
            ),
            "its label exceeds the session's ceiling: the owner can raise the ceiling with `tidegate session ceiling`",
        ),
        (
            ServerResult(
                SessionState(Level.PUBLIC, Level.RESTRICTED), Classification(Level.INTERNAL, Level.PUBLIC), Level.PUBLIC
            ),
            "start a new session at a higher level",
        ),
    ],
)
def test_a_refusal_says_what_the_owner_can_do(event: ServerEvent, words: str) -> None:
    decision = decide(event)
    assert isinstance(decision, Deny)
    assert words in decision.hint


def test_a_pin_that_is_no_pin_is_denied() -> None:
    state = SessionState(Level.PUBLIC, Level.RESTRICTED)
    decision = decide(ServerCall(state, Classification(Level.PUBLIC, Level.PUBLIC), cast(Pin, "TRUSTED")))
    assert isinstance(decision, Deny)
    assert decision.rule == "P17"


def test_a_label_never_lowers_and_a_result_is_released_at_what_it_claims_or_above() -> None:
    for event, _ in cases():
        decision = decide(event)
        if isinstance(event, ServerResult) and isinstance(decision, Allow) and event.state:
            assert event.state.taint.can_flow_to(decision.level)
            assert event.claimed.can_flow_to(decision.level)
            assert decision.level.can_flow_to(event.state.ceiling)


def test_a_claim_that_is_not_above_the_taint_changes_nothing() -> None:
    standing = (each for each in STANDINGS if each and each.taint.can_flow_to(each.ceiling))
    for state, tool in itertools.product(standing, CLASSIFIED):
        unlabelled = decide(ServerResult(state, tool, Level.PUBLIC))
        for claimed in Level:
            if claimed.can_flow_to(state.taint):
                assert decide(ServerResult(state, tool, claimed)) == unlabelled


def test_an_allowed_call_never_lowers_the_taint_and_reaches_the_source() -> None:
    for event, _ in cases():
        decision = decide(event)
        if isinstance(event, ServerCall) and isinstance(decision, Allow) and event.state and event.classification:
            assert event.state.taint.can_flow_to(decision.level)
            assert event.classification.source.can_flow_to(decision.level)


def can_launder(tools: tuple[Classification, ...]) -> bool:
    """By trying it: something of each level is written to each tool that takes it, and read back by each."""
    written = {level for level in Level for tool in tools if DOWN[level] <= DOWN[tool.sink]}
    return any(not DOWN[level] <= DOWN[tool.source] for level in written for tool in tools)


def test_a_server_launders_exactly_when_something_written_high_can_be_read_back_low() -> None:
    for size in range(3):
        for tools in itertools.product(CLASSIFIED, repeat=size):
            assert launders(tools) == can_launder(tools), tools
