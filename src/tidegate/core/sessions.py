"""Sessions, each with its taint and its ceiling. The taint survives restarts, and only rises (P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial

from tidegate.audit.chain import Action
from tidegate.core import session_change
from tidegate.core.audit_log import AuditLog
from tidegate.core.conversation_purge import Clearing
from tidegate.core.judgement import EnteredLater, Judgement, OvertakenError, allowed, judge_again
from tidegate.core.renewals import Renewals
from tidegate.core.session_change import SessionChange
from tidegate.core.starting import check_levels, starting_level
from tidegate.core.witness import Witnesses
from tidegate.errors import InvalidArgument, Refused, StorageError
from tidegate.policy.decisions import Deny
from tidegate.policy.events import CeilingChange, PolicyEvent, SessionOpen, SessionUse, TaintRaise
from tidegate.policy.levels import Level
from tidegate.policy.refusals import UNKNOWN_SESSION
from tidegate.policy.rules import CHILD_DEPTH_MAX, decide
from tidegate.policy.session_state import SessionState
from tidegate.records.limits import Limits
from tidegate.records.validation import check_agent, check_key, check_level
from tidegate.storage.base import StorageProvider
from tidegate.storage.control import ControlStore, SessionRow, state_of
from tidegate.storage.inmemory.control_store import EphemeralControlStore

Event = Callable[[SessionState | None], PolicyEvent]
"""The policy event about a session in its current state."""

Plan = Callable[[SessionRow, Level], SessionChange | None]
"""The change of a session at the allowed level; None for no change."""


class Sessions:
    """Named sessions in the control store; ephemeral ones in memory, with nothing stored about them."""

    def __init__(
        self,
        provider: StorageProvider,
        audit_log: AuditLog,
        ids: Callable[[], str],
        limits: Limits,
        default_level: Level,
    ) -> None:
        self.default_level = default_level
        self._named = provider.control
        self._ephemeral: ControlStore = EphemeralControlStore()
        self._audit_log = audit_log
        self._clearing = Clearing(provider, audit_log.clock)
        self._witnesses = Witnesses(provider, audit_log, self.read, self._set_taint)
        self._ids = ids
        self._limits = limits
        self._on_raise: dict[str, Callable[[Level], None]] = {}
        self.renewals = Renewals(provider.control, audit_log)

    # Looking

    def read(self, session: str) -> SessionRow | None:
        """Return the session's current state, ended or not; None if no session has this id."""
        row = self._stored(session)
        return row if row is None or row.parent is None else self._under_parents(row)

    def list(self, agent: str) -> list[SessionRow]:
        """Return the named sessions of an agent, ended ones too, by name. For the owner."""
        rows = self._named.sessions(check_agent(agent))
        return [self._under_parents(row) for row in rows]

    def find(self, agent: str, name: str) -> SessionRow:
        """Return the active session of this name. Raises: Refused (unknown, ended, ceiling)."""
        row = self._settled(check_agent(agent), self._check_name(name), "resume")
        return self.living(row.id if row else None, "resume")

    def named(self, agent: str, name: str) -> SessionRow:
        """Return the session as the control store has it: for the owner, who repairs what `find` refuses."""
        return self.living(self.id_of(agent, name), "resume")

    def id_of(self, agent: str, name: str) -> str | None:
        """Return the id of the session that has or had this name. Nothing is resumed, and nothing entered."""
        row = self._named.find(check_agent(agent), self._check_name(name))
        return row.id if row else None

    def _settled(self, agent: str, name: str, what: str) -> SessionRow | None:
        """Return the stored session of this name, once it and its parents agree with the audit (P4, P7).

        Raises: Refused (renewed).
        """
        self.renewals.require_known(agent, name, what)
        row = self._named.find(agent, name)
        return None if row is None else self._witnesses.settled(row)

    # Opening

    def open(
        self, agent: str, name: str | None, level: Level | None, ceiling: Level | None = None, parent: str | None = None
    ) -> SessionRow:
        """Return the session of this name, raised to `level` if it was lower, or a new one.

        level: None leaves an existing session at its taint. A new one starts at its parent's, else at the default.
        ceiling: of a new session; by default its parent's, else RESTRICTED.
        Raises: Refused (ended, ceiling, parent), InvalidArgument.
        """
        check_agent(agent)
        check_levels(level, ceiling)
        if name is not None:
            name = self._check_name(name)
        while True:  # repeats only after another session was opened or the parent changed
            row = self._settled(agent, name, "open") if name is not None else None
            if row is not None:
                return self._resume(row, level, ceiling, parent)
            with suppress(OvertakenError):
                return self._new(agent, name, level, ceiling, parent)

    def new(self, agent: str, name: str, level: Level | None = None, ceiling: Level | None = None) -> SessionRow:
        """Create a session of this name, by default at the default level.

        Raises: InvalidArgument when a session has or had the name, Refused (ceiling).
        """
        name = self._check_name(name)
        check_levels(level, ceiling)
        while True:  # as above
            self.renewals.require_known(check_agent(agent), name, "open")
            if (taken := self._named.find(agent, name)) is not None:
                what = "ended session had" if taken.ended else "active session has"
                how = "" if taken.ended else ", or use `tidegate session raise`"
                raise InvalidArgument(f"name: an {what} this name; choose another name{how}", argument="name")
            with suppress(OvertakenError):
                return self._new(agent, name, level, ceiling, None)

    def _new(
        self, agent: str, name: str | None, level: Level | None, ceiling: Level | None, parent: str | None
    ) -> SessionRow:
        """Create a session. Raises: OvertakenError when another got the name first, or the parent changed."""
        above = self._parent(agent, parent)
        limit = ceiling if ceiling is not None else above.ceiling if above else Level.RESTRICTED
        start = starting_level(level, limit, above.taint if above else None, self.default_level)
        decision = decide(SessionOpen(start, limit, state_of(above), self._depth(above)))
        if isinstance(decision, Deny):
            self._audit_log.refuse(above, decision, "open")
        row = SessionRow(self._ids(), agent, name, decision.level, limit, parent)
        store = self._ephemeral if name is None else self._named
        if name is not None:
            self._witnesses.require_all_known(agent)
        with EnteredLater(store.transaction()) as control:
            with nullcontext() if name is None else self._audit_log.chain(agent, row.taint) as chain:
                control.enter()
                row = replace(row, life=self._named.life(agent))
                if name is not None:
                    self.renewals.require_known(agent, name, "open")
                    if self._named.find(agent, name) is not None:
                        raise OvertakenError
                if above is not None:
                    judge_again(partial(self.read, above.id), above)
                if chain is not None:
                    chain.append(row.id, (Action.OPEN, f"{row.taint} under {row.ceiling}"))
            store.insert(row)
        return row

    def _resume(self, row: SessionRow, level: Level | None, ceiling: Level | None, parent: str | None) -> SessionRow:
        if ceiling not in (None, row.ceiling):
            raise InvalidArgument(
                "ceiling: cannot be given for an existing session; omit it, or use `tidegate session ceiling`",
                argument="ceiling",
            )
        if parent not in (None, row.parent):
            raise InvalidArgument("parent: this session exists with another parent or none; omit it", argument="parent")
        above = self._parent(row.agent, parent)
        asked = Level.PUBLIC if level is None else level  # the lowest raises nothing: the default is for new sessions
        wanted = max(asked, above.taint) if above else asked
        if wanted > row.taint:  # so that a session can be resumed in a read-only home
            self.raise_taint(row.id, wanted, reason="opened", asked_by=above)
        return self.living(row.id, "resume")

    def _parent(self, agent: str, parent: str | None) -> SessionRow | None:
        if parent is None:
            return None
        row = self.living(parent, "open")
        if row.agent != agent:  # P6
            raise InvalidArgument("parent: must be a session of the same agent", argument="parent")
        return row

    def _depth(self, row: SessionRow | None) -> int:
        depth = 0
        while row is not None:
            depth += 1
            row = self.read(row.parent) if row.parent is not None else None
        return depth

    # Changing

    def raise_taint(self, session: str, level: Level, *, reason: str = "", asked_by: SessionRow | None = None) -> Level:
        """Raise the taint to at least `level`, durably, and return it; a lower level has no effect (P4).

        asked_by: the parent or child whose taint is the reason. A refusal depends on it, so it goes into that
        session's chain, which may be above this one's (P5). Raises: Refused (unknown, ended, ceiling), InvalidArgument.
        """
        check_level(level)

        def plan(row: SessionRow, to: Level) -> SessionChange | None:
            return None if to == row.taint else session_change.raising(row, to, reason)

        with self._audit_log.refusing("raise", entered_by=asked_by):
            return self.change(session, partial(TaintRaise, source=level), plan)[1]

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        """Change the ceiling of the session, and so of any under it.

        Raises: Refused (unknown, ended, below the taint of one of them), InvalidArgument.
        """
        check_level(ceiling, "ceiling")

        def event(state: SessionState | None) -> PolicyEvent:
            return CeilingChange(state, ceiling, self._highest_under(session))

        def plan(row: SessionRow, to: Level) -> SessionChange:
            return SessionChange(row.taint, ((Action.CEILING, f"{row.ceiling} to {to}"),), ceiling=to)

        with self._audit_log.refusing("ceiling"):
            self.change(session, event, plan)

    def reset(self, session: str) -> bool:
        """End a session and all its children (P7). Their conversations are permanently removed.

        Returns whether nothing of them remains in any file; if something does, a purge removes it.
        Raises: Refused (unknown, ended), StorageError; then it can be run again.
        """
        with suppress(Refused, StorageError):  # at its full height, so that every message goes
            if (stored := self._named.read(session)) is not None:
                self._witnesses.settled(stored)
        # Messages go before the session: after an interruption in between, the reset can be run again.
        places = self._clearing.clear(self._family(self.living(session, "reset")))
        row = self._end(session)
        try:
            places |= self._clearing.clear(self._family(row))  # messages written in between
            return self._clearing.scrub(places)
        except StorageError:
            return False  # it has ended anyway

    def renew(self, agent: str, name: str) -> bool:
        """End the session of this name as `reset` does, unless it has ended, and free its name for a new one (P7).

        Only a store that looks up its first session after this can begin the new one: to all others, the name has
        ended. The old session is listed by its id. Returns, and can be run again, as `reset`.
        Raises: Refused (unknown), InvalidArgument (a child), StorageError.
        """
        name = self._check_name(name)
        row = self._named.find(check_agent(agent), name)
        if row is None:
            self._audit_log.refuse(None, UNKNOWN_SESSION, "renew")
        if row.parent is not None:
            raise InvalidArgument("name: a child session cannot be renewed; renew its parent", argument="name")
        complete = row.ended or self.reset(row.id)
        self.renewals.free(self._stored(row.id) or row, name)
        return complete

    def _end(self, session: str, *, at: Level | None = None) -> SessionRow:
        """End a session, with `at` only if that is still its taint, and return its last state."""

        def plan(_: SessionRow, taint: Level) -> SessionChange | None:
            return SessionChange(taint, ((Action.RESET, ""),), ends=True) if at in (None, taint) else None

        with self._audit_log.refusing("reset"):
            return self.change(session, SessionUse, plan)[0]

    def _highest_under(self, session: str) -> Level:
        """Return the highest taint of the active sessions in the family."""
        row = self.read(session)
        family = [self.read(each.id) for each in self._family(row)] if row and not row.ended else []
        return max((each.taint for each in family if each and not each.ended), default=Level.PUBLIC)

    def living_of(self, agent: str) -> int:
        """Return how many sessions of an agent are active, as far as this process knows."""
        rows = (row for store in (self._named, self._ephemeral) for row in store.sessions(agent))
        return sum(not self._as_of_now(row).ended for row in rows)

    def end_life(self, agent: str) -> None:
        """End every session of an agent whose compartments, with all entries, are about to be erased.

        That includes ephemeral sessions of other processes: each lookup compares the life (P7).
        """
        for store in (self._named, self._ephemeral):
            with store.transaction():
                store.end_life(agent)

    def _family(self, row: SessionRow) -> Iterator[SessionRow]:
        """Yield a session and its descendants, ended ones too."""
        yield row
        for store in (self._named, self._ephemeral):
            for each in store.sessions(row.agent):
                if each.parent == row.id:
                    yield from self._family(each)

    def join(self, session: str) -> None:
        """End a child: its taint joins its parent's (P15), then it ends. A session without a parent just ends.

        Its conversation stays for the audit until a purge: only the owner removes it, by a reset.
        """
        row = self.living(session, "end")
        while True:  # repeats only after a raise, of which a session has few
            if row.parent is not None:
                self.raise_taint(row.parent, row.taint, reason="child ended", asked_by=row)
            joined, row = row.taint, self._end(session, at=row.taint)
            if row.taint == joined:
                return

    def change(self, session: str, event: Event, plan: Plan) -> Judgement:
        """Change a session as planned, if the policy allows the event; return its state before and the allowed level.

        Raises: DeniedError, which `AuditLog.refusing` turns into `Refused`; StorageError.
        """

        def judge() -> Judgement:
            row = self.read(session)
            return allowed(row, decide(event(state_of(row))))

        while True:  # repeats only after a change of the session, of which it has few
            row, level = judged = judge()
            change = plan(row, level)
            if change is None:
                return judged
            with suppress(OvertakenError):
                self._commit(change, judge, judged)
                return judged

    def _commit(self, change: SessionChange, judge: Callable[[], Judgement], judged: Judgement) -> None:
        """Enter a change and store it, if judging under both locks gives the same result as before (P4).

        The compartment is locked before the control store, here and everywhere: waiting for a compartment delays no
        sessions of others (P5, P6).
        """
        row, store = judged[0], self._store_of(judged[0].id)
        with EnteredLater(store.transaction()) as control:
            with self._audit_log.chain(row.agent, change.level) as chain:
                control.enter()
                judge_again(judge, judged)
                chain.append(row.id, *change.entries)
            # P9: the entry is stored first. A power cut here leaves an extra entry, never a raise without one.
            if change.taint is not None:
                self._set_taint(store, row.id, change.taint)
            if change.ceiling is not None:
                store.set_ceiling(row.id, change.ceiling)
            if change.ends:
                store.end(row.id)

    def _set_taint(self, store: ControlStore, session: str, level: Level) -> None:
        store.set_taint(session, level)
        if session in self._on_raise:
            self._on_raise[session](level)

    def on_raise(self, session: str, callback: Callable[[Level], None] | None) -> None:
        """Call `callback` with the new taint whenever this process raises the session, before anything is read at it.

        It must be quick and raise nothing. None: remove it.
        """
        if callback is None:
            self._on_raise.pop(session, None)
        else:
            self._on_raise[session] = callback

    # Checking

    def _stored(self, session: str) -> SessionRow | None:
        """Return the stored row, regardless of its parents."""
        row = self._ephemeral.read(session)
        return self._named.read(session) if row is None else self._as_of_now(row)

    def _as_of_now(self, row: SessionRow) -> SessionRow:
        """Return the row as ended if its agent was erased, perhaps by another process."""
        if row.ended or row.life == self._named.life(row.agent):
            return row
        return replace(row, ended=True)

    def _under_parents(self, row: SessionRow) -> SessionRow:
        """Return a child as its parents restrict it: ended with them (P7), never under a higher ceiling (P15).

        A child deeper than the limit, or below itself, has ended (P17).
        """
        ended, ceiling, parent = row.ended, row.ceiling, row.parent
        for _ in range(CHILD_DEPTH_MAX):
            above = self._stored(parent) if parent is not None else None
            if above is None:
                break
            ended, ceiling, parent = ended or above.ended, min(ceiling, above.ceiling), above.parent
        return replace(row, ended=ended or parent is not None, ceiling=ceiling)

    def living(self, session: str | None, what: str = "use") -> SessionRow:
        """Return the session's current state. Raises: Refused (unknown, ended)."""
        row = self.read(session) if session is not None else None
        return self._audit_log.require(row, decide(SessionUse(state_of(row))), what)[0]

    def _store_of(self, session: str) -> ControlStore:
        return self._ephemeral if self._ephemeral.read(session) else self._named

    def _check_name(self, name: object) -> str:
        return check_key(name, self._limits, "name")
