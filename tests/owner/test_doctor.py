"""The doctor: finds whatever is wrong with a home, says where and what to do, and repairs what is safe to."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from tests.core.scene import AGENT
from tests.storage.scene import bytes_of, database

import tidegate
from tidegate.audit.anchors import Anchor
from tidegate.core.guidance import GUIDANCE, INSTRUCTIONS_CHARS
from tidegate.owner.doctor import Doctor
from tidegate.policy.levels import Level
from tidegate.records.finding import Finding, Severity
from tidegate.search.analysis import ANALYSIS_VERSION
from tidegate.storage.sqlite import connection as sqlite_connection
from tidegate.storage.sqlite import home_checks as home_doctor
from tidegate.storage.sqlite.files import MAKING
from tidegate.storage.sqlite.home_checks import examine_place
from tidegate.store import utc_now

FOLDER = f"agents/{AGENT}"
LOW = f"{FOLDER}/public.db"


@pytest.fixture
def made(home: Path) -> Path:
    """A home with memories at two levels, a session, an earlier version, and something deleted."""
    with tidegate.open(home) as store:
        memory = store.session(AGENT, "main", Level.PUBLIC).memory
        memory.save_many((f"k{number}", f"some words {number}", ["t", "u"]) for number in range(9))
        memory.save("k0", "other words")
        memory.delete("k1")
        store.session(AGENT, level=Level.RESTRICTED).memory.save("k", "high words")
    return home


def doctor(home: Path, *, repair: bool = False) -> Doctor:
    return Doctor(home, utc_now, repair, lambda _: None)


def examined(home: Path, *, repair: bool = False) -> list[Finding]:
    return list(doctor(home, repair=repair).examine())


def test_a_file_channel_that_cannot_be_written_is_a_warning(home: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places = ("new/diary", "no/such/diary", "", "file/diary", "file", "diary")
    tables = [f"[channels.c{n}]\nkind = 'file'\npath = '{tmp_path / place}'\n" for n, place in enumerate(places)]
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.toml").write_text("[channels.console]\nkind = 'log'\n" + "".join(tables), encoding="utf-8")
    problem = "its file cannot be written: results for it are not delivered"
    assert told(home) == [("config.toml", f"channels.c{n}: {problem}") for n in (1, 2, 3)]
    assert {finding.severity for finding in examined(home)} == {Severity.WARNING}
    assert not (tmp_path / "new").exists()


def told(home: Path, *, repair: bool = False) -> list[tuple[str, str]]:
    return [(finding.where, finding.problem) for finding in examined(home, repair=repair)]


def only(home: Path) -> Finding:
    (finding,) = examined(home)
    assert finding.advice
    return finding


def spoil(path: Path, *statements: str) -> None:
    """Change a file behind the program's back."""
    with contextlib.closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        for statement in statements:
            connection.execute(statement).fetchall()


# Nothing wrong


def test_a_home_that_is_well_has_no_findings(made: Path) -> None:
    assert examined(made) == []


def test_a_home_that_is_not_there_yet_has_no_findings_and_is_not_made(home: Path) -> None:
    assert examined(home) == []
    assert not home.exists()


def test_looking_changes_nothing_in_any_database(made: Path) -> None:
    before = {name: data for name, data in bytes_of(made).items() if name.endswith(".db")}
    examined(made)
    assert {name: data for name, data in bytes_of(made).items() if name.endswith(".db")} == before


def test_a_home_in_use_is_well_and_its_server_goes_on(made: Path) -> None:
    with tidegate.open(made) as server:
        memory = server.session(AGENT, level=Level.PUBLIC).memory
        memory.save("during", "words")
        assert examined(made) == []
        memory.save("after", "words")
    assert examined(made) == []


def test_every_level_and_every_agent_is_examined_in_turn(made: Path) -> None:
    with tidegate.open(made) as store:
        store.session("second", level=Level.PUBLIC).memory.save("k", "words")
    said: list[str] = []
    assert list(Doctor(made, utc_now, False, said.append).examine()) == []
    names = [level.name.lower() for level in Level]
    assert said == [f"examining agents/{agent}/{name}.db" for agent in (AGENT, "second") for name in names]
    said.clear()
    assert list(Doctor(made, utc_now, False, said.append).examine("second")) == []
    assert len(said) == len(Level)


