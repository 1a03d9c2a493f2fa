"""The doctor on sessions: the control store must know all that an agent's audit chains say of them (P4, P7)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from tidegate.audit.chain import OWNER, Action, Entry
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.finding import Finding, error, warning
from tidegate.storage.control import ControlStore, SessionRow

_WHERE = "control.db"
_ENTERED_FIRST = frozenset({Action.RAISE, Action.CALL})


@dataclass(slots=True)
class _AuditedSession:
    """What the chains say about one session. acted_at: its highest level when acting; raised: when raised or called."""

    acted_at: Level = Level.PUBLIC
    raised: Level = Level.PUBLIC
    opened: bool = False
    ended: bool = False
    entries: int = 0

    def add(self, action: Action, level: Level) -> None:
        self.entries += 1
        self.opened = self.opened or action is Action.OPEN
        self.ended = self.ended or action is Action.RESET
        if action in _ENTERED_FIRST:
            self.raised = max(self.raised, level)
        else:
            self.acted_at = max(self.acted_at, level)


@dataclass(frozen=True, slots=True)
class AuditedSessions:
    """The sessions of one agent, according to its audit chains."""

    agent: str
    _sessions: defaultdict[str, _AuditedSession] = field(default_factory=lambda: defaultdict(_AuditedSession))

    def add(self, entries: Iterable[Entry], level: Level) -> None:
        """Add what one chain says."""
        for entry in entries:
            if entry.event.session != OWNER:
                self._sessions[entry.event.session].add(entry.event.action, level)

    def compare(self, control: ControlStore) -> Iterator[Finding]:
        """Yield findings about what the chains say and the control store does not. Raises: StorageError."""
        if all(_agrees(audited, control.read(session)) for session, audited in self._sessions.items()):
            return
        with suppress(StorageError), control.transaction():
            pass  # wait for a change in progress: its entry comes first; a store that refuses changes has none
        rows = {session: control.read(session) for session in self._sessions}
        for session, row in sorted(rows.items()):
            if row is not None and not _agrees(self._sessions[session], row):
                yield _differs(row, self._sessions[session])
        lost = [session for session, row in rows.items() if row is None and not _agrees(self._sessions[session], None)]
        if lost:
            problem = f"it lacks {len(lost)} of the sessions in the audit of {self.agent}: it is an older copy"
            yield error(_WHERE, problem, f"Review and end them: `tidegate session reset --lost --agent {self.agent}`.")


def _agrees(audited: _AuditedSession, row: SessionRow | None) -> bool:
    if row is None:
        # An unnamed session is neither stored nor entered as opened, and an opening may be cut short.
        return not (audited.opened and audited.entries > 1)
    return row.ended or not (audited.ended or max(audited.acted_at, audited.raised) > row.taint)


def _differs(row: SessionRow, audited: _AuditedSession) -> Finding:
    """Return the finding about a session that disagrees with the chains.

    An entry of a raise or a reset alone proves nothing: it is written before the change, which may be cut short.
    """
    if audited.acted_at > row.taint:
        problem = (
            f"is at {row.taint}, but acted at {audited.acted_at} according to the audit: control.db is an older copy"
        )
        advice = (
            "Open it again in its client, which raises it, or run `tidegate session reset NAME`. "
            f"A ceiling below {audited.acted_at} must be raised first."
        )
        return error(_WHERE, f"session {row.name!a} {problem}", advice)
    happened = "that it ended" if audited.ended else f"that it was raised to {audited.raised}"
    problem = f"is active at {row.taint}, but the audit says {happened}"
    cause = "control.db is an older copy, or the change was interrupted"
    advice = "Open it again in its client: that completes the change."
    return warning(_WHERE, f"session {row.name!a} {problem}: {cause}", advice)
