"""Purge: what was deleted or superseded long enough ago is gone, from every file, and the chain still verifies."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest
from tests.core.scene import AGENT, Open, Scene
from tests.storage.scene import bytes_of, database, raw

import tidegate
from tidegate import Level, StorageError
from tidegate.audit.chain import Action
from tidegate.errors import InvalidArgument, NotFound
from tidegate.owner import purge
from tidegate.owner.audit_query import AuditFilter
from tidegate.owner.doctor import Doctor
from tidegate.records.expiry import Expiry
from tidegate.storage.sqlite import compaction as sqlite_compaction

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
DAY = timedelta(days=1)


def removed(
    scene: Scene, older_than: timedelta, level: Level | None = None, *, dry_run: bool = False
) -> dict[Level, int]:
    done = scene.store.owner(AGENT).purge(older_than, level, dry_run=dry_run)
    assert all(each.complete for each in done)
    return {each.classification: each.versions for each in done if each.versions}


def kept(scene: Scene, key: str = "k", level: Level | None = None) -> list[str]:
    return [each.content for each in scene.store.owner(AGENT).history(key, level)]


def test_purge_removes_what_was_deleted_long_enough_ago_and_nothing_younger(scene: Scene) -> None:
    scene.save("old", "one")
    scene.save("young", "two")
    scene.delete("old")
    scene.wait(86_400)
    scene.delete("young")
    assert removed(scene, DAY) == {PUBLIC: 1}
    assert (kept(scene, "old"), kept(scene, "young")) == ([], ["two"])


def test_purge_counts_a_versions_age_from_when_the_next_was_saved(scene: Scene) -> None:
    scene.save("k", "one")
    scene.wait(100 * 86_400)
    scene.save("k", "two")
    scene.wait(86_399)
    assert removed(scene, DAY) == {}
    scene.wait(1)
    assert removed(scene, DAY) == {PUBLIC: 1}
    assert kept(scene) == ["two"]


def test_purge_never_removes_what_lives(scene: Scene) -> None:
    scene.save("k", "one")
    scene.wait(10**8)
    assert removed(scene, timedelta()) == {}
    assert scene.content("k") == "one"


def test_purge_removes_a_deleted_memory_with_all_its_versions(scene: Scene) -> None:
    for text in ("one", "two"):
        scene.save("k", text)
    scene.delete("k")
    scene.save("k", "three")
    scene.delete("k")
    (done,) = scene.store.owner(AGENT).purge(timedelta(), PUBLIC)
    assert (done.memories, done.versions) == (1, 3)
    assert kept(scene) == []


def test_purge_of_versions_alone_counts_no_memory(scene: Scene) -> None:
    scene.save("k", "one")
    scene.save("k", "two")
    (done,) = scene.store.owner(AGENT).purge(timedelta(), PUBLIC)
    assert (done.memories, done.versions) == (0, 1)


def test_purge_goes_over_all_levels_unless_told_one(scene: Scene) -> None:
    for level in Level:
        scene.save("k", "text", level)
        scene.delete("k", level)
    assert removed(scene, timedelta(), INTERNAL) == {INTERNAL: 1}
    assert removed(scene, timedelta()) == {PUBLIC: 1, CONFIDENTIAL: 1, RESTRICTED: 1}


def test_purge_of_no_age_removes_also_what_a_wrong_clock_dated_into_the_future(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    scene.wait(-86_400)
    assert removed(scene, timedelta(seconds=1)) == {}
    assert removed(scene, timedelta()) == {PUBLIC: 1}


def test_purge_of_an_age_before_all_time_removes_nothing(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    assert removed(scene, timedelta(days=999_999)) == {}


def test_purge_below_no_age_is_refused_and_of_an_unknown_agent_not_found(scene: Scene) -> None:
    for age in (0, None, "1d"):
        with pytest.raises(InvalidArgument, match="older_than: must be a timedelta"):
            scene.store.owner(AGENT).purge(age)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="older_than: must be 0 or more"):
        scene.store.owner(AGENT).purge(-DAY)
    with pytest.raises(NotFound):
        scene.store.owner(AGENT).purge(DAY)


def test_purge_as_a_dry_run_counts_and_removes_nothing(scene: Scene) -> None:
    scene.save("k", "one")
    scene.save("k", "two")
    assert removed(scene, timedelta(), dry_run=True) == {PUBLIC: 1}
    assert kept(scene) == ["two", "one"]
    assert removed(scene, timedelta()) == {PUBLIC: 1}


def test_every_purged_version_has_its_entry_and_the_chain_still_verifies(scene: Scene) -> None:
    scene.save("k", "one")
    scene.save("k", "two")
    scene.delete("k")
    anchors = scene.store.owner(AGENT).anchor()
    removed(scene, timedelta())
    owner = scene.store.owner(AGENT)
    lines = list(owner.find_audit_lines(AuditFilter(actions=[Action.PURGE])))
    assert [(line.entry.event.detail, line.key) for line in lines] == [("version 1", None), ("version 2", None)]
    assert all(verdict.holds for verdict in owner.verify(anchors=anchors))


def test_purge_works_in_steps_and_tells_of_them(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge, "STEP", 2)
    scene = opening()
    for number in range(5):
        scene.save("k", str(number))
    said: list[str] = []
    (done,) = scene.store.owner(AGENT).purge(timedelta(), PUBLIC, progress=said.append)
    assert done.versions == 4
    assert said == ["PUBLIC: 2 of 4 versions removed", "PUBLIC: 4 of 4 versions removed"]


def test_an_interrupted_purge_leaves_whole_steps_and_can_be_run_again(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purge, "STEP", 1)
    scene = opening()
    for number in range(4):
        scene.save("k", str(number))

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.store.owner(AGENT).purge(timedelta(), PUBLIC, progress=interrupt)
    assert kept(scene) == ["3", "2", "1"]
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())
    assert removed(scene, timedelta()) == {PUBLIC: 2}


def test_what_another_purge_was_first_to_remove_is_entered_once(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.save("k", "one")
    scene.save("k", "two")
    owner = scene.store.owner(AGENT)
    with scene.provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        purgeable = owner_compartment.purgeable(scene.now)
    removed(scene, timedelta())
    monkeypatch.setattr(type(owner_compartment), "purgeable", lambda *_: purgeable)
    removed(scene, timedelta())
    assert len(list(owner.find_audit_lines(AuditFilter(actions=[Action.PURGE])))) == 1


def test_a_key_that_was_purged_begins_anew(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    removed(scene, timedelta())
    assert scene.store.session(AGENT).memory.save("k", "two").version == 1
    assert scene.content("k") == "two"
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


def test_what_expired_long_enough_ago_is_purged_with_its_versions(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"scratch": DAY}))
    scene.save("k", "one", PUBLIC, "scratch")
    scene.save("k", "two", PUBLIC, "scratch")
    scene.save("other", "stays")
    scene.wait(2 * 86_400)
    assert removed(scene, 2 * DAY, dry_run=True) == removed(scene, 2 * DAY) == {PUBLIC: 1}
    assert removed(scene, DAY, dry_run=True) == removed(scene, DAY) == {PUBLIC: 1}
    assert (kept(scene), kept(scene, "other")) == ([], ["stays"])
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


def test_a_dry_run_finds_what_expired_before_it_is_put_away(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"scratch": DAY}))
    scene.save("k", "one", PUBLIC, "scratch")
    scene.save("stays", "one")
    scene.wait(2 * 86_400)
    (done,) = scene.store.owner(AGENT).purge(timedelta(), PUBLIC, dry_run=True)
    assert (done.memories, done.versions) == (1, 1)
    assert list(scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.EXPIRE]))) == []


# In the files of a home


@pytest.fixture
def now() -> datetime:
    return datetime(2026, 3, 1, tzinfo=UTC)


CANARIES = ("canarykey", "canarytext", "canarytag")


def plant(home: Path, now: datetime) -> None:
    """Canaries in key, content and tags, deleted and superseded, among memories enough to fill pages and segments."""
    with tidegate.open(home, clock=lambda: now) as store:
        for level in Level:
            memory = store.session(AGENT, level=level).memory
            memory.save_many([(f"other-{number}", f"other words {number}", ["other"]) for number in range(60)])
            memory.save("canarykey-1", "CanaryText " * 900, ["CanaryTag"])
            memory.delete("canarykey-1")
            memory.save("stays", "a canarytext in an earlier version", ["canarytag"])
            memory.save("stays", "the later version")


def traces(home: Path) -> set[str]:
    found = bytes_of(home)
    return {name for name, data in found.items() if any(canary.encode() in data.lower() for canary in CANARIES)}


def test_d14_a_canary_in_key_content_and_tags_is_in_no_file_after_a_purge(home: Path, now: datetime) -> None:
    plant(home, now)
    assert len(traces(home)) >= len(Level)  # a plain delete leaves it in the files: this test could fail
    with tidegate.open(home, clock=lambda: now) as store:
        store.session(AGENT, level=Level.RESTRICTED).memory.search("other")  # its files stay open meanwhile
        assert all(done.complete for done in store.owner(AGENT).purge(timedelta()))
        assert traces(home) == set()
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
        assert [hit.key for hit in store.session(AGENT).memory.search("later")] == ["stays"]
    assert traces(home) == set()
    for level in Level:
        assert raw(database(home, level), "PRAGMA freelist_count") == [(0,)]
        assert raw(database(home, level), "PRAGMA integrity_check") == [("ok",)]


def test_d14_a_purge_scrubs_also_what_an_earlier_one_was_kept_from_scrubbing(
    home: Path, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_compaction, "COMPACT_WAIT_MS", 1)
    plant(home, now)
    with tidegate.open(home, clock=lambda: now) as store:
        with reader(home):
            done = store.owner(AGENT).purge(timedelta(), Level.PUBLIC)
            assert [(each.versions, each.complete) for each in done] == [(2, False)]
        done = store.owner(AGENT).purge(timedelta(), Level.PUBLIC)
        assert [(each.versions, each.complete) for each in done] == [(0, True)]
        assert not any("public" in name for name in traces(home))


def test_with_a_writer_in_the_way_a_purge_says_that_it_is_not_complete(
    home: Path, now: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_compaction, "COMPACT_WAIT_MS", 1)
    plant(home, now)
    with tidegate.open(home, clock=lambda: now) as store:
        store.owner(AGENT).purge(timedelta())
        with contextlib.closing(apsw.Connection(str(database(home)))) as writer:
            writer.execute("BEGIN IMMEDIATE")
            # Nothing is left to remove, so nothing but the compaction meets the writer.
            assert [each.complete for each in store.owner(AGENT).purge(timedelta(), Level.PUBLIC)] == [False]


def test_compaction_of_a_damaged_file_is_an_error_and_not_a_promise(home: Path, now: datetime) -> None:
    plant(home, now)
    with database(home).open("r+b") as file:
        file.truncate(4096 * 3)
    with pytest.raises(StorageError, match="damaged"):
        sqlite_compaction.compact(database(home))


def test_a_damaged_page_ends_a_compaction_with_an_error(home: Path, now: datetime) -> None:
    plant(home, now)
    with database(home).open("r+b") as file:
        for page in range(3, 20):
            file.seek(4096 * page)
            file.write(b"garbage " * 512)
    with pytest.raises(StorageError, match="damaged"):
        sqlite_compaction.compact(database(home))


_KILLED = """
import os, sys, tidegate
from datetime import timedelta
from tidegate.owner import purge
purge.STEP = 1
def kill(text):
    if text.startswith("PUBLIC"):
        os.kill(os.getpid(), 9)
with tidegate.open(sys.argv[1]) as store:
    store.owner("assistant").purge(timedelta(), progress=kill)
"""


def test_after_a_kill_in_the_middle_nothing_is_wrong_and_purge_can_be_run_again(home: Path, now: datetime) -> None:
    plant(home, now)
    assert subprocess.run([sys.executable, "-c", _KILLED, str(home)], check=False).returncode == -9
    assert list(Doctor(home, lambda: now, False, lambda _: None).examine()) == []
    with tidegate.open(home, clock=lambda: now) as store:
        assert [done.versions for done in store.owner(AGENT).purge(timedelta(), Level.PUBLIC)] == [1]
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
    assert traces(home) == set()


@contextlib.contextmanager
def reader(home: Path) -> Iterator[None]:
    """Somebody who is in the middle of reading the PUBLIC file; through the same library, whose locks it shares."""
    with contextlib.closing(apsw.Connection(str(database(home)), flags=apsw.SQLITE_OPEN_READONLY)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM records").fetchall()
        yield
