"""Transfer under hostile files and sudden ends: no crash, nothing higher taken in, nothing half done."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.scene import AGENT, Scene

import tidegate
from tidegate.errors import Refused, TidegateError
from tidegate.policy.levels import Level
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.storage.sqlite.provider import SqliteProvider
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.registry import open_source

SEEDS = [
    {"format": "tidegate-export", "version": 1, "agent": "a", "level": "RESTRICTED", "memories": 1},
    {"key": "k", "content": "CANARY", "tags": ["t"], "classification": "RESTRICTED", "updated_at": "2024-01-01"},
    {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["x"]},
    {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "r"},
    {"results": [{"id": "1", "memory": "x", "categories": ["c"]}]},
    [{"conversations_memory": "**A**\nx", "project_memories": {"p": "y"}, "memory_files": [{}]}],
    [{"id": "1", "content": "x", "enabled": True, "created_at": 1}],
    [{"content": "x", "content_hash": "h", "tags": ["level:restricted"], "memory_type": "t", "metadata": {"a": 1}}],
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([str(each) for each in Level]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
RELAXED = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def changed(draw: st.DrawFn) -> str:
    """Some lines of the seeds, a field of each changed to anything."""
    lines = []
    for seed in draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=4)):
        record = json.loads(json.dumps(seed))
        inner = record[0] if isinstance(record, list) else record
        inner[draw(st.sampled_from(sorted(inner)))] = draw(VALUES)
        lines.append(json.dumps(record))
    return "\n".join(lines)


@RELAXED
@given(text=changed() | st.text() | st.binary(), source=st.none() | st.sampled_from(Source), seed=st.integers(0, 9))
def test_any_file_is_read_or_refused_with_a_word(
    tmp_path: Path, text: str | bytes, source: Source | None, seed: int
) -> None:
    path = tmp_path / f"source{seed}.md"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    try:
        for each in open_source(path, source).read():
            assert isinstance(each, RawMemory | Rejected)
    except TidegateError as refused:
        message = refused.message
    else:
        message = ""
    assert str(tmp_path) not in message


@RELAXED
@given(text=changed(), level=st.sampled_from([Level.PUBLIC, Level.INTERNAL, Level.CONFIDENTIAL]))
def test_p10_no_file_brings_in_what_it_labels_higher_or_at_another_level(
    tmp_path: Path, text: str, level: Level
) -> None:
    scene = Scene(InMemoryProvider(), tmp_path)
    path = scene.file(text)
    try:
        taken = scene.take(path, level)
    except TidegateError:
        assert scene.provider.agents() == []
        return
    assert "CANARY" not in "".join(taken.said)
    lines = scene.export(Level.RESTRICTED)[1:]
    assert {line["classification"] for line in lines} <= {str(level)}
    allowed = {read.get("key") for read in _objects(text) if read.get("classification", "RESTRICTED") != "RESTRICTED"}
    assert {line["key"] for line in lines if line["content"] == "CANARY"} <= allowed


def _objects(text: str) -> list[dict[str, object]]:
    """The lines that are objects; one without a label counts as free only where no heading stands above it."""
    found: list[dict[str, object]] = []
    heading: object = "PUBLIC"
    for record in map(json.loads, text.split("\n")):
        if isinstance(record, dict) and record.get("format") == "tidegate-export":
            heading = record.get("level", "PUBLIC")
        elif isinstance(record, dict):
            found.append({"classification": heading, **record})
    return found


KILLED = """
import contextlib, os, sys, tidegate
from tidegate import Level
home, path, act, stage, number = sys.argv[1:]

def die(what, done):
    if (what, done) == (stage, int(number)):
        os._exit(9)

if stage == "committed":  # of so many levels, and no more
    from tidegate.storage.sqlite.owner_compartment import SqliteOwnerCompartment
    honest, left = SqliteOwnerCompartment.transaction, int(number)

    @contextlib.contextmanager
    def transaction(compartment, **settings):
        global left
        with honest(compartment, **settings):
            yield
        left -= 1
        if left == 0:
            os._exit(9)

    SqliteOwnerCompartment.transaction = transaction

