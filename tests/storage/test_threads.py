"""One store, many threads: every call is answered, as if they had come one after the other."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
from tests.storage.conformance import together
from tests.storage.scene import DEEP, opened
from tests.storage.soundness import unsound

from tidegate.audit.chain import Action
from tidegate.errors import NotFound, StorageError
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.sqlite import pool
from tidegate.storage.sqlite.files import HomeFiles
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store

MARK = "\x1f"


@pytest.fixture(autouse=True)
def _quick_turns() -> Iterator[None]:
    """Threads change over often, so that their steps mix."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def mixed(store: Store, seed: int, calls: int) -> None:
    """Calls of every verb, of several sessions at several levels; only NotFound may be raised."""
    chance = Random(seed)
    sessions = [store.session("assistant", f"s{level.name}", level) for level in Level]
    for number in range(calls):
        with suppress(NotFound):
            any_call(store, chance.choice(sessions), chance, f"words {seed} {number}", f"t{number % 3}")


def any_call(store: Store, session: Session, chance: Random, content: str, tag: str) -> object:
    memory, key = session.memory, f"k{chance.randrange(12)}"
    calls: list[Callable[[], object]] = [
        lambda: memory.save(key, content, [tag]),
        lambda: memory.save_many([(f"{key}-{each}", content, []) for each in range(3)]),
        lambda: memory.get(key),
        lambda: memory.search("words", max_results=5),
        lambda: list(memory.list(tag)),
        lambda: memory.delete(key),
        lambda: store.session("assistant").memory.get(key),
        lambda: session.taint,
    ]
    return chance.choice(calls)()


def test_c12_thirty_two_threads_of_mixed_calls_leave_a_sound_home(home: Path) -> None:
    with opened(home) as store:
        together([lambda seed=seed: mixed(store, seed, 100) for seed in range(32)])  # type: ignore[misc]
    assert unsound(home) == []


def test_c12_calls_from_an_event_loop_by_way_of_threads_are_all_answered(home: Path) -> None:
    async def run(store: Store) -> Sequence[object]:
        session = store.session("assistant", "main")
        saves = [asyncio.to_thread(session.memory.save, f"k{number}", "words") for number in range(60)]
        searches = [asyncio.to_thread(session.memory.search, "words") for _ in range(20)]
        return await asyncio.gather(*saves, *searches)

    with opened(home) as store:
        answers = asyncio.run(run(store))
        assert len(answers) == 80
        assert len(list(store.session("assistant", "main").memory.list())) == 60
    assert unsound(home) == []


def in_a_fork(act: Callable[[], object]) -> str:
    """What a forked child says of an act: the message of its StorageError, or what came of it."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(act())
        except StorageError as error:
            said = error.message
        except BaseException as error:  # noqa: BLE001 - told to the parent, who judges
            said = repr(error)
        os.write(write, pickle.dumps(said))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return str(pickle.loads(told))


def test_c12_after_a_fork_the_child_is_told_to_open_the_store_itself(home: Path) -> None:
    with opened(home) as store:
        session = store.session("assistant", "main")
        session.memory.save("k", "words")
        ephemeral = store.session("assistant")
        for act in (
            lambda: session.memory.get("k"),
            lambda: session.memory.save("k", "other"),
            lambda: session.memory.search("words"),
            lambda: session.raise_taint(Level.INTERNAL),
            lambda: store.session("assistant", "new"),
            lambda: ephemeral.memory.get("k"),
            lambda: ephemeral.memory.save("k", "other"),
            lambda: store.owner("assistant").purge(timedelta()),
            lambda: store.owner("assistant").restore("k", Level.PUBLIC, version=1),
            lambda: store.owner("assistant").anchor(),
            lambda: store.owner("assistant").reindex(),
            lambda: store.owner("assistant").erase(),
            lambda: store.transfer("assistant").backup(home.parent / "b"),
        ):
            assert "forked" in in_a_fork(act)
        assert session.memory.save("k", "words").version == 1
        assert session.taint is Level.PUBLIC
    assert unsound(home) == []


def test_c12_a_forked_child_closes_the_store_whatever_its_parents_threads_were_at(home: Path) -> None:
    with opened(home) as store:
        session = store.session("assistant", "main")
        session.memory.save("k", "words")
        provider = store._provider
        assert isinstance(provider, SqliteProvider)
        holders = {"_lock": provider._pool, "_writing": provider.control, "_reading": provider.control}
        for name, holder in holders.items():
            thread = threading.Thread(target=getattr(holder, name).acquire)  # which holds it for ever, as in a fork
            thread.start()
            thread.join()

        def close() -> None:
            signal.alarm(10)  # rather than for ever
            store.close()

        assert in_a_fork(close) == "None"
        for name, holder in holders.items():
            setattr(holder, name, threading.RLock())
        provider._pool._freed = threading.Condition(provider._pool._lock)
        assert session.memory.save("k", "words").version == 1
    assert unsound(home) == []


@pytest.mark.parametrize("look", ["has_compartments", "has_control"])
def test_files_that_another_thread_makes_meanwhile_are_not_called_lost(
    home: Path, monkeypatch: pytest.MonkeyPatch, look: str
) -> None:
    real, first = getattr(HomeFiles, look), iter([True])
    with opened(home) as store:

        def looked(self: HomeFiles, *agent: str) -> bool:
            found: bool = real(self, *agent)
            if next(first, False):
                store.session("assistant", "main")
            return found

        monkeypatch.setattr(HomeFiles, look, looked)
        assert store.session("assistant", "main").taint is Level.PUBLIC


def test_parallel_raises_never_lower_a_taint_and_are_entered_once_each(home: Path) -> None:
    with opened(home) as store:
        for turn in range(5):
            session = store.session("assistant", f"s{turn}")
            seen: list[Level] = []

            def climb(seed: int, session: Session = session, seen: list[Level] = seen) -> None:
                chance = Random(seed)
                for _ in range(6):
                    level = chance.choice(list(Level)[: 2 + seed % 3])
                    assert session.raise_taint(level) >= level
                    seen.append(session.taint)
                    assert seen[-1] >= level

            together([lambda seed=seed: climb(seed) for seed in range(8)])  # type: ignore[misc]
            assert session.taint is max(seen)
            assert raises(home, session.id) == steps_to(session.taint, raises(home, session.id))
    assert unsound(home) == []


def raises(home: Path, session: str) -> list[tuple[str, str]]:
    """From which level to which, in order of levels, as the audit says."""
    provider = SqliteProvider(home)
    found = []
    for level in Level:
        with provider.owner_compartment("assistant", level) as owner_compartment:
            for entry in owner_compartment.entries():
                if entry.event.session == session and entry.event.action is Action.RAISE:
                    before, _, after = entry.event.detail.partition(":")[0].partition(" to ")
                    found.append((before, after))
    provider.close()
    return found


def steps_to(taint: Level, found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The same steps, if each begins where the one before ended and the last ends at the taint."""
    level = "PUBLIC"
    for before, after in found:
        assert before == level
        assert Level[after] > Level[before]
        level = after
    assert level == taint.name
    return found


