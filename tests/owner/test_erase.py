"""Erasing an agent: all four levels and its sessions, in whatever state they are, and nobody else's."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.core.scene import AGENT, Scene
from tests.storage.scene import bytes_of, database, raw

import tidegate
from tidegate import Session, Store
from tidegate.core import memory as memory_verbs
from tidegate.errors import InvalidArgument, NotFound, Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.storage.sqlite import compaction as sqlite_compaction
from tidegate.storage.sqlite import files as sqlite_files
from tidegate.storage.sqlite.provider import SqliteProvider


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
    with scene.provider.owner_compartment(AGENT, Level.INTERNAL) as owner_compartment:
        actions = [str(entry.event.action) for entry in owner_compartment.entries()]
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
        for look in (partial(session.memory.get, "k"), session.memory.list().page):
            with pytest.raises(Refused, match="session ended"):
                look()


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


# The life of an agent


@pytest.fixture(params=["opened before", "opened before, with a child"])
def outlived(request: pytest.FixtureRequest, home: Path) -> Iterator[tuple[Session, Store]]:
    """An unnamed session that another process holds, of an agent that was erased, and has a next life by now."""
    with tidegate.open(home) as theirs, tidegate.open(home) as ours:
        session = theirs.session(AGENT)
        if request.param == "opened before, with a child":
            session = theirs.session(AGENT, parent=session)
        session.memory.save("k", "of the first life")
        ours.owner(AGENT).erase()
        ours.session(AGENT, "next").memory.save("k", "of the next life")
        yield session, ours


def test_p7_an_unnamed_session_of_another_process_ends_with_its_agent(outlived: tuple[Session, Store]) -> None:
    session, ours = outlived
    acts: list[Callable[[], object]] = [
        lambda: session.memory.get("k"),
        lambda: session.memory.list().page(),
        lambda: session.memory.search("life"),
        lambda: session.memory.save("k", "of the first life"),
        lambda: session.memory.delete("k"),
        lambda: session.conversation.append(["of the first life"]),
        lambda: session.raise_taint(Level.INTERNAL),
        lambda: session.taint,
        session.context,
        session.end,
    ]
    for act in acts:
        with pytest.raises(Refused, match="session ended"):
            act()
    found = ours.session(AGENT).memory.get("k")
    assert found is not None
    assert (found.content, found.version) == ("of the next life", 1)


def test_p7_a_write_that_an_erasure_by_another_process_overtakes_is_undone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidegate.open(home) as theirs, tidegate.open(home) as ours:
        session = theirs.session(AGENT, level=Level.PUBLIC)
        session.memory.save("k", "one")
        real = memory_verbs.save

        def overtaken(*args: Any, **rest: Any) -> Any:
            answer = real(*args, **rest)
            ours.sessions.end_life(AGENT)
            return answer

        monkeypatch.setattr(memory_verbs, "save", overtaken)
        with pytest.raises((Refused, StorageError)):
            session.memory.save("k", "two")
    assert raw(database(home), "SELECT content FROM records") == [("one",)]


def test_a_new_session_of_the_next_life_lives_in_every_process(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "CHECK_SECONDS", 0)
    with tidegate.open(home) as theirs, tidegate.open(home) as ours:
        theirs.session(AGENT, "one").memory.save("k", "one")
        for life in range(1, 4):
            ours.owner(AGENT).erase()
            for store in (ours, theirs):
                for name in (None, f"{life} {store is ours}"):
                    session = store.session(AGENT, name)
                    session.memory.save("k", f"life {life}")
                    assert session.memory.get("k") is not None
        assert ours._provider.control.life(AGENT) == 3


def test_p6_the_life_of_another_agent_ends_nobody(home: Path) -> None:
    with tidegate.open(home) as theirs, tidegate.open(home) as ours:
        sessions = [theirs.session(agent) for agent in ("a", "aa")]
        for session in sessions:
            session.memory.save("k", "text")
        ours.owner("a").erase()
        assert sessions[1].memory.get("k") is not None


def test_an_erasure_of_what_never_was_begins_no_life(home: Path) -> None:
    with tidegate.open(home) as store:
        with pytest.raises(NotFound):
            store.owner(AGENT).erase()
        assert not home.exists()


def test_p17_what_an_erasure_that_was_cut_short_leaves_is_read_by_nobody(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT).memory.save("k", "one")
        with monkeypatch.context() as patch:
            patch.setattr(SqliteProvider, "erase", killed_when_it_erases(SqliteProvider.erase))
            with pytest.raises(KeyboardInterrupt):
                store.owner(AGENT).erase()
    with tidegate.open(home) as store:
        with pytest.raises(StorageError, match="belongs elsewhere"):
            store.session(AGENT).memory.get("k")
        assert len(store.owner(AGENT).erase().levels) == 4
        assert store.session(AGENT).memory.get("k") is None


def killed_when_it_erases(real: Callable[..., list[Level]]) -> Callable[..., list[Level]]:
    def erase(self: SqliteProvider, agent: str, *, dry_run: bool) -> list[Level]:
        if dry_run:
            return real(self, agent, dry_run=True)
        raise KeyboardInterrupt

    return erase
