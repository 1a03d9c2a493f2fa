"""Erasing an agent: all four levels and its sessions, in whatever state they are, and nobody else's."""

from __future__ import annotations

import contextlib
from pathlib import Path

import apsw
import pytest
from tests.core.transfer_scene import AGENT, Scene
from tests.storage.scene import bytes_of, database

import tidegate
from tidegate.errors import InvalidArgument, NotFound, Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.storage import sqlite_compaction


def test_an_erased_agent_has_no_memories_and_no_living_session(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", Level.INTERNAL)
    session.memory.save("k", "one")
    erased = scene.store.owner(AGENT).erase()
    assert (erased.agent, sorted(erased.levels), erased.sessions) == (AGENT, list(Level), 1)
    assert scene.store.agents() == []
    assert scene.content("k", Level.INTERNAL) is None
    with pytest.raises(Refused, match="session ended"):
        session.memory.get("k")


@pytest.mark.parametrize("level", list(Level))
def test_p5_a_refusal_after_an_erasure_is_entered_only_where_its_own_level_was_used_again(
    scene: Scene, level: Level
) -> None:
    ended = scene.store.session(AGENT, "main", Level.INTERNAL)
    scene.store.owner(AGENT).erase()
    scene.store.session(AGENT, level=level).memory.save("k", "one")
    with pytest.raises(Refused, match="ended"):
        ended.memory.get("k")
    with scene.provider.archive(AGENT, Level.INTERNAL) as archive:
        actions = [str(entry.event.action) for entry in archive.entries()]
    assert actions == (["save", "refuse"] if level is Level.INTERNAL else [])


def test_erasing_tells_where_the_chains_ended(scene: Scene) -> None:
    scene.save("k", "one")
    heads = scene.store.owner(AGENT).anchor()
    assert list(scene.store.owner(AGENT).erase().heads) == heads


def test_erasing_as_a_dry_run_erases_nothing(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.memory.save("k", "one")
    erased = scene.store.owner(AGENT).erase(dry_run=True)
    assert (sorted(erased.levels), erased.sessions) == (list(Level), 1)
    assert session.memory.get("k") is not None


def test_erasing_touches_no_other_agent_also_of_a_like_name(scene: Scene) -> None:
    for agent in ("a", "aa", "a.a"):
        scene.store.session(agent, "main").memory.save("k", agent)
    scene.store.owner("a").erase()
    assert scene.store.agents() == ["a.a", "aa"]
    assert [scene.store.resume(agent, "main").memory.get("k") is None for agent in ("a.a", "aa")] == [False, False]


def test_the_name_of_an_erased_agent_can_be_used_anew_and_its_sessions_names_cannot(scene: Scene) -> None:
    scene.store.session(AGENT, "main").memory.save("k", "one")
    scene.store.owner(AGENT).erase()
    scene.save("k", "two")
    assert scene.content("k") == "two"
    with pytest.raises(Refused, match="session ended"):
        scene.store.session(AGENT, "main")


def test_a_client_that_comes_back_makes_no_files_anew_and_a_backup_can_be_restored(home: Path, tmp_path: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, "main").memory.save("k", "one")
        store.transfer(AGENT).backup(tmp_path / "a.backup")
        store.owner(AGENT).erase()
    with tidegate.open(home) as store:  # as a client does that starts its server again
        for again in (store.session, store.resume):
            with pytest.raises(Refused, match="session ended"):
                again(AGENT, "main")
        assert store.agents() == []
        assert not list(home.glob("agents/*/*.db"))
        assert store.transfer(AGENT).restore_backup(tmp_path / "a.backup").versions == 1


def test_erasing_what_was_never_there_is_not_found(scene: Scene) -> None:
    for dry_run in (True, False):
        with pytest.raises(NotFound, match="agent"):
            scene.store.owner("nobody").erase(dry_run=dry_run)
    with pytest.raises(InvalidArgument, match="agent"):
        scene.store.owner("../other")


def test_erasing_leaves_no_trace_in_any_file(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session("other").memory.save("k", "stays")
        store.session(AGENT, "main").memory.save("canary", "canary", ["canary"])
        (home / "agents" / AGENT / "SPINE.md").write_text("You are kind.")
        store.owner(AGENT).erase()
        assert not any(b"canary" in data for data in bytes_of(home).values())
        assert store.session("other").memory.get("k") is not None
    assert [path.name for path in (home / "agents" / AGENT).iterdir()] == ["SPINE.md"]


def test_whoever_has_the_files_open_reads_nothing_of_them_any_more(home: Path) -> None:
    with tidegate.open(home) as server, tidegate.open(home) as owner:
        session = server.session(AGENT)
        session.memory.save("k", "secret")
        owner.owner(AGENT).erase()
        with contextlib.suppress(StorageError):
            assert session.memory.get("k") is None
        with contextlib.suppress(StorageError):
            assert list(session.memory.list()) == []


@pytest.mark.parametrize("spoiled", ["damaged", "missing", "empty"])
def test_what_is_damaged_can_be_erased(home: Path, spoiled: str) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, "main").memory.save("k", "one")
    path = database(home, Level.CONFIDENTIAL)
    if spoiled == "missing":
        path.unlink()
    else:
        path.write_bytes(b"" if spoiled == "empty" else b"no database" * 1000)
    with tidegate.open(home) as store:
        assert store.owner(AGENT).erase().sessions == 1
        assert store.agents() == []
    assert not list((home / "agents" / AGENT).iterdir())


def test_with_a_writer_in_the_way_erasing_says_so_and_can_be_run_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_compaction, "COMPACT_WAIT_MS", 1)
    with tidegate.open(home) as store:
        store.session(AGENT).memory.save("k", "one")
        with contextlib.closing(apsw.Connection(str(database(home)))) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(StorageError, match="run it again"):
                store.owner(AGENT).erase()
        assert store.owner(AGENT).erase().levels == (Level.PUBLIC,)
        assert store.agents() == []


def test_a_file_that_cannot_be_removed_is_an_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT).memory.save("k", "one")

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError

        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", refuse)
            with pytest.raises(StorageError, match="cannot be written"):
                store.owner(AGENT).erase()
        store.owner(AGENT).erase()
        assert store.agents() == []
