"""Homes of earlier schemas: migrated when they are opened, once, with a copy of what they were."""

from __future__ import annotations

import zipfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from tests.storage.scene import raw
from tests.storage.soundness import unsound

import tidegate
from tidegate import Level
from tidegate.owner.doctor import Doctor
from tidegate.storage.sqlite import migration as sqlite_migration
from tidegate.storage.sqlite.migration import copies_of
from tidegate.storage.sqlite.schema import COMPARTMENT_VERSION, CONTROL_VERSION
from tidegate.store import utc_now

FIXTURES = {version: Path(__file__).parent / "fixtures" / f"schema-{version}.zip" for version in (1, 2, 3)}
AGENT = "assistant"
TABLES = "SELECT type, name, sql FROM sqlite_schema ORDER BY type, name"


@pytest.fixture(params=FIXTURES)
def version(request: pytest.FixtureRequest) -> int:
    """An earlier version of the schema of compartments. Beside the first two the control store's was 1."""
    return int(request.param)


@pytest.fixture
def old(version: int, tmp_path: Path) -> Path:
    """A home as that version left it: two levels in use, versions, a deleted memory, a raised session."""
    with zipfile.ZipFile(FIXTURES[version]) as owner_compartment:
        owner_compartment.extractall(tmp_path / "home")
    return tmp_path / "home"


def database(home: Path, level: Level = Level.PUBLIC) -> Path:
    return home / "agents" / AGENT / f"{level.name.lower()}.db"


def test_m01_everything_in_a_home_of_the_first_schema_is_there(old: Path) -> None:
    with tidegate.open(old) as store:
        session = store.session(AGENT, "main", Level.PUBLIC)
        assert session.taint is Level.CONFIDENTIAL
        shown = session.memory.get("user-name")
        assert shown is not None
        assert (shown.content, shown.classification) == ("Countess of Lovelace", Level.CONFIDENTIAL)
        assert [memory.key for memory in session.memory.list()] == ["merger", "tea", "user-name"]
        public = store.session(AGENT, level=Level.PUBLIC)
        lower = public.memory.get("user-name")
        assert lower is not None
        assert (lower.content, lower.version) == ("Ada King", 2)
        assert [version.content for version in store.owner(AGENT).history("user-name", Level.PUBLIC)] == [
            "Ada King",
            "Ada Lovelace",
        ]
        assert all(not verdict.problems for verdict in store.owner(AGENT).verify())


def test_m01_its_index_is_made_anew_and_all_five_tools_work(old: Path) -> None:
    with tidegate.open(old) as store:
        session = store.session(AGENT, level=Level.PUBLIC)
        found = session.memory.search("what kind of tea?")
        assert (found.hits[0].key, found.complete) == ("tea", True)
        session.memory.save("coffee", "never in the evening")
        assert [hit.key for hit in session.memory.search("evning")] == ["coffee"]  # the vocabulary is there
        session.memory.delete("tea")
        assert session.memory.search("green") == []
        assert [memory.key for memory in session.memory.list()] == ["coffee", "user-name"]
        store.owner(AGENT).reindex()  # each level's index is else made anew when a session of that level comes
    assert unsound(old) == []


def test_m01_what_the_first_schema_held_verifies_through_all_that_becomes_of_it(old: Path, tmp_path: Path) -> None:
    with tidegate.open(old) as store:
        memory, owner = store.session(AGENT, level=Level.PUBLIC).memory, store.owner(AGENT)
        memory.save("user-name", "Ada King")  # as it was
        owner.relabel("tea", Level.INTERNAL)
        memory.delete("tea")
        owner.restore("user-name", Level.PUBLIC, version=1)
        assert all(verdict.holds for verdict in owner.verify())
        store.transfer(AGENT).backup(tmp_path / "backup")
        owner.purge(timedelta())
        assert all(verdict.holds for verdict in owner.verify())
    with tidegate.open(tmp_path / "restored") as store:
        store.transfer(AGENT).restore_backup(tmp_path / "backup")
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())


