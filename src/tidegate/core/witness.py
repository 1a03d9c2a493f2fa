"""The audit as witness of sessions: an older control store, put back, neither lowers nor revives one (P4, P7).

Every entry is written before the control store changes. So if the two differ, the control store was put back or a
change was interrupted, and the entry counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tidegate.audit.chain import Action
from tidegate.core.audit_log import AuditLog
from tidegate.core.conversation_purge import Clearing
from tidegate.core.judgement import EnteredLater
from tidegate.policy.decisions import Deny
from tidegate.policy.events import TaintRaise
from tidegate.policy.levels import Level
from tidegate.policy.refusals import OLDER_COPY
from tidegate.policy.rules import CHILD_DEPTH_MAX, decide
from tidegate.storage.base import StorageProvider
from tidegate.storage.control import ControlStore, SessionRow


@dataclass(frozen=True, slots=True)
class Testimony:
    """What all chains of an agent say about one session. highest: its highest taint; PUBLIC without an entry."""

    highest: Level
    ended: bool

    def adds_to(self, row: SessionRow) -> bool:
        """Return whether the row is lower than this, or active though the session ended."""
        return not row.ended and (self.ended or not self.highest.can_flow_to(row.taint))


class Witnesses:
    """Asks the chains when a session is opened, before any view. Nothing but its taint leaves this class (P5)."""

    def __init__(
        self,
        provider: StorageProvider,
        audit_log: AuditLog,
        read: Callable[[str], SessionRow | None],
        set_taint: Callable[[ControlStore, str, Level], None],
    ) -> None:
        self._provider = provider
        self._control = provider.control
        self._audit_log = audit_log
        self._read = read
        self._set_taint = set_taint

    def settled(self, row: SessionRow) -> SessionRow | None:
        """Return the stored session after raising or ending it and its parents as the audit says.

        It adds no entry: the entries exist. Raises: Refused (ceiling), StorageError (a chain that cannot be read).
        """
        line: list[str] = []
        above: SessionRow | None = row
        while above is not None and len(line) <= CHILD_DEPTH_MAX:
            line.append(above.id)
            above = self._control.read(above.parent) if above.parent is not None else None
        for each in reversed(line):
            self._settle(each)
        return self._control.read(row.id)

    def _settle(self, session: str) -> None:
        while (row := self._read(session)) is not None and not row.ended:  # repeats only after a change
            said = _testimony(self._provider, row.agent, session)
            if not said.adds_to(row):
                return
            decision = decide(TaintRaise(row.state, said.highest))
            if isinstance(decision, Deny) and not said.ended:
                self._audit_log.refuse(row, decision, "resume")
            with self._control.transaction():
                if self._read(session) == row:
                    stands = max(row.taint, said.highest)
                    self._set_taint(self._control, session, stands)
                    if said.ended:
                        self._control.set_ceiling(session, max(row.ceiling, stands))  # the older one may be below
                        self._control.end(session)
                    return

    def require_all_known(self, agent: str) -> None:
        """Refuse if a session was lost: a new one could get its name. Raises: Refused, StorageError.

        An older copy lacks the sessions opened last. So in each chain one known session is enough.
        """
        if next(_lost(self._provider, agent, latest=True), None) is not None:
            self._audit_log.refuse(None, OLDER_COPY, "open")


def lost(provider: StorageProvider, agent: str) -> list[SessionRow]:
    """Return sessions of an agent that the audit knows and the control store does not, the oldest of each chain first.

    No chain has their names: their ids replace them. Raises: StorageError.
    """
    rows: list[SessionRow] = []
    life = provider.control.life(agent)  # the chains are of this life: those of earlier lives are gone
    for session in reversed(list(_lost(provider, agent, latest=False))):
        said, name = _testimony(provider, agent, session), spare_name(provider.control, agent, session)
        rows.append(SessionRow(session, agent, name, said.highest, Level.RESTRICTED, None, said.ended, life))
    return rows


def end_lost(provider: StorageProvider, audit_log: AuditLog, row: SessionRow) -> bool:
    """End a lost session permanently, as a reset does, and return the same. It is never stored as active.

    Sessions under it are lost too, since they were opened later. Raises: StorageError; then it can be run again.
    """
    clearing = Clearing(provider, audit_log.clock)
    places = clearing.clear([row])
    with EnteredLater(provider.control.transaction()) as control:
        with audit_log.chain(row.agent, row.taint) as chain:
            control.enter()
            known = provider.control.read(row.id) is not None  # then another process was first
            if not (known or row.ended):
                chain.append(row.id, (Action.RESET, ""))  # P9: the entry first
        if not known:
            provider.control.insert(replace(row, ended=True))
    return clearing.scrub(places)


def _testimony(provider: StorageProvider, agent: str, session: str) -> Testimony:
    with provider.witnesses(agent) as witnesses:
        said = [(each.level, each.state_actions(session)) for each in witnesses]
    stood = [level for level, actions in said if actions - {Action.RESET}]
    return Testimony(max(stood, default=Level.PUBLIC), any(Action.RESET in actions for _, actions in said))


def _lost(provider: StorageProvider, agent: str, *, latest: bool) -> Iterator[str]:
    """Yield lost sessions. latest: of each chain only those after the latest known one."""
    known = provider.control.read
    with provider.witnesses(agent) as witnesses:
        for witness in witnesses:
            for session, sequence in witness.opened():
                if known(session) is not None:
                    if latest:
                        break
                    continue
                acted = any(each.state_actions(session) - {Action.OPEN} for each in witnesses)
                # An opening alone may have been interrupted; a session still being opened is known once it acts.
                if (acted or witness.heard(session, after=sequence)) and known(session) is None:
                    yield session


def spare_name(control: ControlStore, agent: str, name: str) -> str:
    """Return a name like this one that no session has or had."""
    while control.find(agent, name) is not None:
        name += "'"
    return name
