"""A witness that goes through the entries of a chain: the executable specification of one."""

from __future__ import annotations

from collections.abc import Iterator, Set

from tidegate.audit.chain import STANDINGS, Action
from tidegate.storage.base import CompartmentReader, Witness


class InMemoryWitness(Witness):
    """The chain of one compartment."""

    def __init__(self, compartment: CompartmentReader) -> None:
        self.level = compartment.level
        self._entries = compartment.entries

    def standings(self, session: str) -> Set[Action]:
        return STANDINGS & {entry.event.action for entry in self._entries() if entry.event.session == session}

    def opened(self) -> Iterator[tuple[str, int]]:
        opened = [entry for entry in self._entries() if entry.event.action is Action.OPEN]
        return ((entry.event.session, entry.sequence) for entry in reversed(opened))

    def heard(self, session: str, *, after: int) -> bool:
        return any(entry.event.session == session for entry in self._entries(after=after))
