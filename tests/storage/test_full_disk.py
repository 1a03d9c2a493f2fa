"""A disk that is really full: what starts then reads, purges and erases, and nothing is called damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from tests.server.mcp_peer import serving

import tidegate
from tidegate.audit.chain import Action
from tidegate.errors import StorageError
from tidegate.owner.doctor import Doctor
from tidegate.policy.levels import Level
from tidegate.server.served_session import ServedSession, SessionOpener
from tidegate.storage.sqlite.disk import RESERVE_BYTES
from tidegate.store import utc_now

AGENT = "assistant"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def home(disk: Path) -> Path:
    """A home with memories, of which one is deleted, on a disk that has no room left."""
    with tidegate.open(disk / "home") as store:
        memory = store.session(AGENT, "main", Level.PUBLIC).memory
        for number in range(20):
            memory.save(f"k{number}", "some words " * 50)
        memory.delete("k0")
        store.session(AGENT, "high", Level.RESTRICTED).memory.save("h", "high words")
    fill(disk)
    return disk / "home"


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


def problems(home: Path) -> list[tuple[str, str]]:
    found = Doctor(home, utc_now, False, lambda _: None).examine()
    return [(each.problem, each.advice) for each in found]


def test_what_starts_on_a_full_disk_reads_time_after_time_and_no_save_takes_the_room_kept_back(home: Path) -> None:
    for _ in range(20):
        with tidegate.open(home) as store:
            session = store.session(AGENT, "high", Level.PUBLIC)
            assert len(list(session.memory.list())) == 20
            for _ in range(3):
                with pytest.raises(StorageError, match="the disk is full"):
                    session.memory.save("new", "x" * 90_000)
        fill(home.parent)
    with tidegate.open(home) as store:
        assert all(each.complete for each in store.owner(AGENT).purge(timedelta()))


def test_a_server_that_starts_on_a_full_disk_says_so_and_serves_once_there_is_room(home: Path) -> None:
    with (home / "reserve").open("r+b") as file:
        file.truncate()
    fill(home.parent)
    opener = SessionOpener(partial(tidegate.open, home), AGENT, "new", Level.PUBLIC)
    with closing(opener), serving(ServedSession(opener)) as peer:
        assert "the disk is full" in peer.greet().call("memory_get", key="k1")["error"]["message"]
        (home.parent / "filler").unlink()
        assert peer.call("memory_get", key="k1")["found"] is True


def test_a_raise_that_stands_in_the_log_is_seen_on_a_full_disk(disk: Path) -> None:
    script = (
        "import os, sys, tidegate\n"
        "from tidegate.policy.levels import Level\n"
        "store = tidegate.open(sys.argv[1])\n"
        "store.session('assistant', 'main').raise_taint(Level.CONFIDENTIAL)\n"
        "os._exit(0)\n"  # no close: the log stays, as after a kill
    )
    subprocess.run([sys.executable, "-c", script, disk / "home"], check=True)
    assert (disk / "home" / "control.db-wal").stat().st_size > 0
    (disk / "home" / "control.db-shm").unlink()
    fill(disk)
    with tidegate.open(disk / "home") as store:
        assert store.session(AGENT, "main", Level.PUBLIC).taint is Level.CONFIDENTIAL


@pytest.mark.parametrize("size", [None, 0, RESERVE_BYTES - 1])
def test_a_home_that_lacks_the_room_kept_back_gets_it_where_there_is_as_much_again(
    tmp_path: Path, size: int | None
) -> None:
    with tidegate.open(tmp_path / "home") as store:
        store.session(AGENT, "main", Level.PUBLIC).memory.save("k", "words")
    reserve = tmp_path / "home" / "reserve"
    if size is None:
        reserve.unlink()  # as of an earlier version
    else:
        with reserve.open("rb+") as file:
            file.truncate(size)  # as after a purge that was killed
    with tidegate.open(tmp_path / "home") as store:
        store.session(AGENT, "main", Level.PUBLIC)
    assert reserve.stat().st_size == RESERVE_BYTES


def test_what_opens_a_home_takes_no_room_that_a_purge_was_given(home: Path) -> None:
    with (home / "reserve").open("rb+") as file:
        file.truncate(0)
    with tidegate.open(home) as store:
        store.session(AGENT, "main", Level.PUBLIC)
    assert (home / "reserve").stat().st_size == 0


def test_a_purge_on_a_full_disk_removes_what_was_deleted_and_enters_it(home: Path) -> None:
    with tidegate.open(home) as store:
        owner = store.owner(AGENT)
        done = list(owner.purge(timedelta()))
        assert (sum(each.memories for each in done), all(each.complete for each in done)) == (1, True)
        assert [verdict.problems for verdict in owner.verify() if verdict.problems] == []
        with store._provider.owner_compartment(AGENT, Level.PUBLIC) as owner_compartment:
            assert Action.PURGE in [entry.event.action for entry in owner_compartment.entries()]
    assert (home / "reserve").stat().st_size == RESERVE_BYTES


def test_an_erase_on_a_full_disk_leaves_nothing(home: Path) -> None:
    with tidegate.open(home) as store:
        assert len(store.owner(AGENT).erase().levels) == 4
        assert store.agents() == []


def test_a_full_disk_is_called_full_and_never_damage(home: Path) -> None:
    with (home / "reserve").open("r+b") as file:
        file.truncate()
    fill(home.parent)
    told = problems(home)
    assert ("it could not be examined: the disk is full", "Free some space, and run this again.") in told
    assert not any("damaged" in problem or "restore" in advice or "reset" in advice for problem, advice in told)
    fill(home.parent)
    with tidegate.open(home) as store, pytest.raises(StorageError, match="the disk is full"):
        store.session(AGENT, "main", Level.PUBLIC)