# Where it lies


def test_a_file_system_whose_locks_cannot_be_trusted_is_found(made: Path) -> None:
    (finding,) = examine_place(made, filesystem=lambda _: "nfs4")
    assert (finding.severity, "nfs4" in finding.problem) == (Severity.ERROR, True)


def test_a_disk_that_is_nearly_full_is_found(made: Path) -> None:
    (finding,) = examine_place(made, free_bytes=lambda _: home_doctor.FREE_BYTES_MIN - 1)
    assert (finding.severity, "99 MiB" in finding.problem) == (Severity.WARNING, True)
    assert list(examine_place(made, free_bytes=lambda _: home_doctor.FREE_BYTES_MIN)) == []


def test_a_home_that_this_user_cannot_use_is_found(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, "home")


def test_a_folder_that_cannot_be_looked_into_keeps_no_other_from_being_examined(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tidegate.open(made) as store:
        store.session("second", level=Level.PUBLIC).memory.save("k", "words")
    spoil(database(made, agent="second"), "DELETE FROM statistics")
    exists = Path.exists

    def refuse(path: Path) -> bool:
        if path.parent.name == AGENT and path.suffix == ".db":
            raise PermissionError
        return exists(path)

    monkeypatch.setattr(Path, "exists", refuse)
    assert [where for where, _ in told(made)] == [FOLDER, "agents/second/public.db"]


def test_a_file_that_this_user_cannot_read_is_found(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access = os.access

    def refuse(path: Path, mode: int, **rest: bool) -> bool:
        return path != database(made) and access(path, mode, **rest)

    monkeypatch.setattr(os, "access", refuse)
    assert (LOW, "this user cannot read it") in told(made)


# Who may use it


@pytest.mark.parametrize("path", [".", "agents", FOLDER, LOW, "control.db"])
def test_what_others_may_use_is_found_and_repaired(made: Path, path: str) -> None:
    target = made / path
    before = target.stat().st_mode & 0o777
    target.chmod(before | 0o044)
    finding = only(made)
    assert (finding.where, oct(before | 0o044)[2:] in finding.problem) == ("home" if path == "." else path, True)
    assert all(each.repaired for each in examined(made, repair=True))
    assert target.stat().st_mode & 0o777 == before
    assert examined(made) == []


@pytest.mark.parametrize("name", ["config.toml", f"{FOLDER}/SPINE.md", f"{FOLDER}/TRIGGER.md"])
def test_what_others_can_write_into_the_agents_ear_is_found(made: Path, name: str) -> None:
    (made / name).write_text("")
    (made / name).chmod(0o644)
    assert examined(made) == []
    (made / name).chmod(0o664)
    assert only(made).where == name


def test_a_key_that_others_can_read_is_found(made: Path) -> None:
    (made / "key").write_bytes(b"k" * 32)
    (made / "config.toml").write_text('[audit]\nkey_file = "key"\n')
    (made / "key").chmod(0o640)
    assert "audit.key_file" in {finding.where for finding in examined(made)}
    (made / "key").chmod(0o600)
    assert "audit.key_file" not in {finding.where for finding in examined(made)}


def test_a_repair_that_cannot_be_done_is_not_said_to_be(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (made / "agents").chmod(0o755)

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "chmod", refuse)
    assert [finding.repaired for finding in examined(made, repair=True)] == [False]


# Which files are there


def test_a_file_left_when_it_was_being_made_is_found_and_removed_once_it_is_old(made: Path) -> None:
    left = made / FOLDER / ".public.db.0123456789abcdef.new"
    left.write_bytes(b"")
    assert examined(made) == []  # somebody may be making it just now
    os.utime(left, (1, 1))
    assert only(made).where == f"{FOLDER}/{left.name}"
    assert [finding.repaired for finding in examined(made, repair=True)] == [True]
    assert not left.exists()


def test_what_is_not_ours_in_an_agents_folder_is_found_and_left_alone(made: Path) -> None:
    stray = made / FOLDER / "public.db.bak"
    stray.write_bytes(b"")
    assert only(made).where == f"{FOLDER}/public.db.bak"
    examined(made, repair=True)
    assert stray.exists()
    stray.unlink()
    (made / "notes.txt").write_text("the owner's own, beside the folders of agents")
    assert examined(made) == []


def test_a_log_without_its_database_is_found(made: Path) -> None:
    for level in Level:
        database(made, level).unlink()
    (made / FOLDER / "public.db-wal").write_bytes(b"some pages")
    (made / FOLDER / "public.db-wal").chmod(0o600)
    assert only(made).where == f"{LOW}-wal"


def test_a_folder_that_can_be_no_agents_is_found(made: Path) -> None:
    (made / "agents" / "No Agent").mkdir(mode=0o700)
    (made / "agents" / "no folder").write_text("")
    assert only(made).where == "agents/No Agent"


def test_a_missing_file_is_found_and_never_made_anew(made: Path) -> None:
    database(made, Level.INTERNAL).unlink()
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, f"{FOLDER}/internal.db")
    examined(made, repair=True)
    assert not database(made, Level.INTERNAL).exists()


def test_a_missing_control_store_is_found_and_never_made_anew(made: Path) -> None:
    (made / "control.db").unlink()
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, "control.db")
    assert not (made / "control.db").exists()


