"""Renewals: the owner frees the name of an ended session for a new one (P7).

It is the owner's statement that the conversation behind the name is a new one. Only what starts afterwards can make it:
whoever may hold the old conversation must not find the name under a lower taint.
"""

from __future__ import annotations

from contextlib import nullcontext

from tidegate.audit.chain import Action
from tidegate.core.audit_log import AuditLog
from tidegate.core.judgement import EnteredLater
from tidegate.core.witness import spare_name
from tidegate.policy.refusals import ENDED
from tidegate.storage.control import ControlStore, SessionRow


class Renewals:
    """The renewals of names, and which of them count for this store."""

    def __init__(self, control: ControlStore, audit_log: AuditLog) -> None:
        self._control = control
        self._audit_log = audit_log
        self._known: dict[tuple[str, str], int] = {}
        self._before: int | None = None

    def count(self) -> int:
        """Return how many renewals there were until now."""
        return self._control.renewals_count()

    def begin_after(self, count: int) -> None:
        """Let only so many renewals count: those before this process started. 0: it could not tell how many."""
        self._before = count

    def require_known(self, agent: str, name: str, what: str) -> None:
        """Refuse a name that was renewed after it was first looked up, or after this process started (P7).

        Whoever looks it up may hold the conversation of the session that had it. Each name is known by itself: what a
        session is answered depends on no lookup of another (P5). Raises: Refused (ended).
        """
        last = self._control.last_renewal(agent, name)
        if last > self._known.setdefault((agent, name), last if self._before is None else self._before):
            self._audit_log.refuse(None, ENDED, what)

    def free(self, row: SessionRow, name: str) -> None:
        """Free the name of an ended session, which is listed by its id from now on. Raises: StorageError."""
        begun = self._audit_log.is_begun(row)  # an erased agent has no chain, and this must not create one
        with EnteredLater(self._control.transaction()) as control:
            with self._audit_log.chain(row.agent, row.taint) if begun else nullcontext() as chain:
                control.enter()
                holder = self._control.find(row.agent, name)
                if holder is None or holder.id != row.id:
                    return  # another process was first
                if chain is not None:
                    chain.append(row.id, (Action.RENEW, ""))  # P9: the entry first
            self._control.rename(row.id, spare_name(self._control, row.agent, row.id))