with tidegate.open(home) as store:
    transfer = store.transfer("assistant")
    if act == "import":
        transfer.import_from(path, Level.PUBLIC, progress=die)
    elif act == "backup":
        transfer.backup(path, progress=die)
    else:
        transfer.restore_backup(path, progress=die)
"""


def _killed(home: Path, path: Path, act: str, stage: str, number: int) -> None:
    words = [str(home), str(path), act, stage, str(number)]
    done = subprocess.run([sys.executable, "-c", KILLED, *words], capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (9, b"")


@pytest.mark.parametrize("number", [1, 20, 40])
def test_an_import_that_is_killed_leaves_nothing(tmp_path: Path, number: int) -> None:
    scene = Scene(SqliteProvider(tmp_path / "home"), tmp_path)
    scene.save("there", "x")
    path = scene.lines(*({"key": f"k{each}", "content": "y"} for each in range(40)))
    _killed(tmp_path / "home", path, "import", "imported", number)
    assert [line.get("key") for line in scene.export()] == [None, "there"]
    assert [verdict.entries for verdict in scene.store.owner(AGENT).verify(Level.PUBLIC)] == [1]
    assert scene.take(path).counts == (40, 0, 0, 0, 0)
    scene.store.close()


@pytest.mark.parametrize("number", [1, 20, 41])
def test_a_restore_that_is_killed_leaves_nothing_and_can_be_done_again(tmp_path: Path, number: int) -> None:
    with tidegate.open(tmp_path / "full") as store:
        store.session(AGENT).memory.save_many([(f"k{each}", "x", None) for each in range(20)])
        store.session(AGENT, "main", Level.RESTRICTED).memory.save("k", "y")
        store.transfer(AGENT).backup(tmp_path / "b")
    _killed(tmp_path / "home", tmp_path / "b", "restore", "restored", number)
    with tidegate.open(tmp_path / "home") as store:
        assert list(store.session(AGENT, level=Level.RESTRICTED).memory.list()) == []
        store.transfer(AGENT).restore_backup(tmp_path / "b")
        assert len(list(store.session(AGENT, level=Level.RESTRICTED).memory.list())) == 21


@pytest.mark.parametrize("committed", [1, 2, 3])
def test_a_restore_that_is_killed_between_two_levels_goes_on(tmp_path: Path, committed: int) -> None:
    with tidegate.open(tmp_path / "full") as store:
        for level in Level:
            store.session(AGENT, level=level).memory.save("k", f"at {level}")
        store.session(AGENT, "main", Level.INTERNAL)
        store.transfer(AGENT).backup(tmp_path / "b")
        lines: list[str] = []
        store.transfer(AGENT).export(Level.RESTRICTED, lines.append)
    _killed(tmp_path / "home", tmp_path / "b", "restore", "committed", committed)
    with tidegate.open(tmp_path / "home") as store:
        assert store.session(AGENT, level=Level.RESTRICTED).memory.get("k") is not None
    with tidegate.open(tmp_path / "home") as store:
        store.transfer(AGENT).restore_backup(tmp_path / "b")
        restored: list[str] = []
        store.transfer(AGENT).export(Level.RESTRICTED, restored.append)
        assert restored[1:] == lines[1:]
        assert all(verdict.holds for verdict in store.owner(AGENT).verify())
        with pytest.raises(Refused, match="session ended"):
            store.resume(AGENT, "main")


def test_a_backup_that_is_killed_leaves_the_one_before(tmp_path: Path) -> None:
    with tidegate.open(tmp_path / "home") as store:
        store.session(AGENT).memory.save_many([(f"k{each}", "x", None) for each in range(20)])
        store.transfer(AGENT).backup(tmp_path / "b")
    before = (tmp_path / "b").read_bytes()
    _killed(tmp_path / "home", tmp_path / "b", "backup", "written", 10)
    _killed(tmp_path / "home", tmp_path / "b", "backup", "checked", 10)
    assert (tmp_path / "b").read_bytes() == before
