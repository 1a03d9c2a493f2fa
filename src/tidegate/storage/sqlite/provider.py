"""The SQLite provider: one file per compartment; a view opens only the files within its reach."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.base import OwnerCompartment, StorageProvider, View, Witness, WritableView, fresh_id, lost
from tidegate.storage.inmemory.provider import InMemoryCompartment
from tidegate.storage.sqlite.compaction import compact, erase, unlink
from tidegate.storage.sqlite.compartment import SqliteCompartment
from tidegate.storage.sqlite.connection import close
from tidegate.storage.sqlite.control_store import SqliteControlStore
from tidegate.storage.sqlite.disk import filesystem_of, is_coherent
from tidegate.storage.sqlite.failures import damaged, driver_errors
from tidegate.storage.sqlite.files import FileIdentity, HomeFiles, exists, open_compartment
from tidegate.storage.sqlite.owner_compartment import SqliteOwnerCompartment
from tidegate.storage.sqlite.places import Places
from tidegate.storage.sqlite.pool import Lease, OpenView, ViewKey, ViewPool
from tidegate.storage.sqlite.witness import open_witnesses

_CompartmentT = TypeVar("_CompartmentT", bound=SqliteCompartment)


class SqliteProvider(StorageProvider):
    """A home on disk. Safe to share between threads and, each with its own, between processes."""

    def __init__(
        self,
        home: Path,
        *,
        durability: Literal["normal", "full"] = "normal",
        secret: bytes | None = None,
        ids: Callable[[], str] = fresh_id,
        filesystem: Callable[[Path], str | None] = filesystem_of,
    ) -> None:
        if not is_coherent(found := filesystem(home)):
            raise StorageError(f"home: is on {found}, whose locks cannot be trusted; use a local disk")
        self._files = HomeFiles(home)
        self._synchronous = durability.upper()
        self.audit_secret = secret
        self._locks: defaultdict[tuple[str, Level], threading.Lock] = defaultdict(threading.Lock)
        self._pool = ViewPool(self._open)
        self._known: set[str] = set()
        self.control = SqliteControlStore(self._files)
        self._places = Places(self._files, self.control, ids)

    def view(self, agent: str, taint: Level) -> AbstractContextManager[View]:
        key = (agent, taint)
        if not self._pool.holds(key) and not self._has_compartments(agent):
            return nullcontext(View(tuple(InMemoryCompartment(agent, level) for level in _visible(taint))))
        return Lease(self._pool, key)

    def writable_view(self, agent: str, taint: Level) -> AbstractContextManager[WritableView]:
        if not self._pool.holds((agent, taint)) and not self._has_compartments(agent):
            self._places.make(agent)
        return Lease(self._pool, (agent, taint), writing=True)

    def witnesses(self, agent: str) -> AbstractContextManager[Sequence[Witness]]:
        self._pool.require_own_process()
        return open_witnesses(self._files, agent) if self._has_compartments(agent) else nullcontext(())

    def make_with_ids(self, agent: str, ids: Mapping[Level, str]) -> bool:
        self._pool.require_own_process()
        self._has_compartments(agent)  # a backup does not replace lost files: the owner erases the agent first
        return self._places.make_with_ids(agent, ids)

    @contextmanager
    def owner_compartment(self, agent: str, level: Level) -> Iterator[OwnerCompartment]:
        self._pool.require_own_process()
        try:
            with (
                driver_errors(self._files.compartment(agent, level)),
                closing(
                    self._compartment(agent, level, writable=True, kind=SqliteOwnerCompartment)
                ) as owner_compartment,
            ):
                yield owner_compartment
        except UnicodeDecodeError:  # bytes in the file that are not text
            raise damaged() from None

    @contextmanager
    def freeing(self) -> Iterator[None]:
        self._files.reserve.give()
        try:
            yield
        finally:
            self._files.reserve.make()

    def compact(self, agent: str, level: Level) -> bool:
        self._pool.require_own_process()
        with self._locks[agent, level]:
            return compact(self._files.compartment(agent, level))

    def erase(self, agent: str, *, dry_run: bool) -> list[Level]:
        self._pool.require_own_process()
        # The highest first: an interrupted erasure leaves the least behind.
        there = [level for level in reversed(Level) if exists(self._files.compartment(agent, level))]
        for level in () if dry_run else there:
            with self._locks[agent, level]:
                erase(self._files.compartment(agent, level))
        if not dry_run:
            self._files.end_making(agent)
        self._known.discard(agent)
        self._pool.forget(agent)
        return there

    def erase_unused(self, agent: str) -> None:
        self._pool.require_own_process()
        self._files.begin_making(agent)  # if cut short, the rest counts as never created
        try:
            for level in reversed(Level):
                unlink(self._files.compartment(agent, level))
        except OSError:
            raise StorageError(
                "home: cannot be written; check its permissions and free space, and run it again"
            ) from None
        self._files.end_making(agent)
        self._known.discard(agent)
        self._pool.forget(agent)

    def has(self, agent: str) -> bool:
        return self._files.has_compartments(agent)

    def owns_path(self, path: Path) -> bool:
        return self._files.owns_path(path)

    def agents(self) -> list[str]:
        return self._files.agents()

    def close(self) -> None:
        if self._pool.is_own_process():  # otherwise it is the parent's, and no thread here can release its locks
            self._pool.close()
            self.control.close()

    def _has_compartments(self, agent: str) -> bool:
        """Return whether the agent has files. Raises: StorageError when they are lost: new ones cannot replace them."""
        if self._files.has_compartments(agent):
            if agent not in self._known:
                with suppress(StorageError):  # a read-only home, where no file can be lost
                    self._files.settle_making(agent)
            self._known.add(agent)
            return True
        if agent in self._known or not all(row.ended for row in self.control.sessions(agent)):
            if self._files.has_compartments(agent):  # created in the meantime, before its first session
                return True
            raise lost()
        return False

    def _open(self, key: ViewKey) -> OpenView:
        agent, taint = key
        files = tuple(FileIdentity.of(self._files.compartment(agent, level)) for level in _visible(taint))
        opened: list[SqliteCompartment] = []
        try:
            for level in _visible(taint):
                opened.append(self._compartment(agent, level, writable=level is taint, kind=SqliteCompartment))
        except BaseException:
            for compartment in opened:
                compartment.close()
            raise
        log = FileIdentity.of_log(files[0].path)
        lasting = not any(compartment.sealed for compartment in opened)
        return OpenView(WritableView(tuple(opened), opened[0]), tuple(opened), files, log, lasting, time.monotonic())

    def _compartment(self, agent: str, level: Level, *, writable: bool, kind: type[_CompartmentT]) -> _CompartmentT:
        path = self._files.compartment(agent, level)
        open_it = partial(open_compartment, path, agent, level, writable=writable, synchronous=self._synchronous)
        connection = self._files.with_room(open_it)
        try:
            id_ = self._places.id_of(connection, agent, level)
        except BaseException:
            close(connection)
            raise
        lock = self._locks[agent, level]
        return kind(connection, agent, level, id_, lock=lock, synchronous=self._synchronous, secret=self.audit_secret)


def _visible(taint: Level) -> tuple[Level, ...]:
    """Return the levels of a view, its own first. Levels above are not opened, so no code can read them (P5)."""
    return tuple(level for level in reversed(Level) if level.can_flow_to(taint))
