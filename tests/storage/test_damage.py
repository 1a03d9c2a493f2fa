"""Damaged files and rows: never shown, never written over, never silently replaced, and no other level suffers."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from tests.storage.scene import bytes_of, database, opened, raw
from tests.storage.soundness import unsound
from tests.yardstick.chains import first_break

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.storage.sqlite.provider import SqliteProvider

LABELS = ["", "SECRET", "public ", "public", " PUBLIC", "PUBLIC\n", "7", 7, "0", None, "INTERNAL", "RESTRICTED"]


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 6 // 10)


def overwrite_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(b"\xff" * 100)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def empty_beside_a_log(path: Path) -> None:
    empty(path)
    path.with_name(f"{path.name}-wal").write_bytes(b"a log that might still be of use" * 200)


def garbage(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


def cut_to_the_header(path: Path) -> None:
    os.truncate(path, 100)


def another_database(path: Path) -> None:
    path.unlink()
    raw(path, "CREATE TABLE records (x)", "INSERT INTO records VALUES (1)")


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES = [
    truncate,
    overwrite_header,
    empty,
    empty_beside_a_log,
    garbage,
    cut_to_the_header,
    another_database,
    a_folder,
]
Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with enough at every level to fill some pages."""
    home = tmp_path_factory.mktemp("whole") / "home"
    with opened(home) as store:
        for level in Level:
            memory = store.session("assistant", level.name, level).memory
            memory.save_many([(f"k{number}", f"apple {level.name} {'word ' * 200}", ["t"]) for number in range(20)])
    return home


@pytest.fixture
def made(whole: Path, home: Path) -> Path:
    """A copy of it, to be damaged."""
    shutil.copytree(whole, home)
    return home


def acts(session: Session) -> list[Callable[[], object]]:
    memory = session.memory
    return [
        lambda: memory.get("k1"),
        lambda: memory.search("apple"),
        lambda: list(memory.list()),
        lambda: list(memory.list("t")),
        lambda: memory.save("k1", "other"),
        lambda: memory.save("new", "other"),
        lambda: memory.delete("k1"),
    ]


def said(act: Callable[[], object]) -> str:
    """What a StorageError says; nothing else may be raised, and none is a failure of the test."""
    with pytest.raises(StorageError) as caught:
        act()
    return caught.value.message


# Files


@pytest.mark.parametrize("damage", DAMAGES)
def test_d02_a_damaged_file_is_refused_by_every_verb_and_left_as_it_is(made: Path, damage: Damage) -> None:
    damage(database(made))
    before = without_memory(made)
    for _ in range(2):
        with opened(made) as store:
            for act in acts(store.session("assistant")):
                message = said(act)
                assert "doctor" in message or "newer version" in message
                assert not any(word in message for word in ("SELECT", "sqlite", "malformed", "/", "disk image"))
    assert without_memory(made) == before


@pytest.mark.parametrize("damage", DAMAGES)
def test_d02_a_damaged_lower_file_is_an_error_and_not_an_answer_without_it(made: Path, damage: Damage) -> None:
    damage(database(made))
    with opened(made) as store:
        for act in acts(store.session("assistant", level=Level.INTERNAL))[:4]:
            said(act)


@pytest.mark.parametrize("damage", [truncate, overwrite_header, empty, garbage, cut_to_the_header])
def test_d04_a_file_damaged_while_in_use_gives_an_error_or_what_was_there_and_never_less(
    made: Path, damage: Damage
) -> None:
    with opened(made) as store:
        session = store.session("assistant")
        session.memory.get("k1")
        damage(database(made))
        for act, least in zip(acts(session)[:4], (1, 10, 20, 20), strict=True):
            try:
                found = act()
            except StorageError:
                continue
            assert len(found if isinstance(found, Sequence) else [found]) >= least
            assert found is not None


