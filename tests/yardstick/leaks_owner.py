"""Leaks where the owner erases and purges, and where files are lost."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.yardstick.backends import LosingProvider
from tests.yardstick.leaks import Fault, Patch, leak, replaced

from tidegate.core.audit_log import AuditLog
from tidegate.owner import purge
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.record import RecordKind, session_of
from tidegate.storage.base import OwnerCompartment
from tidegate.storage.control import SessionRow

ERASED = "refusals after an erasure"
PURGED = "what a purge of a level removes"
LOST = "a call where a file is missing"


@leak(ERASED)
def a_refusal_is_entered_where_the_agent_has_any_compartments(patch: Patch) -> None:
    @replaced(patch, AuditLog, "is_begun")
    def is_begun(_: Fault, self: AuditLog, row: SessionRow) -> bool:
        return self._provider.has(row.agent)


@leak(ERASED)
def a_refusal_is_entered_where_any_level_was_used(patch: Patch) -> None:
    @replaced(patch, AuditLog, "is_begun")
    def is_begun(_: Fault, self: AuditLog, row: SessionRow) -> bool:
        with self._provider.view(row.agent, Level.RESTRICTED) as view:
            return any(each.last_entry() is not None for each in view.visible)


@leak(PURGED)
def a_purge_asks_whether_a_session_that_rose_has_ended(patch: Patch) -> None:
    @replaced(patch, purge, "_left_behind")
    def left_behind(_: Fault, context: OwnerContext, owner_compartment: OwnerCompartment, *rest: Any) -> Counter[str]:
        living = {row.id for row in context.provider.control.sessions(context.agent) if not row.ended}
        page = owner_compartment.page(RecordKind.MESSAGE, after="", tag=None, limit=1_000, chars_max=0)
        return Counter(session for record in page if (session := session_of(record.key)) not in living)


@leak(LOST)
def a_missing_file_opens_those_above_to_see_whether_they_were_used(patch: Patch) -> None:
    @replaced(patch, LosingProvider, "_visible")
    def visible(real: Fault, self: LosingProvider, agent: str, taint: Level) -> Any:
        there = [held for (owner, level), held in self._compartments.items() if owner == agent and level > taint]
        if not any(held.last_entry() for held in there):
            for level in [level for level in Level if (agent, level) in self.lost]:
                self.lost.discard((agent, level))
                self._compartments.pop((agent, level), None)
                self._make(agent)
        return real(self, agent, taint)
