"""Errors of the disk at every operation: nothing acknowledged is lost, no taint falls, no change goes unentered."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from random import Random
from threading import Thread

import apsw
import pytest
from tests.storage.conftest import SHARED
from tests.storage.faulty import Disk, FaultyFiles, faulty_files, write
from tests.storage.scene import DEEP, START, bytes_of, database, opened
from tests.storage.soundness import unsound
from tests.storage.story import STEPS, Step, acknowledged, goes_on, prepare, tell, wrong

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification, Pin
from tidegate.session import Session
from tidegate.storage.sqlite import connection as sqlite_connection
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

pytestmark = pytest.mark.long
ORDERS = [
    *(("write", error) for error in ("ioerr", "full")),
    *((operation, "ioerr") for operation in ("sync", "truncate", "lock", "open", "delete", "read")),
    ("lock", "busy"),
]
STRIDES = {"write": 4, "read": 7}
"""Of the most frequent operations every so many fail in the usual run, and all in the deep one."""


@pytest.fixture(scope="module")
def prepared() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tidegate-", dir=SHARED if SHARED.is_dir() else None))
    prepare(folder / "home")
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_TIMEOUT_MS", 1)


def copy(prepared: Path, home: Path) -> Path:
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(prepared, home)
    return home


# An error at every operation


@pytest.mark.usefixtures("_no_patience")
@pytest.mark.parametrize(
    "lasting", [False, True] if DEEP else [False], ids=lambda lasting: "lasting" if lasting else "once"
)
@pytest.mark.parametrize(("operation", "error"), ORDERS)
def test_an_error_at_any_operation_loses_nothing_lowers_nothing_and_heals(
    prepared: Path, home: Path, operation: str, error: str, lasting: bool
) -> None:
    number, stride = 0, 1 if DEEP else STRIDES.get(operation, 1)
    while True:
        copy(prepared, home)
        with faulty_files() as files:
            files.fail(operation, number, error, lasting=lasting)
            done = tell(home)
            fired = files.fired
        assert (wrong(home, done), goes_on(home)) == ([], True), f"{operation} {number}"
        if not fired:
            assert done == STEPS
            break
        number += stride
    assert number > 2


@pytest.mark.parametrize(
    ("operation", "error", "says"), [("write", "full", "the disk is full"), ("write", "ioerr", "the disk failed")]
)
def test_a_full_or_broken_disk_is_said_and_once_there_is_room_all_goes_on(
    prepared: Path, home: Path, operation: str, error: str, says: str
) -> None:
    copy(prepared, home)
    with faulty_files() as files, opened(home, prefix="x") as store:
        session = store.session("assistant", "main")
        session.memory.get("old")
        files.fail(operation, 0, error, lasting=True)
        for act in (
            lambda: session.memory.save("new", "new words"),
            lambda: session.memory.delete("old"),
            lambda: session.raise_taint(Level.INTERNAL),
        ):
            with pytest.raises(StorageError, match=f"{says}; nothing was changed"):
                act()
        assert [memory.key for memory in session.memory.list()] == ["gone", "kept", "old"]
        assert {hit.key for hit in session.memory.search("words")} == {"gone", "kept", "old"}
        assert session.taint is Level.PUBLIC
        files.heal()
        session.memory.save("new", "new words")
        session.raise_taint(Level.INTERNAL)
    assert wrong(home, []) == []


def test_a_home_that_cannot_be_made_for_want_of_room_is_made_later(home: Path) -> None:
    number = 0
    while True:
        shutil.rmtree(home, ignore_errors=True)
        with faulty_files() as files:
            files.fail("write", number, "full")
            with opened(home) as store:
                done = acknowledged(
                    lambda store: store.session("assistant", "main").memory.save("k", "words") and None, store
                )
            fired = files.fired
        assert goes_on(home)
        assert [name for name in bytes_of(home) if ".new" in name] == []
        if not fired:
            assert done
            break
        number += 1 if DEEP else 5
    assert number > 10


# A kill at every operation


def test_a_kill_at_any_write_or_sync_loses_nothing_and_the_next_start_works(prepared: Path, home: Path) -> None:
    copy(prepared, home)
    done: list[Step] = []
    with faulty_files() as files:
        deaths = Deaths(files, home, stride=1 if DEEP else 4)
        with opened(home, prefix="later") as store:
            for step in STEPS:
                step(store)
                done.append(step)
                deaths.acknowledged = list(done)
    assert len(deaths.all) > (100 if DEEP else 25)
    for name, killed, acknowledged_by_then in deaths.all:
        lay_out(killed, home)
        assert (name, wrong(home, acknowledged_by_then), goes_on(home)) == (name, [], True)


def test_a_kill_while_a_home_is_made_heals_at_any_point(home: Path) -> None:
    with faulty_files() as files:
        deaths = Deaths(files, home, stride=1 if DEEP else 7)
        with opened(home) as store:
            store.session("assistant", "main").memory.save("k", "words")
    assert len(deaths.all) > 15
    for name, killed, _ in deaths.all:
        lay_out(killed, home)
        assert (name, goes_on(home), unsound(home)) == (name, True, [])


class Deaths:
    """What a kill would have left, at every `stride`-th operation that changes a file."""

    def __init__(self, files: FaultyFiles, home: Path, *, stride: int) -> None:
        self.all: list[tuple[str, dict[str, bytes], list[Step]]] = []
        self.acknowledged: list[Step] = []
        self._home = home
        self._stride = stride
        self._seen = 0
        files.before = self._look

    def _look(self, operation: str, path: Path) -> None:
        if operation not in ("write", "sync", "truncate", "delete", "open"):
            return
        self._seen += 1
        if self._seen % self._stride == 0:
            # The memory that processes share does not outlive the last of them.
            left = {name: data for name, data in bytes_of(self._home).items() if not name.endswith("-shm")}
            self.all.append((f"{operation} {self._seen} of {path.name}", left, self.acknowledged))


def lay_out(files: dict[str, bytes], home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    for name, data in files.items():
        write(home / name, data)


# A loss of power


@pytest.mark.parametrize("survives", [0.0, 0.3, 0.7])
def test_a_raised_taint_survives_a_loss_of_power(prepared: Path, home: Path, survives: float) -> None:
    copy(prepared, home)
    chance = Random(f"power {survives}")
    done: list[Step] = []
    losses: list[tuple[str, dict[str, bytes], list[Step]]] = []

    with faulty_files() as files, opened(home, prefix="later") as store:
        files.disk = disk = Disk(home)

        def lose_power(operation: str, path: Path) -> None:
            if operation in ("write", "sync", "truncate", "delete") and (DEEP or chance.random() < 0.2):
                left = disk.after_loss_of_power(chance, survives)
                losses.append((f"{operation} of {path.name}", left, list(done)))

        files.before = lose_power
        for step in STEPS:
            step(store)
            done.append(step)
            losses.append((step.__name__, disk.after_loss_of_power(chance, survives), list(done)))
        files.before = files.disk = None
    for name, left, acknowledged_by_then in losses:
        lay_out(left, home)
        assert (name, wrong(home, acknowledged_by_then, power=True)) == (name, [])


def test_with_full_durability_a_save_survives_a_loss_of_power_too(prepared: Path, home: Path) -> None:
    copy(prepared, home)
    losses = []
    with faulty_files() as files, opened(home, prefix="later", durability="full") as store:
        files.disk = disk = Disk(home)
        for step in STEPS:
            step(store)
            losses.append(disk.after_loss_of_power(Random(0), 0.0))
        files.disk = None
    for count, left in enumerate(losses, start=1):
        lay_out(left, home)
        assert wrong(home, STEPS[:count]) == []


# Locks


@pytest.mark.usefixtures("_no_patience")
@pytest.mark.parametrize("name", ["agents/assistant/public.db", "control.db"])
def test_a_database_that_stays_locked_is_said_to_be_busy_and_reads_go_on(prepared: Path, home: Path, name: str) -> None:
    copy(prepared, home)
    holder = apsw.Connection(str(home / name))
    with opened(home, prefix="x") as store:
        session = store.session("assistant", "main")
        holder.execute("BEGIN IMMEDIATE")
        refused = (
            (lambda: session.memory.save("new", "new words"))
            if "public" in name
            else (lambda: session.raise_taint(Level.INTERNAL))
        )
        for _ in range(2):
            with pytest.raises(StorageError) as caught:
                refused()
            assert caught.value.message == "the store is busy; try again"
        assert session.memory.get("old") is not None
        assert len(session.memory.search("words")) == 3
        assert len(list(session.memory.list())) == 3
        assert session.taint is Level.PUBLIC
        holder.execute("ROLLBACK")
        refused()
    holder.close()
    assert wrong(home, []) == []


def test_a_lock_on_a_higher_level_is_never_noticed_below(prepared: Path, home: Path) -> None:
    copy(prepared, home)
    holder = apsw.Connection(str(database(home, Level.RESTRICTED)))
    holder.execute("BEGIN EXCLUSIVE")
    with opened(home, prefix="x") as store:
        session = store.session("assistant", "main")
        session.memory.save("new", "new words")
        session.raise_taint(Level.CONFIDENTIAL)
        session.memory.save("high", "x")
    holder.execute("ROLLBACK")
    holder.close()


ACTS_AT_CONFIDENTIAL: dict[str, Callable[[Store], object]] = {
    "raise": lambda store: store.session("assistant", "main").raise_taint(Level.CONFIDENTIAL),
    "open": lambda store: store.session("assistant", "other", Level.CONFIDENTIAL),
    "new": lambda store: store.sessions.new("assistant", "other", Level.CONFIDENTIAL),
    "ceiling": lambda store: store.sessions.set_ceiling(_high(store).id, Level.CONFIDENTIAL),
    "end": lambda store: _high(store).end(),
    "call": lambda store: store.flow.dispatch(
        store.session("assistant", "main").id,
        "tool",
        Classification(source=Level.CONFIDENTIAL, sink=Level.CONFIDENTIAL),
        Pin.TRUSTED,
    ),
}


def _high(store: Store) -> Session:
    return store.session("assistant", "high")


@pytest.mark.parametrize("name", ACTS_AT_CONFIDENTIAL)
def test_p5_p6_whoever_waits_for_a_compartment_keeps_nobody_from_the_control_store(
    prepared: Path, home: Path, name: str
) -> None:
    copy(prepared, home)
    with opened(home, prefix="x") as store:
        store.session("assistant", "high", Level.CONFIDENTIAL)
        holder = apsw.Connection(str(database(home, Level.CONFIDENTIAL)))
        holder.execute("BEGIN IMMEDIATE")
        waiting = Thread(target=ACTS_AT_CONFIDENTIAL[name], args=(store,))
        waiting.start()
        assert isinstance(store._provider, SqliteProvider)
        while waiting.is_alive() and not store._provider._locks["assistant", Level.CONFIDENTIAL].locked():
            pass
        with closing(apsw.Connection(str(home / "control.db"))) as control:  # which waits for nothing
            control.execute("BEGIN IMMEDIATE")
            control.execute("ROLLBACK")
        assert store.session("neighbour", "main").raise_taint(Level.INTERNAL) is Level.INTERNAL
        assert waiting.is_alive()
        holder.execute("ROLLBACK")
        waiting.join()
        holder.close()
    assert unsound(home) == []


def test_the_usual_patience_with_a_lock_is_ten_seconds() -> None:
    assert sqlite_connection.BUSY_TIMEOUT_MS == 10_000


# The clock


def test_a_clock_set_back_moves_no_time_of_a_memory_backwards_and_breaks_no_chain(home: Path) -> None:
    times = iter([START - timedelta(days=number) for number in range(100)])
    with Store(SqliteProvider(home), toolset=TOOLS, clock=lambda: next(times)) as store:
        session = store.session("assistant", "main")
        session.memory.save("old", "one")
        first = session.memory.get("old")
        session.memory.save("old", "two")
        session.memory.save("old", "two")
        second = session.memory.get("old")
        assert first is not None
        assert second is not None
        assert second.updated_at >= first.updated_at
        assert second.created_at <= second.updated_at
        assert second.version == 2
        session.raise_taint(Level.INTERNAL)
        assert session.taint is Level.INTERNAL
        session.memory.save("kept", "kept words")
        store.session("assistant", "doomed")
    with opened(home, prefix="x") as store:
        assert store.session("assistant", "main").taint is Level.INTERNAL
        assert [memory.key for memory in store.session("assistant", "main").memory.list()] == ["kept", "old"]


@pytest.mark.parametrize("time", [datetime.min, datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.max])
def test_a_clock_that_is_centuries_wrong_breaks_no_chain(home: Path, tmp_path: Path, time: datetime) -> None:
    times = [time.replace(tzinfo=UTC)]
    with Store(SqliteProvider(home), toolset=TOOLS, clock=lambda: times[-1]) as store:
        session = store.session("assistant", "main")
        session.memory.save("k", "then")
        times.append(START)
        session.memory.save("k", "now")
        shown = [line.entry.event.at for line in store.owner("assistant").find_audit_lines()]
        assert shown == [times[0], times[0], START]
        store.transfer("assistant").backup(tmp_path / "backup")
        before = store.owner("assistant").verify()
    with Store(SqliteProvider(tmp_path / "restored"), toolset=TOOLS, clock=lambda: START) as store:
        store.transfer("assistant").restore_backup(tmp_path / "backup")
        assert store.owner("assistant").verify() == before
    assert all(verdict.holds for verdict in before)


def test_a_clock_of_another_zone_gives_the_same_times_and_a_chain_that_holds(home: Path) -> None:
    zone = timezone(timedelta(hours=5, minutes=45))
    with Store(SqliteProvider(home), toolset=TOOLS, clock=lambda: START.astimezone(zone)) as store:
        session = store.session("assistant", "main")
        session.memory.save("old", "one")
        found = session.memory.get("old")
        assert found is not None
        assert (found.created_at, found.created_at.tzinfo) == (START, UTC)
    assert unsound(home) == []


def test_p10_a_restore_on_a_full_disk_can_be_done_again(prepared: Path, tmp_path: Path) -> None:
    backup, number = tmp_path / "backup", 0
    with opened(copy(prepared, tmp_path / "full"), prefix="x") as store:
        store.transfer("assistant").backup(backup)
    while True:
        home = tmp_path / f"home-{number}"
        with faulty_files() as files, opened(home, prefix="y") as store:
            files.fail("write", number, "full", lasting=True)
            done = acknowledged(lambda store: store.transfer("assistant").restore_backup(backup) and None, store)
        with opened(home, prefix="z") as store:
            if not done:
                store.transfer("assistant").restore_backup(backup)
            assert all(verdict.holds for verdict in store.owner("assistant").verify())
        assert unsound(home) == []
        if not files.fired:
            break
        number += 1 if DEEP else 17
    assert number > 10
