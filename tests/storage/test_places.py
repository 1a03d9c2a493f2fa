"""A compartment is known by its place (P9, P17): whatever else is put there is refused when it is opened."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest
from tests.storage.scene import database, raw
from tests.storage.test_migration import FIXTURES

import tidegate
from tidegate import Level, StorageError
from tidegate.audit.chain import Action, AuditEvent, chain
from tidegate.owner.doctor import Doctor
from tidegate.records.finding import Severity
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.storage.sqlite.files import HomeFiles
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.storage.sqlite.schema import UNCONFIRMED
from tidegate.store import utc_now

AGENT = "assistant"
NOT_ITS_OWN = "belongs elsewhere"


@pytest.fixture
def made(home: Path) -> Path:
    """Two agents, with a secret at each level."""
    home.mkdir()
    (home / "key").write_bytes(b"k" * 32)
    (home / "key").chmod(0o600)
    (home / "config.toml").write_text('[audit]\nkey_file = "key"\n')
    with tidegate.open(home) as store:
        for agent in (AGENT, "other"):
            for level in Level:
                store.session(agent, level=level).memory.save("k", f"{agent} {level}")
    return home


def put_there(source: Path, target: Path, agent: str, level: Level) -> None:
    """A file in another's place, saying that it belongs there."""
    shutil.copyfile(source, target)
    raw(target, "UPDATE compartment SET agent = ?1, level = ?2", bindings=(agent, level.name))
    for table in ("records", "versions"):
        raw(target, f"UPDATE {table} SET level = ?", bindings=(level.name,))


def id_of(home: Path, level: Level = Level.PUBLIC, agent: str = AGENT) -> object:
    ((found,),) = raw(database(home, level, agent), "SELECT id FROM compartment")
    return found


def recorded(home: Path) -> dict[tuple[object, object], object]:
    rows = raw(home / "control.db", "SELECT agent, level, id FROM compartments")
    return {(agent, level): found for agent, level, found in rows}


def problems(home: Path, severity: Severity = Severity.ERROR) -> list[tuple[str, str]]:
    doctor = Doctor(home, utc_now, repair=True, progress=lambda _: None)
    return [
        (found.where, found.problem) for found in doctor.examine() if found.severity is severity and not found.repaired
    ]


def test_each_compartment_has_an_id_of_its_own_that_the_control_store_has(made: Path) -> None:
    ids = {(agent, level.name): id_of(made, level, agent) for agent in (AGENT, "other") for level in Level}
    assert recorded(made) == ids
    assert len(set(ids.values())) == 8
    assert problems(made) == []


@pytest.mark.parametrize(("level", "agent"), [(Level.RESTRICTED, AGENT), (Level.PUBLIC, "other")])
def test_p9_a_file_in_another_ones_place_is_refused_by_all_who_would_open_it(
    made: Path, level: Level, agent: str
) -> None:
    put_there(database(made, level, agent), database(made), AGENT, Level.PUBLIC)
    with tidegate.open(made) as store:
        for seen_from in Level:  # above it is read as well
            session = store.session(AGENT, level=seen_from)
            for look in (lambda s: s.memory.get("k"), lambda s: s.memory.save("new", "text")):
                with pytest.raises(StorageError, match=NOT_ITS_OWN):
                    look(session)
        with pytest.raises(StorageError, match=NOT_ITS_OWN):
            store.owner(AGENT).verify()
    ((where, problem),) = problems(made)
    assert (where, "not the file that belongs here" in problem) == ("agents/assistant/public.db", True)


def test_p5_those_above_are_not_opened_for_it(made: Path) -> None:
    put_there(database(made, Level.PUBLIC), database(made, Level.INTERNAL), AGENT, Level.INTERNAL)
    with tidegate.open(made) as store:
        session = store.session(AGENT, level=Level.PUBLIC)
        session.memory.save("new", "text")
        assert session.memory.get("k") is not None