def test_p9_a_version_of_the_first_schema_is_not_rolled_back_unseen(old: Path) -> None:
    fields = "content, tags, nonce"
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    raw(
        database(old),
        f"UPDATE versions SET ({fields}, updated_at) = (SELECT {fields}, 0 FROM records WHERE key = 'user-name'), "
        "version = 9 WHERE key = 'user-name'",
    )
    with tidegate.open(old) as store:
        (verdict,) = store.owner(AGENT).verify(Level.PUBLIC)
    assert any("version 9 was changed or inserted" in problem.text for problem in verdict.problems)


def test_m01_a_copy_of_each_file_is_kept_and_goes_at_the_next_purge(old: Path, version: int) -> None:
    before = raw(database(old), "SELECT * FROM records")
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
        (copy,) = copies_of(database(old))
        assert raw(copy, "SELECT * FROM records") == before
        assert raw(copy, "PRAGMA user_version") == [(version,)]
        assert copy.stat().st_mode & 0o777 == 0o600
        store.owner(AGENT).purge(timedelta())
    assert copies_of(database(old)) == []
    assert not [path for path in old.rglob("*") if path.is_file() and b"a secret that was deleted" in path.read_bytes()]


def test_m01_the_second_start_does_nothing(old: Path) -> None:
    for _ in range(2):
        with tidegate.open(old) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.search("tea")
        after = {path: path.read_bytes() for path in old.rglob("*.db*")}
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.search("tea")
    assert {path: path.read_bytes() for path in old.rglob("*.db*")} == after


def test_a_migration_that_is_cut_short_leaves_the_old_file(
    old: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {version: "DROP TABLE terms; SELECT no_such_function();"}
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_migration, "MIGRATIONS", broken)
        with tidegate.open(old) as store, pytest.raises(tidegate.StorageError):
            store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    assert raw(database(old), "PRAGMA user_version") == [(version,)]
    with tidegate.open(old) as store:
        assert store.session(AGENT, level=Level.PUBLIC).memory.get("tea") is not None
    assert raw(database(old), "PRAGMA user_version") == [(COMPARTMENT_VERSION,)]


def test_a_kill_while_the_copy_is_made_leaves_no_half_of_one_that_would_be_taken_for_it(
    old: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(_: object, path: Path) -> None:
        path.write_bytes(b"half a copy")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(sqlite_migration, "copy_file", killed)
        patch.setattr(Path, "unlink", lambda *_, **__: None)  # a kill leaves no time for it
        with tidegate.open(old) as store, pytest.raises(KeyboardInterrupt):
            store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    (half,) = copies_of(database(old))
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
        (copy,) = set(copies_of(database(old))) - {half}
        assert copy.name == f"public.db.schema-{version}"
        assert raw(copy, "PRAGMA user_version") == [(version,)]
        store.owner(AGENT).purge(timedelta())
    assert copies_of(database(old)) == []


def test_a_migrated_file_has_the_tables_of_a_fresh_one(old: Path, tmp_path: Path) -> None:
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    with tidegate.open(tmp_path / "fresh") as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "v")
    assert raw(database(old), TABLES) == raw(database(tmp_path / "fresh"), TABLES)
    assert raw(old / "control.db", TABLES) == raw(tmp_path / "fresh" / "control.db", TABLES)


def test_m01_sessions_stand_where_they_stood_and_no_copy_of_them_is_left(old: Path) -> None:
    fields = "SELECT id, agent, name, taint, ceiling, parent, ended FROM sessions"
    before = raw(old / "control.db", fields)
    with tidegate.open(old) as store:
        assert store.resume(AGENT, "main").taint is Level.CONFIDENTIAL
    assert raw(old / "control.db", fields) == before != []
    assert raw(old / "control.db", "PRAGMA user_version") == [(CONTROL_VERSION,)]
    assert [path.name for path in old.glob("control.db*")] == ["control.db"]


