"""Clearing conversations: their messages are permanently removed, at every level at which they were written (P7)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import takewhile

from tidegate.core.version_purge import remove
from tidegate.policy.levels import Level
from tidegate.records.record import RecordKind, is_of, key_of
from tidegate.storage.base import OwnerCompartment, StorageProvider, VersionId
from tidegate.storage.control import SessionRow

STEP = 200
"""Messages removed in one transaction: no session waits long, and an interruption loses nothing."""

MessagePlace = tuple[str, Level]
"""A compartment, by agent and level."""


class Clearing:
    """Removes the messages of sessions. Their memories and to-dos stay."""

    def __init__(self, provider: StorageProvider, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self._clock = clock

    def clear(self, rows: Iterable[SessionRow]) -> set[MessagePlace]:
        """Remove the messages of these sessions, each with an audit entry; return the places that had any.

        Raises: StorageError.
        """
        places = [(row, level) for row in rows if self._provider.has(row.agent) for level in Level]
        cleared = set[MessagePlace]()
        for row, level in places:
            if level.can_flow_to(row.taint):
                with self._provider.owner_compartment(row.agent, level) as owner_compartment:
                    if self.forget(owner_compartment, row.id):
                        cleared.add((row.agent, level))
        return cleared

    def scrub(self, places: Iterable[MessagePlace]) -> bool:
        """Scrub the removed messages from every file; return False if a reader is in the way.

        Raises: StorageError.
        """
        done = [self._provider.compact(agent, level) for agent, level in sorted(places)]
        return all(done)

    def forget(self, owner_compartment: OwnerCompartment, session: str) -> int:
        """Remove the messages of one session at one level; return their number."""
        return sum(self._steps(owner_compartment, session))

    def _steps(self, owner_compartment: OwnerCompartment, session: str) -> Iterator[int]:
        while True:
            page = owner_compartment.page(
                RecordKind.MESSAGE, after=key_of(session, 0), tag=None, limit=STEP, chars_max=0
            )
            keys = [record.key for record in takewhile(lambda record: is_of(record.key, session), page)]
            if not keys:
                return
            with owner_compartment.transaction(durable=True):
                for key in keys:
                    self._remove(owner_compartment, session, key)
            yield len(keys)

    def _remove(self, owner_compartment: OwnerCompartment, session: str, key: str) -> None:
        now = self._clock()
        owner_compartment.soft_delete(RecordKind.MESSAGE, key, now)  # only deleted records can be removed
        for version in owner_compartment.versions(RecordKind.MESSAGE, key):
            remove(owner_compartment, now, session, VersionId(RecordKind.MESSAGE, key, version.version))
