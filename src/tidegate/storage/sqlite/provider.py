"""The SQLite provider: one file per compartment, opened only as far as a view reaches."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, TypeVar

from tidegate.errors import StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.storage.base import OwnerCompartment, StorageProvider, View, Witness, WritableView, fresh_id
from tidegate.storage.inmemory.provider import InMemoryCompartment
from tidegate.storage.sqlite import files as sqlite_files
from tidegate.storage.sqlite.compaction import compact, erase, unlink
from tidegate.storage.sqlite.compartment import SqliteCompartment
from tidegate.storage.sqlite.connection import DriverError, close, damaged, driver_errors, storage_error
from tidegate.storage.sqlite.control_store import SqliteControlStore
from tidegate.storage.sqlite.files import FileIdentity, HomeFiles, exists, open_compartment
from tidegate.storage.sqlite.filesystems import filesystem_of, is_coherent
from tidegate.storage.sqlite.owner_compartment import SqliteOwnerCompartment
from tidegate.storage.sqlite.places import Places
from tidegate.storage.sqlite.witness import open_witnesses

VIEWS_MAX = 32
"""Views in use at once, and as many kept open for later: at most 4 files, 12 descriptors each. More calls wait."""

_LOOK_SECONDS = 1.0  # whoever waits for a view looks so often whether one was lost

_Place = tuple[str, Level]
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
        _require_coherent(filesystem(home))
        self._files = HomeFiles(home)
        self._synchronous = durability.upper()
        self.audit_secret = secret
        self._locks: defaultdict[_Place, threading.Lock] = defaultdict(threading.Lock)
        self._pool = _Pool(self._open)
        self._known: set[str] = set()
        self.control = SqliteControlStore(self._files)
        self._places = Places(self._files, self.control, ids)

    def view(self, agent: str, taint: Level) -> AbstractContextManager[View]:
        if not self._pool.holds((agent, taint)) and not self._has_compartments(agent):
            return nullcontext(View(tuple(InMemoryCompartment(agent, level) for level in _visible(taint))))
        return _Lease(self._pool, (agent, taint))

    def writable_view(self, agent: str, taint: Level) -> AbstractContextManager[WritableView]:
        if not self._pool.holds((agent, taint)) and not self._has_compartments(agent):
            self._places.make(agent)
        return _Lease(self._pool, (agent, taint), writing=True)

    def witnesses(self, agent: str) -> AbstractContextManager[Sequence[Witness]]:
        self._pool.require_own_process()
        return open_witnesses(self._files, agent) if self._has_compartments(agent) else nullcontext(())

    def claim(self, agent: str, ids: Mapping[Level, str]) -> bool:
        self._pool.require_own_process()
        self._has_compartments(agent)  # what was lost is not made good by a backup: the owner erases the agent first
        return self._places.claim(agent, ids)

    @contextmanager
    def owner_compartment(self, agent: str, level: Level) -> Iterator[OwnerCompartment]:
        self._pool.require_own_process()
        try:
            with (
                driver_errors(),
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
        # The highest first: an erasure cut short leaves the least behind.
        there = [level for level in reversed(Level) if exists(self._files.compartment(agent, level))]
        for level in () if dry_run else there:
            with self._locks[agent, level]:
                erase(self._files.compartment(agent, level))
        if not dry_run:
            self._files.end_making(agent)
        self._known.discard(agent)
        self._pool.forget(agent)
        return there

    def discard(self, agent: str) -> None:
        self._pool.require_own_process()
        self._files.begin_making(agent)  # cut short, what is left counts as never having been
        try:
            for level in reversed(Level):
                unlink(self._files.compartment(agent, level))
        except OSError:
            raise StorageError("home: cannot be written; run it again") from None
        self._files.end_making(agent)
        self._known.discard(agent)
        self._pool.forget(agent)

    def has(self, agent: str) -> bool:
        return self._files.has_compartments(agent)

    def keeps(self, path: Path) -> bool:
        return self._files.keeps(path)

    def agents(self) -> list[str]:
        return self._files.agents()

    def close(self) -> None:
        if self._pool.is_own_process():  # else all is the other's, and its locks may be held by nobody here
            self._pool.close()
            self.control.close()

    def _has_compartments(self, agent: str) -> bool:
        """Return whether the agent has files. Raises: StorageError when they were lost: new ones are no substitute."""
        if self._files.has_compartments(agent):
            self._known.add(agent)
            return True
        if agent in self._known or not all(row.ended for row in self.control.sessions(agent)):
            if self._files.has_compartments(agent):  # made meanwhile, before its first session was
                return True
            raise StorageError("the files of this agent are missing; run `tidegate doctor`")
        return False

    def _open(self, place: _Place) -> _Opened:
        agent, taint = place
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
        return _Opened(WritableView(tuple(opened), opened[0]), tuple(opened), files, log, lasting, time.monotonic())

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
    """Return the levels of a view, its own first. Levels above are not opened, so nothing can read them (P5)."""
    return tuple(level for level in reversed(Level) if level.can_flow_to(taint))


def _require_coherent(filesystem: str | None) -> None:
    if not is_coherent(filesystem):
        raise StorageError(f"home: lies on {filesystem}, whose locks cannot be trusted; use a local disk")


@dataclass(slots=True)
class _Opened:
    """The files of one view, open: its own read-write, those below it read-only. lasting: it may be kept for later."""

    view: WritableView
    compartments: tuple[SqliteCompartment, ...]
    files: tuple[FileIdentity, ...]
    log: FileIdentity | None
    lasting: bool
    checked_at: float

    def still_named(self) -> bool:
        """Return whether each file had its name at the last check, which is not long ago."""
        now = time.monotonic()
        if now - self.checked_at < sqlite_files.CHECK_SECONDS:
            return True
        self.checked_at = now
        return all(file.holds() for file in self.files)

    def own_file_named(self) -> bool:
        """Return whether the file that was just written to, and its log, still have their names."""
        return self.files[0].holds() and (self.log is None or self.log.holds())

    def close(self) -> None:
        self.close_lower()
        self.close_own()

    def close_lower(self) -> None:
        for compartment in self.compartments[1:]:
            compartment.close()

    def close_own(self) -> None:
        self.compartments[0].close()


class _Pool:
    """Open views, the least recently used closed first. A call that finds all in use waits."""

    def __init__(self, open_view: Callable[[_Place], _Opened]) -> None:
        self._open_view = open_view
        self._lock = threading.RLock()  # not the Condition: entering that is two steps, and a signal may come between
        self._freed = threading.Condition(self._lock)
        self._leases: dict[int, weakref.ref[_Lease]] = {}
        self._idle: OrderedDict[_Place, list[_Opened]] = OrderedDict()  # a list is empty only after a signal
        self._process = os.getpid()
        self._closed = False

    def require_own_process(self) -> None:
        """Raise StorageError after a fork: nobody holds the locks it inherits, so going on would do damage, or hang."""
        if not self.is_own_process():
            raise StorageError("the store was opened before this process was forked; open it again")

    def is_own_process(self) -> bool:
        """Return whether this process opened it all, and is not a fork of one that did."""
        return os.getpid() == self._process

    def holds(self, place: _Place) -> bool:
        """Return whether an open view of this place waits to be taken."""
        return bool(self._idle.get(place))

    def take(self, place: _Place, lease: _Lease) -> _Opened:
        self.require_own_process()
        try:
            with self._lock:
                while len(self._leases) >= VIEWS_MAX and not self._forget_lost():
                    self._freed.wait(_LOOK_SECONDS)
                if self._closed:
                    raise StorageError("the store is closed")
                self._leases[id(lease)] = weakref.ref(lease)
                opened = self._take_out(place, -1) if self.holds(place) else None
            if opened is not None and not opened.still_named():
                opened.close()
                opened = None
            return opened or self._open_view(place)
        except BaseException:
            with self._lock:
                self._free(lease)
            raise

    def give_back(self, place: _Place, lease: _Lease, opened: _Opened, *, keep: bool) -> None:
        with self._lock:
            surplus = opened if self._closed or not keep or not opened.lasting else self._put_away(place, opened)
            if surplus is None:
                self._free(lease)
                return
        surplus.close()
        with self._lock:
            self._free(lease)

    def _free(self, lease: _Lease) -> None:
        """Let one more be taken. Under the lock."""
        self._leases.pop(id(lease), None)
        self._freed.notify()

    def _forget_lost(self) -> bool:
        """Forget leases that ended without being given back, as after a signal; return whether any did. Locked."""
        lost = [number for number, lease in self._leases.items() if lease() is None]
        for number in lost:
            del self._leases[number]
        return bool(lost)

    def forget(self, agent: str) -> None:
        """Close what is kept open of an agent."""
        with self._lock:
            places = [place for place in self._idle if place[0] == agent]
            idle = [opened for place in places for opened in self._idle.pop(place)]
        for opened in idle:
            opened.close()

    def _put_away(self, place: _Place, opened: _Opened) -> _Opened | None:
        surplus = None
        if sum(map(len, self._idle.values())) >= VIEWS_MAX:
            surplus = self._take_out(next(filter(self.holds, self._idle)), 0)
        self._idle.setdefault(place, []).append(opened)
        self._idle.move_to_end(place)
        return surplus

    def _take_out(self, place: _Place, which: int) -> _Opened:
        opened = self._idle[place].pop(which)
        if not self._idle[place]:
            del self._idle[place]
        return opened

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [opened for each in self._idle.values() for opened in each]
            self._idle.clear()
        # Whoever closes a file last, and may write, puts its log away: so those that may not go first.
        for opened in idle:
            opened.close_lower()
        for opened in idle:
            opened.close_own()


class _Lease:
    """A view for the length of one call. What the driver raises meanwhile leaves as a `StorageError`.

    A signal can keep any step from being taken, `__exit__` too: then all goes with the lease.
    """

    __slots__ = ("__weakref__", "_opened", "_place", "_pool", "_writing")

    def __init__(self, pool: _Pool, place: _Place, *, writing: bool = False) -> None:
        self._pool = pool
        self._place = place
        self._writing = writing

    def __enter__(self) -> WritableView:
        self._opened = self._pool.take(self._place, self)
        return self._opened.view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = self._writing and error is None and not self._opened.own_file_named()
        # After any other error, an interrupt above all, nobody knows what a connection is in the middle of.
        sound = error is None or (isinstance(error, TidegateError) and not isinstance(error, StorageError))
        self._pool.give_back(self._place, self, self._opened, keep=sound and not lost)
        if lost:
            raise StorageError("a file of the store was removed while in use, and the last change with it")
        if isinstance(error, DriverError):
            raise storage_error(error) from None
        if isinstance(error, UnicodeDecodeError):  # bytes in the file that are not text
            raise damaged() from None
