"""A home that cannot be written (D07): reads go on, writes are refused as such, and nothing is left behind."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.storage.scene import bytes_of, database, opened

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store

NOBODY = 65534


@pytest.fixture
def made() -> Iterator[Path]:
    """A home in a folder that an unprivileged user can reach, and owns."""
    folder = Path(tempfile.mkdtemp(prefix="tidegate-"))
    with opened(folder / "home") as store:
        for level in Level:
            store.session("assistant", level.name, level).memory.save("k", f"words at {level.name}", ["t"])
    yield folder / "home"
    set_modes(folder, folders=0o700, files=0o600)
    shutil.rmtree(folder)


def set_modes(home: Path, *, folders: int, files: int) -> None:
    for path in [home, *home.rglob("*")]:
        path.chmod(folders if path.is_dir() else files)


def as_nobody(home: Path, act: Callable[[], object]) -> object:
    """What an act gives in a process that is nobody's: file modes bind it, as they do not bind root."""
    if os.geteuid() == 0:
        for path in [home.parent, home, *home.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            told = json.dumps(act())
        except BaseException:  # noqa: BLE001 - told to the parent, who fails with it
            told = json.dumps(traceback.format_exc())
        os.write(write, told.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    return json.loads(told)


def read_all(session: Session) -> list[object]:
    found = session.memory.get("k")
    return [
        found.content if found else None,
        [hit.key for hit in session.memory.search("words")],
        [memory.key for memory in session.memory.list("t")],
        session.taint.name,
    ]


def refusals(store: Store, session: Session) -> list[str]:
    acts: list[Callable[[], object]] = [
        lambda: session.memory.save("k", "other"),
        lambda: session.memory.save("new", "other"),
        lambda: session.memory.delete("k"),
        lambda: session.raise_taint(Level.RESTRICTED),
        lambda: store.session("assistant", "new"),
        lambda: store.session("stranger").memory.save("k", "x"),
    ]
    return [refusal(act) for act in acts]


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except StorageError as error:
        return error.message
    return "done"


def visit(home: Path) -> Callable[[], object]:
    def run() -> object:
        with opened(home, prefix="x") as store:
            session = store.session("assistant", "CONFIDENTIAL")
            return [
                read_all(session),
                refusals(store, session),
                read_all(session),
                read_all(store.session("assistant")),
                str(session.raise_taint(Level.PUBLIC)),  # which changes nothing, so nothing is written
            ]

    return run


READ = ["words at CONFIDENTIAL", ["k"], ["k"], "CONFIDENTIAL"]


@pytest.mark.parametrize(("folders", "files"), [(0o500, 0o400), (0o500, 0o600)])
def test_d07_reads_go_on_and_writes_are_refused_in_a_home_that_cannot_be_written(
    made: Path, folders: int, files: int
) -> None:
    before = bytes_of(made)
    set_modes(made, folders=folders, files=files)
    told = as_nobody(made, visit(made))
    assert isinstance(told, list), told
    first, refused, second, ephemeral, taint = told
    assert (first, second, taint) == (READ, READ, "CONFIDENTIAL")
    assert ephemeral == ["words at PUBLIC", ["k"], ["k"], "PUBLIC"]
    assert all("read-only" in each or "cannot be written" in each for each in refused), refused
    assert bytes_of(made) == before


def test_d07_files_that_cannot_be_written_in_a_folder_that_can_refuse_writes_and_keep_what_they_hold(
    made: Path,
) -> None:
    before = {name: data for name, data in bytes_of(made).items() if name.endswith(".db")}
    set_modes(made, folders=0o700, files=0o400)
    told = as_nobody(made, visit(made))
    assert isinstance(told, list), told
    first, refused, second, _, _ = told
    assert (first, second) == (READ, READ)
    assert all("read-only" in each for each in refused[:5]), refused
    assert {name: data for name, data in bytes_of(made).items() if name in before} == before


def test_d07_what_a_kill_left_in_the_log_is_read_where_the_memory_beside_it_is_still_there(made: Path) -> None:
    script = f"""
import os, tidegate
store = tidegate.open({str(made)!r})
store.session("assistant", "PUBLIC").memory.save("late", "in the log")
os._exit(0)
"""
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", script]) == 0
    assert database(made).with_name("public.db-wal").stat().st_size > 0
    before = {name: data for name, data in bytes_of(made).items() if not name.endswith("-shm")}
    set_modes(made, folders=0o500, files=0o400)

    def run() -> object:
        with opened(made, prefix="x") as store:
            session = store.session("assistant", "PUBLIC")
            found = session.memory.get("late")
            return [found.content if found else None, refusal(lambda: session.memory.save("late", "other"))]

    assert as_nobody(made, run) == [
        "in the log",
        "the home is read-only; nothing was changed; check its permissions",
    ]
    assert {name: data for name, data in bytes_of(made).items() if not name.endswith("-shm")} == before


def test_d07_a_log_without_the_memory_beside_it_is_an_error_and_never_an_answer_without_it(made: Path) -> None:
    script = f"""
import os, tidegate
store = tidegate.open({str(made)!r})
store.session("assistant", level=tidegate.Level.PUBLIC).memory.save("late", "in the log")
os._exit(0)
"""
    assert os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", script]) == 0
    for memory in made.rglob("*-shm"):
        memory.unlink()
    before = bytes_of(made)
    set_modes(made, folders=0o500, files=0o400)

    def run() -> object:
        with opened(made, prefix="x") as store:
            return refusal(lambda: store.session("assistant", level=Level.PUBLIC).memory.get("late"))

    assert as_nobody(made, run) != "done"
    assert bytes_of(made) == before


def test_d07_once_it_can_be_written_again_a_running_program_writes_again(made: Path) -> None:
    set_modes(made, folders=0o500, files=0o400)

    def run() -> object:
        with opened(made, prefix="x") as store:
            session = store.session("assistant", "PUBLIC")
            first = refusal(lambda: session.memory.save("k", "other"))
            set_modes(made, folders=0o700, files=0o600)
            second = refusal(lambda: session.memory.save("k", "other"))
            found = session.memory.get("k")
            return [first, second, found.content if found else None, session.raise_taint(Level.INTERNAL).name]

    assert as_nobody(made, run) == [
        "the home is read-only; nothing was changed; check its permissions",
        "done",
        "other",
        "INTERNAL",
    ]


def test_a_folder_that_cannot_be_read_is_an_error(made: Path) -> None:
    set_modes(made, folders=0o000, files=0o000)

    def run() -> object:
        with opened(made, prefix="x") as store:
            return [
                refusal(lambda: store.session("assistant").memory.get("k")),
                refusal(lambda: store.session("assistant", "PUBLIC")),
            ]

    told = as_nobody(made, run)
    assert isinstance(told, list), told
    assert "done" not in told


def test_d07_a_home_is_not_made_where_nothing_can_be_written(made: Path) -> None:
    shutil.rmtree(made)
    made.mkdir()
    set_modes(made, folders=0o500, files=0o600)

    def run() -> object:
        with opened(made, prefix="x") as store:
            return [
                store.session("assistant").memory.get("k"),
                refusal(lambda: store.session("assistant").memory.save("k", "x")),
                refusal(lambda: store.session("assistant", "main")),
            ]

    assert as_nobody(made, run) == [
        None,
        *["home: cannot be written; nothing was changed; check its permissions and free space"] * 2,
    ]
    assert bytes_of(made) == {}


def test_d07_a_file_opened_as_one_that_nobody_can_change_is_not_kept_open(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(made, prefix="x") as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "access", lambda *_, **__: False)
            session = store.session("assistant", "CONFIDENTIAL")
            assert read_all(session) == READ
            assert (
                refusal(lambda: session.memory.save("k", "other"))
                == "the home is read-only; nothing was changed; check its permissions"
            )
            assert (
                refusal(lambda: session.raise_taint(Level.RESTRICTED))
                == "the home is read-only; nothing was changed; check its permissions"
            )
            held = open_below(made)
        assert refusal(lambda: session.memory.save("k", "other")) == "done"
    assert [path for path in held if "control" not in path] == []


def open_below(home: Path) -> list[str]:
    """The files of a home that this process has open."""
    links = [Path("/proc/self/fd", number) for number in os.listdir("/proc/self/fd")]
    paths = [os.readlink(link) for link in links if link.is_symlink()]
    return [path for path in paths if path.startswith(str(home))]
