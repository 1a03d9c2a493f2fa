"""The pool of open views: each is lent for one call, then kept open for later."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from tidegate.errors import StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.storage.base import WritableView
from tidegate.storage.sqlite import files
from tidegate.storage.sqlite.compartment import SqliteCompartment
from tidegate.storage.sqlite.failures import DriverError, damaged, storage_error
from tidegate.storage.sqlite.files import FileIdentity

VIEWS_MAX = 32
"""Maximum number of views in use, and of idle ones: each has up to 4 files, 12 descriptors. More calls wait."""

_LOOK_SECONDS = 1.0  # how often a waiting call checks for lost leases

ViewKey = tuple[str, Level]
"""The agent and the taint of a view."""


@dataclass(slots=True)
class OpenView:
    """The files of one view, open: its own read-write, those below it read-only. lasting: it may be kept for later."""

    view: WritableView
    compartments: tuple[SqliteCompartment, ...]
    files: tuple[FileIdentity, ...]
    log: FileIdentity | None
    lasting: bool
    checked_at: float

    def still_named(self) -> bool:
        """Return whether each file had its name at the last, recent check."""
        now = time.monotonic()
        if now - self.checked_at < files.CHECK_SECONDS:
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


class ViewPool:
    """Open views; the least recently used is closed first. A call waits when all are in use."""

    def __init__(self, open_view: Callable[[ViewKey], OpenView]) -> None:
        self._open_view = open_view
        self._lock = threading.RLock()  # not the Condition: it is entered in two steps, with room for a signal
        self._freed = threading.Condition(self._lock)
        self._leases: dict[int, weakref.ref[Lease]] = {}
        self._idle: OrderedDict[ViewKey, list[OpenView]] = OrderedDict()  # a list is empty only after a signal
        self._process = os.getpid()
        self._closed = False

    def require_own_process(self) -> None:
        """Raise StorageError after a fork: no thread holds the inherited locks, so going on does damage, or hangs."""
        if os.getpid() != self._process:
            raise StorageError("the store was opened before this process was forked; open it again")

    def is_own_process(self) -> bool:
        """Return whether this process opened the pool, and is not a fork."""
        return os.getpid() == self._process

    def holds(self, key: ViewKey) -> bool:
        """Return whether an open view with this key is idle."""
        return bool(self._idle.get(key))

    def take(self, key: ViewKey, lease: Lease) -> OpenView:
        self.require_own_process()
        try:
            with self._lock:
                while len(self._leases) >= VIEWS_MAX and not self._forget_lost():
                    self._freed.wait(_LOOK_SECONDS)
                if self._closed:
                    raise StorageError("the store is closed")
                self._leases[id(lease)] = weakref.ref(lease)
                idle = self._idle.get(key)
                opened = idle.pop() if idle else None
                if not idle:
                    self._idle.pop(key, None)
            if opened is not None and not opened.still_named():
                opened.close()
                opened = None
            return opened or self._open_view(key)
        except BaseException:
            with self._lock:
                self._free(lease)
            raise

    def give_back(self, key: ViewKey, lease: Lease, opened: OpenView, *, keep: bool) -> None:
        with self._lock:
            surplus = opened if self._closed or not keep or not opened.lasting else self._put_away(key, opened)
            if surplus is None:
                self._free(lease)
                return
        surplus.close()
        with self._lock:
            self._free(lease)

    def _free(self, lease: Lease) -> None:
        """Let one more view be taken. The lock is held."""
        if len(self._leases) >= VIEWS_MAX:  # else nobody waits
            self._freed.notify_all()
        self._leases.pop(id(lease), None)

    def _forget_lost(self) -> bool:
        """Forget leases that were never given back, as after a signal; return whether there were any. Locked."""
        lost = [number for number, lease in self._leases.items() if lease() is None]
        for number in lost:
            del self._leases[number]
        return bool(lost)

    def forget(self, agent: str) -> None:
        """Close the idle views of an agent."""
        with self._lock:
            keys = [key for key in self._idle if key[0] == agent]
            idle = [opened for key in keys for opened in self._idle.pop(key)]
        for opened in idle:
            opened.close()

    def _put_away(self, key: ViewKey, opened: OpenView) -> OpenView | None:
        surplus = None
        if sum(map(len, self._idle.values())) >= VIEWS_MAX:
            eldest = next(filter(self.holds, self._idle))
            surplus = self._idle[eldest].pop(0)
            if not self._idle[eldest]:
                del self._idle[eldest]
        self._idle.setdefault(key, []).append(opened)
        self._idle.move_to_end(key)
        return surplus

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle = [opened for each in self._idle.values() for opened in each]
            self._idle.clear()
        # The last connection to close, if it may write, removes the log: so read-only ones close first.
        for opened in idle:
            opened.close_lower()
        for opened in idle:
            opened.close_own()


class Lease:
    """A view for one call. The driver's errors leave it as a `StorageError`.

    A signal can prevent any step, even `__exit__`: then everything is freed with the lease.
    """

    __slots__ = ("__weakref__", "_key", "_opened", "_pool", "_writing")

    def __init__(self, pool: ViewPool, key: ViewKey, *, writing: bool = False) -> None:
        self._pool = pool
        self._key = key
        self._writing = writing

    def __enter__(self) -> WritableView:
        self._opened = self._pool.take(self._key, self)
        return self._opened.view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = self._writing and error is None and not self._opened.own_file_named()
        # After any other error, above all an interrupt, the state of a connection is unknown.
        sound = error is None or (isinstance(error, TidegateError) and not isinstance(error, StorageError))
        self._pool.give_back(self._key, self, self._opened, keep=sound and not lost)
        if lost:
            raise StorageError(
                "a database was removed while in use; the last change is lost; put the file back, or run "
                "`tidegate doctor`"
            )
        if isinstance(error, DriverError):
            raise storage_error(error, self._opened.files[0].path) from None
        if isinstance(error, UnicodeDecodeError):  # bytes in the file that are not text
            raise damaged() from None
