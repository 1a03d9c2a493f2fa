"""Several processes on one home: no lost write, no busy error within the time-out, no write seen half."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from random import Random

import pytest
from tests.storage.crowd import crowd, line_of, said
from tests.storage.scene import DEEP, bytes_of, opened, raw
from tests.storage.soundness import unsound
from tests.storage.test_threads import raises, steps_to

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.sqlite import connection as sqlite_connection
from tidegate.storage.sqlite.schema import CONTROL_VERSION


@pytest.fixture
def made(home: Path) -> Path:
    with opened(home, prefix="x") as store:
        store.session("assistant", "main").memory.save("same", "x 0", ["x", "n0"])
    return home


def test_c08_twenty_processes_that_make_a_home_at_once_all_save(home: Path) -> None:
    script = """
with tidegate.open(home) as store:
    session = store.session("assistant", "main", Level.PUBLIC)
    tell(session.id, session.memory.save(f"k{number}", "words").status)
"""
    with crowd(home, script, 20) as processes:
        told = [lines[0].split() for lines in said(processes)]
    assert {status for _, status in told} == {"created"}
    assert len({session for session, _ in told}) == 1
    with opened(home) as store:
        assert {memory.key for memory in store.session("assistant").memory.list()} == {f"k{n}" for n in range(20)}
    assert raw(home / "control.db", "PRAGMA user_version") == [(CONTROL_VERSION,)]
    assert [name for name in bytes_of(home) if ".new" in name] == []
    assert unsound(home) == []


def test_four_writing_processes_lose_nothing_and_are_never_told_busy(made: Path) -> None:
    turns = 300 if DEEP else 60
    script = f"""
with tidegate.open(home) as store:
    session = store.session("assistant", "main")
    for turn in range({turns}):
        session.memory.save(f"k{{number}}-{{turn}}", f"words {{turn}}", ["t"])
        if turn % 7 == 3:
            session.memory.delete(f"k{{number}}-{{turn - 1}}")
        if turn % 5 == 0:
            assert session.memory.get(f"k{{number}}-{{turn}}").content == f"words {{turn}}"
"""
    with crowd(made, script, 4) as processes:
        said(processes)
    expected = {f"k{n}-{turn}" for n in range(4) for turn in range(turns) if (turn + 1) % 7 != 3 or turn + 1 >= turns}
    with opened(made) as store:
        assert {memory.key for memory in store.session("assistant").memory.list()} == {"same", *expected}
    assert unsound(made) == []


def test_c07_maintenance_beside_writers_loses_nothing_and_ends(made: Path) -> None:
    turns = 200 if DEEP else 40
    script = f"""
from pathlib import Path
from tidegate.storage.sqlite.provider import SqliteProvider
if number < 2:
    with tidegate.open(home) as store:
        session = store.session("assistant", "main")
        for turn in range({turns}):
            session.memory.save(f"k{{number}}-{{turn % 10}}", f"words {{turn}}", ["t"])
            assert session.memory.search("words")