@pytest.mark.parametrize("damage", [*DAMAGES, Path.unlink])
def test_d02_levels_below_a_damaged_file_keep_working(made: Path, damage: Damage) -> None:
    damage(database(made, Level.CONFIDENTIAL))
    with opened(made) as store:
        session = store.session("assistant", level=Level.INTERNAL)
        assert [act() is not None for act in acts(session)] == [True] * 7
        # P4: whether one that bears a name stood higher, nobody knows now.
        assert "the audit cannot be read" in said(lambda: store.session("assistant", "PUBLIC"))
        other = store.session("other", "main")
        other.memory.save("k", "content")
        assert len(list(other.memory.list())) == 1


@pytest.mark.parametrize("damage", DAMAGES)
def test_d02_a_damaged_control_store_lets_nobody_in_under_a_lower_taint(made: Path, damage: Damage) -> None:
    damage(made / "control.db")
    before = without_memory(made)
    with opened(made) as store:
        for act in (
            lambda: store.session("assistant", "RESTRICTED"),
            lambda: store.session("assistant", "new"),
            lambda: store.resume("assistant", "RESTRICTED"),
            lambda: store.sessions.list("assistant"),
        ):
            said(act)
    assert without_memory(made) == before


def test_d02_a_page_in_the_middle_that_is_garbage_is_an_error_where_it_is_met(made: Path) -> None:
    path = database(made)
    size = path.stat().st_size
    with path.open("r+b") as file:
        for page in range(2, size // 4096):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)
    with opened(made) as store:
        for act in acts(store.session("assistant")):
            said(act)


@pytest.mark.parametrize(
    ("taken", "given"),
    [
        (("assistant", Level.RESTRICTED), ("assistant", Level.PUBLIC)),
        (("assistant", Level.PUBLIC), ("assistant", Level.RESTRICTED)),
        (("other", Level.PUBLIC), ("assistant", Level.PUBLIC)),
    ],
)
def test_l06_a_file_under_the_name_of_another_level_or_agent_is_refused(
    made: Path, taken: tuple[str, Level], given: tuple[str, Level]
) -> None:
    with opened(made, prefix="x") as store:
        store.session("other", "main").memory.save("k1", "of the other")
    shutil.copy2(database(made, taken[1], taken[0]), database(made, given[1], given[0]))
    before = without_memory(made)
    with opened(made) as store:
        for act in acts(store.session("assistant", level=given[1])):
            assert "belongs elsewhere" in said(act)
    assert without_memory(made) == before


@pytest.mark.parametrize("rows", [[], [("assistant", "PUBLIC"), ("assistant", "PUBLIC")], [("assistant", "public")]])
def test_l06_a_file_that_does_not_say_whose_it_is_is_refused(made: Path, rows: list[tuple[str, str]]) -> None:
    raw(database(made), "DELETE FROM compartment")
    for agent, level in rows:
        raw(database(made), f"INSERT INTO compartment VALUES ('{agent}', '{level}', 'c', 1)")
    with opened(made) as store:
        for act in acts(store.session("assistant")):
            assert "belongs elsewhere" in said(act)


# Rows


def plant(path: Path, label: object) -> None:
    """Change the label of a row by hand, past the schema's own checks."""
    schema = raw(path, "SELECT sql FROM sqlite_schema WHERE name = 'records'")[0][0]
    loose = str(schema).replace("level         TEXT NOT NULL,", "level         ANY,")
    assert loose != schema
    raw(
        path,
        "PRAGMA writable_schema = on",
        f"UPDATE sqlite_schema SET sql = '{loose.replace(chr(39), chr(39) * 2)}' WHERE name = 'records'",
    )
    raw(path, "UPDATE records SET level = ? WHERE key = 'k1'", bindings=(label,))
    assert raw(path, "SELECT level FROM records WHERE key = 'k1'") == [(label,)]


@pytest.mark.parametrize("label", LABELS)
def test_l06_a_row_of_unknown_or_other_level_is_shown_to_nobody(made: Path, label: object) -> None:
    plant(database(made), label)
    with opened(made) as store:
        memory = store.session("assistant").memory
        assert memory.get("k1") is None
        keys = {f"k{number}" for number in range(20)} - {"k1"}
        assert {each.key for each in memory.list()} == keys
        assert {each.key for each in memory.list("t")} == keys
        assert {hit.key for hit in memory.search("apple", max_results=100)} == keys
        above = store.session("assistant", level=Level.INTERNAL).memory
        found = above.get("k1")
        assert found is not None
        assert (found.classification, found.newer_below) == (Level.INTERNAL, None)
        above.delete("k1")
        assert above.get("k1") is None


@pytest.mark.parametrize("label", LABELS)
def test_l06_a_row_of_unknown_or_other_level_is_never_written_over(made: Path, label: object) -> None:
    plant(database(made), label)
    before = raw(database(made), "SELECT * FROM records WHERE key = 'k1'")
    with opened(made) as store:
        memory = store.session("assistant").memory
        assert "unknown level" in said(lambda: memory.save("k1", "other"))
        assert "unknown level" in said(lambda: memory.save_many([("new", "content", []), ("k1", "other", [])]))
        assert memory.get("new") is None
        assert memory.save("k2", "other").version == 2
    assert raw(database(made), "SELECT * FROM records WHERE key = 'k1'") == before


@pytest.mark.parametrize("column", ["taint", "ceiling"])
@pytest.mark.parametrize("label", ["", "SECRET", "public ", "public", "0", "4"])
def test_l06_a_session_of_unknown_level_is_refused(made: Path, column: str, label: str) -> None:
    raw(made / "control.db", f"UPDATE sessions SET {column} = ? WHERE name = 'PUBLIC'", bindings=(label,))
    with opened(made) as store:
        assert "unknown level" in said(lambda: store.session("assistant", "PUBLIC"))
        assert "unknown level" in said(lambda: store.resume("assistant", "PUBLIC"))
        assert store.session("assistant", "INTERNAL").taint is Level.INTERNAL


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE records SET tags = 'not a list'",
        "UPDATE records SET tags = '7'",
        "UPDATE records SET origin = 'model'",
        "UPDATE records SET updated_at = 9223372036854775807",
        "UPDATE records SET created_at = -9223372036854775808",
        "UPDATE records SET content = CAST(x'ff80' AS TEXT)",
        "UPDATE records SET key = CAST(x'6b31ff' AS TEXT) WHERE key = 'k1'",
    ],
)
def test_a_row_that_this_program_cannot_have_written_is_a_storage_error_and_nothing_else(
    made: Path, change: str
) -> None:
    raw(database(made), change)
    with opened(made) as store:
        memory = store.session("assistant").memory
        said(lambda: list(memory.list()))
        said(lambda: [memory.get(f"k{number}") for number in range(20)] + memory.search("apple", max_results=100))


