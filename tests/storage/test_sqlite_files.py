"""The files of a home: which are opened and how, who may read them, what is in them, how they come to be."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.storage.scene import bytes_of, database, opened, raw

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.storage.sqlite import files as sqlite_files
from tidegate.storage.sqlite.disk import filesystem_of, is_coherent
from tidegate.storage.sqlite.files import MAKING, open_compartment
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.storage.sqlite.schema import COMPARTMENT_VERSION, CONTROL_VERSION

ALL = [f"{level.name.lower()}.db" for level in Level]

# Reads and saves at a level, then says which databases this process has open, and whether for writing.
OPEN_FILES = """
import json, os, sys, tidegate
home, level = sys.argv[1], tidegate.Level[sys.argv[2]]
with tidegate.open(home) as store:
    session = store.session("assistant", "s", level)
    session.memory.save("k", "content")
    session.memory.get("k"), session.memory.search("content"), list(session.memory.list()), session.memory.delete("k")
    seen = {}
    for number in os.listdir("/proc/self/fd"):
        try:
            path = os.readlink(f"/proc/self/fd/{number}")
        except FileNotFoundError:
            continue
        if path.startswith(home):
            flags = int(open(f"/proc/self/fdinfo/{number}").read().split("flags:")[1].split()[0], 8)
            seen.setdefault(os.path.relpath(path, home), []).append(flags & os.O_ACCMODE != os.O_RDONLY)
    print(json.dumps(seen))
