"""The rules: one small function per event, and `decide`, the only way to an Allow."""

from __future__ import annotations

from tidegate.policy.decisions import Allow, Decision, Deny, PolicyRule
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
from tidegate.policy.servers import CEILING, ServerCall, ServerEvent, ServerResult, ServerSend, judge
from tidegate.policy.session_state import SessionState

CHILD_DEPTH_MAX = 4
GENERATIONS_MAX = 3

UNKNOWN_SESSION = Deny(PolicyRule.P13, "unknown session: the owner creates one with `tidegate session new`")
OLDER_COPY = Deny(PolicyRule.P4, "control.db is an older copy and lacks sessions: the owner runs `tidegate doctor`")
ENDED = Deny(PolicyRule.P7, "session ended: the owner starts a new one, under a new name")
_UNCLEARED = Deny(PolicyRule.P14, "the destination has no clearance: the owner sets one in config.toml")
_HELD = Deny(PolicyRule.P14, "this conversation holds data that may not go there: the owner can start a fresh session")
_LEAVING = Deny(PolicyRule.P1, "the result was withheld: this session may not see it")


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
            return Deny(PolicyRule.P17, "unknown event")


# Each rule asks this first, in its own lines, so that it can be read and judged by itself.
def _living(state: SessionState | None) -> SessionState | Deny:
    if state is None:
        return UNKNOWN_SESSION
    return ENDED if state.ended else state


def _before_tool(event: PreToolCall) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if event.tool not in event.known_tools:
        return Deny(PolicyRule.P17, "unknown tool")
    return Allow(state.taint)  # P2: the classification is the live taint, whatever the caller asked for.


def _after_tool(event: PostToolResponse) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state  # P4: a result leaves only while the session is active.
    for agent, level in event.origins:
        if level is None or agent != event.agent or not level.can_flow_to(state.taint):  # P1, P6
            return _LEAVING
    return Allow(state.taint)


def _output(event: PreOutput) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state  # P4: nothing leaves a session that has ended.
    if event.clearance is None:
        return _UNCLEARED
    # P14: every byte that goes out is a write to a sink.
    return Allow(state.taint) if state.taint.can_flow_to(event.clearance) else _HELD


def _raise(event: TaintRaise) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    level = max(state.taint, event.source)  # P4: taint' = taint ⊔ source.
    return Allow(level) if level.can_flow_to(state.ceiling) else CEILING


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
            return Deny(PolicyRule.P15, f"child sessions nest at most {CHILD_DEPTH_MAX} deep: continue in this one")
        if not event.ceiling.can_flow_to(parent.ceiling):
            return Deny(PolicyRule.P15, "a child's ceiling cannot be above its parent's")
        level = max(level, parent.taint)  # P15: a child starts at or above its parent's taint.
    return Allow(level) if level.can_flow_to(event.ceiling) else CEILING


def _schedule(event: Scheduling) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if event.generation > GENERATIONS_MAX:  # P15: delegation is bounded, also over time.
        return Deny(PolicyRule.P15, f"jobs can create jobs at most {GENERATIONS_MAX} deep: the owner can do it")
    if not event.ceiling.can_flow_to(state.ceiling):
        return Deny(PolicyRule.P15, "a job's ceiling cannot be above the ceiling of the session that creates it")
    # P16: its sessions start at the live taint, whatever the caller asked for.
    return Allow(state.taint) if state.taint.can_flow_to(event.ceiling) else CEILING


def _server(event: ServerEvent) -> Decision:
    state = _living(event.state)
    return state if isinstance(state, Deny) else judge(event, state)


def _owner_act(event: OwnerAct) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if state.taint is not event.level:  # P2: the session's own level, at the moment of storing
        return Deny(PolicyRule.P4, "the session's taint has just risen, so nothing was changed: run the command again")
    return Allow(state.taint)


def _ceiling(event: CeilingChange) -> Decision:
    state = _living(event.state)
    if isinstance(state, Deny):
        return state
    if not state.taint.can_flow_to(event.ceiling):
        return Deny(PolicyRule.P4, "the ceiling cannot be below the session's taint: start a fresh session instead")
    if not event.highest.can_flow_to(event.ceiling):
        return Deny(PolicyRule.P15, "the ceiling cannot be below the taint of a session under it: end that one first")
    return Allow(event.ceiling)
