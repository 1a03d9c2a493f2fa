"""Separate entries: refusals, attempts, raises, owner commands. The entry of a change is stored with the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import NoReturn

from tidegate.audit.chain import Action, AuditEvent
from tidegate.core.judgement import DeniedError, Judgement
from tidegate.errors import refused
from tidegate.policy.decisions import Decision, Deny
from tidegate.policy.levels import Level
from tidegate.policy.refusals import UNKNOWN_SESSION
from tidegate.storage.base import Compartment, StorageProvider
from tidegate.storage.control import SessionRow


class Chain:
    """The audit chain of one compartment, inside a transaction."""

    def __init__(self, own: Compartment, clock: Callable[[], datetime]) -> None:
        self._own = own
        self._clock = clock

    def append(self, session: str, *entries: tuple[Action, str]) -> None:
        """Append entries about a session's actions.

        Details may come from outside; characters that no file can hold are escaped.
        """
        for action, detail in entries:
            text = detail.encode(errors="backslashreplace").decode()
            self._own.append(AuditEvent(self._clock(), session, action, text))


class AuditLog:
    """Writes single entries to the chain of one compartment."""

    def __init__(self, provider: StorageProvider, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self.clock = clock

    @contextmanager
    def chain(self, agent: str, level: Level) -> Iterator[Chain]:
        """Yield the chain of one compartment, exclusively among processes and threads.

        All appended entries are stored, or none; on return they survive power loss.
        """
        with self._provider.writable_view(agent, level) as view, view.own.transaction(durable=True):
            yield Chain(view.own, self.clock)

    def record(self, row: SessionRow, action: Action, detail: str) -> None:
        """Append an event of a session, durably, to the chain of its taint."""
        with self.chain(row.agent, row.taint) as chain:
            chain.append(row.id, (action, detail))

    def refuse(self, row: SessionRow | None, deny: Deny, what: str, *, tool: str | None = None) -> NoReturn:
        """Enter a denial in the chain of the denied session, then raise the one `Refused` for it.

        tool: the tool that the refusal names. A session of an erased agent no longer has a chain, and its refusal must
        not create one: erased data stays erased, and a backup can be restored.
        """
        if row is not None and (not row.ended or self.is_begun(row)):
            self.record(row, Action.REFUSE, f"{what} {deny.rule}")
        raise refused(deny, tool=tool)

    def require(self, row: SessionRow | None, decision: Decision, what: str, *, tool: str | None = None) -> Judgement:
        """Return the session and the level allowed. Raises: Refused for anything else (P17)."""
        if row is None or isinstance(decision, Deny):
            self.refuse(row, decision if isinstance(decision, Deny) else UNKNOWN_SESSION, what, tool=tool)
        return row, decision.level

    @contextmanager
    def refusing(self, what: str, *, tool: str | None = None, entered_by: SessionRow | None = None) -> Iterator[None]:
        """Refuse a denial from inside, once it is undone. entered_by: the session to enter it for, if another."""
        try:
            yield
        except DeniedError as denied:
            self.refuse(entered_by or denied.row, denied.deny, what, tool=tool)

    def is_begun(self, row: SessionRow) -> bool:
        """Return whether the session's own chain has an entry; asking about others is forbidden (P5)."""
        with self._provider.view(row.agent, row.taint) as view:
            return view.visible[0].last_entry() is not None
