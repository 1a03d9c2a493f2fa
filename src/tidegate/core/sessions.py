"""Sessions: who is there, at which taint, under which ceiling. The taint survives restarts, and only rises (P4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

from tidegate.audit.chain import Action
from tidegate.core.audit_log import AuditLog
from tidegate.core.conversation_purge import Clearing
from tidegate.core.witness import Witnesses
from tidegate.errors import InvalidArgument, Refused, StorageError
from tidegate.policy.decisions import Allow, Decision, Deny
from tidegate.policy.events import (
    CeilingChange,
    PolicyEvent,
    PreOutput,
    Scheduling,
    SessionOpen,
    SessionUse,
    TaintRaise,
)
from tidegate.policy.levels import Level
from tidegate.policy.rules import CHILD_DEPTH_MAX, UNKNOWN_SESSION, decide
from tidegate.policy.servers import Classification, Pin, ServerCall, ServerResult, ServerSend
from tidegate.policy.session_state import SessionState
from tidegate.records.limits import Limits
from tidegate.records.validation import check_agent, check_key, check_level
from tidegate.storage.base import StorageProvider
from tidegate.storage.control import ControlStore, SessionRow, state_of
from tidegate.storage.inmemory.control_store import EphemeralControlStore

REASON_CHARS_MAX = 200


@dataclass(frozen=True, slots=True)
class _Change:
    """What becomes of a session: what is entered of it in the chain of `level`, and then done in its store."""

    level: Level
    entries: tuple[tuple[Action, str], ...]
    apply: Callable[[ControlStore], None]


class Sessions:
    """Named sessions in the control store; ephemeral ones, about which nothing is stored, in memory."""

    def __init__(self, provider: StorageProvider, audit_log: AuditLog, ids: Callable[[], str], limits: Limits) -> None:
        self._named = provider.control
        self._ephemeral: ControlStore = EphemeralControlStore()
        self._audit_log = audit_log
        self._clearing = Clearing(provider, audit_log.clock)
        self._witnesses = Witnesses(provider, audit_log, self.read, self._set_taint)
        self._ids = ids
        self._limits = limits
        self._told: dict[str, Callable[[Level], None]] = {}

    # Looking

    def read(self, session: str) -> SessionRow | None:
        """The session as it stands at this moment, ended or not; None when there is none with this id."""
        row = self._stored(session)
        return row if row is None or row.parent is None else self._under_parents(row)

    def list(self, agent: str) -> list[SessionRow]:
        """The named sessions of an agent, ended ones too, by name. For the owner."""
        rows = self._named.sessions(check_agent(agent))
        return [row if row.parent is None else self._under_parents(row) for row in rows]

    def find(self, agent: str, name: str) -> SessionRow:
        """The living session of this name. Raises: Refused (unknown, ended, ceiling)."""
        row = self._settled(check_agent(agent), self._check_name(name))
        return self.living(row.id if row else None, "resume")

    def named(self, agent: str, name: str) -> SessionRow:
        """The same as the control store alone has it: for the owner, who puts right what `find` refuses."""
        row = self._named.find(check_agent(agent), self._check_name(name))
        return self.living(row.id if row else None, "resume")

    def _settled(self, agent: str, name: str) -> SessionRow | None:
        """The session of this name as it is stored, once it and its parents stand where the audit says (P4, P7)."""
        row = self._named.find(agent, name)
        return None if row is None else self._witnesses.settled(row)

    # Opening

    def open(
        self, agent: str, name: str | None, level: Level, ceiling: Level | None = None, parent: str | None = None
    ) -> SessionRow:
        """The session of this name, raised to `level` if it stood lower; without one, or without a name, a new one.

        ceiling: of a new session; by default its parent's, else RESTRICTED.
        Raises: Refused (ended, ceiling, parent), InvalidArgument.
        """
        check_agent(agent)
        check_level(level)
        if ceiling is not None:
            check_level(ceiling, "ceiling")
        if name is not None:
            name = self._check_name(name)
        made = None
        while made is None:
            row = self._settled(agent, name) if name is not None else None
            if row is not None:
                return self._resume(row, level, ceiling, parent)
            made = self._new(agent, name, level, ceiling, parent)
        return made

    def new(self, agent: str, name: str, level: Level, ceiling: Level | None = None) -> SessionRow:
        """A new session of this name. Raises: InvalidArgument when a session has or had the name."""
        name = self._check_name(name)
        check_level(level)
        if ceiling is not None:
            check_level(ceiling, "ceiling")
        made = None
        while made is None:
            if (taken := self._named.find(check_agent(agent), name)) is not None:
                how = "had this name, and ended: choose another" if taken.ended else "has this name: it can be raised"
                raise InvalidArgument(f"name: a session {how}", argument="name")
            made = self._new(agent, name, level, ceiling, None)
        return made

    def _new(
        self, agent: str, name: str | None, level: Level, ceiling: Level | None, parent: str | None
    ) -> SessionRow | None:
        """None when another was first with this name, or the parent was changed meanwhile: then all starts anew."""
        above = self._parent(agent, parent)
        limit = ceiling if ceiling is not None else above.ceiling if above else Level.RESTRICTED
        decision = decide(SessionOpen(level, limit, state_of(above), self._depth(above)))
        if isinstance(decision, Deny):
            self._audit_log.refuse(above, decision, "open")
        new = SessionRow(self._ids(), agent, name, decision.level, limit, parent)
        store = self._ephemeral if name is None else self._named
        if name is not None:
            self._witnesses.require_all_known(agent)
        with nullcontext() if name is None else self._audit_log.chain(agent, new.taint) as chain, store.transaction():
            row = replace(new, life=self._named.life(agent))
            if name is not None and self._named.find(agent, name) is not None:
                return None
            if above is not None and self.read(above.id) != above:
                return None
            if chain is not None:
                chain.enter(row.id, (Action.OPEN, f"{row.taint} under {row.ceiling}"))
            store.insert(row)
        return row

    def _resume(self, row: SessionRow, level: Level, ceiling: Level | None, parent: str | None) -> SessionRow:
        if ceiling not in (None, row.ceiling):
            raise InvalidArgument("ceiling: this session exists; the owner changes its ceiling", argument="ceiling")
        if parent not in (None, row.parent):
            raise InvalidArgument("parent: this session exists and has another parent, or none", argument="parent")
        above = self._parent(row.agent, parent)
        wanted = max(level, above.taint) if above else level
        if wanted > row.taint:  # so that what only reads can be resumed where nothing can be written
            self.raise_taint(row.id, wanted, reason="opened", asked_by=above)
        return self.living(row.id, "resume")

    def _parent(self, agent: str, parent: str | None) -> SessionRow | None:
        if parent is None:
            return None
        row = self.living(parent, "open")
        if row.agent != agent:  # P6
            raise InvalidArgument("parent: is a session of another agent", argument="parent")
        return row

    def _depth(self, row: SessionRow | None) -> int:
        depth = 0
        while row is not None:
            depth += 1
            row = self.read(row.parent) if row.parent is not None else None
        return depth

    # Changing

    def raise_taint(self, session: str, level: Level, *, reason: str = "", asked_by: SessionRow | None = None) -> Level:
        """The taint after it was raised to at least `level`, durably; towards a lower level nothing happens (P4).

        asked_by: the parent or child whose taint is the reason. A refusal depends on it, and so is entered in its
        chain, which may lie above this session's (P5). Raises: Refused (unknown, ended, ceiling), InvalidArgument.
        """
        check_level(level)
        row, decision = self._change(
            session,
            lambda state: TaintRaise(state, level),
            lambda row, to: self._raise(row, to, reason) if to != row.taint else None,
        )
        return self._require(row, decision, "raise", entered_by=asked_by)[1]

    def dispatch(self, session: str, tool: str, classification: Classification | None, pin: Pin) -> Level:
        """The taint at which a foreign server's tool may now be called: sink and ceiling checked, the source joined in.

        One transaction, durable on return and before the first byte goes out (P4). tool: a name, for the audit.
        Raises: Refused (unknown, ended, unclassified, pin, sink, ceiling).
        """
        row, decision = self._change(
            session,
            lambda state: ServerCall(state, classification, pin),
            lambda row, to: self._raise(row, to, tool, (Action.CALL, tool)),
        )
        return self._require(row, decision, f"call {tool}")[1]

    def check_send(self, session: str, tool: str, classification: Classification | None, granted: Level | None) -> None:
        """Whether more bytes may go to the server: P4, for each one after `dispatch`. granted: as in `ServerSend`.

        Raises: Refused (unknown, ended, sink).
        """
        row = self.read(session)
        self._require(row, decide(ServerSend(state_of(row), classification, granted)), f"send {tool}")

    def check_result(self, session: str, tool: str, classification: Classification | None) -> None:
        """Whether a result may be handed on: only while the session lives (P4). Raises: Refused (unknown, ended)."""
        row = self.read(session)
        self._require(row, decide(ServerResult(state_of(row), classification)), f"result {tool}")

    def check_output(self, session: str, channel: str, clearance: Level | None) -> None:
        """Whether what the session says may go to a channel now (PRE_OUTPUT). channel: its name, for the audit.

        Raises: Refused (unknown, ended, clearance).
        """
        row = self.read(session)
        self._require(row, decide(PreOutput(state_of(row), clearance)), f"output {channel}")

    def check_scheduling(self, session: str, ceiling: Level | None, generation: int) -> Level:
        """The ceiling of a job that the session is about to make; by default the session's own (P15).

        Raises: Refused (unknown, ended, ceiling, depth).
        """
        row = self.read(session)
        under = ceiling if ceiling is not None else row.ceiling if row else Level.PUBLIC
        self._require(row, decide(Scheduling(state_of(row), under, generation)), "schedule")
        return under

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        """Change how high the session, and any under it, may rise.

        Raises: Refused (unknown, ended, below the taint of one of them), InvalidArgument.
        """
        check_level(ceiling, "ceiling")

        def plan(row: SessionRow, to: Level) -> _Change:
            entry = (Action.CEILING, f"{row.ceiling} to {to}")
            return _Change(row.taint, (entry,), lambda store: store.set_ceiling(session, to))

        def event(state: SessionState | None) -> PolicyEvent:
            return CeilingChange(state, ceiling, self._highest_under(session))

        row, decision = self._change(session, event, plan)
        self._require(row, decision, "ceiling")

    def reset(self, session: str) -> bool:
        """End a session for ever (P7), and with it all its children. Their conversations are really removed.

        Whether nothing of them remains in any file; where it does, a purge removes it.
        Raises: Refused (unknown, ended), StorageError; then it can be run again.
        """
        with suppress(Refused, StorageError):  # as high as it stood, so that all of what was said goes
            if (stored := self._named.read(session)) is not None:
                self._witnesses.settled(stored)
        # What is stored goes before the session does: interrupted in between, a reset can be run again.
        places = self._clearing.clear(self._family(self.living(session, "reset")))
        row = self._end(session)
        try:
            places |= self._clearing.clear(self._family(row))  # what was said meanwhile
            return self._clearing.scrub(places)
        except StorageError:
            return False  # it has ended all the same

    def _end(self, session: str, *, at: Level | None = None) -> SessionRow:
        """End it, with `at` only if that is still its taint. As it stood then."""

        def plan(_: SessionRow, taint: Level) -> _Change | None:
            if at not in (None, taint):
                return None
            return _Change(taint, ((Action.RESET, ""),), lambda store: store.end(session))

        row, decision = self._change(session, SessionUse, plan)
        return self._require(row, decision, "reset")[0]

    def _highest_under(self, session: str) -> Level:
        """The highest taint of those in the family that live."""
        row = self.read(session)
        family = [self.read(each.id) for each in self._family(row)] if row and not row.ended else []
        return max((each.taint for each in family if each and not each.ended), default=Level.PUBLIC)

    def living_of(self, agent: str) -> int:
        """How many sessions of an agent live, as far as this process knows."""
        rows = (row for store in (self._named, self._ephemeral) for row in store.sessions(agent))
        return sum(not self._as_of_now(row).ended for row in rows)

    def end_life(self, agent: str) -> None:
        """End every session of an agent whose compartments are about to go, and with them any entry.

        Those too that other processes hold and nothing is stored about: each look compares the life (P7).
        """
        for store in (self._named, self._ephemeral):
            with store.transaction():
                store.end_life(agent)

    def _family(self, row: SessionRow) -> Iterator[SessionRow]:
        """A session and those that descend from it, ended ones too."""
        yield row
        for store in (self._named, self._ephemeral):
            for each in store.sessions(row.agent):
                if each.parent == row.id:
                    yield from self._family(each)

    def join(self, session: str) -> None:
        """End a child: its taint joins its parent's (P15), then it is over. A session without parent just ends.

        Its conversation stays for the audit until a purge: removing it is the owner's, who resets.
        """
        row, joined = self.living(session, "end"), None
        while joined is not row.taint:  # each further turn follows a raise, of which a session has few
            joined = row.taint
            if row.parent is not None:
                self.raise_taint(row.parent, joined, reason="child ended", asked_by=row)
            row = self._end(session, at=joined)

    def _change(
        self,
        session: str,
        event: Callable[[SessionState | None], PolicyEvent],
        plan: Callable[[SessionRow, Level], _Change | None],
    ) -> tuple[SessionRow | None, Decision]:
        """Change a session as planned, where the policy allows the event. As it stood then, and what the policy said.

        The compartment is taken before the control store, here and everywhere: whoever waits for a compartment keeps
        nobody else's sessions waiting (P5, P6). Once both are, the session must stand as it was judged (P4).
        """
        while True:  # each turn follows a change of the session, of which it has few
            row = self.read(session)
            decision = decide(event(state_of(row)))
            change = plan(row, decision.level) if row is not None and isinstance(decision, Allow) else None
            if row is None or change is None:
                return row, decision
            store = self._store_of(session)
            with self._audit_log.chain(row.agent, change.level) as chain, store.transaction():
                if self.read(session) == row and decide(event(state_of(row))) == decision:
                    # P9: the entry first. A power cut in between leaves an entry too many, never a raise without one.
                    chain.enter(session, *change.entries)
                    change.apply(store)
                    return row, decision

    def _raise(self, row: SessionRow, level: Level, reason: str, *before: tuple[Action, str]) -> _Change:
        if level == row.taint:
            return _Change(level, before, lambda _: None)

        def apply(store: ControlStore) -> None:
            self._set_taint(store, row.id, level)

        detail = f"{row.taint} to {level}: {reason[:REASON_CHARS_MAX]}"
        return _Change(level, (*before, (Action.RAISE, detail)), apply)

    def _set_taint(self, store: ControlStore, session: str, level: Level) -> None:
        store.set_taint(session, level)
        if session in self._told:
            self._told[session](level)

    def tell(self, session: str, told: Callable[[Level], None] | None) -> None:
        """Call `told` with the new taint whenever this process raises the session, before anything is read at it.

        It must be quick, and raise nothing. None: no more.
        """
        if told is None:
            self._told.pop(session, None)
        else:
            self._told[session] = told

    # Checking

    def _stored(self, session: str) -> SessionRow | None:
        """The row as it is stored, whatever its parents are."""
        row = self._ephemeral.read(session)
        return self._named.read(session) if row is None else self._as_of_now(row)

    def _as_of_now(self, row: SessionRow) -> SessionRow:
        """Ended, if it has outlived its agent: another process may have erased that."""
        if row.ended or row.life == self._named.life(row.agent):
            return row
        return replace(row, ended=True)

    def _under_parents(self, row: SessionRow) -> SessionRow:
        """A child lives no longer than its parents (P7), and never under a higher ceiling than theirs (P15).

        One that hangs deeper than any is opened, or from itself, has ended (P17).
        """
        ended, ceiling, parent = row.ended, row.ceiling, row.parent
        for _ in range(CHILD_DEPTH_MAX):
            above = self._stored(parent) if parent is not None else None
            if above is None:
                break
            ended, ceiling, parent = ended or above.ended, min(ceiling, above.ceiling), above.parent
        return replace(row, ended=ended or parent is not None, ceiling=ceiling)

    def living(self, session: str | None, what: str = "use") -> SessionRow:
        """The session as it stands at this moment. Raises: Refused (unknown, ended)."""
        row = self.read(session) if session is not None else None
        return self._require(row, decide(SessionUse(state_of(row))), what)[0]

    def _require(
        self, row: SessionRow | None, decision: Decision, what: str, *, entered_by: SessionRow | None = None
    ) -> tuple[SessionRow, Level]:
        """The row and the level allowed; anything else is refused (P17)."""
        if row is None or isinstance(decision, Deny):
            denied = decision if isinstance(decision, Deny) else UNKNOWN_SESSION
            self._audit_log.refuse(entered_by or row, denied, what)
        return row, decision.level

    def _store_of(self, session: str) -> ControlStore:
        return self._ephemeral if self._ephemeral.read(session) else self._named

    def _check_name(self, name: object) -> str:
        return check_key(name, self._limits, "name")