def test_p9_with_the_id_of_the_place_forged_as_well_the_chain_does_not_verify_and_takes_no_entry(made: Path) -> None:
    own = id_of(made)
    put_there(database(made, Level.RESTRICTED), database(made), AGENT, Level.PUBLIC)
    raw(database(made), "UPDATE compartment SET id = ?", bindings=(own,))
    with tidegate.open(made) as store:
        (verdict,) = store.owner(AGENT).verify(Level.PUBLIC)
        assert (verdict.holds, verdict.entries) == (False, 0)
        with pytest.raises(StorageError, match="another key"):
            store.session(AGENT, level=Level.PUBLIC).memory.save("new", "text")
    assert problems(made) != []


def test_p9_a_file_of_an_earlier_life_is_refused(made: Path, tmp_path: Path) -> None:
    shutil.copyfile(database(made), tmp_path / "kept")
    with tidegate.open(made) as store:
        store.owner(AGENT).erase()
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "next life")
    shutil.copyfile(tmp_path / "kept", database(made))
    with tidegate.open(made) as store, pytest.raises(StorageError, match=NOT_ITS_OWN):
        store.session(AGENT, level=Level.PUBLIC).memory.get("k")


def test_p17_what_the_control_store_does_not_know_is_refused_and_the_doctor_says_so(made: Path) -> None:
    raw(made / "control.db", "DELETE FROM compartments WHERE level = 'PUBLIC' AND agent = 'assistant'")
    with tidegate.open(made) as store, pytest.raises(StorageError, match=NOT_ITS_OWN):
        store.session(AGENT, level=Level.PUBLIC).memory.get("k")
    ((where, problem),) = problems(made)
    assert (where, "does not list this file" in problem) == ("agents/assistant/public.db", True)


# From before there were ids


@pytest.fixture
def old(tmp_path: Path) -> Path:
    with zipfile.ZipFile(FIXTURES[2]) as owner_compartment:
        owner_compartment.extractall(tmp_path / "old")
    return tmp_path / "old"


def test_m01_a_file_of_an_earlier_version_gets_an_id_and_its_chain_goes_on_bound_to_its_place(old: Path) -> None:
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("new", "text")
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
    assert not any(str(id_of(old, level)).startswith(UNCONFIRMED) for level in Level)
    assert recorded(old) == {(AGENT, level.name): id_of(old, level) for level in Level}
    assert problems(old) == []


def test_m01_a_home_of_an_earlier_version_is_no_error_to_the_doctor(old: Path) -> None:
    assert problems(old) == []
    assert {problem for _, problem in problems(old, Severity.WARNING)} >= {"an earlier version of Tidegate wrote it"}


def test_p9_once_there_is_an_id_an_older_file_is_refused(old: Path, tmp_path: Path) -> None:
    shutil.copyfile(database(old), tmp_path / "kept")
    for _ in range(2):
        with tidegate.open(old) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    shutil.copyfile(tmp_path / "kept", database(old))
    for _ in range(2):
        with tidegate.open(old) as store, pytest.raises(StorageError, match=NOT_ITS_OWN):
            store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    assert ("agents/assistant/public.db", "it is not the file that belongs here") in problems(old)


@pytest.mark.parametrize("after", ["before the control store has it", "before the file knows that"])
def test_m01_a_kill_while_an_id_is_given_is_made_good(old: Path, after: str) -> None:
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.get("tea")
    raw(database(old), f"UPDATE compartment SET id = '{UNCONFIRMED}' || id")
    if after == "before the control store has it":
        raw(old / "control.db", "DELETE FROM compartments WHERE level = 'PUBLIC'")
    with tidegate.open(old) as store:
        assert store.session(AGENT, level=Level.PUBLIC).memory.get("tea") is not None
    assert recorded(old)[AGENT, "PUBLIC"] == id_of(old)


def test_p9_no_entry_of_the_earlier_form_follows_one_that_names_its_place(old: Path) -> None:
    before = raw(database(old), "SELECT max(sequence) FROM audit")
    with tidegate.open(old) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("new", "text")
        assert store.owner(AGENT).verify(Level.PUBLIC)[0].holds
        with (
            store._provider.owner_compartment(AGENT, Level.PUBLIC) as owner_compartment,
            owner_compartment.transaction(),
        ):
            last = owner_compartment.last_entry()
            assert last is not None
            assert [(last.sequence - 1,)] == before
            owner_compartment.import_entry(chain(last.event, last, None))
        (verdict,) = store.owner(AGENT).verify(Level.PUBLIC)
    assert (verdict.holds, verdict.entries) == (False, last.sequence)


