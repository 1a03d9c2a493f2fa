"""The owner's files: small ones read whole, and nothing else waited for; written whole or not at all."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tidegate import files
from tidegate.errors import StorageError

LEFT = ".tidegate-0123456789abcdef.new"


def write(path: Path) -> None:
    with files.writing(path) as file:
        file.write(b"x")


def test_what_a_killed_writing_left_goes_with_the_next_into_that_folder(tmp_path: Path) -> None:
    (tmp_path / LEFT).write_bytes(b"secret")
    write(tmp_path / "out")
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "name", [".tidegate-0123456789abcdef.new.txt", ".tidegate-0123.new", "tidegate-0123456789abcdef.new"]
)
def test_what_has_another_name_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"mine")
    write(tmp_path / "out")
    assert (tmp_path / name).read_bytes() == b"mine"


def test_what_is_no_file_stays_and_no_link_is_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"mine")
    (tmp_path / LEFT).symlink_to(other)
    (tmp_path / LEFT.replace("0", "f")).mkdir()
    write(tmp_path / "out")
    assert other.read_bytes() == b"mine"
    assert sorted(entry.name for entry in tmp_path.iterdir()) == sorted([LEFT, LEFT.replace("0", "f"), "other", "out"])


def test_what_is_being_written_stays_until_it_has_its_name(tmp_path: Path) -> None:
    with files.writing(tmp_path / "one", lambda _: write(tmp_path / "three")) as file:
        write(tmp_path / "two")
        file.write(b"y")
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == {
        "one": b"y",
        "two": b"x",
        "three": b"x",
    }


def test_where_there_are_no_locks_nothing_is_removed_and_all_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / LEFT).write_bytes(b"left")
    monkeypatch.setattr(fcntl, "flock", _unsupported)
    write(tmp_path / "out")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [LEFT, "out"]


def _unsupported(*_: object) -> None:
    raise OSError


def test_a_folder_that_cannot_be_listed_can_be_written_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listdir", _unsupported)
    write(tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"x"


# Small files


def test_a_file_is_read_whole_and_a_larger_one_can_be_told_by_one_byte_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.symlink("file", tmp_path / "link")
    assert files.read_small(tmp_path / "file", 5) == files.read_small(tmp_path / "link", 9) == b"12345"
    assert files.read_small(tmp_path / "file", 3) == b"1234"


@pytest.mark.parametrize("what", ["nothing", "pipe", "folder", "device"])
def test_what_is_no_plain_file_is_an_error_at_once_and_leaves_nothing_open(tmp_path: Path, what: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.symlink("/dev/zero", tmp_path / "device")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=r"not a plain file|No such file"):
        files.read_small(tmp_path / what, 10)
    assert os.listdir("/proc/self/fd") == before


def test_a_small_text_is_read_without_a_mark_and_is_empty_where_it_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "SPINE.md").write_bytes(b"\xef\xbb\xbfBe kind.\n")
    assert files.read_small_text(tmp_path / "SPINE.md", 100) == "Be kind.\n"
    assert files.read_small_text(tmp_path / "none", 100) == ""


@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"x" * 9, "must be at most 8 bytes"), (b"\xff", "must be a readable file in UTF-8")],
)
def test_a_small_text_that_cannot_be_used_is_an_error_that_names_the_file(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    (tmp_path / "SPINE.md").write_bytes(content)
    with pytest.raises(StorageError, match=f"SPINE.md: {problem}"):
        files.read_small_text(tmp_path / "SPINE.md", 8)