def test_files_that_a_kill_kept_from_being_made_are_found_and_made(home: Path) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, "main", Level.PUBLIC)
    used = database(home, Level.PUBLIC)
    for path in (home / FOLDER).iterdir():
        if path != used:
            path.unlink()
    # Nothing says that the others were still to be made.
    assert {finding.severity for finding in examined(home)} == {Severity.ERROR}
    (home / FOLDER / MAKING).touch()
    finding = only(home)
    assert (finding.severity, finding.where) == (Severity.WARNING, FOLDER)
    assert [each.repaired for each in examined(home, repair=True)] == [True]
    assert all(database(home, level).exists() for level in Level)
    assert examined(home) == []


def test_half_made_files_that_cannot_be_read_count_as_used(made: Path) -> None:
    for level in (Level.INTERNAL, Level.CONFIDENTIAL, Level.RESTRICTED):
        database(made, level).unlink()
    database(made).write_bytes(b"no database" * 1000)
    assert len(told(made)) == 4


def test_files_that_cannot_be_made_are_not_said_to_be(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tidegate.open(home) as store:
        store.session(AGENT, "main", Level.PUBLIC)
    for path in (home / FOLDER).iterdir():
        if path != database(home):
            path.unlink()
    (home / FOLDER / MAKING).touch()

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    assert [finding.repaired for finding in examined(home, repair=True)] == [False]


def test_files_that_come_and_go_while_servers_run_are_no_findings(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = [made / FOLDER / name for name in ("public.db-wal", ".public.db.0123456789abcdef.new")]
    listed = Path.glob

    def glob(path: Path, pattern: str) -> list[Path]:
        return [*listed(path, pattern), *(gone if pattern == "agents/*/*" else [])]

    monkeypatch.setattr(Path, "glob", glob)
    assert examined(made) == []


def test_a_copy_from_before_an_upgrade_is_known_and_a_purge_removes_it(made: Path) -> None:
    folder = made / "agents" / "assistant"
    (folder / "public.db.schema-2").write_bytes((folder / "public.db").read_bytes())
    (folder / "public.db.schema-2").chmod(0o600)
    finding = only(made)
    assert "copy from before an upgrade" in finding.problem
    assert "tidegate purge" in finding.advice
    with tidegate.open(made) as store:
        store.owner("assistant").purge(timedelta())
    assert examined(made) == []


# Settings and guidance


def test_a_wrong_configuration_is_found_and_named(made: Path) -> None:
    (made / "config.toml").write_text("[limits]\nno_such_limit = 1\n")
    (made / "config.toml").chmod(0o600)
    finding = only(made)
    assert (finding.where, finding.problem[:21]) == ("config.toml", "limits.no_such_limit:")


def test_with_a_wrong_configuration_no_chain_is_called_broken(made: Path) -> None:
    anchors = _keyed_later(made)
    assert list(replace(doctor(made), anchors=anchors).examine()) == []
    (made / "config.toml").write_text('[audit]\nkey_file = "lost"\n')
    assert only(made).where == "config.toml"


def test_p9_what_was_entered_before_the_key_needs_an_anchor_of_its_agent_and_level(made: Path) -> None:
    anchors = _keyed_later(made)
    for wrong in ((), [replace(each, agent="another") for each in anchors]):
        found = list(replace(doctor(made), anchors=wrong).examine())
        assert [finding.where for finding in found] == [LOW, f"{FOLDER}/restricted.db"]
        assert all("audit entry 1: from here up to" in finding.problem for finding in found)
        assert all("`tidegate audit anchor`" in finding.advice for finding in found)


def test_a_key_that_is_no_longer_set_is_named_as_the_cause(made: Path) -> None:
    anchors = _keyed_later(made)
    (made / "config.toml").unlink()
    finding = only(made)
    assert "the entries from here on need a key" in finding.problem
    assert "Set `audit.key_file`" in finding.advice
    (made / "config.toml").write_text('[audit]\nkey_file = "key"\n')
    with tidegate.open(made) as store:
        since = store.owner(AGENT).anchor()
    assert anchors != since
    assert list(replace(doctor(made), anchors=since).examine()) == []


def _keyed_later(made: Path) -> list[Anchor]:
    """Give the home a key for its chains; where they ended before."""
    (made / "key").write_bytes(b"k" * 32)
    (made / "key").chmod(0o600)
    with tidegate.open(made) as store:
        anchors = store.owner(AGENT).anchor()
    (made / "config.toml").write_text('[audit]\nkey_file = "key"\n')
    with tidegate.open(made) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("keyed", "words")
    return anchors


@pytest.mark.parametrize("data", [b"\xff\xfe\xff", b"x" * 70_000])
def test_guidance_that_cannot_be_used_is_found(made: Path, data: bytes) -> None:
    (made / FOLDER / "SPINE.md").write_bytes(data)
    (made / FOLDER / "SPINE.md").chmod(0o600)
    finding = only(made)
    assert (finding.where, "SPINE.md" in finding.problem) == (f"{FOLDER}/SPINE.md", False)  # named once


def test_guidance_longer_than_clients_read_is_a_warning_that_says_by_how_much(made: Path) -> None:
    spine = made / FOLDER / "SPINE.md"
    spine.write_text("x" * (INSTRUCTIONS_CHARS - len(GUIDANCE) - 2))
    spine.chmod(0o600)
    assert examined(made) == []
    with spine.open("a") as file:
        file.write("y" * 100)
    found = only(made)
    assert (found.where, found.severity) == (f"{FOLDER}/SPINE.md", Severity.WARNING)
    assert "Shorten it by 100 characters" in found.advice


# Inside a file


@pytest.mark.parametrize("name", [LOW, f"{FOLDER}/restricted.db", "control.db"])
@pytest.mark.parametrize("spoiled", ["garbage", "empty", "cut", "another"])
def test_a_file_that_is_no_database_of_ours_is_found(made: Path, name: str, spoiled: str) -> None:
    path = made / name
    if spoiled == "cut":
        with path.open("r+b") as file:
            file.truncate(4096 * 2)
    else:
        path.write_bytes(b"" if spoiled == "empty" else b"no database at all " * 1000)
    if spoiled == "another":
        path.unlink()
        spoil_new(path)
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, name)


def spoil_new(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE another (program)")
    path.chmod(0o600)


def test_a_page_that_is_garbage_is_found(made: Path) -> None:
    with database(made).open("r+b") as file:
        file.seek(4096 * 4)
        file.write(b"garbage " * 512)
    assert only(made).where == LOW


def test_an_index_of_sqlites_that_disagrees_with_its_table_is_found(made: Path) -> None:
    data = database(made).read_bytes()
    assert data.count(b"memoryk3PUBLIC") == 1  # the row itself; the indexes on its key stand elsewhere
    database(made).write_bytes(data.replace(b"memoryk3PUBLIC", b"memoryk9PUBLIC"))
    finding = only(made)
    assert (finding.where, finding.problem) == (LOW, "it is damaged: pages or indexes disagree")


@pytest.mark.parametrize("name", [LOW, "control.db"])
def test_a_newer_or_changed_schema_is_found(made: Path, name: str) -> None:
    spoil(made / name, "CREATE TABLE another (program)")
    assert "another program changed them" in only(made).problem
    spoil(made / name, "PRAGMA user_version = 99")
    assert only(made).advice == "Upgrade Tidegate."


def test_a_file_under_another_levels_name_is_found(made: Path) -> None:
    shutil.copyfile(database(made, Level.RESTRICTED), database(made))
    assert "another level" in only(made).problem


@pytest.mark.parametrize("label", ["SECRET", "", "public", "RESTRICTED"])
def test_l06_rows_of_an_unknown_level_are_found(made: Path, label: str) -> None:
    values = f"(99, 'memory', 'planted', '{label}', 1, 'x', '[]', 'agent', 'n', 1, 1, NULL, 1, 0, 1, 0)"
    spoil(database(made), f"INSERT INTO records VALUES {values}")
    finding = only(made)
    assert (finding.severity, "unknown level" in finding.problem) == (Severity.ERROR, True)


def test_rows_of_an_unknown_kind_are_found(made: Path) -> None:
    spoil(database(made), "UPDATE versions SET kind = 'nothing'")
    assert "1 of its rows cannot be read: unknown level or kind" in [problem for _, problem in told(made)]


def test_versions_that_belong_to_no_memory_are_found(made: Path) -> None:
    spoil(database(made), "UPDATE versions SET key = 'other'")
    assert "audit: version 1 is hidden, but no later one replaced it" in [problem for _, problem in told(made)]
    assert not any("purge" in finding.advice for finding in examined(made))


@pytest.mark.parametrize("column", ["taint", "ceiling"])
def test_sessions_of_an_unknown_level_are_found(made: Path, column: str) -> None:
    spoil(made / "control.db", f"UPDATE sessions SET {column} = 'SECRET'")
    assert only(made).where == "control.db"


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM terms WHERE rowid = 3",
        "INSERT INTO terms (rowid, key, tags, content) VALUES (99, 'x', 'y', 'z')",
        "DELETE FROM vocabulary WHERE word = 'words'",
        "UPDATE statistics SET documents = documents + 1",
        "UPDATE statistics SET content_terms = content_terms - 1",
        "UPDATE records SET content_terms = content_terms + 1 WHERE id = 3",
        "DELETE FROM statistics",
        "DELETE FROM terms WHERE rowid = 3; INSERT INTO terms (rowid, key, tags, content) VALUES (3, 'x', 'y', 'z')",
        f"UPDATE compartment SET analysis = {ANALYSIS_VERSION + 7}",
        f"UPDATE compartment SET analysis = {-ANALYSIS_VERSION}",
    ],
)
def test_an_index_that_disagrees_with_the_memories_is_found_and_made_anew(made: Path, change: str) -> None:
    spoil(database(made), change)
    assert {finding.where for finding in examined(made)} == {LOW}
    assert all(finding.repaired for finding in examined(made, repair=True))
    assert examined(made) == []
    with tidegate.open(made) as store:
        assert len(store.session(AGENT, level=Level.PUBLIC).memory.search("words")) == 8


