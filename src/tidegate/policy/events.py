"""The events the gate asks the policy about: one frozen value each, with everything that the decision needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidegate.policy.levels import Level
from tidegate.policy.servers import ServerEvent
from tidegate.policy.session_state import SessionState

LEVEL_ARGUMENTS = frozenset({"classification", "level", "taint", "security_level", "sensitivity"})
"""Arguments by which a model tries to choose a level: no effect, no error, entered in the audit (P2)."""


@dataclass(frozen=True, slots=True)
class PreToolCall:
    """PRE_TOOL_CALL: before a tool runs. state: None if the session does not exist."""

    state: SessionState | None
    tool: str
    known_tools: Collection[str]


@dataclass(frozen=True, slots=True)
class PostToolResponse:
    """POST_TOOL_RESPONSE: before a result leaves. `origins` holds the agent and label of each record in it."""

    state: SessionState | None
    agent: str
    origins: Collection[tuple[str, Level | None]]


@dataclass(frozen=True, slots=True)
class PreOutput:
    """PRE_OUTPUT: before an answer goes to a channel, or a prompt to a model.

    clearance: the highest level that may be shown there; None when it is not set.
    """

    state: SessionState | None
    clearance: Level | None


@dataclass(frozen=True, slots=True)
class TaintRaise:
    """A session is about to read something at `source`."""

    state: SessionState | None
    source: Level


@dataclass(frozen=True, slots=True)
class SessionUse:
    """A session is about to be resumed, ended, or made a parent."""

    state: SessionState | None


@dataclass(frozen=True, slots=True)
class OwnerAct:
    """An owner command in a session is about to be stored, in the compartment of `level`."""

    state: SessionState | None
    level: Level


@dataclass(frozen=True, slots=True)
class SessionOpen:
    """A new session is about to start at `level` under `ceiling`, perhaps as the child of `parent`."""

    level: Level
    ceiling: Level
    parent: SessionState | None
    depth: int


@dataclass(frozen=True, slots=True)
class CeilingChange:
    """The owner is about to set a session's ceiling.

    highest: the highest taint of an active session under it; PUBLIC without one.
    """

    state: SessionState | None
    ceiling: Level
    highest: Level


@dataclass(frozen=True, slots=True)
class Scheduling:
    """A session is about to schedule a job, whose own sessions get `ceiling`.

    generation: 1 when a conversation creates it, one more for each job in between.
    """

    state: SessionState | None
    ceiling: Level
    generation: int


PolicyEvent = (
    PreToolCall
    | PostToolResponse
    | PreOutput
    | TaintRaise
    | SessionUse
    | OwnerAct
    | SessionOpen
    | CeilingChange
    | Scheduling
    | ServerEvent
)


def split_level_arguments(arguments: Mapping[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return the arguments without any that try to choose a level, and the sorted names of those that did (P2)."""
    kept = {name: value for name, value in arguments.items() if name not in LEVEL_ARGUMENTS}
    return kept, tuple(sorted(LEVEL_ARGUMENTS.intersection(arguments)))
