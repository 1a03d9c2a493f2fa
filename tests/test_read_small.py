"""Small files: read whole, and nothing else is waited for or read without end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.files import read_small


def test_a_file_is_read_whole_and_a_larger_one_can_be_told_by_one_byte_more(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    os.symlink("file", tmp_path / "link")
    assert read_small(tmp_path / "file", 5) == read_small(tmp_path / "link", 9) == b"12345"
    assert read_small(tmp_path / "file", 3) == b"1234"


@pytest.mark.parametrize("what", ["nothing", "pipe", "folder", "device"])
def test_what_is_no_plain_file_is_an_error_at_once_and_leaves_nothing_open(tmp_path: Path, what: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    os.symlink("/dev/zero", tmp_path / "device")
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=r"not a plain file|No such file"):
        read_small(tmp_path / what, 10)
    assert os.listdir("/proc/self/fd") == before
