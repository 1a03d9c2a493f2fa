"""Tools of foreign servers: what may go to them, and what may come back (P4, P14).

Every byte to a server is a write, every byte from it a read. The owner gives each tool a *source*, the level of its
results, and a *sink*, the highest level that may be sent to it. The server's own statements decide nothing, except that
a label on an answer can raise the session.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from tidegate.policy import refusals
from tidegate.policy.decisions import Allow, Decision
from tidegate.policy.levels import Level
from tidegate.policy.session_state import SessionState


@dataclass(frozen=True, slots=True)
class Classification:
    """source: the level of everything that the tool returns. sink: the highest level that may be sent to it."""

    source: Level
    sink: Level


class Pin(StrEnum):
    """How a tool's definition compares with the one that the owner trusted."""

    TRUSTED = "trusted"
    CHANGED = "changed"  # this tool, or another one of its server
    NEW = "new"  # never trusted
    GONE = "gone"  # the server no longer has it
    UNKNOWN = "unknown"  # no server has such a tool


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A server's tool is about to be called. In all three events, None means: does not exist."""

    state: SessionState | None
    classification: Classification | None
    pin: Pin


@dataclass(frozen=True, slots=True)
class ServerSend:
    """More bytes are about to go to a server, after a call was allowed.

    granted: the taint that the call was allowed at, for bytes that were fixed before it; None for all others.
    """

    state: SessionState | None
    classification: Classification | None
    granted: Level | None


@dataclass(frozen=True, slots=True)
class ServerResult:
    """A server's answer is about to be handed on.

    claimed: the level of its labels; PUBLIC without any.
    """

    state: SessionState | None
    classification: Classification | None
    claimed: Level


ServerEvent = ServerCall | ServerSend | ServerResult

_PINS = {
    Pin.CHANGED: refusals.TOOLS_CHANGED,
    Pin.NEW: refusals.TOOL_NOT_TRUSTED,
    Pin.GONE: refusals.TOOL_GONE,
    Pin.UNKNOWN: refusals.UNKNOWN_TOOL,
}


def judge(event: ServerEvent, state: SessionState) -> Decision:
    """Return Allow or Deny, for an active session.

    The taint in Allow holds before a call sends its first byte, and before a result is handed on.
    """
    if isinstance(event, ServerCall) and event.pin is not Pin.TRUSTED:
        return _PINS.get(event.pin, _PINS[Pin.UNKNOWN])  # P17
    if event.classification is None:
        return refusals.UNCLASSIFIED_TOOL
    if isinstance(event, ServerCall):
        return _call(event.classification, state)
    if isinstance(event, ServerSend):
        return _send(event.classification, event.granted, state)
    return _result(event.classification, event.claimed, state)


def launders(classifications: Collection[Classification]) -> bool:
    """Return whether data could be written to a server high and read back low: a source is not ⊒ a sink (P14)."""
    return any(not a.sink.can_flow_to(b.source) for a in classifications for b in classifications)


def _call(classification: Classification, state: SessionState) -> Decision:
    if not state.taint.can_flow_to(classification.sink):
        return refusals.ABOVE_SINK
    level = max(state.taint, classification.source)  # P4: taint' = taint ⊔ source.
    return Allow(level) if level.can_flow_to(state.ceiling) else refusals.ABOVE_CEILING


def _send(classification: Classification, granted: Level | None, state: SessionState) -> Decision:
    # The call itself was fixed below the taint that it raised; the taint must not have risen further since.
    settled = granted is not None and state.taint.can_flow_to(granted)
    return Allow(state.taint) if settled or state.taint.can_flow_to(classification.sink) else refusals.ABOVE_SINK


def _result(classification: Classification, claimed: Level, state: SessionState) -> Decision:
    if not classification.source.can_flow_to(state.taint):
        return refusals.SERVER_RESULT_WITHHELD
    level = max(state.taint, claimed)  # P4, P14: a label raises, and never lowers.
    return Allow(level) if level.can_flow_to(state.ceiling) else refusals.LABEL_ABOVE_CEILING
