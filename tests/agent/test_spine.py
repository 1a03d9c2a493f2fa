"""SPINE.md: a good one at first use, never overwritten, in nobody else's reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.agent.spine import SPINE, ensure_spine
from tidegate.core.guidance import read_instructions
from tidegate.errors import StorageError


def test_the_first_use_writes_it_for_its_owner_alone(home: Path) -> None:
    path = ensure_spine(home, "assistant")
    assert (path.read_text(), path.stat().st_mode & 0o777) == (SPINE, 0o600)
    assert [folder.stat().st_mode & 0o777 for folder in (home, home / "agents", path.parent)] == [0o700] * 3
    assert read_instructions(home, "assistant").endswith(SPINE)


def test_it_speaks_of_nothing_that_the_model_of_an_mcp_client_does_not_have() -> None:
    assert not any(word in SPINE.lower() for word in ("to-do", "todo", "job", "wake"))
    assert len(SPINE) < 600


@pytest.mark.parametrize("text", ["mine", "", "\n"])
def test_what_is_there_is_left_as_it_is(home: Path, text: str) -> None:
    path = ensure_spine(home, "assistant")
    path.write_text(text)
    ensure_spine(home, "assistant")
    assert path.read_text() == text


def test_a_link_is_not_written_through(home: Path, tmp_path: Path) -> None:
    path = ensure_spine(home, "assistant")
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    ensure_spine(home, "assistant")
    assert not (tmp_path / "elsewhere").exists()
    assert os.path.islink(path)


def test_each_agent_has_its_own(home: Path) -> None:
    ensure_spine(home, "assistant").write_text("one")
    assert ensure_spine(home, "another").read_text() == SPINE


def test_a_home_that_cannot_be_written_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StorageError, match=r"SPINE\.md"):
        ensure_spine(tmp_path / "home", "assistant")