def test_an_index_that_agrees_with_itself_and_not_with_the_memories_is_found_and_made_anew(made: Path) -> None:
    with tidegate.open(made) as store, store._provider.owner_compartment(AGENT, Level.PUBLIC) as owner_compartment:
        with owner_compartment.transaction():
            owner_compartment.clear_index()
        from tidegate.search.analysis import analyse

        with owner_compartment.transaction():
            for record in owner_compartment.unindexed(after="", limit=99):
                owner_compartment.index(record, analyse(record.key, record.tags, "other text"))
            owner_compartment.mark_index_complete()
    finding = only(made)
    assert "does not match the memories" in finding.problem
    assert all(each.repaired for each in examined(made, repair=True))
    assert examined(made) == []


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM tagged WHERE key = 'k3'",
        "INSERT INTO tagged VALUES ('memory', 'x', 'k3', 0)",
        "UPDATE tagged SET saved_at = 0",
    ],
)
def test_tags_that_disagree_with_the_memories_are_found_and_made_anew(made: Path, change: str) -> None:
    spoil(database(made), change)
    assert "tags" in only(made).problem
    assert [finding.repaired for finding in examined(made, repair=True)] == [True]
    assert examined(made) == []
    with tidegate.open(made) as store:
        assert [len(list(store.session(AGENT, level=Level.PUBLIC).memory.list(tag))) for tag in ("t", "x")] == [7, 0]


