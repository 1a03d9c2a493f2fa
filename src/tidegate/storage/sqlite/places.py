"""Which compartment belongs where: each has an id, in its own file and in the control store (P9).

So a file in another's place is refused when it is opened: one of another level, another agent, an earlier life or an
earlier version of Tidegate. The control store gets the id first: after a kill, the file is created with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from tidegate.policy.levels import Level
from tidegate.storage.base import lost, not_its_own
from tidegate.storage.control import ControlStore
from tidegate.storage.sqlite.compaction import unlink
from tidegate.storage.sqlite.connection import SqliteConnection, transaction
from tidegate.storage.sqlite.failures import damaged, driver_errors, os_error
from tidegate.storage.sqlite.files import UNWRITABLE, HomeFiles, exists, open_whole
from tidegate.storage.sqlite.schema import UNCONFIRMED

_ID = "SELECT id FROM compartment"


class Places:
    """Gives compartments their ids, and identifies them by id."""

    def __init__(self, files: HomeFiles, control: ControlStore, ids: Callable[[], str]) -> None:
        self._files = files
        self._control = control
        self._ids = ids

    def make(self, agent: str) -> None:
        """Create an agent's missing compartments."""
        with self._control.transaction():
            ids = {level: self._recorded(agent, level) for level in Level}
        self._files.make_compartments(agent, ids)

    def make_with_ids(self, agent: str, ids: Mapping[Level, str]) -> bool:
        """Create them under given ids, as `StorageProvider.make_with_ids`."""
        with driver_errors(self._files.control), ExitStack() as alone:
            others: list[Path] = []
            used, whole = False, True
            for level in Level:
                path = self._files.compartment(agent, level)
                if not exists(path):
                    whole = False
                    continue
                db = alone.enter_context(_alone(path))  # other writers wait, and then find no file
                has_entries = db.execute("SELECT 1 FROM audit LIMIT 1").fetchone() is not None
                used = used or has_entries
                if _id_of(db) != ids.get(level, _id_of(db)):
                    others.append(path)
                    if has_entries:
                        return False
            if used and not whole:  # the missing ones were lost; new, unused ones cannot replace them (P9)
                raise lost()
            if others:
                self._files.begin_making(agent)  # if cut short from here on, all count as never created
            with self._control.transaction():
                for level, wanted in ids.items():
                    self._control.set_compartment(agent, level, wanted)
            try:
                for path in others:
                    unlink(path)
            except OSError as error:
                raise os_error(error, UNWRITABLE) from None
        self.make(agent)
        return True

    def id_of(self, connection: SqliteConnection, agent: str, level: Level) -> str:
        """Return the id of an open compartment. Raises: StorageError when it does not belong there (P17)."""
        with driver_errors(self._files.compartment(agent, level)):
            found = _id_of(connection)
        if found.startswith(UNCONFIRMED):
            found = self._confirm(agent, level)
        if not found or found != self._control.compartment(agent, level):
            raise not_its_own()
        return found

    def _recorded(self, agent: str, level: Level) -> str:
        own = self._control.compartment(agent, level)
        if own is None:
            own = self._ids()
            self._control.set_compartment(agent, level, own)
        return own

    def _confirm(self, agent: str, level: Level) -> str:
        """Record the id that a migration gave a file, unless another is known: then an older file was put there.

        The file marks its id as unconfirmed until the control store has it, so the next open resumes after a kill.
        """
        path = self._files.compartment(agent, level)
        with driver_errors(path), closing(open_whole(path)) as db:
            found = _id_of(db).removeprefix(UNCONFIRMED)
            with self._control.transaction():
                if self._control.compartment(agent, level) is None:
                    self._control.set_compartment(agent, level, found)
            if self._control.compartment(agent, level) == found:
                db.execute("UPDATE compartment SET id = ?", (found,))
        return found


@contextmanager
def _alone(path: Path) -> Iterator[SqliteConnection]:
    """Open a file and keep all others from writing it."""
    with closing(open_whole(path)) as db, transaction(db):
        yield db


def _id_of(connection: SqliteConnection) -> str:
    found = connection.execute(_ID).fetchall()
    if len(found) != 1:
        raise damaged()
    return str(found[0][0])
