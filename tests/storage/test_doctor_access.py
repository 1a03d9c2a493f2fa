"""The doctor as a user who may not do everything: what cannot be read is a finding, and never the end of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.storage.scene import database, opened
from tests.storage.test_readonly import as_nobody

from tidegate.owner.doctor import Doctor
from tidegate.policy.levels import Level
from tidegate.store import utc_now

FOLDER = "agents/assistant"


@pytest.fixture
def made(home: Path) -> Path:
    with opened(home) as store:
        for level in Level:
            store.session("assistant", level=level).memory.save("k", "some words", ["t"])
        store.session("second").memory.save("k", "some words")
    return home


def told(home: Path, *, repair: bool = False) -> Callable[[], object]:
    return lambda: [(each.where, each.problem) for each in Doctor(home, utc_now, repair, lambda _: None).examine()]


def test_a_user_who_may_do_everything_finds_nothing(made: Path) -> None:
    assert as_nobody(made, told(made)) == []


def test_a_file_that_cannot_be_read_is_found(made: Path) -> None:
    database(made).chmod(0)
    assert as_nobody(made, told(made)) == [[f"{FOLDER}/public.db", "this user cannot read it"]]


@pytest.mark.parametrize("repair", [False, True])
def test_a_folder_that_cannot_be_read_is_found_and_the_other_agents_are_examined(made: Path, repair: bool) -> None:
    (made / FOLDER).chmod(0)
    (made / "agents/second/stray").write_text("")
    assert as_nobody(made, told(made, repair=repair)) == [
        [FOLDER, "this user cannot read it"],
        ["agents/second/stray", "it is not Tidegate's, and may hold saved content"],
        [f"{FOLDER}/SPINE.md", "must be a readable file in UTF-8"],
    ]


def test_a_home_that_cannot_be_read_is_found(made: Path) -> None:
    made.chmod(0)
    assert as_nobody(made, told(made)) == [["home", "this user lacks read or write access to it"]]


def test_a_home_that_can_only_be_read_is_examined_all_the_same(made: Path) -> None:
    for path in (made, made / "agents", made / FOLDER, made / "agents/second"):
        path.chmod(0o500)
    assert as_nobody(made, told(made)) == [["home", "this user lacks read or write access to it"]]
