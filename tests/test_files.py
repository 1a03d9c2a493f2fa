"""Files that are written: whole or not at all, and nothing left of what was killed."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from tidegate import files

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