# Claimed for a backup


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("kind", ["sqlite", "inmemory"])
def test_p10_only_what_was_never_used_is_made_anew_for_a_backup(home: Path, kind: str, used: bool) -> None:
    provider = SqliteProvider(home) if kind == "sqlite" else InMemoryProvider()
    with provider.writable_view(AGENT, Level.PUBLIC) as view:
        if used:
            with view.own.transaction():
                view.own.append(AuditEvent(utc_now(), "s", Action.SAVE))
    ids = {level: f"of the backup {level}" for level in Level}
    assert provider.make_with_ids(AGENT, ids) is not used
    with provider.view(AGENT, Level.RESTRICTED) as view:
        assert ({each.level: each.id for each in view.visible} == ids) is not used
    provider.close()


@pytest.mark.parametrize("lost", [Level.PUBLIC, Level.RESTRICTED])
def test_p9_a_compartment_that_was_lost_is_not_made_good_for_a_backup(made: Path, lost: Level) -> None:
    ids = {level: str(id_of(made, level)) for level in Level}
    database(made, level=lost).unlink()
    provider = SqliteProvider(made)
    with pytest.raises(StorageError, match="files of this agent are missing"):
        provider.make_with_ids(AGENT, ids)
    provider.close()
    assert not database(made, level=lost).exists()


def test_p10_a_claim_that_was_cut_short_leaves_no_loss(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = SqliteProvider(home)
    with provider.writable_view(AGENT, Level.PUBLIC):
        pass
    ids = {level: f"of the backup {level}" for level in Level} | {Level.PUBLIC: str(id_of(home))}
    with monkeypatch.context() as patch:
        patch.setattr(HomeFiles, "make_compartments", killed)
        with pytest.raises(KeyboardInterrupt):
            provider.make_with_ids(AGENT, ids)
    provider.close()
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "text")
    assert {level: id_of(home, level) for level in Level} == ids


def test_p10_a_claim_that_cannot_remove_a_file_says_so_and_can_be_run_again(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = SqliteProvider(home)
    with provider.writable_view(AGENT, Level.PUBLIC):
        pass
    ids = {level: f"of the backup {level}" for level in Level}

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(StorageError, match="cannot be written"):
            provider.make_with_ids(AGENT, ids)
    assert provider.make_with_ids(AGENT, ids)
    with provider.view(AGENT, Level.RESTRICTED) as view:
        assert {each.level: each.id for each in view.visible} == ids
    provider.close()


def test_a_kill_before_the_files_are_made_leaves_ids_that_they_are_made_with(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(HomeFiles, "make_compartments", killed)
        with tidegate.open(home) as store, pytest.raises(KeyboardInterrupt):
            store.session(AGENT, level=Level.PUBLIC).memory.save("k", "text")
    before = recorded(home)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "text")
    assert recorded(home) == before == {(AGENT, level.name): id_of(home, level) for level in Level}


def killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_p9_in_memory_a_compartment_in_another_ones_place_is_refused_too() -> None:
    provider = InMemoryProvider()
    with provider.writable_view(AGENT, Level.PUBLIC), provider.writable_view("other", Level.PUBLIC):
        pass
    for strange in ((AGENT, Level.RESTRICTED), ("other", Level.PUBLIC)):
        provider._compartments[AGENT, Level.PUBLIC] = provider._compartments[strange]
        with pytest.raises(StorageError, match=NOT_ITS_OWN), provider.view(AGENT, Level.INTERNAL):
            pass
        with pytest.raises(StorageError, match=NOT_ITS_OWN), provider.owner_compartment(AGENT, Level.PUBLIC):
            pass


def test_p17_a_file_without_an_id_is_refused(made: Path) -> None:
    raw(database(made), "UPDATE compartment SET id = ''")
    with tidegate.open(made) as store, pytest.raises(StorageError, match=NOT_ITS_OWN):
        store.session(AGENT, level=Level.PUBLIC).memory.get("k")
