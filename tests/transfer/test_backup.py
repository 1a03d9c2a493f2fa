"""Backup and restore: everything exactly, only into an agent that is empty, never with a lower taint."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, Open, Scene
from tests.yardstick.chains import first_break

from tidegate.audit.chain import Action
from tidegate.core.gate import Act
from tidegate.core.variants import event_of
from tidegate.errors import InvalidArgument, NotFound, Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.records.jsonl import to_line
from tidegate.records.record import Record, RecordKind
from tidegate.storage.base import StorageProvider, VersionId
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory.provider import InMemoryCompartment, InMemoryProvider
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.store import Store
from tidegate.tools import TOOLS
from tidegate.transfer.backup import BackedUp

BREAKS = "\ufeffa\r\nb\rc\n\u2028d\x85e"
Lines = list[dict[str, Any]]


def state(scene: Scene, agent: str = AGENT) -> dict[Level, tuple[list[tuple[Record, bool]], list[Any]]]:
    """All that an agent has: every version, and every chain."""
    found = {}
    for level in Level:
        with scene.provider.owner_compartment(agent, level) as owner_compartment:
            versions = sorted(
                owner_compartment.every_version(), key=lambda each: (each[0].kind, each[0].key, each[0].version)
            )
            found[level] = (versions, list(owner_compartment.entries()))
    return found


def fill(scene: Scene) -> None:
    """Every kind of thing that a backup must bring back."""
    scene.store.session(AGENT, level=Level.RESTRICTED).todos.write([{"content": "sail"}])
    scene.store.session(AGENT, "main", Level.CONFIDENTIAL, ceiling=Level.RESTRICTED)
    scene.store.session(AGENT, "dead", Level.INTERNAL).end()
    scene.save("u17", BREAKS, Level.PUBLIC, "tag", "\u00e9")
    scene.wait()
    scene.save("u17", "second")
    scene.delete("u17")
    scene.wait()
    scene.save("u17", "third")
    scene.save("gone", "deleted", Level.INTERNAL)
    scene.delete("gone", Level.INTERNAL)
    scene.save("u17", "restricted", Level.RESTRICTED)
    scene.wait()
    scene.save("u17", "restricted", Level.RESTRICTED)  # unchanged: the time moves, and an entry


def back_up(scene: Scene) -> Path:
    path = scene.folder / "agent.backup"
    scene.store.transfer(AGENT).backup(path)
    return path


def restore(scene: Scene, path: Path, *, agent: str = AGENT, dry_run: bool = False) -> BackedUp:
    return scene.store.transfer(agent).restore_backup(path, dry_run=dry_run)


def read(path: Path) -> Lines:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).split(b"\n")[:-1]]


def forge(path: Path, change: Callable[[Lines], object]) -> Path:
    """A changed backup, with counts and digest made to fit."""
    lines = read(path)[:-1]
    change(lines)
    counts = {name: sum(key in line for line in lines) for name, key in PARTS.items()}
    body = "".join(f"{to_line(line)}\n" for line in lines).encode()
    end = to_line({"end": counts, "keyed": False, "seal": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    path.write_bytes(gzip.compress(body + end))
    return path


PARTS = {"sessions": "session", "entries": "entry", "versions": "record"}


@pytest.fixture
def pair(opening: Open) -> tuple[Scene, Scene]:
    """A full store, and an empty one."""
    full, empty = opening(), opening()
    fill(full)
    empty.now = full.now + timedelta(days=1)
    return full, empty


def test_p10_levels_versions_deletions_and_chains_are_as_they_were(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    done = restore(empty, back_up(full))
    assert state(empty) == state(full)
    assert done == BackedUp(agent=AGENT, versions=6, entries=12, sessions=2)
    for level in Level:
        with empty.provider.owner_compartment(AGENT, level) as owner_compartment:
            assert first_break(owner_compartment.entries(), owner_compartment.place) is None
    verdicts = empty.store.owner(AGENT).verify()
    assert [verdict.level for verdict in verdicts] == list(reversed(Level))


@pytest.mark.parametrize("reason", ["two\nlines", "e\u0301", "\u202eback", "a\0b", " ", "\ud800", "\x1b" * 300])
def test_whatever_reason_a_host_gave_for_a_raise_can_be_backed_up(pair: tuple[Scene, Scene], reason: str) -> None:
    source, target = pair
    source.store.session(AGENT).raise_taint(Level.INTERNAL, reason=reason)
    file = source.folder / "b"
    source.store.transfer(AGENT).backup(file)
    target.store.transfer(AGENT).restore_backup(file)
    assert state(target) == state(source)


def test_a_restored_agent_works_as_if_nothing_had_happened(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    restore(empty, back_up(full))
    session = empty.store.session(AGENT, level=Level.RESTRICTED)
    assert [(hit.key, hit.classification) for hit in session.memory.search("restricted")] == [("u17", Level.RESTRICTED)]
    assert empty.store.session(AGENT).memory.search("second") == []
    assert empty.content("gone", Level.INTERNAL) is None
    empty.save("gone", "again", Level.INTERNAL)
    assert [version.version for version in empty.store.owner(AGENT).history("gone")] == [2, 1]
    empty.delete("u17")
    assert empty.export()[0]["memories"] == 0


def test_the_index_is_made_anew(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    restore(empty, back_up(full))
    for level in Level:
        with full.provider.view(AGENT, level) as before, empty.provider.view(AGENT, level) as after:
            assert after.visible[0].statistics() == before.visible[0].statistics()
            terms = ["third", "second", "deleted", "restricted"]
            assert _counted(after.visible[0].frequencies(terms)) == _counted(before.visible[0].frequencies(terms))


def _counted(frequencies: Mapping[str, int]) -> dict[str, int]:
    """Terms that stand in no memory may be told or not."""
    return {term: count for term, count in frequencies.items() if count}


def test_a_backup_moves_between_providers(tmp_path: Path) -> None:
    source = Scene(InMemoryProvider(), tmp_path)
    fill(source)
    path = back_up(source)
    target = Scene(SqliteProvider(tmp_path / "home"), tmp_path)
    restore(target, path)
    assert state(target) == state(source)
    again = Scene(InMemoryProvider(), tmp_path, now=target.now)
    restore(again, back_up(target))
    assert state(again) == state(source)
    target.store.close()


def test_p7_p10_sessions_come_back_as_ended_ones_and_their_names_stay_taken(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    restore(empty, back_up(full))
    rows = {row.name: row for row in empty.store.sessions.list(AGENT)}
    assert {name: (row.taint, row.ended) for name, row in rows.items()} == {
        "main": (Level.CONFIDENTIAL, True),
        "dead": (Level.INTERNAL, True),
    }
    with pytest.raises(Refused, match="session ended"):
        empty.store.session(AGENT, "main")
    with pytest.raises(Refused, match="session ended"):
        empty.store.resume(AGENT, "main")


def _make(scene: Scene) -> None:
    """Compartments with nothing in them."""
    with scene.provider.writable_view(AGENT, Level.PUBLIC):
        return


@pytest.mark.parametrize(
    ("taint", "ended", "remains"),
    [
        (Level.RESTRICTED, False, (Level.RESTRICTED, False)),
        (Level.CONFIDENTIAL, False, (Level.CONFIDENTIAL, False)),
        (Level.INTERNAL, False, (Level.INTERNAL, True)),
        (Level.RESTRICTED, True, (Level.RESTRICTED, True)),
    ],
)
def test_p10_no_live_taint_is_lowered_by_a_restore(
    pair: tuple[Scene, Scene], taint: Level, ended: bool, remains: tuple[Level, bool]
) -> None:
    full, empty = pair
    path = back_up(full)
    (main,) = (row for row in full.provider.control.sessions(AGENT) if row.name == "main")
    _make(empty)
    with empty.provider.control.transaction():
        empty.provider.control.insert(SessionRow(main.id, AGENT, "main", taint, Level.RESTRICTED, None))
        if ended:
            empty.provider.control.end(main.id)
    restore(empty, path)
    row = empty.provider.control.read(main.id)
    assert row is not None
    assert (row.taint, row.ended) == remains


def test_a_session_that_was_ended_in_the_backup_does_not_live_on(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    (dead,) = (row for row in full.provider.control.sessions(AGENT) if row.name == "dead")
    _make(empty)
    with empty.provider.control.transaction():
        empty.provider.control.insert(SessionRow(dead.id, AGENT, "dead", Level.RESTRICTED, Level.RESTRICTED, None))
    restore(empty, path)
    assert [row.ended for row in empty.provider.control.sessions(AGENT)] == [True, True]


def test_a_name_that_another_session_has_stays_with_it(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    _make(empty)
    with empty.provider.control.transaction():
        empty.provider.control.insert(SessionRow("other", AGENT, "main", Level.PUBLIC, Level.RESTRICTED, None))
    restore(empty, path)
    assert empty.store.resume(AGENT, "main").id == "other"


def test_p6_a_backup_that_names_another_agents_session_does_not_end_it(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    other = empty.store.session("other", "main", Level.INTERNAL)
    path = forge(back_up(full), _set("session", id=other.id, ended=True))
    with pytest.raises(InvalidArgument, match="another agent's"):
        restore(empty, path)
    assert other.taint is Level.INTERNAL
    assert empty.provider.control.sessions(AGENT) == []
    assert empty.provider.agents() == ["other"]


def test_an_agent_without_named_sessions_needs_no_control_store(opening: Open) -> None:
    full, empty = opening(), opening()
    full.save("k", "x")
    restore(empty, back_up(full))
    assert empty.store.sessions.list(AGENT) == []


def test_only_an_empty_agent_is_restored_into(pair: tuple[Scene, Scene]) -> None:
    full, other = pair
    path = back_up(full)
    other.save("k", "mine", Level.RESTRICTED)
    before = state(other)
    for dry_run in (True, False):
        with pytest.raises(Refused, match="is not empty"):
            restore(other, path, dry_run=dry_run)
    assert state(other) == before
    with pytest.raises(Refused, match="already holds this backup"):
        restore(full, path)


def test_what_was_saved_meanwhile_is_not_written_over(pair: tuple[Scene, Scene]) -> None:
    full, other = pair
    path = back_up(full)

    def meanwhile(what: str, number: int) -> None:
        if (what, number) == ("checked", 1):
            other.save("k", "mine", Level.RESTRICTED)

    with pytest.raises(Refused, match="is not empty"):
        other.store.transfer(AGENT).restore_backup(path, progress=meanwhile)
    assert other.content("k", Level.RESTRICTED) == "mine"
    assert other.content("u17", Level.PUBLIC) is None


def test_nothing_is_restored_when_writing_fails_in_the_middle(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)

    def fail(what: str, number: int) -> None:
        if (what, number) == ("restored", 15):
            raise StorageError("the disk is full; nothing was changed")

    with pytest.raises(StorageError):
        empty.store.transfer(AGENT).restore_backup(path, progress=fail)
    assert empty.provider.agents() == []
    restore(empty, path)
    assert state(empty) == state(full)


def test_a_restore_that_was_cut_off_between_two_levels_goes_on(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    _make(empty)
    versions, entries = state(full)[Level.RESTRICTED]
    with (
        empty.provider.owner_compartment(AGENT, Level.RESTRICTED) as owner_compartment,
        owner_compartment.transaction(),
    ):
        for entry in entries:
            owner_compartment.import_entry(entry)
        for record, newest in versions:
            owner_compartment.import_version(record, None, newest=newest)
    restore(empty, path)
    assert state(empty) == state(full)


def test_a_dry_run_checks_everything_and_makes_nothing(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    assert restore(empty, path, dry_run=True).versions == 6
    assert empty.provider.agents() == []
    assert empty.provider.control.sessions(AGENT) == []


def test_a_backup_is_restored_into_its_own_agent_alone(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    with pytest.raises(InvalidArgument, match="a backup of another agent"):
        restore(empty, back_up(full), agent="other")
    assert empty.provider.agents() == []


def test_there_is_nothing_to_back_up_of_an_agent_that_never_was(scene: Scene) -> None:
    with pytest.raises(NotFound, match="nothing is saved yet for the agent nobody"):
        scene.store.transfer("nobody").backup(scene.folder / "b")
    assert list(scene.folder.iterdir()) == []


def test_a_backup_is_private_and_replaces_the_one_before_when_it_is_whole(
    pair: tuple[Scene, Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    full, _ = pair
    path = back_up(full)
    assert path.stat().st_mode & 0o777 == 0o600
    before = path.read_bytes()
    full.save("k", "new")

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.files.os.replace", _fail)
        with pytest.raises(StorageError):
            full.store.transfer(AGENT).backup(path)
    assert path.read_bytes() == before


def _fail(*_: object) -> None:
    raise OSError


def test_a_backup_that_does_not_read_back_is_not_made(
    pair: tuple[Scene, Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    full, _ = pair
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.transfer.backup.Backup._write_sessions", lambda *_: None)
        patch.setattr("tidegate.transfer.backup_format.BackupSummary.counts", lambda _: {"sessions": 9})
        with pytest.raises(StorageError, match="no backup was made; run `tidegate doctor`"):
            back_up(full)
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.transfer.backup.Backup._inspect", lambda *_: type(_summary())())
        with pytest.raises(StorageError, match="differs from what was written; no backup was made"):
            back_up(full)
    assert [entry.name for entry in full.folder.iterdir()] == []


def _summary() -> Any:
    from tidegate.transfer.backup_format import BackupSummary

    return BackupSummary()


def test_a_store_whose_chain_is_broken_gives_no_backup() -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        scene = Scene(InMemoryProvider(), Path(folder))
        scene.save("k", "x")
        with scene.provider.owner_compartment(AGENT, Level.PUBLIC) as owner_compartment:
            assert isinstance(owner_compartment, InMemoryCompartment)
            owner_compartment._entries[1] = type(owner_compartment._entries[1])(
                1, owner_compartment._entries[1].event, "0" * 64, "f" * 64
            )
        with pytest.raises(StorageError, match="the audit chain of PUBLIC does not hold"):
            back_up(scene)


def test_what_a_purge_that_was_cut_off_has_left_does_not_live_again(opening: Open) -> None:
    full, empty = opening(), opening()
    full.save("k", "first")
    full.save("k", "second")
    full.delete("k")
    with full.provider.owner_compartment(AGENT, Level.PUBLIC) as owner_compartment, owner_compartment.transaction():
        oldest = owner_compartment.versions(RecordKind.MEMORY, "k")[-1]
        owner_compartment.purge_version(VersionId(RecordKind.MEMORY, "k", oldest.version))
        owner_compartment.append(event_of(owner_compartment.place, Act("", full.now, str), Action.PURGE, oldest))
    restore(empty, back_up(full))
    assert state(empty) == state(full)
    assert empty.content("k") is None
    assert empty.store.session(AGENT).memory.list().page().memories == ()


def test_a_backup_holds_nothing_of_what_was_purged(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    full.wait()
    full.store.owner(AGENT).purge(timedelta())
    path = back_up(full)
    text = gzip.decompress(path.read_bytes())
    assert b"deleted" not in text.replace(b"deleted_at", b"")
    assert b"second" not in text
    restore(empty, path)
    assert state(empty) == state(full)


# Damage


@pytest.mark.parametrize("keep", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_backup_that_is_cut_short_is_refused(pair: tuple[Scene, Scene], keep: float) -> None:
    full, empty = pair
    path = back_up(full)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep)])
    _refused(empty, path)


def test_a_backup_with_any_byte_changed_is_refused(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    data = gzip.decompress(path.read_bytes())
    for place in range(0, len(data), 97):
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(gzip.compress(bytes(changed), 1))
        _refused(empty, path)


@pytest.mark.parametrize("text", [b"", b"not a backup", b"\x1f\x8b\x08\x00 broken", gzip.compress(b"{}\n", mtime=0)])
def test_what_is_no_backup_is_refused(pair: tuple[Scene, Scene], text: bytes) -> None:
    _, empty = pair
    path = empty.folder / "x"
    path.write_bytes(text)
    _refused(empty, path)


def test_a_backup_that_is_not_there_is_refused(pair: tuple[Scene, Scene]) -> None:
    _, empty = pair
    _refused(empty, empty.folder / "none")


def _refused(scene: Scene, path: Path, match: str = "file: ") -> None:
    with pytest.raises(InvalidArgument, match=match):
        restore(scene, path)
    assert scene.provider.agents() == []
    assert scene.provider.control.sessions(AGENT) == []


def _first(lines: Lines, part: str) -> dict[str, Any]:
    return next(line[part] for line in lines if part in line)


def _set(part: str, **fields: Any) -> Callable[[Lines], object]:
    return lambda lines: _first(lines, part).update(fields)


def _place(**fields: Any) -> Callable[[Lines], object]:
    return lambda lines: next(line for line in lines if "level" in line).update(fields)


def _move_up(lines: Lines) -> None:
    """A restricted record, passed off as a public one: to its end of the public level's records."""
    place = next(number for number, line in enumerate(lines) if line.get("level") == "INTERNAL")
    record = next(line for line in reversed(lines) if line.get("record", {}).get("kind") == "memory")
    lines.remove(record)
    lines.insert(place, {**record, "record": {**record["record"], "key": "zzz"}})


