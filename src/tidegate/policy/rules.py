"""The rules: one small function per event, and `decide`, the only way to an Allow."""

from __future__ import annotations

from tidegate.policy import refusals
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
from tidegate.policy.servers import ServerCall, ServerEvent, ServerResult, ServerSend, judge
from tidegate.policy.session_state import SessionState

CHILD_DEPTH_MAX = 4
GENERATIONS_MAX = 3


def decide(event: PolicyEvent) -> Decision:
    """Return Allow or Deny for one event. Anything unknown is denied (P17)."""
    match event:
        case PreToolCall():
            return _before_tool(event)
        case PostToolResponse():
            return _after_tool(event)
        case PreOutput():
            return _output(event)
        case TaintRaise():
            return _raise(event)
        case SessionUse():
            return _use(event)
        case OwnerAct():
            return _owner_act(event)
        case SessionOpen():
            return _open(event)
        case CeilingChange():
            return _ceiling(event)
        case Scheduling():
            return _schedule(event)
        case ServerCall() | ServerSend() | ServerResult():
            return _server(event)
        case _:
            return refusals.UNKNOWN_EVENT


# Each rule asks this first, in its own lines, so that it can be read and judged by itself.
def _living(state: SessionState | None) -> SessionState | Deny:
    if state is None:
        return refusals.UNKNOWN_SESSION
    return refusals.ENDED if state.ended else state


def _before_tool(event: PreToolCall) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if event.tool not in event.known_tools:
        return refusals.UNKNOWN_TOOL
    return Allow(state.taint)  # P2: the classification is the live taint, whatever the caller asked for.


def _after_tool(event: PostToolResponse) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state  # P4: a result leaves only while the session is active.
    for agent, level in event.origins:
        if level is None or agent != event.agent or not level.can_flow_to(state.taint):  # P1, P6
            return refusals.RESULT_WITHHELD
    return Allow(state.taint)


def _output(event: PreOutput) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state  # P4: nothing leaves a session that has ended.
    if event.clearance is None:
        return refusals.NO_CLEARANCE
    # P14: every byte that goes out is a write to a sink.
    return Allow(state.taint) if state.taint.can_flow_to(event.clearance) else refusals.ABOVE_CLEARANCE


def _raise(event: TaintRaise) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    level = max(state.taint, event.source)  # P4: taint' = taint ⊔ source.
    return Allow(level) if level.can_flow_to(state.ceiling) else refusals.ABOVE_CEILING


def _use(event: SessionUse) -> Decision:
    state = _living(event.state)
    return state if isinstance(state, Deny) else Allow(state.taint)


def _open(event: SessionOpen) -> Decision:
    level = event.level
    if event.parent is not None:
        parent = _living(event.parent)
        if isinstance(parent, Deny):
            return parent
        if event.depth > CHILD_DEPTH_MAX:
            return refusals.CHILD_TOO_DEEP
        if not event.ceiling.can_flow_to(parent.ceiling):
            return refusals.CHILD_ABOVE_PARENT
        level = max(level, parent.taint)  # P15: a child starts at or above its parent's taint.
    return Allow(level) if level.can_flow_to(event.ceiling) else refusals.OPENED_ABOVE_CEILING


def _schedule(event: Scheduling) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if event.generation > GENERATIONS_MAX:  # P15: delegation is bounded, also over time.
        return refusals.JOB_TOO_DEEP
    if not event.ceiling.can_flow_to(state.ceiling):
        return refusals.JOB_ABOVE_SESSION
    # P16: its sessions start at the live taint, whatever the caller asked for.
    return Allow(state.taint) if state.taint.can_flow_to(event.ceiling) else refusals.JOB_ABOVE_CEILING


def _server(event: ServerEvent) -> Decision:
    state = _living(event.state)
    return state if isinstance(state, Deny) else judge(event, state)


def _owner_act(event: OwnerAct) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if state.taint is not event.level:  # P2: the session's own level, at the moment of storing
        return refusals.RISEN_MEANWHILE
    return Allow(state.taint)


def _ceiling(event: CeilingChange) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if not state.taint.can_flow_to(event.ceiling):
        return refusals.CEILING_BELOW_TAINT
    if not event.highest.can_flow_to(event.ceiling):
        return refusals.CEILING_BELOW_CHILD
    return Allow(event.ceiling)
