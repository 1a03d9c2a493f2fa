"""Conversations: messages at the taint of their moment, in order, gated; a reset really removes them (P7)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import apsw
import pytest
from tests.core.scene import AGENT, NOW, Open, Scene
from tests.storage.scene import bytes_of

import tidegate
from tidegate import Level, Origin, Refused
from tidegate.audit.chain import Action
from tidegate.core import conversation_purge as clearing
from tidegate.errors import StorageError
from tidegate.owner.audit_query import AuditFilter
from tidegate.session import Session
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.storage.sqlite import compaction as sqlite_compaction
from tidegate.store import Store
from tidegate.tools import AGENT_TOOLS

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
CANARIES = [b"wombat-canary", b"platypus-canary"]


def said(session: Session) -> list[tuple[int, str, Level]]:
    return [(each.number, each.content, each.level) for each in session.conversation.read()]


def purged(scene: Scene, level: Level) -> int:
    return len(
        list(scene.store.owner(AGENT).find_audit_lines(AuditFilter(level=level, actions=frozenset({Action.PURGE}))))
    )


def test_messages_are_read_in_order_and_exactly_as_they_were_written(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append(["one\r\n", " two "])
    session.conversation.append(["three"])
    assert said(session) == [(1, "one\r\n", PUBLIC), (2, " two ", PUBLIC), (3, "three", PUBLIC)]


def test_a_conversation_longer_than_a_page_is_read_whole(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append([str(number) for number in range(1, 251)])
    assert [content for _, content, _ in said(session)] == [str(number) for number in range(1, 251)]


@pytest.mark.parametrize("count", [*range(9), 31, 32, 33])
def test_messages_are_numbered_on_from_the_last_across_levels(scene: Scene, count: int) -> None:
    session = scene.store.session(AGENT, "main")
    for number in range(count):
        if number == count // 2:
            session.raise_taint(INTERNAL)
        session.conversation.append([str(number)])
    session.conversation.append(["last"])
    assert [number for number, _, _ in said(session)] == list(range(1, count + 2))


def test_messages_are_numbered_on_after_a_purge_of_the_first_ones(scene: Scene) -> None:
    running = scene.store.session(AGENT)  # nothing is stored of it, so the purge cannot know that it lives
    running.conversation.append(["one", "two", "three"])
    running.raise_taint(CONFIDENTIAL)
    scene.wait(60)
    running.conversation.append(["four", "five"])
    scene.store.owner(AGENT).purge(timedelta(seconds=30))
    running.conversation.append([str(number) for number in range(6, 12)])
    assert [(number, content) for number, content, _ in said(running)] == [
        (4, "four"),
        (5, "five"),
        *((number, str(number)) for number in range(6, 12)),
    ]


def test_a_message_has_the_taint_of_its_moment_and_the_origin_that_its_host_gave(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append(["low"], origin=Origin.OWNER)
    session.raise_taint(CONFIDENTIAL)
    session.conversation.append(["high"], origin=Origin.TOOL)
    assert said(session) == [(1, "low", PUBLIC), (2, "high", CONFIDENTIAL)]
    assert [each.origin for each in session.conversation.read()] == [Origin.OWNER, Origin.TOOL]


def test_a_message_has_its_session_s_origin_and_none_more_trusted_once_that_is_from_outside(scene: Scene) -> None:
    imported = scene.store.session(AGENT, "main", origin=Origin.IMPORT)
    imported.conversation.append(["by default"])
    imported.conversation.append(["claimed"], origin=Origin.OWNER)
    outside = imported.marking(Origin.TOOL)
    outside.conversation.append(["marked"])
    outside.conversation.append(["claimed"], origin=Origin.OWNER)
    origins = [each.origin for each in imported.conversation.read()]
    assert origins == [Origin.IMPORT, Origin.IMPORT, Origin.TOOL, Origin.TOOL]


def test_no_session_reads_the_messages_of_another(scene: Scene) -> None:
    scene.store.session(AGENT, "main").conversation.append(["mine"])
    above = scene.store.session(AGENT, "other", RESTRICTED)
    assert said(above) == []
    above.conversation.append(["other"])
    assert said(above) == [(1, "other", RESTRICTED)]


def test_an_id_that_begins_like_another_is_another() -> None:
    ids = iter(
        ["a", *(f"n{number}" for number in range(10)), "a/000000000001", *(f"m{number}" for number in range(10))]
    )
    store = Store(
        InMemoryProvider(), toolset=AGENT_TOOLS, clock=lambda: NOW, ids=lambda: next(ids), default_level=Level.PUBLIC
    )
    first = store.session(AGENT)
    first.conversation.append(["first"])
    second = next(each for each in iter(lambda: store.session(AGENT), None) if each.id == "a/000000000001")
    second.conversation.append(["second"])
    assert [said(first), said(second)] == [[(1, "first", PUBLIC)], [(1, "second", PUBLIC)]]
    store.sessions.reset(first.id)
    assert said(second) == [(1, "second", PUBLIC)]


def test_an_ended_session_neither_reads_nor_writes(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append(["one"])
    scene.store.sessions.reset(session.id)
    with pytest.raises(Refused, match="ended"):
        session.conversation.read()
    with pytest.raises(Refused, match="ended"):
        session.conversation.append(["two"])


def test_a_reset_removes_the_messages_of_every_level_and_enters_each_in_the_audit(scene: Scene) -> None:
    session, other = scene.store.session(AGENT, "main"), scene.store.session(AGENT, "other")
    other.conversation.append(["stays"])
    session.conversation.append(["one", "two"])
    session.raise_taint(CONFIDENTIAL)
    session.conversation.append(["three"])
    session.memory.save("k", "stays")
    scene.store.sessions.reset(session.id)
    assert [purged(scene, level) for level in Level] == [2, 0, 1, 0]
    assert said(other) == [(1, "stays", PUBLIC)]
    assert scene.content("k", CONFIDENTIAL) == "stays"
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


def test_a_reset_goes_through_long_conversations_step_by_step(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearing, "STEP", 2)
    session = scene.store.session(AGENT, "main")
    session.conversation.append([str(number) for number in range(5)])
    scene.store.sessions.reset(session.id)
    assert purged(scene, PUBLIC) == 5


def test_a_reset_removes_the_conversations_of_children_and_of_theirs(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main")
    child = scene.store.session(AGENT, "child", CONFIDENTIAL, parent=parent)
    grandchild = scene.store.session(AGENT, parent=child)
    for session in (parent, child, grandchild):
        session.conversation.append(["said"])
    scene.store.sessions.reset(parent.id)
    assert [purged(scene, level) for level in Level] == [1, 0, 2, 0]


def test_a_child_that_ends_writes_nothing_below_its_level(scene: Scene) -> None:
    parent = scene.store.session(AGENT, "main", CONFIDENTIAL)
    child = scene.store.session(AGENT, parent=parent)
    child.conversation.append(["said"])
    child.raise_taint(Level.RESTRICTED)
    child.end()
    assert [purged(scene, level) for level in Level] == [0, 0, 0, 0]
    assert said(parent) == []
    scene.store.owner(AGENT).purge(timedelta())
    assert purged(scene, CONFIDENTIAL) == 1  # nobody can read it any more: it goes with the next purge


def test_a_reset_that_is_interrupted_can_be_run_again(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append(["one"])
    broken = monkeypatch.context()
    with broken as patch:
        patch.setattr(clearing.Clearing, "_remove", lambda *_: (_ for _ in ()).throw(StorageError("no")))
        with pytest.raises(StorageError):
            scene.store.sessions.reset(session.id)
    assert said(session) == [(1, "one", PUBLIC)]
    scene.store.sessions.reset(session.id)
    assert purged(scene, PUBLIC) == 1


def test_what_is_said_while_a_reset_is_under_way_goes_as_well(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")
    session.conversation.append(["before"])
    clear = clearing.Clearing.clear

    def cleared(self: clearing.Clearing, rows: Iterable[SessionRow]) -> set[clearing.MessagePlace]:
        places = clear(self, rows)
        with contextlib.suppress(Refused):  # the second time it has ended
            session.conversation.append(["meanwhile"])
        return places

    monkeypatch.setattr(clearing.Clearing, "clear", cleared)
    scene.store.sessions.reset(session.id)
    assert purged(scene, PUBLIC) == 2


def test_a_reset_of_a_session_of_an_agent_without_compartments_makes_nothing_up() -> None:
    numbers = itertools.count()
    store = Store(
        InMemoryProvider(),
        toolset=AGENT_TOOLS,
        clock=lambda: NOW,
        ids=lambda: f"{next(numbers)}",
        default_level=Level.PUBLIC,
    )
    session = store.session(AGENT)
    store.sessions.reset(session.id)
    with pytest.raises(Refused, match="ended"):
        _ = session.taint


def test_nothing_of_a_conversation_remains_in_any_file_after_a_reset(home: Path) -> None:
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main")
        session.conversation.append(["wombat-canary"])
        session.raise_taint(RESTRICTED)
        session.conversation.append(["platypus-canary"])
        there = b"".join(bytes_of(home).values())
        assert [word for word in CANARIES if word in there] == CANARIES
        store.sessions.reset(session.id)
    left = b"".join(bytes_of(home).values())
    assert [word for word in CANARIES if word in left] == []


def test_a_reset_with_a_reader_in_the_way_says_that_something_may_remain(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_compaction, "COMPACT_WAIT_MS", 1)
    with tidegate.open(home) as store:
        session = store.session(AGENT, "main", Level.PUBLIC)
        session.conversation.append([CANARIES[0].decode()])
        reader = apsw.Connection(str(home / "agents" / AGENT / "public.db"), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN; SELECT * FROM records").fetchall()
        assert store.sessions.reset(session.id) is False
        with pytest.raises(Refused, match="ended"):
            _ = session.taint
        reader.close()
        assert CANARIES[0] in b"".join(bytes_of(home).values())
        assert all(done.complete for done in store.owner(AGENT).purge(timedelta()))
        assert CANARIES[0] not in b"".join(bytes_of(home).values())


def test_a_reset_that_fails_after_its_end_has_ended_the_session(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    session = scene.store.session(AGENT, "main")

    def scrub(*_: object) -> NoReturn:
        raise StorageError("no")

    monkeypatch.setattr(clearing.Clearing, "scrub", scrub)
    assert scene.store.sessions.reset(session.id) is False
    with pytest.raises(Refused, match="ended"):
        _ = session.taint


def test_what_marks_memories_with_another_origin_is_the_same_session(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", INTERNAL)
    assert session.marking(Origin.AGENT) is session
    outside = session.marking(Origin.TOOL)
    outside.memory.save("k", "v")
    found = session.memory.get("k")
    assert found is not None
    assert (outside.id, found.origin, found.classification) == (session.id, Origin.TOOL, INTERNAL)


def test_output_goes_where_the_taint_may_flow_as_it_stands_now(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", INTERNAL)
    session.check_output(INTERNAL, channel="terminal")
    for clearance in (PUBLIC, None):
        with pytest.raises(Refused):
            session.check_output(clearance, channel="terminal")
    scene.store.sessions.raise_taint(session.id, CONFIDENTIAL)
    with pytest.raises(Refused, match="new session"):
        session.check_output(INTERNAL, channel="terminal")
    scene.store.sessions.reset(session.id)
    with pytest.raises(Refused, match="ended"):
        session.check_output(RESTRICTED, channel="terminal")


def test_a_purge_removes_what_sessions_said_that_nobody_can_go_on_with(scene: Scene) -> None:
    owner = scene.store.owner(AGENT)
    main = scene.store.session(AGENT, "main")
    killed = scene.store.session(AGENT, level=INTERNAL)  # ephemeral: it ends with its process
    for session in (main, killed):
        session.conversation.append(["one", "two"])
    scene.wait(60)
    killed.conversation.append(["three"])
    scene.wait(60)
    assert [each.versions for each in owner.purge(timedelta(seconds=61))] == [0, 0, 0, 0]
    assert [each.versions for each in owner.purge(timedelta(seconds=60), dry_run=True)] == [0, 0, 3, 0]
    assert len(said(killed)) == 3
    assert [each.versions for each in owner.purge(timedelta(seconds=60))] == [0, 0, 3, 0]
    assert (said(killed), len(said(main))) == ([], 2)
    assert purged(scene, INTERNAL) == 3
    assert all(verdict.holds for verdict in owner.verify())


def test_p5_what_a_purge_removes_below_does_not_depend_on_whether_a_session_that_rose_has_ended(opening: Open) -> None:
    left = []
    for end in (True, False):
        scene = opening()
        session = scene.store.session(AGENT, "main")
        session.conversation.append(["one"])
        session.raise_taint(CONFIDENTIAL)
        session.conversation.append(["two"])
        if end:
            session.end()
        purges = scene.store.owner(AGENT).purge(timedelta())
        left.append({each.classification: each.versions for each in purges if each.classification < CONFIDENTIAL})
        assert purged(scene, CONFIDENTIAL) == end
    assert left[0] == left[1]
    assert left[0][PUBLIC] == 1


def test_p7_what_a_child_in_another_process_said_does_not_outlast_a_purge(home: Path) -> None:
    with tidegate.open(home) as store, tidegate.open(home) as beside:
        parent = store.session(AGENT, "main")
        store.session(AGENT, parent=parent).conversation.append([CANARIES[0].decode()])
        beside.sessions.reset(parent.id)  # which knows of no ephemeral child of another process
    with tidegate.open(home) as store:
        assert sum(each.versions for each in store.owner(AGENT).purge(timedelta())) == 1
    assert CANARIES[0] not in bytes_of(home)
