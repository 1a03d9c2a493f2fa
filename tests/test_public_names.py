"""The public names, pinned: whoever adds or takes away one says so here."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import metadata

import pytest

import tidegate


def test_the_root_exports_exactly_these_names() -> None:
    assert sorted(tidegate.__all__) == [
        "Deleted",
        "Hit",
        "Hits",
        "InvalidArgument",
        "Level",
        "LimitExceeded",
        "Memory",
        "NotFound",
        "Origin",
        "Page",
        "Refused",
        "Saved",
        "Session",
        "Status",
        "StorageError",
        "Store",
        "TidegateError",
        "open",
    ]


def test_the_version_is_that_of_the_package() -> None:
    assert tidegate.__version__ == metadata.version("tidegate")
    assert "__version__" in dir(tidegate)
    with pytest.raises(AttributeError, match="__author__"):
        tidegate.__author__  # type: ignore[attr-defined]  # noqa: B018


def test_dir_shows_them_before_any_was_asked_for() -> None:
    code = "import tidegate; print(sorted(set(tidegate.__all__) - set(dir(tidegate))), '__doc__' in dir(tidegate))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[] True\n"


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_exported_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(tidegate, name))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (tidegate.InvalidArgument, "INVALID_ARGUMENT"),
        (tidegate.LimitExceeded, "LIMIT"),
        (tidegate.NotFound, "NOT_FOUND"),
        (tidegate.Refused, "REFUSED"),
        (tidegate.StorageError, "STORAGE"),
    ],
)
def test_every_error_has_its_code_and_one_root(error: type[tidegate.TidegateError], code: str) -> None:
    assert issubclass(error, tidegate.TidegateError)
    assert error.code == code


def test_levels_are_four_in_one_order() -> None:
    assert [level.name for level in sorted(tidegate.Level)] == ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]


def test_open_takes_a_home_and_injectable_clock_and_ids() -> None:
    parameters = inspect.signature(tidegate.open).parameters
    assert list(parameters) == ["home", "clock", "ids"]
    assert parameters["clock"].kind is parameters["ids"].kind is inspect.Parameter.KEYWORD_ONLY