def test_a_broken_chain_is_found_and_its_entry_named(made: Path) -> None:
    spoil(database(made), "UPDATE audit SET detail = 'forged' WHERE sequence = 4")
    finding = only(made)
    assert (finding.severity, finding.problem.startswith("audit entry 4: ")) == (Severity.ERROR, True)
    examined(made, repair=True)
    assert only(made) == finding


def test_a_change_without_its_entry_is_found(made: Path) -> None:
    spoil(database(made), "UPDATE records SET nonce = 'forged' WHERE key = 'k3'")
    assert {finding.where for finding in examined(made)} == {LOW}
    assert any("without an entry" in problem for _, problem in told(made))


@pytest.mark.parametrize("change", ["tags = 'no list'", "origin = 'nobody'", "content = CAST(x'ff' AS TEXT)"])
def test_a_row_that_nobody_can_read_is_found_and_keeps_nothing_else_from_being(made: Path, change: str) -> None:
    spoil(database(made), f"UPDATE records SET {change} WHERE key = 'k3'")
    spoil(database(made, Level.RESTRICTED), "DELETE FROM statistics")
    assert {finding.where for finding in examined(made)} == {LOW, f"{FOLDER}/restricted.db"}


def test_a_file_that_is_busy_all_the_time_is_a_finding_and_not_an_end(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_TIMEOUT_MS", 1)
    with contextlib.closing(apsw.Connection(str(database(made)))) as writer:
        writer.pragma("locking_mode", "exclusive")
        writer.execute("BEGIN EXCLUSIVE; DELETE FROM tagged")
        assert {finding.where for finding in examined(made)} == {LOW}
        writer.execute("ROLLBACK")


def test_a_repair_that_meets_a_writer_is_a_finding(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_connection, "BUSY_TIMEOUT_MS", 1)
    spoil(database(made), "DELETE FROM statistics")
    with contextlib.closing(apsw.Connection(str(database(made)))) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert not any(finding.repaired for finding in examined(made, repair=True))
    assert all(finding.repaired for finding in examined(made, repair=True))


# Together


def test_all_that_is_wrong_at_once_is_found_at_once(made: Path) -> None:
    spoil(database(made), "DELETE FROM statistics", "DELETE FROM tagged")
    spoil(made / "control.db", "UPDATE sessions SET taint = 'SECRET'")
    database(made, Level.INTERNAL).write_bytes(b"no database" * 1000)
    made.chmod(0o755)
    wheres = {finding.where for finding in examined(made)}
    assert wheres == {LOW, "control.db", f"{FOLDER}/internal.db", "home"}


_WRITER = """
import sys, tidegate
with tidegate.open(sys.argv[1]) as store:
    memory = store.session("assistant").memory
    print("ready", flush=True)
    for number in range(100000):
        memory.save(f"k{number % 20}", f"words {number}", ["t"])
"""


def test_while_another_process_writes_nothing_is_wrong(made: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", _WRITER, str(made)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        try:
            for _ in range(5):
                assert examined(made) == []
        finally:
            writer.kill()


@contextlib.contextmanager
def forgotten(made: Path) -> Iterator[tidegate.Store]:
    """A store that the home's sessions change in; then the control store from before is put back."""
    older = (made / "control.db").read_bytes()
    with tidegate.open(made) as store:
        yield store
    (made / "control.db").write_bytes(older)


def test_p4_an_older_copy_of_the_control_store_under_lower_taints_is_found(made: Path) -> None:
    with forgotten(made) as store:
        store.session(AGENT, "main", Level.RESTRICTED).memory.save("k", "other high words")
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, "control.db")
    assert "'main' is at PUBLIC" in finding.problem
    assert "RESTRICTED" in finding.problem
    with tidegate.open(made) as store:
        assert store.session(AGENT, "main", Level.PUBLIC).taint is Level.RESTRICTED
    assert told(made) == []


@pytest.mark.parametrize("act", ["raise", "reset"])
def test_p4_a_raise_or_a_reset_that_the_audit_alone_knows_is_found_and_made_good_by_opening(
    made: Path, act: str
) -> None:
    with forgotten(made) as store:
        if act == "raise":
            store.session(AGENT, "main", Level.RESTRICTED)
        else:
            store.sessions.reset(store.sessions.find(AGENT, "main").id)
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.WARNING, "control.db")
    assert ("was raised to RESTRICTED" if act == "raise" else "that it ended") in finding.problem
    with tidegate.open(made) as store, contextlib.suppress(tidegate.Refused):
        store.session(AGENT, "main", Level.PUBLIC)
    assert told(made) == []


