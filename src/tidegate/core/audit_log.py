"""Entries that stand for themselves: refusals, attempts, raises, owner acts. A change's entry is in the change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from types import TracebackType
from typing import NoReturn, Self

from tidegate.audit.chain import Action, AuditEvent
from tidegate.errors import Refused
from tidegate.policy.decisions import Deny
from tidegate.policy.levels import Level
from tidegate.storage.base import Compartment, StorageProvider
from tidegate.storage.control import SessionRow


class Chain:
    """The chain of one compartment: with it, alone among processes and threads until something is entered."""

    # No ExitStack: an interrupted one is in a cycle with its error, and keeps what it was about to give back.

    def __init__(self, writing: AbstractContextManager[Compartment], clock: Callable[[], datetime]) -> None:
        self._writing = writing
        self._clock = clock
        self._taken = False

    def __enter__(self) -> Self:
        self._own = self._writing.__enter__()
        self._taken = True
        return self

    def enter(self, session: str, *entries: tuple[Action, str]) -> None:
        """Enter what a session did, all or nothing, and let go of the chain; on return it has survived power loss.

        Details may come from outside; what no file can hold is written as an escape.
        """
        for action, detail in entries:
            text = detail.encode(errors="backslashreplace").decode()
            self._own.append(AuditEvent(self._clock(), session, action, text))
        self.__exit__(None, None, None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._taken:
            self._taken = False
            self._writing.__exit__(kind, error, trace)


class AuditLog:
    """Writes single entries to the chain of one compartment."""

    def __init__(self, provider: StorageProvider, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self.clock = clock

    def record(self, row: SessionRow, action: Action, detail: str, *, level: Level | None = None) -> None:
        """Enter an event of a session, durably, in the chain of its taint or of `level`."""
        with self.chain(row.agent, row.taint if level is None else level) as chain:
            chain.enter(row.id, (action, detail))

    def chain(self, agent: str, level: Level) -> Chain:
        """The chain of one compartment, to take and to enter events in."""
        return Chain(self._writing(agent, level), self.clock)

    @contextmanager
    def _writing(self, agent: str, level: Level) -> Iterator[Compartment]:
        with self._provider.writable_view(agent, level) as view, view.own.transaction(durable=True):
            yield view.own

    def refuse(self, row: SessionRow | None, deny: Deny, what: str) -> NoReturn:
        """Turn a denial into the one `Refused`, entered in the chain of the session that met it.

        A session that outlived its agent has no chain any more, and its refusal must not make one: what is erased stays
        so, and a backup can be restored.
        """
        if row is not None and (not row.ended or self._is_begun(row)):
            self.record(row, Action.REFUSE, f"{what} {deny.rule}")
        raise Refused(deny.hint, rule=deny.rule)

    def _is_begun(self, row: SessionRow) -> bool:
        """Whether anything was entered in the session's own chain; whether in others, P5 forbids to ask."""
        with self._provider.view(row.agent, row.taint) as view:
            return view.visible[0].last_entry() is not None
