"""Which servers speak the protocol's older revisions, as far as this process has seen.

What a connection shows about a server is a read at the level of the call that opened it, and it decides the first
message of the next connection. So it is known to sessions of the same agent at or above that level, and to no others
(P5, P6): a lower session asks the server itself.
"""

from __future__ import annotations

from weakref import WeakKeyDictionary

from tidegate.config.servers import Server
from tidegate.policy.levels import Level
from tidegate.store import Store


class Revisions:
    """The servers that were seen to speak an older revision, each with the lowest level at which it was seen."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[Server, Level]] = {}

    def note_old(self, agent: str, server: Server, level: Level) -> None:
        """Remember that a connection at this level was made in an older revision."""
        if not self.is_old(agent, server, level):
            self._seen[agent, server.name] = server, level

    def is_old(self, agent: str, server: Server, level: Level) -> bool:
        """Return whether a session at this level may know that the server speaks an older revision."""
        known = self._seen.get((agent, server.name))
        return known is not None and known[0] == server and known[1].can_flow_to(level)


_OF_STORES: WeakKeyDictionary[Store, Revisions] = WeakKeyDictionary()


def revisions_of(store: Store) -> Revisions:
    """Return what this process has seen of the servers that sessions of a store call."""
    return _OF_STORES.setdefault(store, Revisions())
