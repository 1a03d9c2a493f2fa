"""Where the home is: a path is a path, and nobody's mistake makes an odd folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tidegate.config.home import find_home
from tidegate.config.reader import read_settings
from tidegate.errors import InvalidArgument, StorageError


def test_an_explicit_home_comes_before_the_environment(tmp_path: Path) -> None:
    assert find_home(tmp_path / "a", {"TIDEGATE_HOME": str(tmp_path / "b")}) == tmp_path / "a"


def test_the_environment_comes_before_the_users_data_folder(tmp_path: Path) -> None:
    assert find_home(None, {"TIDEGATE_HOME": str(tmp_path / "b")}) == tmp_path / "b"


def test_an_empty_variable_is_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = find_home(None, {"HOME": str(tmp_path), "TIDEGATE_HOME": ""})
    assert found.is_relative_to(tmp_path)
    assert found.name == "tidegate"


def test_looking_for_a_home_makes_nothing(tmp_path: Path) -> None:
    read_settings(find_home(tmp_path / "a" / "b", {}), {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", "mem.db?x=1#y", "%2e%2e", "ü", "-x", "a:b/c"])
def test_a_path_is_taken_as_it_is(name: str, tmp_path: Path) -> None:
    assert find_home(tmp_path / name, {}) == tmp_path / name


def test_a_relative_path_begins_in_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_home("file", {}) == tmp_path / "file"
    assert find_home("./file:mem.db?mode=ro", {}) == tmp_path / "file:mem.db?mode=ro"


@pytest.mark.parametrize(
    "name",
    ["file:mem.db?mode=ro", "file:///tmp/x", "postgresql://host/db", "http://x", "C:\\Users\\Kim L\\mem", ":memory:"],
)
def test_what_looks_like_a_url_or_a_drive_is_refused_or_a_plain_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if name == ":memory:":
        assert find_home(name, {}) == tmp_path / ":memory:"
    else:
        with pytest.raises(InvalidArgument, match="not a URL or drive"):
            find_home(name, {})


def test_a_leading_tilde_is_the_users_folder_even_without_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_home("~/memory", {}) == tmp_path / "memory"


@pytest.mark.parametrize("name", ["", "  ", "a\0b", "~nobody-of-this-name/x"])
def test_what_names_no_folder_is_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^home: "):
        find_home(name, {})


@pytest.mark.parametrize("home", [b"x", 7, True, ["x"]])
def test_what_is_no_path_is_refused(home: Any) -> None:
    with pytest.raises(InvalidArgument, match="home: must be a string or a Path"):
        find_home(home, {})


def test_an_empty_explicit_home_is_not_the_environments(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"^home: "):
        find_home("", {"TIDEGATE_HOME": str(tmp_path)})


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="not a folder"):
        find_home(tmp_path / "file", {})


def test_nothing_below_a_file_is_a_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidArgument, match="a part of the path is a file"):
        find_home(tmp_path / "file" / "home", {})


def test_a_home_that_cannot_be_looked_at_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="home: cannot be read"):
        find_home(tmp_path / ("x" * 5000), {})


def test_a_path_that_the_locale_cannot_name_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="PYTHONUTF8"):
        find_home("/tmp/\udce2", {})


def test_a_users_folder_that_does_not_exist_is_never_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "gone"))
    with pytest.raises(InvalidArgument, match="set TIDEGATE_HOME or give --home"):
        find_home(None, os.environ)


def test_a_user_without_any_folder_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    def nothing(*_: object, **__: object) -> Path:
        raise RuntimeError

    monkeypatch.setattr(platformdirs, "user_data_path", nothing)
    with pytest.raises(InvalidArgument, match="set TIDEGATE_HOME or give --home"):
        find_home(None, {})


def test_a_users_folder_that_is_relative_is_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    import platformdirs

    monkeypatch.setattr(platformdirs, "user_data_path", lambda *_, **__: Path("~/.local/share/tidegate"))
    with pytest.raises(InvalidArgument, match="set TIDEGATE_HOME or give --home"):
        find_home(None, {})
