"""Tools of foreign servers: what may be sent to them, and what comes back of them (P4, P14).

Every byte to a server is a write, every byte from it a read. The owner gives each tool a *source*, the level of what it
returns, and a *sink*, the highest level that it may be told. What the server says of itself decides nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from tidegate.policy.decisions import Allow, Decision, Deny, PolicyRule
from tidegate.policy.levels import Level
from tidegate.policy.session_state import SessionState


@dataclass(frozen=True, slots=True)
class Classification:
    """source: the level of whatever the tool returns. sink: the highest level that may be sent to it."""

    source: Level
    sink: Level


class Pin(StrEnum):
    """How a tool's definition compares with the one that the owner looked at."""

    TRUSTED = "trusted"
    CHANGED = "changed"  # of this tool, or of another one of its server
    NEW = "new"  # never looked at
    GONE = "gone"  # the server has it no more
    UNKNOWN = "unknown"  # no such tool anywhere


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A server's tool is about to be called. In all three events, None means that it does not exist."""

    state: SessionState | None
    classification: Classification | None
    pin: Pin


@dataclass(frozen=True, slots=True)
class ServerSend:
    """More bytes are about to go to a server, after a call was allowed.

    granted: the taint that the call was allowed at, for bytes that were settled before it; None for all others.
    """

    state: SessionState | None
    classification: Classification | None
    granted: Level | None


@dataclass(frozen=True, slots=True)
class ServerResult:
    """What a server answered is about to be handed on."""

    state: SessionState | None
    classification: Classification | None


ServerEvent = ServerCall | ServerSend | ServerResult

_PINS = {
    Pin.CHANGED: Deny(
        PolicyRule.P14, "the server's tools have changed: the owner looks at them with `tidegate tools trust`"
    ),
    Pin.NEW: Deny(PolicyRule.P14, "the owner has not looked at this tool yet: `tidegate tools trust`"),
    Pin.GONE: Deny(PolicyRule.P14, "the server does not have this tool any more"),
    Pin.UNKNOWN: Deny(PolicyRule.P17, "unknown tool"),
}
_UNCLASSIFIED = Deny(
    PolicyRule.P14, "the tool has no classification: the owner gives it a source and a sink in config.toml"
)
_SINK = Deny(
    PolicyRule.P14, "this session has read what this tool must not be told: the owner can start a fresh session"
)
CEILING = Deny(
    PolicyRule.P4, "the session's ceiling forbids it: the owner can lift the ceiling or start a fresh session"
)
_WITHHELD = Deny(PolicyRule.P4, "the result was withheld: it is not for this session")


def judge(event: ServerEvent, state: SessionState) -> Decision:
    """Return Allow or Deny, for a session that lives. Allow holds the taint of a call from before its first byte on."""
    if isinstance(event, ServerCall) and event.pin is not Pin.TRUSTED:
        return _PINS.get(event.pin, _PINS[Pin.UNKNOWN])  # P17
    if event.classification is None:
        return _UNCLASSIFIED
    if isinstance(event, ServerCall):
        return _call(event.classification, state)
    if isinstance(event, ServerSend):
        return _send(event.classification, event.granted, state)
    return Allow(state.taint) if event.classification.source.can_flow_to(state.taint) else _WITHHELD


def launders(classifications: Collection[Classification]) -> bool:
    """Return whether something could be written to a server high and read back low: a source is not ⊒ a sink (P14)."""
    return any(not a.sink.can_flow_to(b.source) for a in classifications for b in classifications)


def _call(classification: Classification, state: SessionState) -> Decision:
    if not state.taint.can_flow_to(classification.sink):
        return _SINK
    level = max(state.taint, classification.source)  # P4: taint' = taint ⊔ source.
    return Allow(level) if level.can_flow_to(state.ceiling) else CEILING


def _send(classification: Classification, granted: Level | None, state: SessionState) -> Decision:
    # The call itself was settled below the taint that it raised; nobody may have raised further since.
    settled = granted is not None and state.taint.can_flow_to(granted)
    return Allow(state.taint) if settled or state.taint.can_flow_to(classification.sink) else _SINK
