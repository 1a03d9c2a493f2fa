"""The in-memory control stores: of the in-memory provider, and of ephemeral sessions."""

from __future__ import annotations

from dataclasses import replace

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.control import ControlStore, SessionRow
from tidegate.storage.inmemory.tables import K, Transactional, V

ENDED_KEPT_MAX = 10_000
"""How many ended ephemeral sessions can still be distinguished from ones that never existed."""


class InMemoryControlStore(Transactional, ControlStore):
    """A dict of rows."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[str, SessionRow] = {}
        self._lives: dict[str, int] = {}
        self._places: dict[tuple[str, Level], str] = {}
        self._renewals: dict[tuple[str, str], int] = {}

    def _remember(self, table: dict[K, V], key: K) -> None:
        if self._undo is None:
            raise StorageError("the control store is changed in transactions only")
        super()._remember(table, key)

    def read(self, session: str) -> SessionRow | None:
        return self._rows.get(session)

    def find(self, agent: str, name: str) -> SessionRow | None:
        return next((row for row in self.sessions(agent) if row.name == name), None)

    def sessions(self, agent: str) -> list[SessionRow]:
        with self._lock:
            rows = [row for row in self._rows.values() if row.agent == agent]
        return sorted(rows, key=lambda row: (row.name or "", row.id))

    def insert(self, row: SessionRow) -> None:
        self._set(self._rows, row.id, row)

    def set_taint(self, session: str, taint: Level) -> None:
        self._set(self._rows, session, replace(self._rows[session], taint=taint))

    def set_ceiling(self, session: str, ceiling: Level) -> None:
        self._set(self._rows, session, replace(self._rows[session], ceiling=ceiling))

    def end(self, session: str) -> None:
        self._set(self._rows, session, replace(self._rows[session], ended=True))

    def rename(self, session: str, name: str) -> None:
        row = self._rows[session]
        self._set(self._renewals, (row.agent, row.name or ""), self.renewals_count() + 1)
        self._set(self._rows, session, replace(row, name=name))

    def renewals_count(self) -> int:
        return max(self._renewals.values(), default=0)

    def last_renewal(self, agent: str, name: str) -> int:
        return self._renewals.get((agent, name), 0)

    def life(self, agent: str) -> int:
        return self._lives.get(agent, 0)

    def end_life(self, agent: str) -> None:
        for row in self.sessions(agent):
            if not row.ended:
                self.end(row.id)
        self._set(self._lives, agent, self.life(agent) + 1)
        for level in Level:
            self._remove(self._places, (agent, level))

    def compartment(self, agent: str, level: Level) -> str | None:
        return self._places.get((agent, level))

    def set_compartment(self, agent: str, level: Level, id: str) -> None:  # noqa: A002 - the field's name
        self._set(self._places, (agent, level), id)

    def close(self) -> None:
        pass


class EphemeralControlStore(InMemoryControlStore):
    """Ephemeral sessions, which are not stored. It keeps only the latest ended ones, so that it does not grow."""

    def __init__(self) -> None:
        super().__init__()
        self._ended: dict[str, None] = {}  # in the order in which they ended

    def end(self, session: str) -> None:
        super().end(session)
        self._set(self._ended, session, None)
        if len(self._ended) > ENDED_KEPT_MAX:
            oldest = next(iter(self._ended))
            self._remove(self._ended, oldest)
            self._remove(self._rows, oldest)
