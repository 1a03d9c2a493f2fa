"""The checks of all flows out of a session, or into it from a foreign server (P4, P14, P15)."""

from __future__ import annotations

from functools import partial

from tidegate.audit.chain import Action
from tidegate.core import session_change
from tidegate.core.audit_log import AuditLog
from tidegate.core.session_change import SessionChange
from tidegate.core.sessions import Sessions
from tidegate.policy.events import PreOutput, Scheduling
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.policy.servers import Classification, Pin, ServerCall, ServerResult, ServerSend
from tidegate.storage.control import SessionRow, state_of


class FlowChecks:
    """Asks the policy about one flow at a time, with the session's state of that moment.

    tool: the name of a foreign server's tool, for the audit and the refusal; None for an unknown one, whose name is the
    model's own text (P12).
    """

    def __init__(self, sessions: Sessions, audit_log: AuditLog) -> None:
        self._sessions = sessions
        self._audit_log = audit_log

    def dispatch(self, session: str, tool: str | None, classification: Classification | None, pin: Pin) -> Level:
        """Return the taint at which a tool may now be called: check sink and ceiling, and join the source.

        One transaction, durable on return and before the first byte goes out (P4).
        Raises: Refused (unknown, ended, unclassified, pin, sink, ceiling).
        """
        called = tool or "tool"
        event = partial(ServerCall, classification=classification, pin=pin)
        with self._audit_log.refusing(f"call {called}", tool=tool):
            return self._sessions.change(
                session, event, lambda row, level: session_change.raising(row, level, called, (Action.CALL, called))
            )[1]

    def check_send(self, session: str, tool: str, classification: Classification | None, granted: Level | None) -> None:
        """Check that more bytes may go to the server, each time after `dispatch` (P4). granted: as in `ServerSend`.

        Raises: Refused (unknown, ended, sink).
        """
        row = self._sessions.read(session)
        decision = decide(ServerSend(state_of(row), classification, granted))
        self._audit_log.require(row, decision, f"send {tool}", tool=tool)

    def check_result(self, session: str, tool: str, classification: Classification | None, claimed: Level) -> Level:
        """Return the taint at which a result may now be handed on: join the level that its labels claim (P4).

        Durable on return. Raises: Refused (unknown, ended, source, ceiling).
        """
        event = partial(ServerResult, classification=classification, claimed=claimed)

        def plan(row: SessionRow, level: Level) -> SessionChange | None:
            return None if level == row.taint else session_change.raising(row, level, f"label of {tool}")

        with self._audit_log.refusing(f"result {tool}", tool=tool):
            return self._sessions.change(session, event, plan)[1]

    def check_output(self, session: str, channel: str, clearance: Level | None) -> None:
        """Check that the session's output may go to a channel now (PRE_OUTPUT). channel: its name, for the audit.

        Raises: Refused (unknown, ended, clearance).
        """
        row = self._sessions.read(session)
        self._audit_log.require(row, decide(PreOutput(state_of(row), clearance)), f"output {channel}")

    def check_scheduling(self, session: str, ceiling: Level | None, generation: int) -> Level:
        """Return the ceiling of a job that the session is about to create; by default the session's own (P15).

        Raises: Refused (unknown, ended, ceiling, depth).
        """
        row = self._sessions.read(session)
        under = ceiling if ceiling is not None else row.ceiling if row else Level.PUBLIC
        self._audit_log.require(row, decide(Scheduling(state_of(row), under, generation)), "schedule")
        return under
