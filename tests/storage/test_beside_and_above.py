"""What lies beside an agent, or above a session, fails and is lost without it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.storage.scene import opened

from tidegate.errors import Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.storage.sqlite import files as sqlite_files
from tidegate.storage.sqlite.files import MAKING, HomeFiles


@pytest.fixture(params=["unreadable", "dangling link", "plain file", "garbage"])
def beside(request: pytest.FixtureRequest, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which another agent's folder cannot be read, in one way or another."""
    with opened(home) as store:
        store.session("assistant", "main").memory.save("k", "words")
        store.session("other", "main").memory.save("k", "words")
    folder = home / "agents" / "other"
    if request.param == "garbage":
        for path in folder.iterdir():
            path.write_bytes(b"garbage")
    elif request.param == "unreadable":
        _forbid(monkeypatch, folder)
    else:
        folder.rename(home / "moved")
        if request.param == "plain file":
            folder.write_bytes(b"")
        else:
            folder.symlink_to(home / "nowhere")
    return home


def _forbid(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As the mode 000 does, also to root."""
    real = Path.exists

    def exists(path: Path) -> bool:
        if path.parent == folder:
            raise PermissionError
        return real(path)

    monkeypatch.setattr(Path, "exists", exists)


def test_p6_another_agents_unreadable_folder_keeps_no_agent_from_anything(beside: Path) -> None:
    with opened(beside, prefix="x") as store:
        session, ended = store.session("assistant", "main"), store.session("assistant", "ended")
        session.memory.save("new", "words")
        session.conversation.append(["said"])
        assert len(session.memory.search("words")) == 2
        assert session.raise_taint(Level.CONFIDENTIAL) is Level.CONFIDENTIAL
        assert store.sessions.reset(ended.id)
        with pytest.raises(Refused, match="ended"):
            ended.memory.get("k")
        assert store.tidy_runs("assistant", Level.PUBLIC) == 0
        owner = store.owner("assistant")
        owner.purge(timedelta())
        assert all(verdict.holds for verdict in owner.verify())
        assert "assistant" in store.agents()
        assert owner.erase().levels
        store.session("new").memory.save("k", "words")


def test_an_agent_whose_folder_cannot_be_read_is_listed_and_fails_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as store:
        store.session("a").memory.save("k", "words")
        store.session("b").memory.save("k", "words")
        _forbid(monkeypatch, home / "agents" / "a")
        assert store.agents() == ["a", "b"]
        with pytest.raises(StorageError):
            store.owner("a").verify()


# Above


def test_p5_a_missing_file_is_a_loss_to_those_above_it_whether_or_not_they_were_used(home: Path) -> None:
    with opened(home) as store:
        store.session("a").memory.save("k", "words")
    (home / "agents" / "a" / "public.db").unlink()
    with opened(home, prefix="x") as store, pytest.raises(StorageError, match="missing"):
        store.session("a").memory.save("k", "words")
    assert not (home / "agents" / "a" / "public.db").exists()


def test_p5_no_file_is_opened_to_tell_a_loss_from_a_making_cut_short(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as store:
        store.session("a").memory.save("k", "words")
    (home / "agents" / "a" / "internal.db").unlink()

    def opening(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(sqlite_files, "open_file", opening)
    assert HomeFiles(home).has_compartments("a")


@pytest.mark.parametrize("made", range(5))
def test_a_making_that_was_cut_short_is_made_on_and_leaves_no_mark(
    home: Path, monkeypatch: pytest.MonkeyPatch, made: int
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    real, left = HomeFiles._make, iter([*[True] * (made + 1), *[False] * 9])  # the control store's is made first

    def make(self: HomeFiles, *args: object) -> None:
        if not next(left):
            raise KeyboardInterrupt
        real(self, *args)  # type: ignore[arg-type]

    if made == len(Level):
        monkeypatch.setattr(HomeFiles, "end_making", killed)
    with monkeypatch.context() as patch, opened(home) as store:
        patch.setattr(HomeFiles, "_make", make)
        with pytest.raises(KeyboardInterrupt):
            store.session("a").memory.save("k", "words")
    monkeypatch.undo()
    assert (home / "agents" / "a" / MAKING).exists()
    with opened(home, prefix="x") as store:
        assert store.session("a").memory.get("k") is None
        store.session("a").memory.save("k", "words")
        assert store.session("a").memory.get("k") is not None
    assert not (home / "agents" / "a" / MAKING).exists()


def test_p9_a_mark_that_a_kill_left_beside_all_files_makes_no_later_loss_good(home: Path) -> None:
    with opened(home) as store:
        store.session("a").memory.save("k", "words")
    (home / "agents" / "a" / MAKING).touch()
    with opened(home, prefix="x") as store:
        store.session("a").memory.save("k", "words")
    (home / "agents" / "a" / "restricted.db").unlink()
    with opened(home, prefix="y") as store:
        store.session("a").memory.save("k", "words")
    assert not (home / "agents" / "a" / "restricted.db").exists()


def test_a_mark_that_was_left_goes_with_the_agent(home: Path) -> None:
    with opened(home) as store:
        store.session("a").memory.save("k", "words")
        (home / "agents" / "a" / MAKING).touch()
        store.owner("a").erase()
    assert not (home / "agents" / "a" / MAKING).exists()


@pytest.mark.parametrize("act", ["begin_making", "end_making"])
def test_a_mark_that_cannot_be_written_is_an_error_of_the_store(home: Path, act: str) -> None:
    (home / "agents").mkdir(parents=True)
    (home / "agents" / "a").write_bytes(b"")
    with pytest.raises(StorageError, match="cannot be written"):
        getattr(HomeFiles(home), act)("a")
