"""Design, section 5: the file of a level is the same, byte for byte, with and without activity above it (P5).

The clock and the ids depend on the operation alone. What is compared is the file after its whole log is written back.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import apsw
import pytest
from tests.storage.scene import DEEP, START, database

from tidegate.errors import NotFound
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

SEEDS = range(200 if DEEP else 5)
OPERATIONS = 50
WORDS = "apple pear plum tide gate sea harbour boat rope knot caf\u00e9 \u65e5\u672c running ran the of a".split()


class Moments:
    """Time and ids of one operation, which depend on nothing but its name."""

    def __init__(self) -> None:
        self._name, self._ids = "", 0

    def begin(self, name: str) -> None:
        self._name, self._ids = name, 0

    def clock(self) -> datetime:
        return START + timedelta(seconds=int.from_bytes(self._name.encode()[-4:], "big") % 10_000_000)

    def fresh(self) -> str:
        self._ids += 1
        return f"{self._name} {self._ids}".encode().hex().ljust(32, "0")


def opened(home: Path, moments: Moments) -> Store:
    provider = SqliteProvider(home, ids=lambda: "compartment")
    return Store(provider, toolset=TOOLS, clock=moments.clock, ids=moments.fresh)


def change(session: Session, chance: Random) -> None:
    """One call of a verb that may write."""
    key = f"k{chance.randrange(10)}"
    content = " ".join(chance.choices(WORDS, k=chance.choice((3, 8, 400))))
    tags = chance.sample(["t1", "t2", "t3"], k=chance.randrange(3))
    with suppress(NotFound):
        match chance.randrange(8):
            case 0 | 1 | 2 | 3:
                session.memory.save(key, content, tags)
            case 4:
                session.memory.save_many([(f"{key}{each}", content, tags) for each in range(3)])
            case 5 | 6:
                session.memory.delete(key)
            case _:
                session.call_tool("memory_save", {"key": key, "content": content, "level": "RESTRICTED"})


def look(session: Session, chance: Random) -> None:
    """One call of each verb that reads."""
    session.memory.get(f"k{chance.randrange(10)}")
    session.memory.search(" ".join(chance.sample(WORDS, k=2)))
    list(session.memory.list(chance.choice([None, "t1"])))


def act_above(store: Store, level: Level, moments: Moments, chance: Random, name: str) -> None:
    """Anything that a higher session, or another agent, might do meanwhile."""
    moments.begin(name)
    above = [each for each in Level if each > level]
    session = store.session("assistant", f"high {chance.randrange(3)}", chance.choice(above))
    change(session, chance)
    look(session, chance)
    if chance.random() < 0.2:
        session.raise_taint(Level.RESTRICTED)
    if chance.random() < 0.2:
        change(store.session("other", level=chance.choice(list(Level))), chance)
    if chance.random() < 0.1:
        store.session("assistant", level=chance.choice(above)).memory.save("k1", "hidden " * 2000)


def live(home: Path, level: Level, seed: int, *, above: bool) -> bytes:
    """The bytes of the level's file after a life, with or without activity above."""
    moments, chance = Moments(), Random(f"own {seed}")
    with opened(home, moments) as store:
        moments.begin("open")
        session = store.session("assistant", "own", level)
        for number in range(OPERATIONS):
            if above:
                act_above(store, level, moments, Random(f"above {seed} {number}"), f"above {number}")
            moments.begin(f"own {number}")
            change(session, chance)
            look(session, chance)
            if above and number % 20 == 19:
                with opened(home, moments) as second:
                    act_above(second, level, moments, Random(f"second {seed} {number}"), f"second {number}")
    return written_back(database(home, level))


def written_back(path: Path) -> bytes:
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("SELECT * FROM sqlite_schema").fetchall()
        ((busy, _, _),) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert not busy
    return path.read_bytes()


@pytest.fixture
def folder(home: Path) -> Iterator[Path]:
    home.mkdir()
    yield home
    shutil.rmtree(home)


@pytest.mark.parametrize("level", [Level.PUBLIC, Level.INTERNAL])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_file_is_the_same_with_and_without_activity_above_it(folder: Path, level: Level, seed: int) -> None:
    without = live(folder / "without", level, seed, above=False)
    assert live(folder / "with", level, seed, above=True) == without
    assert len(without) > 100_000


def test_the_comparison_notices_one_change_more(folder: Path) -> None:
    def save_at(home: Path, *levels: Level) -> bytes:
        moments = Moments()
        with opened(home, moments) as store:
            moments.begin("save")
            for level in levels:
                store.session("assistant", level=level).memory.save("k", "words")
        return written_back(database(home))

    one = save_at(folder / "one", Level.PUBLIC)
    assert save_at(folder / "two", Level.PUBLIC, Level.PUBLIC) != one
    assert save_at(folder / "three", Level.INTERNAL) != one
