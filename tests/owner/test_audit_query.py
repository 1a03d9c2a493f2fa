"""The audit trail: entries of all levels by time, filtered, with keys as long as a version still tells them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.core.scene import AGENT, Open, Scene

from tidegate.audit.chain import Action
from tidegate.errors import NotFound
from tidegate.owner import audit_query
from tidegate.owner.audit_query import AuditFilter, AuditLine
from tidegate.policy.levels import Level
from tidegate.records.record import RecordKind

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level


def lines(scene: Scene, wanted: AuditFilter | None = None) -> list[AuditLine]:
    return list(scene.store.owner(AGENT).find_audit_lines(wanted))


def told(scene: Scene, wanted: AuditFilter | None = None) -> list[tuple[Level, str, str | None]]:
    return [(line.level, str(line.entry.event.action), line.key) for line in lines(scene, wanted)]


def test_entries_of_all_levels_come_by_time(scene: Scene) -> None:
    for number, level in enumerate([RESTRICTED, PUBLIC, INTERNAL, PUBLIC]):
        scene.save(f"k{number}", "text", level)
        scene.wait()
    assert [line.level for line in lines(scene)] == [RESTRICTED, PUBLIC, INTERNAL, PUBLIC]


def test_entries_of_one_moment_come_lowest_level_first_and_in_their_order(scene: Scene) -> None:
    for level in (RESTRICTED, PUBLIC):
        scene.save("k1", "text", level)
        scene.save("k2", "text", level)
    assert [(line.level, line.entry.sequence) for line in lines(scene)] == [
        (PUBLIC, 1),
        (PUBLIC, 2),
        (RESTRICTED, 1),
        (RESTRICTED, 2),
    ]


def test_more_entries_than_one_read_come_all_and_once(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_query, "_BATCH", 2)
    scene = opening()
    for number in range(5):
        scene.save(f"k{number}", "text")
    assert [line.entry.sequence for line in lines(scene)] == [1, 2, 3, 4, 5]


def test_keys_are_told_while_the_version_is_kept_and_never_after_a_purge(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    assert told(scene) == [(PUBLIC, "save", "k"), (PUBLIC, "delete", "k")]
    scene.store.owner(AGENT).purge(timedelta())
    assert {key for _, _, key in told(scene)} == {None}


def test_entries_tell_of_what_kind_their_record_is(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.memory.save("k", "one")
    session.conversation.append(["Hello."])
    assert [line.kind for line in lines(scene)] == [None, RecordKind.MEMORY, RecordKind.MESSAGE]


def test_entries_that_are_about_no_memory_tell_no_key(scene: Scene) -> None:
    scene.store.session(AGENT, "main").memory.save("k", "one")
    assert told(scene) == [(PUBLIC, "open", None), (PUBLIC, "save", "k")]


def test_entries_can_be_filtered_by_level_session_and_action(scene: Scene) -> None:
    main = scene.store.session(AGENT, "main")
    main.memory.save("k", "one")
    scene.save("k", "two", INTERNAL)
    scene.delete("k", INTERNAL)
    assert told(scene, AuditFilter(level=INTERNAL)) == [(INTERNAL, "save", "k"), (INTERNAL, "delete", "k")]
    assert told(scene, AuditFilter(sessions={main.id})) == [(PUBLIC, "open", None), (PUBLIC, "save", "k")]
    assert told(scene, AuditFilter(actions=[Action.DELETE, Action.OPEN])) == [
        (PUBLIC, "open", None),
        (INTERNAL, "delete", "k"),
    ]
    assert told(scene, AuditFilter(sessions=set())) == []


def test_entries_can_be_filtered_by_time_both_ends_included(scene: Scene) -> None:
    start = scene.now
    for number in range(4):
        scene.save(f"k{number}", "text")
        scene.wait()
    wanted = AuditFilter(since=start + timedelta(seconds=1), until=start + timedelta(seconds=2))
    assert [key for _, _, key in told(scene, wanted)] == ["k1", "k2"]


def test_reads_are_entered_only_when_that_is_set(opening: Open) -> None:
    for audit_reads, expected in ((False, ["save"]), (True, ["save", "read"])):
        scene = opening(audit_reads=audit_reads)
        scene.save("k", "one")
        scene.content("k")
        assert [action for _, action, _ in told(scene)] == expected


def test_the_trail_of_an_unknown_agent_is_not_found(scene: Scene) -> None:
    with pytest.raises(NotFound):
        list(scene.store.owner("nobody").find_audit_lines())