def test_a_control_store_from_before_there_were_renewals_is_taken_up(tmp_path: Path) -> None:
    with tidegate.open(tmp_path) as store:
        store.session(AGENT, "main", Level.CONFIDENTIAL)
    raw(tmp_path / "control.db", "DROP TABLE renewals")
    raw(tmp_path / "control.db", "PRAGMA user_version = 2")
    with tidegate.open(tmp_path) as store:
        assert store.resume(AGENT, "main").taint is Level.CONFIDENTIAL
        assert store.sessions.renew(AGENT, "main")
    with tidegate.open(tmp_path) as store:
        assert store.session(AGENT, "main", Level.PUBLIC).taint is Level.PUBLIC


def test_a_home_of_the_last_version_opens_as_it_is_and_its_memories_can_be_pinned(old: Path) -> None:
    with tidegate.open(old) as store:
        owner = store.owner(AGENT)
        heads = [head.hash for head in owner.anchor()]
        assert owner.pinned() == []
        assert [head.hash for head in owner.anchor()] == heads, "a migration enters nothing"
        owner.pin("user-name", Level.PUBLIC)
        assert [(each.key, each.version) for each in owner.pinned()] == [("user-name", 2)]
        assert all(verdict.holds for verdict in owner.verify())


def back_to_the_fifth_schema(db: apsw.Connection) -> None:
    db.execute("ALTER TABLE tagged RENAME TO tags")
    db.execute("ALTER TABLE audit RENAME COLUMN previous_hash TO previous")
    db.pragma("user_version", 5)


def test_a_file_of_the_fifth_schema_keeps_its_tags_and_gets_the_tables_of_a_fresh_one(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "words", ["Work"])
    fresh = raw(database(home), TABLES)
    tagged = raw(database(home), "SELECT * FROM tagged")
    with closing(apsw.Connection(str(database(home)))) as db:
        back_to_the_fifth_schema(db)
    with tidegate.open(home) as store:
        memory = store.session(AGENT, level=Level.PUBLIC).memory
        assert [each.key for each in memory.list("work")] == ["k"]
    assert raw(database(home), TABLES) == fresh
    assert raw(database(home), "SELECT * FROM tagged") == tagged != []


STATEMENTS_OF_THE_LAST_VERSION = {
    "an entry": "SELECT sequence, at, session, action, detail, commitment, previous, hash FROM audit "
    "ORDER BY sequence DESC LIMIT 1",
    "a tag": "INSERT INTO tags VALUES ('memory', 'Work', 'tea')",
    "no tag": "DELETE FROM tags WHERE kind = 'memory' AND tag = 'Work' AND key = 'tea'",
    "the memories of a tag": "SELECT key FROM tags CROSS JOIN records USING (kind, key) WHERE tag = 'Work'",
}
"""Every write of that version entered itself in the audit, after it had read the last entry."""


@pytest.mark.parametrize("statement", STATEMENTS_OF_THE_LAST_VERSION.values(), ids=STATEMENTS_OF_THE_LAST_VERSION)
@pytest.mark.parametrize("version", [3], indirect=True)
def test_a_program_of_the_last_version_that_stays_open_through_a_migration_writes_nothing(
    old: Path, statement: str
) -> None:
    with closing(apsw.Connection(str(database(old)))) as still_open:
        for each in ("BEGIN", statement, "ROLLBACK"):
            still_open.execute(each).fetchall()  # so it is prepared
        with tidegate.open(old) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
        with pytest.raises(apsw.SQLError, match="no such"), still_open:
            still_open.execute("UPDATE records SET updated_at = 0 WHERE key = 'tea'; " + statement).fetchall()
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("tea", "black", ["Work"])
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
    assert [each for each in Doctor(old, utc_now, False, lambda _: None).examine() if "tags" in each.problem] == []