def _where(lines: Lines, key: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("record", {}).get("key") == key)


def _revive(lines: Lines) -> None:
    """A version that was deleted before it was replaced."""
    record = next(line["record"] for line in lines if line.get("record", {}).get("deleted_at"))
    record["deleted_at"] = None


def _pin(*, newest: bool, deleted: bool = False) -> Callable[[Lines], object]:
    def change(lines: Lines) -> None:
        records = (line["record"] for line in lines if line.get("newest") is newest)
        next(record for record in records if bool(record["deleted_at"]) is deleted)["pinned"] = True

    return change


def _level_down(lines: Lines) -> None:
    place = next(number for number, line in enumerate(lines) if line.get("level") == "INTERNAL")
    lines.insert(place, lines.pop())


def _drop(part: str) -> Callable[[Lines], object]:
    return lambda lines: lines.remove(next(line for line in lines if part in line))


def _swap(part: str) -> Callable[[Lines], object]:
    def change(lines: Lines) -> None:
        one, two = [number for number, line in enumerate(lines) if part in line][:2]
        lines[one], lines[two] = lines[two], lines[one]

    return change


NOT_HELD = "the audit chain of PUBLIC does not hold"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_set("record", content="forged"), f"{NOT_HELD}: version 1 was changed or inserted without an entry"),
        (_set("record", tags=["forged"]), f"{NOT_HELD}: version 1 was changed or inserted"),
        (_set("record", nonce="other"), f"{NOT_HELD}: version 1 was changed or inserted"),
        (_move_up, f"{NOT_HELD}: version 1 was changed or inserted"),
        (_revive, f"{NOT_HELD}: a version is live again, but no entry says that it was restored"),
        (_drop("record"), f"{NOT_HELD}: the version of this entry no longer exists"),
        (_set("entry", detail="forged"), f"{NOT_HELD}: the entry was changed, or written with another key"),
        (_set("entry", hash="0" * 64), f"{NOT_HELD}: the entry was changed, or written with another key"),
        (_set("entry", action="unknown"), "action: is not one of the allowed words"),
        (_drop("entry"), f"{NOT_HELD}: the entry is missing"),
        (_swap("entry"), NOT_HELD),
        (_swap("record"), "the records of PUBLIC are out of order"),
        (lambda lines: _where(lines, "u17")["record"].update(version=7), "the records of PUBLIC are out of order"),
        (lambda lines: _where(lines, "u17").update(newest=True), "the records of PUBLIC are out of order"),
        (lambda lines: lines.append({"entry": {}}) or _level_down(lines), "the entries of PUBLIC are out of order"),
        (_swap("level"), "its levels are out of order"),
        (_place(id="another"), f"{NOT_HELD}: the entries from here on need a key, but none is configured"),
        (_place(id=""), "line 4: id: must not be empty"),
        (_place(id=7), "line 4: id: must be a string"),
        (_place(id=None), "line 4: id: must be a string"),
        (_drop("level"), "its levels are out of order"),
        (lambda lines: lines.insert(1, {"entry": {}}), "its levels are out of order"),
        (lambda lines: lines.insert(1, {"record": {}}), "its levels are out of order"),
        (lambda lines: lines.append(_end_of({})), "is incomplete; use another backup"),
        (lambda lines: lines.insert(0, lines.pop(1)), "is not a backup"),
        (_drop("format"), "is not a backup"),
        (lambda lines: lines[0].update(version=4), "a newer version of Tidegate"),
        (_pin(newest=True), f"{NOT_HELD}: a memory is pinned, but no entry says so"),
        (_pin(newest=False), r"line \d+: pinned: could not have been stored"),
        (_pin(newest=True, deleted=True), r"line \d+: pinned: could not have been stored"),
        (lambda lines: _pin(newest=True)(lines) or lines[0].update(version=2), "pinned: could not have been stored"),
        (_set("record", pinned="yes"), "pinned: must be true or false"),
        (_set("record", kind="other"), r"line \d+: kind: is not one of the allowed words"),
        (_set("record", origin="other"), "origin: is not one of the allowed words"),
        (_set("record", version=0), "version: must be a whole number"),
        (_set("record", version=True), "version: must be a whole number"),
        (_set("record", tags=[1]), "tags: must be a string"),
        (_set("record", created_at="2026-02-30"), "created_at: is not a day of the calendar"),
        (_set("entry", at=None), "at: must be a string"),
        (_set("session", taint="SECRET"), "line 2: taint: must be one of PUBLIC"),
        (lambda lines: lines.append({"other": 1}), "record: is missing"),
    ],
)
def test_a_backup_that_was_changed_is_refused_even_where_its_digest_fits(
    pair: tuple[Scene, Scene], change: Callable[[Lines], object], reason: str
) -> None:
    full, empty = pair
    _refused(empty, forge(back_up(full), change), reason)


