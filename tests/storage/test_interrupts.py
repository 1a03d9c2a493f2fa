"""A signal's exception at every point where one can come: nothing stays locked, frozen or lost."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import apsw
import pytest
from tests.storage.scene import database, opened
from tests.storage.soundness import unsound

import tidegate
from tidegate.policy.levels import Level
from tidegate.storage.sqlite.connection import SqliteConnection, transaction
from tidegate.storage.sqlite.pool import VIEWS_MAX
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store

pytestmark = pytest.mark.long
WATCHED = (str(Path(tidegate.__file__).parent), contextlib.__file__, threading.__file__)
STRIDES = {"reset": 37}  # each leaves a session, and the next one looks at them all
PLACES_MAX = 100_000  # more than any act has


def interrupted(act: Callable[[], object], place: int) -> bool:
    """Whether the act got as far as to the place of this number, where it is interrupted.

    CPython lets a signal's handler raise as a function begins and after a call of C code, as of a statement of SQL.
    """
    seen, reached = count(), False

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal reached
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(WATCHED):
            return
        if next(seen) == place:
            reached = True
            raise KeyboardInterrupt

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        act()
    except KeyboardInterrupt:
        assert reached
    finally:
        sys.setprofile(before)
    return reached


@pytest.fixture(autouse=True)
def _an_interrupt_may_meet_a_generator_that_is_thrown_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is reported, and goes no further; anything else there is a mistake."""
    report = sys.unraisablehook
    monkeypatch.setattr(
        sys, "unraisablehook", lambda raised: None if raised.exc_type is KeyboardInterrupt else report(raised)
    )


ACTS: dict[str, Callable[[Store, int], Callable[[], object]]] = {
    "save": lambda store, turn: lambda: main(store).memory.save("k", f"words {turn}"),
    "delete": lambda store, turn: _doomed(store, turn),
    "get": lambda store, _: lambda: main(store).memory.get("k"),
    "list": lambda store, _: lambda: main(store).memory.list(),
    "search": lambda store, _: lambda: main(store).memory.search("words"),
    "open": lambda store, turn: lambda: store.session("assistant", f"opened {turn}"),
    "raise": lambda store, turn: _raised(store, turn),
    "reset": lambda store, turn: _reset(store, turn),
    "ceiling": lambda store, turn: lambda: store.sessions.set_ceiling(main(store).id, Level(2 + turn % 2)),
    "reindex": lambda store, _: lambda: store.owner("assistant").reindex(Level.INTERNAL),
}


def main(store: Store) -> tidegate.Session:
    return store.session("assistant", "main", Level.INTERNAL)


def _doomed(store: Store, turn: int) -> Callable[[], object]:
    main(store).memory.save(f"doomed {turn}", "words")
    return lambda: main(store).memory.delete(f"doomed {turn}")


def _raised(store: Store, turn: int) -> Callable[[], object]:
    session = store.session("assistant", f"raised {turn}")
    return lambda: session.raise_taint(Level.INTERNAL)


def _reset(store: Store, turn: int) -> Callable[[], object]:
    session = store.session("assistant", f"reset {turn}")
    return lambda: store.sessions.reset(session.id)


@pytest.fixture
def provider(home: Path) -> Iterator[SqliteProvider]:
    with contextlib.closing(SqliteProvider(home)) as provider:
        yield provider


@pytest.mark.parametrize("name", ACTS)
def test_p6_an_interrupt_at_any_point_leaves_nothing_locked_frozen_or_lost(home: Path, name: str) -> None:
    with opened(home) as store, contextlib.closing(Others(home)) as others:
        main(store).memory.save("k", "words")
        session = store.session("assistant", level=Level.INTERNAL)
        for place in range(0, PLACES_MAX, STRIDES.get(name, 1)):
            if not interrupted(ACTS[name](store, place), place):
                break
            provider = store._provider
            assert isinstance(provider, SqliteProvider)
            assert (place, others.locked(), held(provider)) == (place, [], [])
            others.save(f"words {place}")  # what is read from now on must not be older
            found = session.memory.get("k")
            assert found is not None
            assert (place, found.content) == (place, f"words {place}")
        assert place > 30
        ACTS[name](store, place + 1)()
    assert unsound(home) == []


class Others:
    """Another process, as far as SQLite can tell."""

    def __init__(self, home: Path) -> None:
        self._store = opened(home, prefix="other")
        paths = [home / "control.db", *(database(home, level) for level in Level)]
        self._store.session("assistant").memory.save("k", "words")
        self._files = {path.name: apsw.Connection(str(path)) for path in paths}

    def locked(self) -> list[str]:
        """The files that cannot be written to at once."""
        return [name for name, connection in self._files.items() if not _is_free(connection)]

    def save(self, content: str) -> None:
        self._store.session("assistant", level=Level.INTERNAL).memory.save("k", content)

    def close(self) -> None:
        for connection in self._files.values():
            connection.close()
        self._store.close()


def _is_free(connection: apsw.Connection) -> bool:
    try:
        connection.execute("BEGIN IMMEDIATE")
    except apsw.BusyError:
        return False
    connection.execute("ROLLBACK")
    return True


def held(provider: SqliteProvider) -> list[str]:
    """What this process still holds, though nothing is under way."""
    pool, control = provider._pool, provider.control
    assert control is not None
    connections = [each._db for idle in pool._idle.values() for opened in idle for each in opened.compartments]
    connections += [held.db for held in (control._writer, control._reader) if held is not None]
    found = ["a connection in a transaction" for connection in connections if connection.in_transaction]
    found += ["a lock of a compartment" for lock in provider._locks.values() if lock.locked()]
    found += ["a place in the pool" for lease in pool._leases.values() if lease() is not None]
    locks = {"the pool": pool._lock, "control.db": control._writing, "reading control.db": control._reading}
    return found + [f"the lock of {name}" for name, lock in locks.items() if not _taken_by_another_thread(lock)]


def _taken_by_another_thread(lock: Any) -> bool:
    taken: list[bool] = []

    def take() -> None:
        taken.append(lock.acquire(blocking=False))
        if taken[0]:
            lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    return taken[0]


def test_a_thousand_interrupted_calls_leave_every_place_in_the_pool_to_take(home: Path) -> None:
    with opened(home) as store:
        main(store).memory.save("k", "words")
        places = next(
            place for place in count() if not interrupted(lambda: store.session("assistant").memory.get("k"), place)
        )
        for turn in range(1000):
            interrupted(lambda: store.session("assistant").memory.get("k"), turn % places)
        with contextlib.ExitStack() as all_at_once:
            for _ in range(VIEWS_MAX):
                all_at_once.enter_context(store._provider.view("assistant", Level.PUBLIC))


def test_views_that_were_never_given_back_are_there_to_take_once_nobody_has_them(home: Path) -> None:
    with opened(home) as store:
        main(store).memory.save("k", "words")
        views = [store._provider.view("assistant", Level.PUBLIC) for _ in range(VIEWS_MAX)]
        for view in views:
            view.__enter__()
        del view, views
        assert store.session("assistant").memory.get("k") is None


def test_a_transaction_whose_connection_was_closed_first_has_nothing_to_undo(home: Path) -> None:
    with opened(home) as store:
        main(store).memory.save("k", "words")
    connection = SqliteConnection(str(database(home)))
    with pytest.raises(ZeroDivisionError), transaction(connection):  # noqa: PT012 - the point is where it is raised
        connection.close()
        raise ZeroDivisionError