@pytest.mark.parametrize(
    "change",
    ["UPDATE audit SET action = 'unheard of' WHERE sequence = 3", "UPDATE audit SET at = -9 WHERE sequence = 3"],
)
def test_an_entry_that_this_program_cannot_have_written_breaks_the_chain_at_its_place(made: Path, change: str) -> None:
    raw(database(made), change)
    with closing(SqliteProvider(made)) as provider, provider.view("assistant", Level.PUBLIC) as view:
        assert first_break(view.visible[0].entries(), view.visible[0].place) == 3


def test_a_home_that_was_not_touched_is_sound(made: Path) -> None:
    assert unsound(made) == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET detail = 'x' WHERE sequence = 3",
        "DELETE FROM audit WHERE sequence = 3",
        "UPDATE records SET content = 'x' WHERE key = 'k3'",
        "DELETE FROM tagged WHERE key = 'k3'",
        "DELETE FROM vocabulary",
        "UPDATE statistics SET documents = documents + 1",
        "UPDATE records SET deleted_at = 1 WHERE key = 'k3'",
        "DELETE FROM records WHERE key = 'k3'",
    ],
)
def test_the_check_of_soundness_finds_what_is_wrong(made: Path, change: str) -> None:
    raw(database(made), change)
    assert unsound(made) != []


def without_memory(home: Path) -> dict[str, bytes]:
    return {name: data for name, data in bytes_of(home).items() if data and not name.endswith("-shm")}