"""


@pytest.fixture
def made(home: Path) -> Path:
    """A home where every level has been written to, closed in good order."""
    with opened(home) as store:
        for level in Level:
            store.session("assistant", level.name, level).memory.save("k", f"words at {level.name}", ["t"])
    return home


@pytest.fixture
def _free_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def databases(home: Path) -> dict[str, bytes]:
    return {name: data for name, data in bytes_of(home).items() if name.endswith(".db")}


def but_shared_memory(home: Path) -> dict[str, bytes]:
    """Every byte that says something: not the memory that processes share, nor a log without an entry."""
    return {name: data for name, data in bytes_of(home).items() if data and not name.endswith("-shm")}


# What is opened


@pytest.mark.parametrize("level", Level)
def test_a_process_opens_its_own_file_for_writing_lower_ones_for_reading_and_no_higher_one(
    made: Path, level: Level
) -> None:
    done = subprocess.run([sys.executable, "-c", OPEN_FILES, str(made), level.name], capture_output=True, check=True)
    seen = json.loads(done.stdout)
    mains = {name: any(writable) for name, writable in seen.items() if name.endswith(".db") and name != "control.db"}
    assert mains == {f"agents/assistant/{each.name.lower()}.db": each is level for each in Level if each <= level}
    above = [name for name in seen for each in Level if each > level and f"/{each.name.lower()}." in name]
    assert above == []


@pytest.mark.parametrize(
    "spoil", [lambda path: path.write_bytes(b"garbage" * 999), Path.unlink, lambda path: path.write_bytes(b"")]
)
def test_whatever_happens_to_a_higher_file_a_lower_session_notices_nothing(made: Path, spoil: object) -> None:
    for level in (Level.CONFIDENTIAL, Level.RESTRICTED):
        spoil(database(made, level))  # type: ignore[operator]
    with opened(made) as store:
        memory = store.session("assistant", level=Level.INTERNAL).memory
        assert [each.key for each in memory.list()] == ["k"]
        assert [hit.content for hit in memory.search("words")] == ["words at INTERNAL"]
        assert memory.save("k2", "more").version == 1
        assert memory.delete("k").still_visible is Level.PUBLIC


@pytest.mark.parametrize("level", [Level.INTERNAL, Level.RESTRICTED])
def test_using_a_session_changes_no_byte_of_another_levels_database(made: Path, level: Level) -> None:
    before = bytes_of(made)
    with opened(made) as store:
        memory = store.session("assistant", level.name).memory
        memory.save("new", "text")
        memory.save("k", "other")
        memory.search("words")
        memory.delete("new")
    after = databases(made)
    changed = {name for name in after if before.get(name) != after[name]}
    assert changed == {f"agents/assistant/{level.name.lower()}.db"}


# Who may read them


@pytest.mark.usefixtures("_free_umask")
def test_files_are_0600_and_folders_0700_under_any_umask_while_in_use(home: Path) -> None:
    with opened(home) as store:
        store.session("assistant", "main", Level.CONFIDENTIAL).memory.save("k", "content")
        store.session("assistant", "main").memory.get("k")
        modes = {str(path.relative_to(home.parent)): path.stat().st_mode for path in [home, *home.rglob("*")]}
    folders = {name for name, mode in modes.items() if stat.S_ISDIR(mode)}
    assert folders == {"home", "home/agents", "home/agents/assistant"}
    assert {"home/control.db-wal", "home/control.db-shm", "home/agents/assistant/confidential.db-wal"} <= set(modes)
    for name, mode in modes.items():
        assert stat.S_IMODE(mode) == (0o700 if name in folders else 0o600), name


# What is in them


def test_the_files_of_a_home_are_where_the_documentation_says(made: Path) -> None:
    assert sorted(bytes_of(made)) == [*sorted(f"agents/assistant/{name}" for name in ALL), "control.db", "reserve"]


def test_any_sqlite_can_read_a_file(made: Path) -> None:
    path = database(made)
    assert raw(path, "PRAGMA user_version") == [(COMPARTMENT_VERSION,)]
    assert raw(path, "PRAGMA integrity_check") == [("ok",)]
    assert raw(path, "SELECT agent, level FROM compartment") == [("assistant", "PUBLIC")]
    assert raw(path, "SELECT key, content, level FROM records") == [("k", "words at PUBLIC", "PUBLIC")]
    assert [row[0] for row in raw(path, "SELECT action FROM audit ORDER BY sequence")] == ["open", "save"]
    assert raw(made / "control.db", "PRAGMA user_version") == [(CONTROL_VERSION,)]


def test_reads_change_no_byte_of_any_database(made: Path) -> None:
    before = bytes_of(made)
    with opened(made) as store:
        memory = store.session("assistant", "RESTRICTED").memory
        memory.get("k")
        memory.search("words")
        list(memory.list("t"))
    assert {**databases(made), "reserve": before["reserve"]} == before


def test_no_statement_is_compiled_anew_for_another_value(made: Path) -> None:
    compiled_again: list[int] = []

    def note(event: dict[str, dict[str, int]]) -> None:
        compiled_again.append(event["stmt_status"]["SQLITE_STMTSTATUS_REPREPARE"])

    path = database(made)
    with closing(open_compartment(path, "assistant", Level.PUBLIC, writable=False, synchronous="NORMAL")) as db:
        db.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        for word in ("words", "at", "public"):
            assert db.execute("SELECT count(*) FROM terms WHERE terms MATCH ?", (word,)).fetchall() == [(1,)]
    assert len(compiled_again) > 3  # those of FTS5 itself are among them
    assert not any(compiled_again)


def test_many_saves_in_one_transaction_leave_one_piece_of_index(home: Path) -> None:
    with opened(home) as store:
        store.session("assistant").memory.save_many([(f"k{number}", f"word{number}", ["t"]) for number in range(20)])
    assert raw(database(home), "SELECT count(DISTINCT segid) FROM terms_idx") == [(1,)]


# How they come to be


def test_a_read_of_an_unknown_agent_makes_nothing(home: Path) -> None:
    with opened(home) as store:
        memory = store.session("assistant", level=Level.RESTRICTED).memory
        assert (memory.get("k"), memory.search("words"), list(memory.list())) == (None, [], [])
        assert store.sessions.list("assistant") == []
    assert not home.exists()


@pytest.mark.parametrize(
    "name", ["a b", "a?b", "a#b", "a%41b", "a&mode=memory", "file:a", "\u00e9\U0001f600", "a'b\"", "~"]
)
def test_a_path_is_a_path_whatever_is_in_it(tmp_path: Path, name: str) -> None:
    home = tmp_path / name / "home"
    with opened(home) as store:
        store.session("assistant", "main").memory.save("k", "content")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert len(bytes_of(home)) == 6
    with opened(home) as store:
        assert store.session("assistant", "main").memory.get("k") is not None


@pytest.mark.parametrize("left", range(1, 5))
def test_a_kill_while_the_files_are_made_heals(home: Path, left: int) -> None:
    with SqliteProvider(home).writable_view("assistant", Level.PUBLIC):
        pass
    for name in ALL[left:]:
        (home / "agents" / "assistant" / name).unlink()
    (home / "agents" / "assistant" / MAKING).touch()
    stray = home / "agents" / "assistant" / ".public.db.0123.new"
    stray.write_bytes(b"half")
    with opened(home) as store:
        assert store.session("assistant", level=Level.RESTRICTED).memory.get("k") is None
        store.session("assistant", level=Level.RESTRICTED).memory.save("k", "content")
    with opened(home) as store:
        assert store.session("assistant", level=Level.RESTRICTED).memory.get("k") is not None
    stray.unlink()
    assert len(databases(home)) == 5


def test_making_the_files_leaves_nothing_else_behind_when_it_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", fail)
        with opened(home) as store, pytest.raises(StorageError, match="home: cannot be written"):
            store.session("assistant", "main")
    assert bytes_of(home) == {}
    with opened(home) as store:
        store.session("assistant", "main").memory.save("k", "content")


def test_what_is_made_is_made_to_stay_after_a_loss_of_power(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synchronised: list[str] = []
    fsync = os.fsync

    def watch(descriptor: int) -> None:
        synchronised.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", watch)
    with opened(home) as store:
        store.session("assistant", "main")
    folders = [home.parent, home, home / "agents", home / "agents" / "assistant"]
    assert {str(folder) for folder in folders} <= set(synchronised)
    assert synchronised.count(str(home / "agents" / "assistant")) == 5  # the mark, then each file once it has its name


# Versions of the schema


def stray_log(path: Path) -> None:
    """Leave a log beside a database, as a kill does, with a commit in it that the database itself has not."""
    script = f"""
