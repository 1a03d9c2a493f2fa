"""Dicts that change together: the tables of the in-memory provider."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Transactional:
    """One lock, and a list of the changes to undo when the current transaction fails."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._undo: list[Callable[[], object]] | None = None

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._lock:
            yield

    @contextmanager
    def transaction(self, *, durable: bool = False) -> Iterator[None]:
        with self._lock:
            undo: list[Callable[[], object]] = []
            self._undo = undo
            try:
                yield
            except BaseException:
                for each in reversed(undo):
                    each()
                raise
            finally:
                self._undo = None

    def _set(self, table: dict[K, V], key: K, value: V) -> None:
        with self._lock:
            self._remember(table, key)
            table[key] = value

    def _remove(self, table: dict[K, V], key: K) -> None:
        with self._lock:
            self._remember(table, key)
            table.pop(key, None)

    def _remember(self, table: dict[K, V], key: K) -> None:
        """Note how to undo a change. The lock is held, so the transaction, if any, is this thread's."""
        if self._undo is None:
            return
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.pop(key, None))
