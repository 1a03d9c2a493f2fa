"""The index after an upgrade, or made anew: searches go on meanwhile, and a kill in between costs nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from tests.core.scene import AGENT, Open, Scene
from tests.storage.scene import database, raw

import tidegate
from tidegate.audit.chain import Action
from tidegate.core import maintenance
from tidegate.errors import NotFound, StorageError
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.search.analysis import ANALYSIS_VERSION

PUBLIC, INTERNAL = Level.PUBLIC, Level.INTERNAL


def found(scene: Scene, query: str, level: Level = PUBLIC) -> tuple[list[str], bool]:
    hits = scene.store.session(AGENT, level=level).memory.search(query)
    return [hit.key for hit in hits.hits], hits.complete


def state(scene: Scene, level: Level = PUBLIC) -> object:
    with scene.provider.owner_compartment(AGENT, level) as owner_compartment:
        return (
            owner_compartment.statistics(),
            dict(owner_compartment.frequencies(["apples", "pears", "t"])),
            owner_compartment.index_whole(),
        )


def start_anew(scene: Scene, level: Level = PUBLIC) -> None:
    """Leave the index as a kill at the beginning of its making would."""
    with scene.provider.owner_compartment(AGENT, level) as owner_compartment, owner_compartment.transaction():
        owner_compartment.clear_index()


def reopened(scene: Scene) -> Scene:
    """The same store as another process opens it."""
    return Scene(scene.provider, scene.folder, now=scene.now)


@pytest.fixture
def scene(opening: Open, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """Five memories, of which one step indexes two."""
    monkeypatch.setattr(maintenance, "INDEX_STEP", 2)
    scene = opening()
    for number in range(5):
        scene.save(f"k{number}", f"apples {number}", PUBLIC, "t")
    return scene


def test_reindex_makes_the_same_index_again(scene: Scene) -> None:
    scene.save("k0", "pears")
    scene.delete("k1")
    scene.save("k", "apples", INTERNAL)
    before = state(scene), state(scene, INTERNAL)
    assert scene.store.owner(AGENT).reindex() == 5
    assert (state(scene), state(scene, INTERNAL)) == before
    assert found(scene, "pears") == (["k0"], True)


def test_reindex_tells_of_its_progress_and_is_entered(scene: Scene) -> None:
    said: list[str] = []
    scene.store.owner(AGENT).reindex(PUBLIC, progress=said.append)
    assert said == ["PUBLIC: 2 memories indexed", "PUBLIC: 4 memories indexed"]
    (line,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.REINDEX]))
    assert line.entry.event.detail == "5 memories"


def test_reindex_of_an_unknown_agent_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotFound):
        scene.store.owner("nobody").reindex()


def test_searches_go_on_while_the_index_is_made_and_say_so(scene: Scene) -> None:
    def look(_: str) -> None:
        keys, complete = found(scene, "apples")
        assert keys
        assert not complete

    scene.store.owner(AGENT).reindex(PUBLIC, progress=look)
    assert found(scene, "apples")[1]


def test_what_is_saved_and_deleted_while_the_index_is_made_is_in_it_rightly(scene: Scene) -> None:
    changes = iter([True])

    def change(_: str) -> None:
        if next(changes, False):
            scene.save("k0", "pears")  # is in it already
            scene.save("k4", "pears", PUBLIC, "t")  # is not in it yet
            scene.delete("k1")
            scene.delete("k3")

    scene.store.owner(AGENT).reindex(PUBLIC, progress=change)
    made = state(scene)
    assert sorted(found(scene, "pears")[0]) == ["k0", "k4"]
    scene.store.owner(AGENT).reindex(PUBLIC)
    assert state(scene) == made


def test_an_index_that_another_process_begins_anew_meanwhile_is_not_called_whole(scene: Scene) -> None:
    turns = iter([False, True])

    def begin_anew(_: str) -> None:
        if next(turns, False):
            start_anew(scene)

    before = state(scene)
    assert scene.store.owner(AGENT).reindex(PUBLIC, progress=begin_anew) == 5
    assert state(scene) == before


def test_an_interrupted_reindex_goes_on_at_the_next_calls(scene: Scene) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    before = state(scene)
    with pytest.raises(KeyboardInterrupt):
        scene.store.owner(AGENT).reindex(PUBLIC, progress=interrupt)
    scene = reopened(scene)
    assert [found(scene, "apples")[1] for _ in range(3)] == [False, True, True]
    assert sorted(found(scene, "apples")[0]) == [f"k{number}" for number in range(5)]
    assert state(scene) == before


def test_a_write_goes_on_with_the_index_as_a_read_does(scene: Scene) -> None:
    start_anew(scene)
    scene = reopened(scene)
    for number in range(3):
        scene.save(f"other{number}", "pears")
    assert len(found(scene, "apples")[0]) == 5


def test_the_index_of_a_lower_level_is_left_to_that_level(scene: Scene) -> None:
    start_anew(scene)
    scene = reopened(scene)
    scene.save("k", "apples", INTERNAL)
    for _ in range(5):
        assert found(scene, "apples", INTERNAL) == (["k"], False)
    with scene.provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        assert not owner_compartment.index_whole()


def test_reading_goes_on_where_the_index_cannot_be_made(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    start_anew(scene)
    scene = reopened(scene)

    def refuse(*_: object) -> None:
        raise StorageError("the home is read-only; nothing was changed")

    monkeypatch.setattr(type(scene.provider), "owner_compartment", refuse)
    assert found(scene, "apples") == ([], False)
    assert scene.content("k1") == "apples 1"
    with pytest.raises(StorageError):
        scene.save("k", "apples")


def test_deleting_what_is_not_indexed_yet_leaves_the_statistics_right(scene: Scene) -> None:
    start_anew(scene)
    scene.delete("k4")
    scene.save("k3", "pears")
    scene.store.owner(AGENT).reindex(PUBLIC)
    made = state(scene)
    assert made[0].documents == 4  # type: ignore[index]


def test_an_agent_without_anything_needs_no_upkeep(scene: Scene) -> None:
    assert scene.store.session("nobody").memory.search("apples") == []
    assert "nobody" not in scene.store.agents()


def test_agents_that_there_are_not_fill_no_memory(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "KNOWN_MAX", 3)
    for number in range(10):
        assert list(scene.store.session(f"nobody{number}").memory.list()) == []
    kept_up = scene.store._gate._views
    assert isinstance(kept_up, maintenance.MaintainedViews)
    assert len(kept_up._indexed) <= 3
    assert found(scene, "apples")[1]


# M07: another version of the text analysis


def test_m07_an_index_of_another_analysis_is_made_anew_at_the_first_call(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "apples")
    raw(database(home), f"UPDATE compartment SET analysis = {ANALYSIS_VERSION + 7}", "DELETE FROM vocabulary")
    with tidegate.open(home) as store:
        hits = store.session(AGENT, level=Level.PUBLIC).memory.search("apples")
        assert ([hit.key for hit in hits.hits], hits.complete) == (["k"], True)
    assert raw(database(home), "SELECT analysis FROM compartment") == [(ANALYSIS_VERSION,)]
    assert raw(database(home), "SELECT word FROM vocabulary WHERE word = 'apples'") == [("apples",)]


def test_m07_what_the_last_analysis_did_not_find_is_found_once_its_level_was_called(home: Path) -> None:
    with tidegate.open(home) as store:
        for level in (PUBLIC, INTERNAL):
            store.session(AGENT, level=level).memory.save(f"at-{level}", "用GitHub登录")
    old_terms = "用 git hub 登 录 登录 用github登录"
    for level in (PUBLIC, INTERNAL):  # as version 2 left it
        with contextlib.closing(apsw.Connection(str(database(home, level)))) as connection:
            connection.execute(f"UPDATE compartment SET analysis = {ANALYSIS_VERSION - 1}; DELETE FROM terms")
            connection.execute(f"INSERT INTO terms (rowid, content) SELECT id, '{old_terms}' FROM records")
    with tidegate.open(home) as store:
        session = store.session(AGENT, level=INTERNAL)
        for query, found in (("github", ["at-INTERNAL"]), ("用", ["at-INTERNAL", "at-PUBLIC"])):
            hits = session.memory.search(query)
            assert (sorted(hit.key for hit in hits.hits), hits.complete) == (found, False)
        store.session(AGENT, level=PUBLIC).memory.get("at-PUBLIC")
        hits = session.memory.search("github")
        assert (sorted(hit.key for hit in hits.hits), hits.complete) == (["at-INTERNAL", "at-PUBLIC"], True)


def test_m07_only_one_of_two_processes_begins_the_index_anew(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT).memory.save("k", "apples")
        with store._provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
            answers = iter([False, True])  # the other process began between the look and the lock
            monkeypatch.setattr(type(owner_compartment), "index_started", lambda _: next(answers))
            monkeypatch.setattr(type(owner_compartment), "clear_index", lambda _: pytest.fail("begun twice"))
            assert maintenance.index_step(owner_compartment) is None


def test_m07_rows_lost_from_the_index_come_back_with_a_reindex(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save_many(
            (f"k{number}", f"apples {number}", ()) for number in range(9)
        )
    with contextlib.closing(apsw.Connection(str(database(home)))) as connection:
        connection.execute("DELETE FROM terms WHERE rowid < 4")
    with tidegate.open(home) as store:
        assert len(store.session(AGENT, level=Level.PUBLIC).memory.search("apples")) == 6
        store.owner(AGENT).reindex()
        assert len(store.session(AGENT, level=Level.PUBLIC).memory.search("apples")) == 9


_KILLED = """
import os, sys, tidegate
from tidegate.core import maintenance
maintenance.INDEX_STEP = 2
with tidegate.open(sys.argv[1]) as store:
    store.owner("assistant").reindex(progress=lambda text: os.kill(os.getpid(), 9))
"""


def test_m07_after_a_kill_in_the_middle_the_next_start_makes_it_whole(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save_many(
            (f"k{number}", f"apples {number}", ()) for number in range(9)
        )
    done = subprocess.run([sys.executable, "-c", _KILLED, str(home)], check=False)
    assert done.returncode == -9
    assert raw(database(home), "SELECT analysis FROM compartment") == [(-ANALYSIS_VERSION,)]
    with tidegate.open(home) as store:
        hits = store.session(AGENT, level=Level.PUBLIC).memory.search("apples")
        assert (len(hits.hits), hits.complete) == (9, True)
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