import os, sqlite3
db = sqlite3.connect({str(path)!r}, isolation_level=None)
db.execute("PRAGMA wal_autocheckpoint = 0")
db.execute("PRAGMA user_version = 99")
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", script], check=True)
    assert path.with_name(path.name + "-wal").stat().st_size > 0


@pytest.mark.parametrize("with_log", [False, True])
@pytest.mark.parametrize("name", ["agents/assistant/internal.db", "agents/assistant/public.db", "control.db"])
def test_a_newer_schema_is_refused_with_every_byte_untouched(made: Path, name: str, with_log: bool) -> None:
    if with_log:
        stray_log(made / name)
    else:
        raw(made / name, "PRAGMA user_version = 99")
    before = but_shared_memory(made)
    with opened(made) as store:
        for act in (
            lambda: store.session("assistant", "INTERNAL").memory.save("k", "other"),
            lambda: store.session("assistant", "INTERNAL").memory.get("k"),
            lambda: store.session("assistant", "INTERNAL").memory.delete("k"),
        ):
            with pytest.raises(StorageError, match="newer version"):
                act()
    assert but_shared_memory(made) == before


def test_m04_two_versions_of_the_program_on_one_home_the_older_is_refused_while_it_runs(made: Path) -> None:
    with opened(made) as store:
        session = store.session("assistant", "PUBLIC")
        session.memory.get("k")
    raw(database(made), f"PRAGMA user_version = {COMPARTMENT_VERSION + 1}")
    with opened(made) as store:
        for name in ("PUBLIC", None):
            for _ in range(2):
                with pytest.raises(StorageError, match="newer version"):
                    store.session("assistant", name).memory.save("k", "other")


# Which file bears the name


@pytest.fixture
def _always_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_files, "CHECK_SECONDS", 0.0)


@pytest.mark.usefixtures("_always_checked")
@pytest.mark.parametrize("gone", [["public.db"], ALL, None])
def test_d04_files_removed_while_in_use_are_an_error_and_not_an_empty_answer(
    made: Path, gone: list[str] | None
) -> None:
    with opened(made) as store:
        memory = store.session("assistant", "PUBLIC").memory
        assert memory.get("k") is not None
        if gone is None:
            shutil.rmtree(made)
        for name in gone or []:
            database(made).with_name(name).unlink()
        for _ in range(2):
            for act in (
                lambda: memory.get("k"),
                lambda: memory.search("words"),
                lambda: list(memory.list()),
                lambda: memory.save("k", "other"),
                lambda: memory.delete("k"),
            ):
                with pytest.raises(StorageError):
                    act()
        with pytest.raises(StorageError):
            store.session("assistant", "new")
    assert not database(made).exists()


@pytest.mark.parametrize("name", ["public.db", "public.db-wal"])
def test_d04_a_save_into_a_file_that_was_removed_is_never_acknowledged(made: Path, name: str) -> None:
    with opened(made) as store:
        memory = store.session("assistant", "PUBLIC").memory
        memory.save("k", "one")
        database(made).with_name(name).unlink()
        with pytest.raises(StorageError, match="removed while in use"):
            memory.save("k", "two")