else:
    provider = SqliteProvider(Path(home))
    for turn in range({turns // 8}):
        tell(provider.compact("assistant", Level.PUBLIC))
    provider.close()
"""
    with crowd(made, script, 3) as processes:
        assert set(said(processes)[2]) <= {"True", "False"}
    with opened(made) as store:
        found = {memory.key: memory.version for memory in store.session("assistant").memory.list()}
    assert found == {"same": 1, **{f"k{n}-{each}": turns // 10 for n in range(2) for each in range(10)}}
    assert unsound(made) == []


def test_c11_the_last_acknowledged_save_of_two_processes_wins_whole(made: Path) -> None:
    turns = 500 if DEEP else 80
    script = f"""
name = f"p{{number}}"
with tidegate.open(home) as store:
    session = store.session("assistant", "main")
    for turn in range({turns}):
        if number < 2:
            session.memory.save("same", f"{{name}} {{turn}}", [name, f"n{{turn}}"])
        else:
            found = session.memory.get("same")
            who, when = found.content.split()
            assert set(found.tags) == {{who, f"n{{when}}"}}, found
"""
    with crowd(made, script, 3) as processes:
        said(processes)
    with opened(made) as store:
        last = store.session("assistant").memory.get("same")
        assert last is not None
        assert last.content in (f"p0 {turns - 1}", f"p1 {turns - 1}")
        assert last.version == 2 * turns + 1
    assert unsound(made) == []


def test_parallel_raises_of_processes_never_lower_a_taint_and_are_entered_once_each(made: Path) -> None:
    script = """
chance = random.Random(number)
with tidegate.open(home) as store:
    for turn in range(12):
        session = store.session("assistant", f"s{turn}", Level.PUBLIC)
        level = chance.choice(list(Level))
        assert session.raise_taint(level) >= level
        assert session.taint >= level
        tell(session.id, session.taint)
"""
    highest: dict[str, Level] = {}
    with crowd(made, script, 4) as processes:
        for lines in said(processes):
            for session, taint in map(str.split, lines):
                highest[session] = max(highest.get(session, Level.PUBLIC), Level[taint])
    with opened(made) as store:
        rows = {row.id: row for row in store.sessions.list("assistant") if row.name != "main"}
    assert {session: row.taint for session, row in rows.items()} == highest
    assert len(rows) == 12
    for session, row in rows.items():
        assert steps_to(row.taint, raises(made, session)) is not None
    assert unsound(made) == []


def test_a_reset_beside_running_processes_is_noticed_at_their_next_call(made: Path) -> None:
    script = """
with tidegate.open(home) as store:
    session = store.session("assistant", "main")
    saves = 0
    try:
        while True:
            session.memory.save(f"k{number}", str(saves))
            saves += 1
            if saves == 5:
                tell("going")
    except Refused as error:
        tell(error.message)
"""
    with crowd(made, script, 2) as processes:
        assert [line_of(process) for process in processes] == ["going", "going"]
        with opened(made) as store:
            store.sessions.reset(store.sessions.find("assistant", "main").id)
        assert all("session ended" in lines[-1] for lines in said(processes))
    assert unsound(made) == []


def test_what_one_process_deletes_no_other_finds(made: Path) -> None:
    script = """
with tidegate.open(home) as store:
    memory = store.session("assistant", "main").memory
    tell(len(memory.search("canary")), memory.get("d13") is not None, len(list(memory.list("t"))))
    sys.stdin.readline()
    tell(len(memory.search("canary")), memory.get("d13") is not None, len(list(memory.list("t"))))
"""
    with opened(made) as store:
        memory = store.session("assistant", "main").memory
        memory.save("d13", "canary", ["t"])
        with crowd(made, script, 2) as processes:
            assert [line_of(process) for process in processes] == ["1 True 1"] * 2
            memory.delete("d13")
            for process in processes:
                assert process.stdin is not None
                process.stdin.write("\n")
                process.stdin.flush()
            assert [lines[-1] for lines in said(processes)] == ["0 False 0"] * 2


@pytest.fixture
def _little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_TIMEOUT_MS", 50)


@pytest.mark.usefixtures("_little_patience")
def test_c13_a_process_stopped_while_idle_is_in_nobodys_way(made: Path) -> None:
    script = """
with tidegate.open(home) as store:
    session = store.session("assistant", "main")
    for turn in range(5):
        session.memory.save(f"k{turn}", "words")
    session.memory.get("k1"), session.memory.search("words"), list(session.memory.list())
    session.raise_taint(Level.INTERNAL)
    tell("idle")
    sys.stdin.readline()
"""
    with crowd(made, script, 1) as processes:
        assert line_of(processes[0]) == "idle"
        os.kill(processes[0].pid, signal.SIGSTOP)
        with opened(made) as store:
            for level in (Level.PUBLIC, Level.INTERNAL):
                session = store.session("assistant", f"other {level.name}", level)
                assert session.memory.save("k1", "other").version >= 1
                assert session.memory.delete("k1").classification is level
        os.kill(processes[0].pid, signal.SIGCONT)


@pytest.mark.usefixtures("_little_patience")
def test_c13_while_a_process_stands_still_in_mid_call_others_save_or_are_told_busy(made: Path) -> None:
    script = """
with tidegate.open(home) as store:
    session = store.session("assistant", "main")
    turn = 0
    while True:
        session.memory.save(f"k{turn % 9}", f"words {turn}", ["t"])
        turn += 1
        if turn == 3:
            tell("saving")
"""
    chance = Random(13)
    outcomes = []
    with crowd(made, script, 1) as processes, opened(made) as store:
        session = store.session("assistant", "main")
        assert line_of(processes[0]) == "saving"
        for turn in range(100 if DEEP else 30):
            os.kill(processes[0].pid, signal.SIGSTOP)
            if saved_or_busy(session, turn):
                outcomes.append(turn)
            found = session.memory.get("mine")
            assert (found.content if found else None) == (f"turn {outcomes[-1]}" if outcomes else None)
            os.kill(processes[0].pid, signal.SIGCONT)
            for _ in range(chance.randrange(2000)):
                pass  # a random moment: every outcome above is a right one
        assert session.memory.save("mine", "at last").version == len(outcomes) + 1
    assert unsound(made) == []


def saved_or_busy(session: Session, turn: int) -> bool:
    """Whether a save was acknowledged; if it was not, then for no other reason than that the store was busy."""
    try:
        session.memory.save("mine", f"turn {turn}")
    except StorageError as error:
        if error.message != "the store is busy; try again":
            raise
        return False
    return True