def test_p4_sessions_that_the_control_store_lacks_are_found_and_their_end_is_advised(made: Path) -> None:
    with forgotten(made) as store:
        store.session(AGENT, "opened alone", Level.PUBLIC)
        for number in range(2):
            store.session(AGENT, f"acting {number}", Level.PUBLIC).memory.save("k", "words")
    finding = only(made)
    assert (finding.severity, finding.where) == (Severity.ERROR, "control.db")
    assert "lacks 2 of the sessions" in finding.problem
    assert "session reset --lost" in finding.advice
    with tidegate.open(made) as store:
        assert store.owner(AGENT).end_lost()
    assert told(made) == []


def test_p4_where_the_control_store_cannot_be_read_that_alone_is_said(made: Path) -> None:
    (made / "control.db").write_bytes(b"no database, but as long as a header of one would be: " * 9)
    assert {where for where, _ in told(made)} == {"control.db"}


def test_a_home_and_settings_that_are_reached_by_a_link_are_not_faulty(made: Path, tmp_path: Path) -> None:
    (tmp_path / "settings").write_text("")
    (tmp_path / "settings").chmod(0o600)
    (made / "config.toml").unlink(missing_ok=True)
    (made / "config.toml").symlink_to(tmp_path / "settings")
    (tmp_path / "link").symlink_to(made)
    assert told(tmp_path / "link") == []
    (tmp_path / "settings").chmod(0o666)
    assert [where for where, _ in told(tmp_path / "link")] == ["config.toml"]


