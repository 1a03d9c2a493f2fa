"""Examining sessions: whether the control store knows all that the audit chains of an agent say of them (P4, P7)."""

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
class _Life:
    """What the chains say of one session. stood: at which level it acted; raised: to which it was raised, or called."""

    stood: Level = Level.PUBLIC
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
            self.stood = max(self.stood, level)


@dataclass(frozen=True, slots=True)
class Lives:
    """The sessions of one agent, as its chains tell of them."""

    agent: str
    _lives: defaultdict[str, _Life] = field(default_factory=lambda: defaultdict(_Life))

    def add(self, entries: Iterable[Entry], level: Level) -> None:
        """Take in one chain."""
        for entry in entries:
            if entry.event.session != OWNER:
                self._lives[entry.event.session].add(entry.event.action, level)

    def compare(self, control: ControlStore) -> Iterator[Finding]:
        """Where the control store says less than the chains. Raises: StorageError."""
        if all(_agrees(life, control.read(session)) for session, life in self._lives.items()):
            return
        with suppress(StorageError), control.transaction():
            pass  # waits for a change that is under way: its entry comes first; where none can be made, none is
        rows = {session: control.read(session) for session in self._lives}
        for row, life in ((row, self._lives[session]) for session, row in sorted(rows.items()) if row is not None):
            if not _agrees(life, row):
                yield _differs(row, life)
        lost = [session for session, row in rows.items() if row is None and not _agrees(self._lives[session], None)]
        if lost:
            problem = f"sessions of {self.agent} that the audit knows are lost: {len(lost)}; this is an older copy"
            yield error(_WHERE, problem, f"look, and end them: `tidegate session reset --lost --agent {self.agent}`")


def _agrees(life: _Life, row: SessionRow | None) -> bool:
    if (
        row is None
    ):  # nothing is stored of one without a name, which is never entered as opened; an opening may be cut short
        return not (life.opened and life.entries > 1)
    return row.ended or not (life.ended or max(life.stood, life.raised) > row.taint)


def _differs(row: SessionRow, life: _Life) -> Finding:
    """An entry of a raise or a reset alone proves nothing: it is written before the change, which may be cut short."""
    if life.stood > row.taint:
        problem = f"stands at {row.taint}, and the audit of {life.stood} knows it: this is an older copy"
        advice = f"resume it, which raises it, or reset it; below {life.stood}, first set its ceiling"
        return error(_WHERE, f"session {row.name!a} {problem}", advice)
    happened = "that it ended" if life.ended else f"that it was raised to {life.raised}"
    problem = f"the audit says {happened}: this is an older copy, or that was cut short"
    return warning(_WHERE, f"session {row.name!a} lives at {row.taint}; {problem}", "resume it, which makes that good")
