"""Backups that somebody made by hand, in a store without an audit key: their chains fit, and prove nothing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, NOW, Open, Scene
from tests.transfer.test_backup import back_up, restore, state

from tidegate.audit.chain import Action, Place, chain, version_event
from tidegate.errors import InvalidArgument, Refused, StorageError
from tidegate.jobs.job import Plan, Run, write_plan, write_run
from tidegate.policy.levels import Level
from tidegate.records.jsonl import to_line
from tidegate.records.limits import Limits
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.transfer import backup_format as backup

RECORD = Record(
    kind=RecordKind.MEMORY,
    key="k",
    content="x",
    tags=(),
    origin=Origin.OWNER,
    version=1,
    nonce="n",
    created_at=NOW,
    updated_at=NOW,
    agent=AGENT,
    level=Level.PUBLIC,
)
FIRST, LAST = (time.replace(tzinfo=UTC) for time in (datetime.min, datetime.max))
SESSION = {"id": "s", "name": "main", "taint": "PUBLIC", "ceiling": "RESTRICTED", "parent": None, "ended": False}
RUN = Run(group="job/digest", number=1, due_at=NOW)
PLAN = Plan(schedule="@daily", timezone="UTC", prompt="x", ceiling=Level.PUBLIC)


def made(
    scene: Scene,
    records: Sequence[Record] = (RECORD,),
    sessions: Sequence[Mapping[str, Any]] = (),
    at: datetime = NOW,
    ids: Callable[[Level], str] = "made {}".format,
    bound: bool = True,
    **changed: Any,
) -> Path:
    """A backup whose digest, counts and chains are as they should be. changed: fields of the records' lines.

    ids: of the compartments; "" makes it one of the first version, in which they had none. bound: whether entries name
    their place.
    """
    lines = list(_lines(records, sessions, at, changed, ids, bound=bound))
    if not ids(Level.PUBLIC):
        lines = [{name: value for name, value in line.items() if name != "id"} for line in lines]
        lines[0]["version"] = 1
    body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    seal = backup.Seal(None)
    seal.update(body)
    counts = {"sessions": len(sessions), "entries": len(records), "versions": len(records)}
    path = scene.folder / "made"
    path.write_bytes(gzip.compress(body + to_line(backup.end_line(counts, seal)).encode() + b"\n"))
    return path


def _lines(
    records: Sequence[Record],
    sessions: Sequence[Mapping[str, Any]],
    at: datetime,
    changed: Mapping[str, Any],
    ids: Callable[[Level], str] = "made {}".format,
    *,
    bound: bool = True,
) -> Iterator[dict[str, Any]]:
    yield backup.heading(AGENT, NOW)
    yield from ({"session": {**SESSION, **each}} for each in sessions)
    for level in Level:
        place = Place(AGENT, level, ids(level))
        yield backup.level_line(place)
        last = None
        for record in records if level is Level.PUBLIC else ():
            last = chain(version_event(place, at, "", Action.SAVE, record), last, place if bound else None)
            yield backup.entry_line(last)
        for record in records if level is Level.PUBLIC else ():
            line = backup.version_line(record, newest=record is records[-1])
            yield {**line, "record": {**line["record"], **changed}}


def of(**fields: Any) -> list[Record]:
    return [replace(RECORD, **fields)]


def refused(scene: Scene, path: Path, reason: str) -> None:
    for dry_run in (True, False):
        with pytest.raises(InvalidArgument, match=f"^file: {reason}"):
            restore(scene, path, dry_run=dry_run)
    assert scene.provider.agents() == []
    assert scene.provider.control.sessions(AGENT) == []


@pytest.mark.parametrize("mark", ["?", "? ", "\n"])
def test_p17_an_id_that_a_store_would_not_take_for_one_leaves_no_agent_behind(scene: Scene, mark: str) -> None:
    refused(scene, made(scene, ids=lambda level: f"{mark}{level}"), r"line \d+: id: ")


@pytest.mark.parametrize(("nonce", "bound"), [("n", True), ("3.n", False)])
def test_p9_what_is_bound_to_a_compartment_that_has_no_id_is_refused(scene: Scene, nonce: str, bound: bool) -> None:
    path = made(scene, of(nonce=nonce), ids=lambda _: "", bound=bound)
    refused(scene, path, "the audit chain of PUBLIC does not hold")


def test_what_is_bound_to_none_is_restored(scene: Scene) -> None:
    assert restore(scene, made(scene, ids=lambda _: "", bound=False)).versions == 1


AT = r"line \d+: "


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key": ""}, r"line \d+: key: must not be empty"),
        ({"key": "a\x1b[31m"}, r"line \d+: key: must not contain control characters"),
        ({"key": "a\0"}, r"line \d+: key: must not contain NUL"),
        ({"key": "k" * 100_000}, r"line \d+: key: 100000 characters; the limit is 256"),
        ({"key": "x\ud800"}, AT + "key: "),
        ({"content": "x\ud800"}, AT + "content: "),
        ({"content": ""}, r"line \d+: content: must not be empty"),
        ({"content": "x" * (1024 * 1024 + 1)}, r"line \d+: content: 1048577 bytes"),
        ({"tags": ("a", "a")}, AT + "tags: "),
        ({"tags": ("b", "a")}, AT + "tags: "),
        ({"tags": ("",)}, AT + "tags: "),
        ({"tags": ("a\n",)}, AT + "tags: "),
        ({"tags": ("a\nb",)}, r"line \d+: tags: must not contain control characters"),
        ({"tags": tuple(f"{number:03}" for number in range(65))}, r"line \d+: tags: 65 tags; the limit is 64"),
        ({"version": 2**53}, AT + "version: "),
        ({"version": 2**70}, AT + "version: "),
        ({"kind": RecordKind.TODO, "key": "todos", "content": "no JSON"}, AT + "content: "),
        ({"kind": RecordKind.TODO, "key": "todos", "content": '[{"content":"x","state":"other"}]'}, AT + "content: "),
        ({"kind": RecordKind.JOB, "content": "no JSON"}, AT + "content: "),
        ({"kind": RecordKind.RUN, "key": RUN.key, "content": "no JSON"}, AT + "content: "),
        ({"kind": RecordKind.RUN, "key": "x", "content": write_run(RUN)}, AT + "key: "),
        ({"kind": RecordKind.MESSAGE, "key": "x"}, AT + "key: "),
        ({"kind": RecordKind.MESSAGE, "key": "s/00000000000x"}, AT + "key: "),
        ({"kind": RecordKind.MESSAGE, "key": "s-000000000001"}, AT + "key: "),
        ({"kind": RecordKind.MESSAGE, "key": f"{'s' * 2000}/000000000001"}, r"line \d+: key: 2013 characters"),
    ],
)
def test_p17_what_could_not_have_been_saved_is_not_restored(scene: Scene, fields: dict[str, Any], reason: str) -> None:
    refused(scene, made(scene, of(**fields)), reason)


def test_p17_tags_that_are_no_list_are_refused(scene: Scene) -> None:
    refused(scene, made(scene, of(tags=("a", "b")), tags="ab"), AT + "tags: must be a list")


@pytest.mark.parametrize(
    "records",
    [
        of(version=2**52, created_at=FIRST, updated_at=LAST),
        of(tags=("a", "b"), key="k" * 256),
        of(kind=RecordKind.TODO, key="todos", content='[{"content":"x","state":"done"}]'),
        of(kind=RecordKind.JOB, key="digest", content=write_plan(PLAN)),
        of(kind=RecordKind.RUN, key=RUN.key, content=write_run(RUN), tags=RUN.tags),
        of(kind=RecordKind.MESSAGE, key="s/000000000001", content=""),
        [RECORD, replace(RECORD, version=2, nonce="m")],
    ],
)
@pytest.mark.parametrize("at", [FIRST, LAST])
def test_what_can_have_been_saved_is_restored_and_can_be_backed_up(
    opening: Open, records: list[Record], at: datetime
) -> None:
    scene, again = opening(), opening()
    restore(scene, made(scene, records, at=at))
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())
    restore(again, back_up(scene))
    assert state(again) == state(scene)


@pytest.mark.parametrize(
    ("sessions", "reason"),
    [
        ([{"id": "a", "name": "a", "parent": "b"}, {"id": "b", "name": "b", "parent": "a"}], "has a session that is"),
        ([{"parent": "s"}], "has a session that is its own ancestor"),
        ([{"id": str(n), "name": str(n), "parent": str(n + 1)} for n in range(6)], "has a session that is its own"),
        ([{"id": str(n), "name": str(n), "parent": str(n + 1)} for n in range(3000)], "has a session that is its own"),
        ([{}, {"name": "other"}], "has the same session twice"),
        ([{}, {"id": "other"}], "has the same session twice"),
        ([{"id": ""}], r"line 2: id: must not be empty"),
        ([{"name": ""}], r"line 2: name: must not be empty"),
        ([{"name": "\x1b[31m"}], r"line 2: name: must not contain control characters"),
        ([{"name": "n" * 257}], r"line 2: name: 257 characters"),
        ([{"parent": "a\nb"}], r"line 2: parent: must not contain control characters"),
        ([{"taint": "RESTRICTED", "ceiling": "PUBLIC"}], "line 2: ceiling: is below the taint"),
    ],
)
def test_p15_p17_sessions_that_cannot_have_been_opened_are_refused(
    scene: Scene, sessions: list[dict[str, Any]], reason: str
) -> None:
    refused(scene, made(scene, sessions=sessions), reason)


def test_p6_a_dry_run_refuses_another_agents_session_too(scene: Scene) -> None:
    other = scene.store.session("other", "main")
    path = made(scene, sessions=[{"id": other.id}])
    with pytest.raises(InvalidArgument, match="another agent's"):
        restore(scene, path, dry_run=True)


def test_children_of_stored_and_of_unstored_sessions_are_backed_up_and_restored(opening: Open) -> None:
    full, empty = opening(), opening()
    session = full.store.session(AGENT, "main")
    for number in range(4):
        session = full.store.session(AGENT, f"child {number}", parent=session)
    full.store.session(AGENT, "of nobody", parent=full.store.session(AGENT))
    restore(empty, back_up(full))
    before, after = full.provider.control.sessions(AGENT), empty.provider.control.sessions(AGENT)
    assert after == [replace(row, ended=True) for row in before]
    assert len(empty.store.sessions.list(AGENT)) == 6


def test_what_was_saved_under_wider_limits_can_be_backed_up_under_narrow_ones(scene: Scene, opening: Open) -> None:
    scene.save("a longer key", "x", Level.PUBLIC, "longer tag")
    scene.store.session(AGENT, "a longer name")
    narrow, wide = Scene(scene.provider, scene.folder, limits=Limits(8, 8, 1, 4)), opening()
    path = back_up(narrow)
    with pytest.raises(InvalidArgument, match=r"name: 13 characters; the limit is 8"):
        restore(opening(limits=narrow.limits), path)
    restore(wide, path)
    assert state(wide) == state(scene)


# All or nothing


class _Killed(BaseException):
    """The process ends here: nothing of it runs on."""


@pytest.fixture
def pair(opening: Open) -> tuple[Scene, Path]:
    """An empty store, and a backup with memories and sessions."""
    full = opening()
    full.save("k", "x")
    full.store.session(AGENT, "main", Level.CONFIDENTIAL)
    return opening(), back_up(full)


def test_no_session_is_restored_when_the_levels_cannot_be(pair: tuple[Scene, Path]) -> None:
    empty, path = pair

    def fail(what: str, number: int) -> None:
        if what == "restored":
            raise StorageError("the disk is full; nothing was changed")

    with pytest.raises(StorageError, match="disk is full"):
        empty.store.transfer(AGENT).restore_backup(path, progress=fail)
    assert empty.provider.control.sessions(AGENT) == []
    restore(empty, path)
    assert [(row.name, row.ended) for row in empty.provider.control.sessions(AGENT)] == [("main", True)]


def test_a_restore_that_was_killed_before_the_sessions_goes_on(
    pair: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, path = pair
    with monkeypatch.context() as patch:
        patch.setattr(empty.provider.control, "insert", _kill)
        with pytest.raises(_Killed):
            restore(empty, path)
    assert empty.content("k") == "x"
    assert empty.provider.control.sessions(AGENT) == []
    restore(empty, path)
    assert [(row.name, row.ended) for row in empty.provider.control.sessions(AGENT)] == [("main", True)]
    with pytest.raises(Refused, match="already holds this backup"):
        restore(empty, path)


def _kill(*_: object) -> None:
    raise _Killed


def test_a_restore_whose_sessions_cannot_be_written_says_so_and_goes_on(
    pair: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, path = pair
    with monkeypatch.context() as patch:
        patch.setattr(empty.provider.control, "insert", _busy)
        with pytest.raises(StorageError, match="everything but the sessions is restored; run the same command again"):
            restore(empty, path)
    empty.wait(timedelta(days=1).total_seconds())
    assert restore(empty, path, dry_run=True).sessions == 1
    restore(empty, path)
    assert len(empty.provider.control.sessions(AGENT)) == 1


def _busy(*_: object) -> None:
    raise StorageError("the store is busy; try again")


def _fail(*_: object) -> None:
    raise StorageError("the disk is full; nothing was changed")


def test_p10_a_failed_restore_leaves_no_agent_behind_and_can_be_done_again(
    pair: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, path = pair
    with monkeypatch.context() as patch:
        patch.setattr("tidegate.transfer.backup.Backup._fill", _fail)
        with pytest.raises(StorageError, match="disk is full"):
            restore(empty, path)
    assert empty.provider.agents() == []
    restore(empty, path)
    assert empty.content("k") == "x"


def test_p10_an_agent_that_was_there_before_a_failed_restore_stays(
    pair: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, path = pair
    with empty.provider.writable_view(AGENT, Level.PUBLIC):
        pass
    monkeypatch.setattr("tidegate.transfer.backup.Backup._fill", _fail)
    with pytest.raises(StorageError, match="disk is full"):
        restore(empty, path)
    assert empty.provider.agents() == [AGENT]


def test_p10_what_was_stored_before_a_restore_failed_is_not_removed(
    pair: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    empty, path = pair

    def partly(*_: object) -> None:
        empty.save("mine", "y")
        _fail()

    monkeypatch.setattr("tidegate.transfer.backup.Backup._restore_levels", partly)
    with pytest.raises(StorageError, match="disk is full"):
        restore(empty, path)
    assert empty.content("mine") == "y"
