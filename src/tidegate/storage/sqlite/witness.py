"""The chains of one agent, for the reference monitor to look up a session's past levels (P4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from functools import partial

from tidegate.audit.chain import Action
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.base import Witness
from tidegate.storage.sqlite.connection import SqliteConnection, close
from tidegate.storage.sqlite.failures import DriverError, UnavailableError, storage_error
from tidegate.storage.sqlite.files import HomeFiles, open_audit

# In the exact terms of the two indexes, which are read instead of the chain.
_STATE_ACTIONS = """
SELECT DISTINCT action FROM audit WHERE session = ? AND action IN ('open', 'raise', 'call', 'reset')
"""
_OPENED = "SELECT session, sequence FROM audit WHERE action = 'open' ORDER BY sequence DESC"
_HEARD = "SELECT 1 FROM audit WHERE sequence > ? AND session = ? LIMIT 1"


class SqliteWitness(Witness):
    """The chain in one file, through a connection that can read nothing else there."""

    def __init__(self, connection: SqliteConnection, level: Level) -> None:
        self.level = level
        self._db = connection

    def state_actions(self, session: str) -> Set[Action]:
        return {Action(action) for (action,) in self._db.execute(_STATE_ACTIONS, (session,))}

    def opened(self) -> Iterator[tuple[str, int]]:
        return ((session, sequence) for session, sequence in self._db.execute(_OPENED))

    def heard(self, session: str, *, after: int) -> bool:
        return self._db.execute(_HEARD, (after, session)).fetchone() is not None


@contextmanager
def open_witnesses(files: HomeFiles, agent: str) -> Iterator[Sequence[Witness]]:
    """Open the chains of an agent with files. Raises: StorageError, which reveals nothing about levels above (P5)."""
    opened: list[SqliteConnection] = []
    try:
        try:
            for level in Level:
                path = files.compartment(agent, level)
                opened.append(files.with_room(partial(open_audit, path, agent, level)))
        except UnavailableError:  # of the machine, so it says nothing about a level
            raise
        except StorageError:
            raise _unreadable() from None
        yield [SqliteWitness(each, level) for each, level in zip(opened, Level, strict=True)]
    except (DriverError, UnicodeDecodeError) as error:  # the second: bytes in a file that are not text
        failure = storage_error(error, files.control)
        raise (failure if isinstance(failure, UnavailableError) else _unreadable()) from None
    finally:
        for each in opened:
            close(each)


def _unreadable() -> StorageError:
    return StorageError("the audit cannot be read: it is damaged, missing or of a newer version; run `tidegate doctor`")
