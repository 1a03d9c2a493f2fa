"""Export: what a level may see, whole and exact, and not a byte of what lies above."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, Open, Scene
from tests.storage.scene import bytes_of

import tidegate
from tidegate.audit.chain import Action
from tidegate.errors import InvalidArgument, Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.limits import Limits
from tidegate.storage.base import View

BREAKS = "\ufeffa\r\nb\rc\n\u2028d\x85e"


def keys(lines: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(line["key"], line["classification"]) for line in lines[1:]]


def test_an_export_says_its_level_and_holds_every_variant_that_it_may_see(scene: Scene) -> None:
    scene.save("plan", "public plan")
    scene.save("plan", "secret plan", Level.CONFIDENTIAL, "boat", "sea")
    scene.save("code", "restricted", Level.RESTRICTED)
    lines = scene.export(Level.CONFIDENTIAL)
    assert lines[0] == {
        "format": "tidegate-export",
        "version": 1,
        "agent": AGENT,
        "level": "CONFIDENTIAL",
        "memories": 2,
        "exported_at": "2026-03-01T12:00:00.000000Z",
    }
    assert lines[2] == {
        "key": "plan",
        "content": "secret plan",
        "tags": ["boat", "sea"],
        "classification": "CONFIDENTIAL",
        "origin": "agent",
        "version": 1,
        "created_at": "2026-03-01T12:00:00.000000Z",
        "updated_at": "2026-03-01T12:00:00.000000Z",
    }
    assert keys(lines) == [("plan", "PUBLIC"), ("plan", "CONFIDENTIAL")]


def test_an_export_is_the_same_byte_for_byte_whatever_lies_above(opening: Open) -> None:
    quiet, busy = opening(), opening()
    for scene in (quiet, busy):
        scene.store.session(AGENT).memory.save("plan", "public plan")
    for number in range(40):
        busy.save(f"secret-{number}", "x", Level.RESTRICTED)
        busy.save("plan", "above", Level.INTERNAL)
    assert quiet.export() == busy.export()


def test_l02_an_export_holds_one_agent_alone(scene: Scene) -> None:
    scene.save("k", "of acme", agent="acme")
    scene.save("k", "of acme-corp", agent="acme-corp")
    assert [line["content"] for line in scene.export(agent="acme")[1:]] == ["of acme"]
    assert scene.export(agent="acme-co")[0]["memories"] == 0


def test_deleted_memories_and_earlier_versions_are_not_exported(scene: Scene) -> None:
    scene.save("plan", "first")
    scene.save("plan", "second")
    scene.save("gone", "x")
    scene.delete("gone")
    assert [line.get("content") for line in scene.export()] == [None, "second"]


def test_expired_memories_are_not_exported(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"short": timedelta(hours=1)}))
    scene.save("brief", "x", Level.PUBLIC, "short")
    scene.save("long", "y")
    scene.wait(3600)
    lines = scene.export()
    assert (lines[0]["memories"], keys(lines)) == (1, [("long", "PUBLIC")])


def test_u17_every_code_point_is_exported_as_it_is(scene: Scene) -> None:
    scene.save("u17", BREAKS)
    scene.save("controls", "".join(map(chr, range(1, 160))))
    assert {line["key"]: line["content"] for line in scene.export()[1:]} == {
        "u17": BREAKS,
        "controls": "".join(map(chr, range(1, 160))),
    }


def test_more_memories_than_are_read_at_once_are_all_exported_in_order(scene: Scene) -> None:
    scene.store.session(AGENT).memory.save_many([(f"k{number:03}", "x", None) for number in range(100)])
    assert [line["key"] for line in scene.export()[1:]] == [f"k{number:03}" for number in range(100)]


def test_a_file_is_whole_private_and_replaced_at_once(scene: Scene) -> None:
    scene.save("u17", BREAKS)
    path = scene.file("before", "export.jsonl")
    path.chmod(0o644)
    done = scene.store.transfer(AGENT).export_to(path, Level.PUBLIC)
    assert (done.level, done.memories) == (Level.PUBLIC, 1)
    assert path.stat().st_mode & 0o777 == 0o600
    assert [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]] == scene.export()
    assert [entry.name for entry in scene.folder.iterdir()] == ["export.jsonl"]


def test_a_file_that_cannot_be_finished_leaves_the_one_before(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    path = scene.file("before", "export.jsonl")

    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(StorageError, match="cannot be written"):
        scene.store.transfer(AGENT).export_to(path, Level.PUBLIC)
    assert [entry.name for entry in scene.folder.iterdir()] == ["export.jsonl"]
    assert path.read_text() == "before"


def test_i13_a_path_is_a_path_and_never_a_uri(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(scene.folder)
    names = ("file:mem.jsonl?mode=ro", "mem.jsonl?x=1#y", "C:\\Users\\Kim L\\mem.jsonl", "~mem.jsonl", "-")
    for name in names:
        scene.store.transfer(AGENT).export_to(name, Level.PUBLIC)
    assert {entry.name for entry in scene.folder.iterdir()} == set(names)


@pytest.mark.parametrize("name", ["", ".", "/", "a\0b", "\ud83d", "folder", "folder/none/export"])
def test_i13_what_can_be_no_file_is_refused(scene: Scene, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(scene.folder)
    Path("folder").mkdir()
    with pytest.raises((InvalidArgument, StorageError), match="file: "):
        scene.store.transfer(AGENT).export_to(name, Level.PUBLIC)
    assert [entry.name for entry in scene.folder.iterdir()] == ["folder"]


def test_an_export_writes_nothing_and_makes_nothing(scene: Scene) -> None:
    scene.export(agent="nobody")
    assert scene.provider.agents() == []
    scene.save("k", "x")
    with scene.provider.view(AGENT, Level.PUBLIC) as view:
        head = view.visible[0].last_entry()
        scene.export()
        assert view.visible[0].last_entry() == head


def test_an_export_is_audited_where_reads_are(opening: Open) -> None:
    scene = opening(audit_reads=True)
    scene.save("k", "x", Level.INTERNAL)
    scene.export(Level.INTERNAL)
    with scene.provider.view(AGENT, Level.INTERNAL) as view:
        head = view.visible[0].last_entry()
    assert head is not None
    assert (head.event.session, head.event.action, head.event.detail) == ("", Action.READ, "export")


def test_a_record_of_another_level_is_withheld_even_when_storage_hands_it_out(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.save("k", "secret", Level.RESTRICTED)
    provider = scene.provider
    honest = provider.view

    @contextmanager
    def leaky(agent: str, _: Level) -> Any:
        with honest(agent, Level.RESTRICTED) as view:
            yield View(view.visible[:1])

    monkeypatch.setattr(provider, "view", leaky)
    with pytest.raises(Refused, match="withheld"):
        scene.export(Level.PUBLIC)


def test_a_limit_lowered_since_cuts_nothing(opening: Open) -> None:
    scene = opening()
    scene.save("long", "x" * 5_000)
    smaller = Scene(scene.provider, scene.folder, limits=Limits(content_bytes_max=10))
    assert smaller.export()[1]["content"] == "x" * 5_000


@pytest.mark.parametrize("act", ["export", "backup"])
def test_nothing_is_written_over_a_file_of_the_home_by_whatever_name(home: Path, tmp_path: Path, act: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with tidegate.open(home) as store:
        store.session(AGENT, "main").memory.save("k", "words")
        transfer = store.transfer(AGENT)
        own = home / "control.db"
        (home / "audit.key").write_bytes(b"k" * 32)
        (tmp_path / "link").symlink_to(home)
        (home / "out").symlink_to(elsewhere)
        (elsewhere / "soft").symlink_to(own)
        os.link(own, elsewhere / "hard")
        moved = elsewhere / "moved.toml"
        moved.write_text("")
        (home / "config.toml").symlink_to(moved)
        before = bytes_of(home)
        for path in (
            own,
            home / "control.db-wal",
            home / "agents" / AGENT / "public.db",
            home / "agents" / AGENT / "public.db-shm",
            home / "audit.key",
            home / "agents" / ".." / "config.toml",
            home / "new.jsonl",
            tmp_path / "link" / "control.db",
            tmp_path / "link" / "agents" / AGENT / "restricted.db",
            elsewhere / "soft",
            elsewhere / "hard",
            moved,
        ):
            with pytest.raises(InvalidArgument, match="is in the home, or is one of its files"):
                transfer.backup(path) if act == "backup" else transfer.export_to(path, Level.PUBLIC)
        assert bytes_of(home) == before
        free = elsewhere / "free"
        transfer.backup(free) if act == "backup" else transfer.export_to(free, Level.PUBLIC)
        assert free.stat().st_size > 0
