"""docs/python.md is true: its examples print what it says, and whatever is public is named on it."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

import pytest
from tests.test_public_names import exported_classes, public_members

import tidegate
from tidegate.storage.sqlite.connection import BUSY_TIMEOUT_MS
from tidegate.storage.sqlite.pool import VIEWS_MAX
from tidegate.tools import AGENT_TOOLS

PAGE = (Path(__file__).parent.parent / "docs" / "python.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = "\n".join(re.findall(r"`([^`\n]+)`", _BLOCK.sub("", PAGE)))  # in sentences and tables, not in examples
_MARK = "\x1e"


def test_its_examples_print_what_it_says(tmp_path: Path) -> None:
    blocks = _BLOCK.findall(PAGE)
    kinds = [kind for kind, _ in blocks]
    assert kinds == ["python", "text"] * (len(kinds) // 2), "each example is followed by what it prints"
    script = f"print({_MARK!r})\n".join(text for kind, text in blocks if kind == "python")
    command = [sys.executable, "-W", "error", "-c", script]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stderr == ""
    assert ran.stdout.split(f"{_MARK}\n") == [text for kind, text in blocks if kind == "text"]
    assert os.listdir(tmp_path / "my-home" / "agents") == ["assistant"]


def public(kind: type) -> Iterator[str]:
    """The names that a class has of its own: methods, properties, fields, members."""
    if issubclass(kind, Enum):
        yield from (member.name for member in kind)
    if is_dataclass(kind):
        yield from (field.name for field in fields(kind))
    yield from (name for name, found in public_members(kind) if callable(found) or isinstance(found, property))


def named(name: str) -> bool:
    """Whether the page has it as code: alone, after a dot, or before its arguments."""
    return re.search(rf"(?<!\w){name}(?!\w)", _CODE) is not None


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_exported_name_is_on_it(name: str) -> None:
    assert named(name)


@pytest.mark.parametrize("kind", exported_classes())
def test_every_public_method_and_field_is_on_it(kind: type) -> None:
    names = [name for name in public(kind) if not name.startswith("_")]
    assert [name for name in names if not named(name)] == []


def test_what_a_store_and_a_session_hold_is_on_it() -> None:
    store = tidegate.open_in_memory()
    held = {*vars(store), *vars(store.session("assistant"))}
    assert [name for name in sorted(held) if not name.startswith("_") and not named(name)] == []


@pytest.mark.parametrize(
    "call", [tidegate.open, tidegate.Store.session, tidegate.Store.resume, tidegate.Session.raise_taint]
)
def test_every_parameter_is_on_it(call: object) -> None:
    assert callable(call)
    assert [name for name in inspect.signature(call).parameters if name != "self" and not named(name)] == []


def test_every_code_of_an_error_and_every_tool_is_on_it() -> None:
    kinds = [kind for kind in map(tidegate.__dict__.get, tidegate.__all__) if isinstance(kind, type)]
    codes = {kind.code for kind in kinds if issubclass(kind, tidegate.TidegateError)}
    assert [name for name in {*codes, *AGENT_TOOLS} - {"ERROR"} if not named(name)] == []


def test_its_numbers_are_those_of_the_code() -> None:
    words = " ".join(PAGE.split())
    assert f"for up to {VIEWS_MAX} agents and levels" in words
    assert f"Up to {VIEWS_MAX} calls run at once" in words
    assert f"waited {BUSY_TIMEOUT_MS // 1000} seconds" in words
    limits = tidegate.Limits()
    assert f"Keys are 1 to {limits.key_chars_max} characters" in words
    assert f"up to {limits.tags_max} tags of up to {limits.tag_chars_max} characters each" in words
    assert f"queries up to {limits.query_chars_max:,} characters" in words
