"""Leaks in the gate, the sessions and their audit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Self

from tests.yardstick.leaks import Fault, Patch, leak, replaced

from tidegate.audit.chain import Action
from tidegate.core import session_change
from tidegate.core.audit_log import AuditLog, Chain
from tidegate.core.gate import Gate, SessionHandle
from tidegate.core.renewals import Renewals
from tidegate.core.sessions import Sessions
from tidegate.core.witness import Witnesses
from tidegate.policy import rules
from tidegate.policy.decisions import Allow
from tidegate.policy.events import LEVEL_ARGUMENTS, SessionOpen, TaintRaise
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory.control_store import InMemoryControlStore
from tidegate.storage.inmemory.provider import InMemoryProvider, InMemoryWitness

IDS = "ids, sequence numbers, versions"
CHOICE = "a level that the model chooses (P2)"
TAINT = "monotone taint (P4)"
AUDIT = "audit rows in the wrong chain (P9)"
ENDS = "reset (P7)"
CHILDREN = "delegation (P15)"


# The gate


@leak(CHOICE)
def a_save_honours_the_level_that_the_model_sent(patch: Patch) -> None:
    @replaced(patch, Session, "call_tool")
    def call_tool(real: Fault, self: Session, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        asked = [Level.__members__.get(str((arguments or {}).get(each))) for each in sorted(LEVEL_ARGUMENTS)]
        level = next((each for each in asked if each is not None), None)
        if name != "memory_save" or level is None:
            return real(self, name, arguments)
        return real(_at(self, level), name, arguments)


@leak(CHOICE)
def a_read_honours_the_level_that_the_model_sent(patch: Patch) -> None:
    @replaced(patch, Session, "call_tool")
    def call_tool(real: Fault, self: Session, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        if name in ("memory_save", "memory_delete") or not LEVEL_ARGUMENTS & set(arguments or {}):
            return real(self, name, arguments)
        return real(_at(self, Level.RESTRICTED), name, arguments)


@leak("simple security (P1)")
def the_view_reaches_to_the_ceiling(patch: Patch) -> None:
    @replaced(patch, Gate, "read")
    def read(_: Fault, self: Gate, seat: Any, tool: str, verb: Any) -> Any:
        row = self.admit(seat, tool, (tool,))
        with self._views.view(row.agent, row.ceiling) as view:
            return verb(view).value


@leak(ENDS, by_model=True)
def an_ended_session_is_answered_from_its_last_standing(patch: Patch) -> None:
    @replaced(patch, Gate, "read")
    def read(real: Fault, self: Gate, seat: SessionHandle, tool: str, verb: Any) -> Any:
        if seat.seen is None:
            return real(self, seat, tool, verb)
        with self._views.view(seat.seen.agent, seat.seen.taint) as view:
            return verb(view).value


@leak(ENDS, by_model=True)
def the_end_of_a_session_is_not_looked_at(patch: Patch) -> None:
    @replaced(patch, rules, "_living")
    def living(real: Fault, state: Any) -> Any:
        return real(state and replace(state, ended=False))


# Sessions


@leak(TAINT)
def resuming_takes_the_level_that_is_asked_for(patch: Patch) -> None:
    @replaced(patch, Sessions, "_resume")
    def resume(real: Fault, self: Sessions, row: SessionRow, level: Level | None, *rest: Any) -> Any:
        if not row.ended and level is not None:
            with self._store_of(row.id).transaction():
                self._store_of(row.id).set_taint(row.id, level)
        return real(self, row, level, *rest)


@leak(TAINT, by_model=True)
def resuming_without_a_level_raises_to_the_default(patch: Patch) -> None:
    @replaced(patch, Sessions, "_resume")
    def resume(real: Fault, self: Sessions, row: SessionRow, level: Level | None, *rest: Any) -> Any:
        return real(self, row, self.default_level if level is None else level, *rest)


@leak(TAINT)
def a_session_without_a_level_starts_where_its_agent_is_highest(patch: Patch) -> None:
    @replaced(patch, Sessions, "_new")
    def new(real: Fault, self: Sessions, agent: str, name: str | None, level: Level | None, *rest: Any) -> Any:
        if level is None:
            level = max((row.taint for row in self.list(agent)), default=None)
        return real(self, agent, name, level, *rest)


@leak(TAINT)
def a_raise_sets_the_taint_instead_of_joining(patch: Patch) -> None:
    @replaced(patch, rules, "_raise")
    def decide(real: Fault, event: TaintRaise) -> Any:
        decision = real(event)
        return Allow(event.source) if isinstance(decision, Allow) else decision


@leak(TAINT, by_model=True)
def a_raise_forgets_the_ceiling(patch: Patch) -> None:
    @replaced(patch, rules, "_raise")
    def decide(real: Fault, event: TaintRaise) -> Any:
        return real(replace(event, state=event.state and replace(event.state, ceiling=Level.RESTRICTED)))


@leak(TAINT, by_put_back=True)
def an_older_control_store_is_believed(patch: Patch) -> None:
    @replaced(patch, Witnesses, "_settle")
    def settle(_: Fault, self: Witnesses, session: str) -> Any:
        return None


@leak(TAINT, by_put_back=True)
def only_the_chain_of_the_stored_taint_is_asked(patch: Patch) -> None:
    @replaced(patch, InMemoryProvider, "witnesses")
    def witnesses(real: Fault, self: InMemoryProvider, agent: str) -> Any:
        with real(self, agent) as found:
            return nullcontext(found[:1])


@leak(TAINT, by_put_back=True)
def the_name_of_a_lost_session_is_free(patch: Patch) -> None:
    @replaced(patch, Witnesses, "require_all_known")
    def require_all_known(_: Fault, self: Witnesses, agent: str) -> Any:
        return None


@leak(ENDS, by_put_back=True)
def a_reset_in_the_audit_is_not_looked_for(patch: Patch) -> None:
    @replaced(patch, InMemoryWitness, "state_actions")
    def state_actions(real: Fault, self: InMemoryWitness, session: str) -> Any:
        return real(self, session) - {Action.RESET}


@leak(ENDS, by_model=True)
def a_renewed_name_is_given_to_whoever_had_it(patch: Patch) -> None:
    @replaced(patch, Renewals, "require_known")
    def require_known(_: Fault, self: Renewals, agent: str, name: str, what: str) -> Any:
        return None


@leak(ENDS)
def a_lookup_of_one_name_decides_which_renewals_of_another_count(patch: Patch) -> None:
    @replaced(patch, Renewals, "require_known")
    def require_known(real: Fault, self: Renewals, agent: str, name: str, what: str) -> Any:
        if self._before is None:
            self.begin_after(self.count())
        return real(self, agent, name, what)


@leak(ENDS)
def a_reset_frees_the_name(patch: Patch) -> None:
    @replaced(patch, InMemoryControlStore, "find")
    def find(real: Fault, self: InMemoryControlStore, agent: str, name: str) -> Any:
        return next((row for row in self.sessions(agent) if row.name == name and not row.ended), None)


@leak(ENDS)
def a_reset_lowers_the_taint_and_keeps_the_session(patch: Patch) -> None:
    @replaced(patch, InMemoryControlStore, "end")
    def end(_: Fault, self: InMemoryControlStore, ended: str) -> Any:
        self.set_taint(ended, Level.PUBLIC)


@leak(ENDS, by_model=True)
def children_outlive_their_parent(patch: Patch) -> None:
    @replaced(patch, Sessions, "_under_parents")
    def under_parents(real: Fault, self: Sessions, row: SessionRow) -> Any:
        return replace(real(self, row), ended=row.ended)


@leak(CHILDREN)
def a_child_starts_at_the_level_that_is_asked_for(patch: Patch) -> None:
    @replaced(patch, rules, "_open")
    def decide(real: Fault, event: SessionOpen) -> Any:
        decision = real(event)
        return Allow(event.level) if isinstance(decision, Allow) else decision


@leak(CHILDREN)
def a_childs_taint_is_not_handed_back(patch: Patch) -> None:
    @replaced(patch, Sessions, "join")
    def join(_: Fault, self: Sessions, ended: str) -> Any:
        self.reset(ended)


@leak(CHILDREN, by_model=True)
def a_child_keeps_a_higher_ceiling_than_its_parent(patch: Patch) -> None:
    @replaced(patch, Sessions, "_under_parents")
    def under_parents(real: Fault, self: Sessions, row: SessionRow) -> Any:
        return replace(real(self, row), ceiling=row.ceiling)


@leak(IDS)
def sessions_are_numbered_in_the_whole_home(patch: Patch) -> None:
    @replaced(patch, Sessions, "_new")
    def new(real: Fault, self: Sessions, *args: Any) -> Any:
        row = real(self, *args)
        named: Any = self._named
        store: Any = self._store_of(row.id)
        count = len(named._rows)
        del store._rows[row.id]
        store.insert(numbered := replace(row, id=f"session-{count}"))
        return numbered


# The audit


@leak(AUDIT)
def refusals_are_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.REFUSE)


@leak(AUDIT)
def attempts_are_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.ATTEMPT)


@leak(AUDIT)
def openings_are_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.OPEN)


@leak(AUDIT)
def raises_are_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.RAISE)


@leak(AUDIT)
def ends_are_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.RESET)


@leak(AUDIT)
def a_changed_ceiling_is_entered_at_the_lowest_level(patch: Patch) -> None:
    _entered_low(patch, Action.CEILING)


@leak(AUDIT, by_model=True)
def a_raise_is_entered_in_the_chain_it_leaves(patch: Patch) -> None:
    @replaced(patch, session_change, "raising")
    def raising(real: Fault, row: SessionRow, *rest: Any) -> Any:
        return replace(real(row, *rest), level=row.taint)


@leak(AUDIT, by_model=True)
def refusals_are_not_entered(patch: Patch) -> None:
    @replaced(patch, AuditLog, "record")
    def record(real: Fault, self: AuditLog, row: SessionRow, action: Action, detail: str, **rest: Any) -> Any:
        if action is not Action.REFUSE:
            real(self, row, action, detail, **rest)


def _entered_low(patch: Patch, which: Action) -> None:
    @replaced(patch, AuditLog, "chain")
    def chain(real: Fault, self: AuditLog, agent: str, level: Level) -> Any:
        return _EnteredLow(real(self, agent, level), real(self, agent, Level.PUBLIC), which)


class _EnteredLow(AbstractContextManager["_EnteredLow"]):
    """A chain that enters actions of one kind in another."""

    def __init__(
        self, own: AbstractContextManager[Chain], lowest: AbstractContextManager[Chain], which: Action
    ) -> None:
        self._own = own
        self._lowest = lowest
        self._which = which

    def __enter__(self) -> Self:
        self._chain = self._own.__enter__()
        return self

    def append(self, session: str, *entries: tuple[Action, str]) -> None:
        self._chain.append(session, *(entry for entry in entries if entry[0] is not self._which))
        with self._lowest as lowest:
            lowest.append(session, *(entry for entry in entries if entry[0] is self._which))

    def __exit__(self, *error: Any) -> None:
        self._own.__exit__(*error)


def _at(asked: Session, level: Level) -> Session:
    """Another session of the same agent, at a level of the model's choice."""
    row = asked._sessions.open(asked.agent, None, level)
    origin = asked.memory._origin
    return Session(row, asked._gate, asked._sessions, asked._toolset, asked.limits, origin, asked._ids)