def asked(path: Path, statement: str) -> list[tuple[object, ...]]:
    """Run a statement beside an open store, through the same library: another's locks would end the store's."""
    with closing(apsw.Connection(str(path))) as db:
        return db.execute(statement).fetchall()


def test_a_file_that_a_newer_version_upgraded_meanwhile_is_not_written(home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main", Level.PUBLIC)
        session.memory.save("k", "before")
        before = [*asked(database(home), "SELECT * FROM audit"), *asked(database(home), "SELECT * FROM records")]
        asked(database(home), f"PRAGMA user_version = {COMPARTMENT_VERSION + 1}")
        for attempt in (
            lambda: session.memory.save("k", "after"),
            lambda: session.memory.delete("k"),
            lambda: store.owner(AGENT).pin("k", Level.PUBLIC),
            lambda: session.memory.save("k", "again"),
        ):
            with pytest.raises(tidegate.StorageError, match="newer version of Tidegate"):
                attempt()
    after = [*asked(database(home), "SELECT * FROM audit"), *asked(database(home), "SELECT * FROM records")]
    assert after == before


def test_a_control_store_that_a_newer_version_upgraded_meanwhile_is_not_written(home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main", Level.PUBLIC)
        before = asked(home / "control.db", "SELECT * FROM sessions")
        asked(home / "control.db", f"PRAGMA user_version = {CONTROL_VERSION + 1}")
        with pytest.raises(tidegate.StorageError, match="newer version of Tidegate"):
            store.sessions.reset(session.id)
    assert asked(home / "control.db", "SELECT * FROM sessions") == before != []


@pytest.mark.parametrize("version", [1, 2], indirect=True)
def test_a_migration_of_the_control_store_that_is_cut_short_leaves_the_old_file(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_migration, "CONTROL_MIGRATIONS", {1: "DROP TABLE sessions; SELECT no_such_function();"})
        with tidegate.open(old) as store, pytest.raises(tidegate.StorageError):
            store.resume(AGENT, "main")
    assert raw(old / "control.db", "PRAGMA user_version") == [(1,)]
    with tidegate.open(old) as store:
        assert store.resume(AGENT, "main").taint is Level.CONFIDENTIAL


def test_the_tags_of_the_third_schema_are_compared_folded_and_kept_as_they_were(home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main", Level.PUBLIC)
        session.memory.save("k", "words", ["Work", "Ｄrink"])
        session.jobs.create("job", "@daily", "look")
        session.jobs.post("job", "{}", event_id="ID")
    with closing(apsw.Connection(str(database(home)))) as db:  # as that version left it
        db.execute("DROP INDEX pinned; ALTER TABLE records DROP COLUMN pinned")
        back_to_the_fifth_schema(db)
        db.execute("DROP INDEX latest; ALTER TABLE tags DROP COLUMN saved_at")
        db.execute("DELETE FROM tags WHERE kind = 'memory'")
        db.execute("INSERT INTO tags VALUES ('memory', 'Work', 'k'), ('memory', 'Ｄrink', 'k')")
        events = db.execute("SELECT kind, tag, key FROM tags WHERE kind <> 'memory'").fetchall()
        db.pragma("user_version", 3)
    with tidegate.open(home) as store:
        memory = store.session(AGENT, level=Level.PUBLIC).memory
        assert [each.key for tag in ("WORK", "drink") for each in memory.list(tag)] == ["k", "k"]
        assert [hit.tags for hit in memory.search("words", tag="work")] == [("Work", "Ｄrink")]
        assert all(not verdict.problems for verdict in store.owner(AGENT).verify())
    assert set(events) < set(raw(database(home), "SELECT kind, tag, key FROM tagged"))
    problems = [each.problem for each in Doctor(home, utc_now, False, lambda _: None).examine()]
    assert not any("tags" in problem for problem in problems)
