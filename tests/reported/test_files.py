"""The configuration's file, and the engine that Tidegate brings."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from tidegate.config.reader import read_settings
from tidegate.errors import InvalidArgument

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.parametrize(
    "data", [b"\xef\xbb\xbf[audit]\nreads = true\n", b"[audit]\r\nreads = true\r\n"], ids=["mark", "line ends"]
)
def test_i15_a_byte_order_mark_and_either_line_end_are_accepted(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(data)
    assert read_settings(tmp_path, {}).audit.reads


def test_i15_a_mistake_names_file_and_line_and_the_file_is_left_alone(tmp_path: Path) -> None:
    data = b"[limits]\ntags_max = 64,\n"
    (tmp_path / "config.toml").write_bytes(data)
    with pytest.raises(InvalidArgument, match=r"config\.toml.*line 2"):
        read_settings(tmp_path, {})
    assert (tmp_path / "config.toml").read_bytes() == data


def test_m05_the_engine_that_is_brought_has_full_text_search_and_no_other_is_used() -> None:
    assert "ENABLE_FTS5" in apsw.compile_options
    assert not [path for path in SOURCE.rglob("*.py") if "import sqlite3" in path.read_text(encoding="utf-8")]