def test_a_database_that_is_a_link_is_told_and_what_is_beside_it_is_private(made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    shutil.move(made / LOW, elsewhere)
    (made / LOW).symlink_to(elsewhere)
    elsewhere.chmod(0o644)
    assert (LOW, "other users can access it: its mode is 644") in told(made)
    elsewhere.chmod(0o644)
    with tidegate.open(made) as store:
        store.session(AGENT, "main", Level.PUBLIC).memory.save("k", "more words")
        beside = [elsewhere.with_name(elsewhere.name + suffix) for suffix in ("", "-wal", "-shm")]
        assert [path.stat().st_mode & 0o777 for path in beside] == [0o600] * 3
        beside[1].chmod(0o640)
        assert (f"{LOW}-wal", "other users can access it: its mode is 640") in told(made)
    assert [(each.where, each.severity) for each in examined(made)] == [(LOW, Severity.WARNING)]


def test_an_erase_removes_what_a_link_leads_to(made: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.db"
    shutil.move(made / LOW, elsewhere)
    (made / LOW).symlink_to(elsewhere)
    with tidegate.open(made) as store:
        store.owner(AGENT).erase()
    assert list(tmp_path.glob("elsewhere*")) == []
    assert not (made / LOW).is_symlink()


def test_what_a_rule_newly_covers_is_named(made: Path) -> None:
    with tidegate.open(made) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("a", "words", ["Temp", "u"])
        store.session(AGENT, level=Level.PUBLIC).memory.save("b", "words", ["TEMP"])
        store.session(AGENT, level=Level.PUBLIC).memory.save("c", "words", ["temp"])
        store.session(AGENT, level=Level.RESTRICTED).memory.save("d", "words", ["T"])
    (made / "config.toml").write_text('[expiry.tags]\ntemp = "9000d"\nt = "9000d"\nnone = "1d"\n', encoding="utf-8")
    assert told(made) == [
        (
            LOW,
            "expiry.tags: the rule for 'temp' also covers 2 memories whose tag is written differently, "
            "such as 'TEMP', 'Temp'",
        ),
        (
            f"{FOLDER}/restricted.db",
            "expiry.tags: the rule for 't' also covers 1 memory whose tag is written differently, such as 'T'",
        ),
    ]
    assert all(finding.severity is Severity.WARNING for finding in examined(made))