def test_c11_of_two_who_save_one_key_the_last_acknowledged_wins_whole(home: Path) -> None:
    turns = 500 if DEEP else 100
    with opened(home) as store:

        def loop(name: str) -> None:
            session = store.session("assistant", name)
            for number in range(turns):
                session.memory.save("same", f"{name}{MARK}{number}", [name, f"n{number}"])

        blends: list[object] = []

        def watch() -> None:
            session = store.session("assistant", "watcher")
            for _ in range(turns):
                found = session.memory.get("same")
                if found is not None:
                    name, number = found.content.split(MARK)
                    if set(found.tags) != {name, f"n{number}"}:
                        blends.append(found)

        together([lambda: loop("one"), lambda: loop("two"), watch])
        last = store.session("assistant").memory.get("same")
        assert last is not None
        assert last.content in (f"one{MARK}{turns - 1}", f"two{MARK}{turns - 1}")
        assert last.version == 2 * turns
        assert blends == []
    assert unsound(home) == []


def test_c03_parallel_saves_of_distinct_keys_with_one_tag_are_all_listed(home: Path) -> None:
    with opened(home) as store:
        session = store.session("assistant", "main")
        together([lambda number=number: session.memory.save(f"k{number}", "w", ["shared"]) for number in range(20)])  # type: ignore[misc]
        assert len(list(session.memory.list("shared"))) == 20


def test_more_calls_than_views_wait_and_none_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "VIEWS_MAX", 2)
    with opened(home) as store:
        together([lambda seed=seed: mixed(store, seed, 12) for seed in range(10)])  # type: ignore[misc]
    assert unsound(home) == []


def test_what_is_kept_of_views_does_not_grow_with_the_agents(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "VIEWS_MAX", 2)
    with closing(SqliteProvider(home)) as provider:
        for number in (*range(5), 4, 0):
            with provider.writable_view(f"agent-{number}", Level.PUBLIC):
                pass
        kept = [agent for agent, _ in provider._pool._idle]
    assert kept == ["agent-4", "agent-0"]  # the least recently used went first


def test_a_closed_store_says_so(home: Path) -> None:
    store = opened(home)
    session = store.session("assistant", "main")
    session.memory.save("k", "words")
    store.close()
    store.close()
    before = len(os.listdir("/proc/self/fd"))
    for act in (
        lambda: session.memory.get("k"),
        lambda: session.memory.save("k", "other"),
        lambda: session.taint,
        lambda: store.session("assistant", "other"),
        lambda: session.raise_taint(Level.INTERNAL),
    ):
        with pytest.raises(StorageError, match="closed"):
            act()
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_gives_back_every_descriptor_and_thread(home: Path) -> None:
    before, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    for _ in range(3):
        with opened(home, prefix="x") as store:
            for level in Level:
                store.session(f"agent-{level.name.lower()}", level=level).memory.save("k", "words")
    assert (len(os.listdir("/proc/self/fd")), threading.active_count()) == (before, threads)


def test_a_raise_is_seen_by_others_only_once_it_is_durable(home: Path) -> None:
    with opened(home) as store:
        session = store.session("assistant", "main")
    provider = SqliteProvider(home)
    seen: list[Level] = []

    def look() -> None:
        row = provider.control.read(session.id)
        assert row is not None
        seen.append(row.taint)

    with provider.control.transaction():
        provider.control.set_taint(session.id, Level.RESTRICTED)
        together([look])
    together([look])
    provider.close()
    assert seen == [Level.PUBLIC, Level.RESTRICTED]