@pytest.mark.usefixtures("_always_checked")
def test_a_file_put_in_the_place_of_another_is_used_and_its_log_left_alone(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "backup")
    with opened(made) as store:
        memory = store.session("assistant", "PUBLIC").memory
        memory.save("k", "later")
        for suffix in ("", "-wal", "-shm"):
            database(made).with_name(f"public.db{suffix}").unlink(missing_ok=True)
        shutil.copy2(database(tmp_path / "backup"), database(made))
        with opened(made, prefix="x") as other:
            other.session("assistant", "PUBLIC").memory.save("new", "by the other")
            found = memory.get("k")
            assert found is not None
            assert found.content == "words at PUBLIC"
            assert memory.get("new") is not None
            other.session("assistant", "PUBLIC").memory.save("newer", "by the other")
        assert memory.get("newer") is not None
    with opened(made) as store:
        assert [each.key for each in store.session("assistant", "PUBLIC").memory.list()] == ["k", "new", "newer"]


@pytest.mark.usefixtures("_always_checked")
def test_a_control_store_removed_while_in_use_lowers_no_taint(made: Path) -> None:
    with opened(made) as store:
        session = store.session("assistant", "PUBLIC")
        session.raise_taint(Level.CONFIDENTIAL)
        (made / "control.db").unlink()
        for act in (
            lambda: session.taint,
            lambda: session.memory.get("k"),
            lambda: session.raise_taint(Level.RESTRICTED),
            lambda: store.session("assistant", "PUBLIC"),
            lambda: store.session("assistant", "new"),
        ):
            with pytest.raises(StorageError):
                act()
    assert not (made / "control.db").exists()
    with opened(made) as store, pytest.raises(StorageError, match=r"control\.db is missing"):
        store.session("assistant", "PUBLIC")


def test_a_raise_into_a_control_store_that_was_removed_is_never_acknowledged(made: Path) -> None:
    with opened(made) as store:
        session = store.session("assistant", "PUBLIC")
        session.raise_taint(Level.INTERNAL)
        (made / "control.db").unlink()
        with pytest.raises(StorageError):
            session.raise_taint(Level.RESTRICTED)


def test_a_control_store_removed_in_mid_transaction_takes_no_change_with_it_unsaid(made: Path) -> None:
    with closing(SqliteProvider(made)) as provider:
        session = provider.control.sessions("assistant")[0].id
        with pytest.raises(StorageError, match=r"control\.db was"), provider.control.transaction():  # noqa: PT012 - at the end
            provider.control.set_taint(session, Level.RESTRICTED)
            (made / "control.db").unlink()


def test_the_control_store_is_changed_in_transactions_only(made: Path) -> None:
    with closing(SqliteProvider(made)) as provider:
        session = provider.control.sessions("assistant")[0]
        for act in (
            lambda: provider.control.set_taint(session.id, Level.RESTRICTED),
            lambda: provider.control.end(session.id),
        ):
            with pytest.raises(StorageError, match="transactions only"):
                act()
        assert provider.control.read(session.id) == session


def test_no_new_files_for_an_agent_that_had_some(made: Path) -> None:
    shutil.rmtree(made / "agents" / "assistant")
    with opened(made) as store:
        for act in (
            lambda: store.session("assistant", "PUBLIC").memory.save("k", "other"),
            lambda: store.session("assistant").memory.save("k", "other"),
            lambda: store.session("assistant").memory.search("words"),
            lambda: store.session("assistant", "new"),
        ):
            with pytest.raises(StorageError, match="missing"):
                act()
        store.session("other", "main").memory.save("k", "content")
    assert not (made / "agents" / "assistant").exists()


# Where they may lie


@pytest.mark.parametrize(
    "name", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "fuse.s3fs", "fuse.rclone", "ceph", "NFS", "vboxsf"]
)
def test_d03_a_store_on_a_network_file_system_is_refused_with_advice(home: Path, name: str) -> None:
    assert not is_coherent(name)
    with pytest.raises(StorageError, match=rf"home: is on {name}.*local disk"):
        SqliteProvider(home, filesystem=lambda _: name)
    assert not home.exists()


@pytest.mark.parametrize(
    "name", [None, "ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuseblk", "fuse", "nfsish"]
)
def test_d03_other_file_systems_are_believed(name: str | None) -> None:
    assert is_coherent(name)


def test_d03_the_file_system_is_that_of_the_nearest_folder_there_is(tmp_path: Path) -> None:
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 999:1 / / rw - ext4 /dev/root rw\n"
        f"2 1 {os.major(device)}:{os.minor(device)} / /somewhere\\040else rw,relatime shared:1 - nfs4 host:/x rw\n"
    )
    assert filesystem_of(tmp_path / "not" / "there", mounts) == "nfs4"
    assert filesystem_of(tmp_path, tmp_path / "no table") is None
    mounts.write_text("nothing of use\n")
    assert filesystem_of(tmp_path, mounts) is None