def test_a_backup_of_the_last_format_is_restored(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    restore(empty, forge(back_up(full), lambda lines: lines[0].update(version=2)))
    assert state(empty) == state(full)


def test_a_backup_with_more_pins_than_a_level_may_have_is_refused(
    pair: tuple[Scene, Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    full, empty = pair
    for key in ("one", "two"):
        full.save(key, "x")
        full.store.owner(AGENT).pin(key, Level.PUBLIC)
    path = back_up(full)
    monkeypatch.setattr("tidegate.transfer.backup_format.PINNED_MAX", 1)
    _refused(empty, path, r"line \d+: pinned: could not have been stored")


def _end_of(counts: dict[str, int]) -> dict[str, Any]:
    return {"end": counts, "keyed": False, "seal": ""}


def test_what_follows_the_end_is_refused(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    path.write_bytes(path.read_bytes() * 2)
    _refused(empty, path, "has lines after its end; use another backup")


def test_a_backup_that_changes_while_it_is_restored_is_not_restored(pair: tuple[Scene, Scene]) -> None:
    full, empty = pair
    path = back_up(full)
    full.save("later", "x")
    other = full.folder / "other"
    full.store.transfer(AGENT).backup(other)
    restorable = len(read(path)) - 6  # without heading, levels and end

    def change(what: str, number: int) -> None:
        if (what, number) == ("checked", restorable):
            other.replace(path)

    with pytest.raises(InvalidArgument, match="changed while it was read; nothing was restored"):
        empty.store.transfer(AGENT).restore_backup(path, progress=change)
    assert empty.provider.agents() == []


# Keyed chains


def _keyed(folder: Path, name: str, secret: bytes | None) -> StorageProvider:
    return InMemoryProvider(secret=secret) if name == "inmemory" else SqliteProvider(folder / "home", secret=secret)


@pytest.mark.parametrize("name", ["inmemory", "sqlite"])
def test_p9_a_keyed_chain_is_restored_under_the_same_key_alone(tmp_path: Path, name: str) -> None:
    source = Scene(_keyed(tmp_path / "a", name, b"s" * 16), tmp_path)
    fill(source)
    path = back_up(source)
    for number, secret in enumerate((None, b"t" * 16)):
        target = Scene(_keyed(tmp_path / str(number), name, secret), tmp_path)
        _refused(target, path, "another (audit )?key|none is configured")
        target.store.close()
    same = Scene(_keyed(tmp_path / "same", name, b"s" * 16), tmp_path)
    restore(same, path)
    assert state(same) == state(source)
    same.store.close()
    source.store.close()


@pytest.mark.parametrize("name", ["inmemory", "sqlite"])
def test_p9_a_plain_backup_is_not_restored_where_there_is_a_key(tmp_path: Path, name: str) -> None:
    plain = Scene(_keyed(tmp_path / "a", name, None), tmp_path)
    fill(plain)
    path = back_up(plain)
    keyed = Scene(_keyed(tmp_path / "b", name, b"s" * 16), tmp_path)
    _refused(keyed, path, "was made with another audit key, or without one")
    keyed.store.close()
    plain.store.close()


def test_p9_a_chain_that_was_keyed_later_is_restored_as_it_was(tmp_path: Path) -> None:
    plain = Scene(SqliteProvider(tmp_path / "a"), tmp_path)
    fill(plain)
    plain.store.close()
    keyed = Scene(SqliteProvider(tmp_path / "a", secret=b"s" * 16), tmp_path, now=plain.now)
    keyed.save("later", "x")
    path = back_up(keyed)
    target = Scene(SqliteProvider(tmp_path / "b", secret=b"s" * 16), tmp_path)
    restore(target, path)
    assert state(target) == state(keyed)
    assert [verdict.keyed_from is None for verdict in target.store.owner(AGENT).verify()] == [True, True, True, False]
    target.store.close()
    keyed.store.close()


def test_it_can_be_done_while_others_write(tmp_path: Path) -> None:
    home = tmp_path / "home"
    scene = Scene(SqliteProvider(home), tmp_path)
    fill(scene)
    other = Store(SqliteProvider(home), toolset=TOOLS, clock=lambda: scene.now, default_level=Level.PUBLIC)
    told = []

    def write(what: str, number: int) -> None:
        told.append((what, number))
        other.session(AGENT, level=Level.RESTRICTED).memory.save(f"late-{len(told)}", "x")

    scene.store.transfer(AGENT).backup(tmp_path / "b", progress=write)
    assert ("written", 6) in told
    target = Scene(InMemoryProvider(), tmp_path)
    restore(target, tmp_path / "b")
    assert target.content("late-1", Level.RESTRICTED) is None
    assert target.content("u17", Level.RESTRICTED) == "restricted"
    other.close()
    scene.store.close()
