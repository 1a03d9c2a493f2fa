"""What keeps a check from running is said as what it is, and never as damage."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest
from tests.storage.scene import opened

from tidegate.errors import StorageError
from tidegate.owner.doctor import Doctor
from tidegate.policy.levels import Level
from tidegate.storage.sqlite import database_checks
from tidegate.storage.sqlite.failures import DiskFullError, UnavailableError, is_cut_short, obstacle, storage_error
from tidegate.store import utc_now

ROOM = SimpleNamespace(f_blocks=99_000, f_bfree=90_000, f_bavail=90_000, f_frsize=4096, f_files=10, f_favail=10)
DESTROYING = ("damaged", "erase", "Erase", "restore", "reset", "remove", "another program changed")


def fault(code: int) -> apsw.Error:
    found = apsw.exceptionfor(code)
    assert isinstance(found, apsw.Error)
    return found


@pytest.fixture
def made(home: Path) -> Path:
    with opened(home) as store:
        store.session("assistant", "main").memory.save("k", "some words", ["t"])
    return home


def problems(home: Path) -> list[tuple[str, str]]:
    return [(each.problem, each.advice) for each in Doctor(home, utc_now, True, lambda _: None).examine()]


CODES = {
    apsw.SQLITE_FULL: "the disk is full",
    apsw.SQLITE_IOERR_SHMSIZE: "the disk is full",
    apsw.SQLITE_READONLY: "the home is read-only",
    apsw.SQLITE_READONLY_CANTLOCK: "the home is read-only",
    apsw.SQLITE_NOMEM: "there is not enough memory",
    apsw.SQLITE_IOERR: "the disk failed",
    apsw.SQLITE_IOERR_READ: "the disk failed",
    apsw.SQLITE_IOERR_CORRUPTFS: "the disk failed",
}


@pytest.mark.parametrize(("code", "reason"), CODES.items())
def test_a_check_that_cannot_run_says_why_and_advises_nothing_that_destroys(
    made: Path, monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault(code)

    monkeypatch.setattr(database_checks, "open_file", fail)
    monkeypatch.setattr(os, "statvfs", lambda _: ROOM)
    found = problems(made)
    assert {problem for problem, _ in found} == {f"it could not be examined: {reason}"}
    assert not any(word in text for each in found for text in each for word in DESTROYING)
    assert str(storage_error(fault(code), made / "control.db")).startswith(f"{reason}; nothing was changed; ")


@pytest.mark.parametrize("code", [apsw.SQLITE_BUSY, apsw.SQLITE_LOCKED, apsw.SQLITE_PROTOCOL])
def test_a_busy_file_is_busy(made: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault(code)

    monkeypatch.setattr(database_checks, "open_file", fail)
    assert set(problems(made)) == {("it was busy and could not be examined", "Run this again later.")}
    assert str(storage_error(fault(code))) == "the store is busy; try again"


@pytest.mark.parametrize("code", [apsw.SQLITE_CORRUPT, apsw.SQLITE_NOTADB])
def test_a_damaged_file_is_damaged(made: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fail(*_: object, **__: object) -> None:
        raise fault(code)

    monkeypatch.setattr(database_checks, "open_file", fail)
    assert {problem for problem, _ in problems(made)} == {"it is damaged: it cannot be read as a database"}
    assert "damaged" in str(storage_error(fault(code), made))


@pytest.mark.parametrize("code", [apsw.SQLITE_CANTOPEN, apsw.SQLITE_PERM, apsw.SQLITE_IOERR_WRITE])
@pytest.mark.parametrize(
    ("disk", "reason"),
    [
        ({"f_bavail": 15}, "the disk is full"),
        ({"f_favail": 0}, "the disk is full"),
    ],
)
def test_a_full_disk_is_noticed_whatever_the_driver_calls_it(
    made: Path, monkeypatch: pytest.MonkeyPatch, code: int, disk: dict[str, int], reason: str
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(**{**vars(ROOM), **disk}))
    found = storage_error(fault(code), made / "control.db")
    assert isinstance(found, DiskFullError)
    assert str(found).startswith(reason)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EMFILE, "too many files are open"),
        (errno.ENFILE, "too many files are open"),
        (errno.ENOMEM, "there is not enough memory"),
        (errno.EIO, "the disk failed"),
        (errno.EACCES, "this user may not use a file"),
        (errno.EROFS, "the home is read-only"),
        (errno.ENOENT, "a database cannot be opened"),
    ],
)
def test_the_reason_why_a_file_cannot_be_opened_is_looked_for(
    made: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str
) -> None:
    def fail(*_: object) -> int:
        raise OSError(number, "secret", "secret")

    monkeypatch.setattr(os, "statvfs", lambda _: ROOM)
    monkeypatch.setattr(os, "open", fail)
    assert str(storage_error(fault(apsw.SQLITE_CANTOPEN), made / "control.db")).startswith(reason)


def test_a_folder_that_may_not_be_written_is_said(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: ROOM)
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    found = obstacle(fault(apsw.SQLITE_CANTOPEN), made / "control.db")
    assert found is not None
    assert found.reason.startswith("this user may not use")


@pytest.mark.parametrize(
    ("report", "cut_short"),
    [
        ("Tree 5 page 7: unable to get the page. error code=10", True),
        ("Tree 5 page 7: unable to get the page. error code=522", True),
        ("unable to get the page. error code=10 unable to get the page. error code=11", False),
        ("row 3 missing from index tags_key", False),
    ],
)
def test_an_integrity_check_that_could_not_read_is_not_one_that_found_damage(
    made: Path, monkeypatch: pytest.MonkeyPatch, report: str, cut_short: bool
) -> None:
    assert is_cut_short(report) is cut_short
    monkeypatch.setattr(database_checks, "_integrity", lambda _: report)
    told = {problem for problem, _ in problems(made)}
    assert any("damaged" in problem for problem in told) is not cut_short


def test_a_file_that_the_disk_does_not_give_is_no_damage(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for failure in (OSError(errno.EIO, "secret"), MemoryError()):

        def fail(*_: object, failure: Exception = failure, **__: object) -> None:
            raise failure

        monkeypatch.setattr(database_checks, "open_file", fail)
        assert all("could not be examined" in problem for problem, _ in problems(made))


def test_a_session_is_told_what_the_machine_lacks_when_the_chains_cannot_be_read(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.storage.sqlite import witness

    for code, kind, says in (
        (apsw.SQLITE_FULL, UnavailableError, "the disk is full"),
        (apsw.SQLITE_CORRUPT, StorageError, "the audit cannot be read"),
        (apsw.SQLITE_IOERR, StorageError, "the audit cannot be read"),  # P5: it may be of a file above
    ):

        def fail(*_: object, code: int = code, **__: object) -> None:
            raise storage_error(fault(code))

        with monkeypatch.context() as patched, opened(made) as store:
            patched.setattr(witness, "open_audit", fail)
            with pytest.raises(kind, match=says):
                store.session("assistant", "main")


# Real ones


def test_too_many_open_files_are_said(made: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))

    for words in (["doctor"], ["get", "k"], ["audit", "verify"], ["backup", str(made.parent / "b")]):
        command = [sys.executable, "-m", "tidegate", "--home", str(made), *words]
        ran = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True, check=False)
        assert ran.returncode in (1, 3)
        assert "too many files are open" in ran.stderr + ran.stdout
        assert not any(word in ran.stderr + ran.stdout for word in DESTROYING)


def test_a_path_that_is_too_long_is_said(made: Path) -> None:
    long = made.parent.joinpath(*["long" * 25] * 5)
    with opened(long / "home") as store, pytest.raises(StorageError, match="the path of the home is too long"):
        store.session("assistant", "main")
    long.mkdir(parents=True, exist_ok=True)
    made.rename(long / "moved")
    found = problems(long / "moved")
    assert {problem for problem, _ in found} == {"it could not be examined: the path of the home is too long"}
    assert not any(word in text for each in found for text in each for word in DESTROYING)
    (long / "moved").rename(made)
    assert problems(made) == []


@pytest.fixture(params=["size=1m", "size=8m,nr_inodes=22"], ids=["bytes", "inodes"])
def disk(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", request.param, "tmpfs", place], capture_output=True).returncode:
        pytest.skip("this user may not mount a file system")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def test_a_small_disk_that_is_full_is_called_full_and_nothing_is_damaged(disk: Path) -> None:
    home = disk / "home"
    with opened(home) as store:
        store.session("assistant", "main").memory.save("k", "some words")
    with suppress(OSError), (disk / "filler").open("ab", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    os.truncate(home / "reserve", 0)
    with suppress(OSError):
        for number in range(30):
            (disk / f"f{number}").write_bytes(bytes(300_000))
    found = problems(home)
    assert any("the disk is full" in problem for problem, _ in found)
    assert not any(word in text for each in found for text in each for word in DESTROYING)
    with opened(home) as store:
        for act in (
            lambda: store.session("assistant", "other"),
            lambda: store.session("assistant", "main").raise_taint(Level.INTERNAL),
            lambda: store.session("assistant").memory.save("k2", "x" * 100_000),
        ):
            with pytest.raises(StorageError, match="the disk is full"):
                act()
    for path in disk.glob("f*"):
        path.unlink()
    assert all("nearly full" in problem for problem, _ in problems(home))
    with opened(home) as store:
        assert store.session("assistant", "main").memory.get("k") is not None
