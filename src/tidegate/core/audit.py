"""Entries that stand for themselves: refusals, attempts, raises, owner acts. A change's entry is in the change."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import NoReturn

from tidegate.domain.audit import Action, Event
from tidegate.errors import Refused
from tidegate.policy.decision import Deny
from tidegate.policy.levels import Level
from tidegate.storage.base import SessionRow, StorageProvider


class Recorder:
    """Writes single entries to the chain of one compartment."""

    def __init__(self, provider: StorageProvider, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self.clock = clock

    def record(self, row: SessionRow, action: Action, detail: str, *, level: Level | None = None) -> None:
        """Enter an event of a session, durably, in the chain of its taint or of `level`.

        detail: may come from outside; what no file can hold is written as an escape.
        """
        event = Event(self.clock(), row.id, action, detail.encode(errors="backslashreplace").decode())
        chain = row.taint if level is None else level
        with self._provider.writable_view(row.agent, chain) as view, view.own.transaction(durable=True):
            view.own.append(event)

    def refuse(self, row: SessionRow | None, deny: Deny, what: str) -> NoReturn:
        """Turn a denial into the one `Refused`, entered in the chain of the session that met it.

        A session that outlived its agent has no chain any more, and its refusal must not make one: what is erased stays
        so, and a backup can be restored.
        """
        if row is not None and not (row.ended and row.agent not in self._provider.agents()):
            self.record(row, Action.REFUSE, f"{what} {deny.rule}")
        raise Refused(deny.hint, rule=deny.rule)
