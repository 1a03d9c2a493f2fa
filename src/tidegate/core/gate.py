"""The gate: the only way to the data. It asks the policy before and after each verb, and hands out views.

Before a verb runs, PRE_TOOL_CALL forces the classification: the view is built at the session's live taint, and
writes go to that view's own compartment. Before a result leaves, POST_TOOL_RESPONSE checks each record in it.
Any failure in between fails closed (P17).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Generic, TypeVar

from tidegate.audit.chain import Action
from tidegate.core.audit_log import AuditLog
from tidegate.core.flow import FlowChecks
from tidegate.core.judgement import OvertakenError, allowed, judge_again
from tidegate.core.sessions import Sessions
from tidegate.errors import Refused, StorageError, TidegateError
from tidegate.policy.decisions import Decision, Deny
from tidegate.policy.events import PostToolResponse, PreToolCall
from tidegate.policy.rules import decide
from tidegate.records.record import Record
from tidegate.storage.base import View, Views, WritableView
from tidegate.storage.control import SessionRow, state_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A verb's answer, and the records that it used: they are checked before the value leaves."""

    value: T
    records: Collection[Record]


@dataclass(frozen=True, slots=True)
class Act:
    """Who writes, and when: a writing verb needs this in addition to its view."""

    session: str
    at: datetime
    ids: Callable[[], str]


@dataclass(slots=True)
class SessionHandle:
    """A session, and its row when last read. Only a guess: no answer relies on it."""

    id: str
    seen: SessionRow | None
    looks: int = 0
    """The number of lookups. Only a difference matters, not who looked."""


class Gate:
    """Runs verbs for sessions."""

    def __init__(
        self,
        views: Views,
        sessions: Sessions,
        audit_log: AuditLog,
        *,
        clock: Callable[[], datetime],
        ids: Callable[[], str],
        audit_reads: bool,
    ) -> None:
        self._views = views
        self._sessions = sessions
        self._audit_log = audit_log
        self._clock = clock
        self._ids = ids
        self._audit_reads = audit_reads
        self.flow = FlowChecks(sessions, audit_log)

    def read(self, handle: SessionHandle, tool: str, verb: Callable[[View], Answer[T]]) -> T:
        """Return a reading verb's answer to the session. Raises: Refused, StorageError, and the verb's errors.

        The verb runs at the last seen taint, which is harmless for a read: its answer, or its error, leaves only if the
        session is still the same (P4, P13). So a read looks up the session once, afterwards.
        """
        seen = handle.seen
        while True:  # repeats only after a raise or an end, of which a session has few
            row = self._admitted(seen, tool, (tool,))
            try:
                with self._views.view(row.agent, row.taint) as view:
                    answer = verb(view)
            except TidegateError:
                seen = self._look(handle)
                if seen == row:
                    raise
                continue
            seen = self._look(handle)
            if seen == row:
                return self._release(row, tool, answer)

    def write(
        self,
        handle: SessionHandle,
        tool: str,
        verb: Callable[[WritableView, Act], Answer[T]],
        *,
        then: Callable[[View, T], Answer[T]] | None = None,
    ) -> T:
        """Return a writing verb's answer, once its change and entry are stored. Raises: as `read`.

        then: adds to the answer what it reads in a view at the taint of the write, without its lock.
        """
        while True:  # as above
            row = self.admit(handle, tool, (tool,))
            with self._audit_log.refusing(tool), suppress(OvertakenError):
                value = self._write(row, verb)
                return value if then is None else self._extended(handle, row, tool, value, then)

    def run_reading(self, handle: SessionHandle, tool: str, run: Callable[[], T]) -> T:
        """Return the answer of a tool that only reads. The lookup of its read is the only one.

        An answer without a read, mostly an error, leaves after its own lookup (P4, P13).
        Raises: Refused, and the tool's errors.
        """
        before = handle.looks
        try:
            answer = run()
        except Refused:
            raise  # its read was refused, which is already entered
        except Exception:
            self.admit(handle, tool, (tool,))
            raise
        if handle.looks == before:
            self.admit(handle, tool, (tool,))
        return answer

    def admit(self, handle: SessionHandle, tool: str, known_tools: Collection[str]) -> SessionRow:
        """Return the session's row, if PRE_TOOL_CALL admits it. Raises: Refused (unknown, ended, unknown tool)."""
        return self._admitted(self._look(handle), tool, known_tools)

    def _admitted(self, row: SessionRow | None, tool: str, known_tools: Collection[str]) -> SessionRow:
        known = tool if tool in known_tools else "unknown tool"  # P12: a name that the model invented is content
        return self._audit_log.require(row, decide(PreToolCall(state_of(row), tool, known_tools)), known)[0]

    def note_attempt(self, handle: SessionHandle, tool: str, arguments: Sequence[str]) -> None:
        """Enter in the audit that a model tried to choose a level; it has no other effect (P2)."""
        row = self.admit(handle, tool, (tool,))
        self._audit_log.record(row, Action.ATTEMPT, f"{tool} {' '.join(arguments)}")

    def _look(self, handle: SessionHandle) -> SessionRow | None:
        handle.seen = found = self._sessions.read(handle.id)
        handle.looks += 1
        return found  # not `handle.seen`: another thread may have written an older row there

    def _release(self, row: SessionRow, tool: str, answer: Answer[T]) -> T:
        if self._audit_reads:
            self._audit_log.record(row, Action.READ, tool)
        self._audit_log.require(row, _judge(row, answer), tool)
        return answer.value

    def _extended(
        self, handle: SessionHandle, row: SessionRow, tool: str, value: T, then: Callable[[View, T], Answer[T]]
    ) -> T:
        """Return the answer with what `then` adds, if the session is still the one of the write (P4, P13)."""
        with suppress(StorageError):  # the change is stored, and what could not be added is no part of it
            with self._views.view(row.agent, row.taint) as view:
                more = then(view, value)
            if self._look(handle) != row or isinstance(_judge(row, more), Deny):
                return value
            if self._audit_reads:
                self._audit_log.record(row, Action.READ, tool)
            return more.value
        return value

    def _write(self, row: SessionRow, verb: Callable[[WritableView, Act], Answer[T]]) -> T:
        act = Act(row.id, self._clock(), self._ids)
        with self._views.writable_view(row.agent, row.taint) as view, view.own.transaction():
            answer = verb(view, act)
            judge_again(partial(self._sessions.read, row.id), row)  # P4: inside the transaction that it classifies
            allowed(row, _judge(row, answer))
        return answer.value


def _judge(row: SessionRow, answer: Answer[T]) -> Decision:
    """Ask POST_TOOL_RESPONSE about every record that the answer used, with the session's current state."""
    return decide(PostToolResponse(row.state, row.agent, [(each.agent, each.level) for each in answer.records]))
