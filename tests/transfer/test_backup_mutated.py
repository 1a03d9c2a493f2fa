"""Any one field of a good backup, changed to anything: it is refused with a word, or what is restored works."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.core.scene import AGENT, Scene
from tests.transfer.test_backup import PARTS, Lines, back_up, read, restore
from tests.transfer.test_backup_made import SESSION, made
from tests.worker.scene import Scene as Waking

from tidegate.audit.chain import Action, AuditEvent, chain, commitment_of
from tidegate.cli import cron as cli_cron
from tidegate.cli import output
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.records.jsonl import to_line
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.records.times import read_timestamp
from tidegate.storage.inmemory.provider import InMemoryProvider

CANARY = "canary"
NAMED = re.compile(
    r"file: (line \d+: [a-z_]+: |line \d+ is not a line|"
    r"the (audit chain|records|entries)|its |a session |is |was |has )"
)
ODD: list[Any] = [
    None, True, 0, -1, 1, 2**52, 2**53, 2**70, 1.5, "", CANARY, f"{CANARY}\x1b[31m", f"{CANARY}\n\u202e", "x\ud800",
    "x" * 5000, [], [CANARY], {}, {CANARY: 1}, [[[[]]]], "PUBLIC", "RESTRICTED", "0001-01-01T00:00:00.000000Z",
    "9999-12-31T23:59:59.999999Z", "job/", "risen/x", "had:x", "open", "running", "waiting", "Europe/Nowhere", "0" * 64,
    "* * * * *", "e\u0301", "\0",
]  # fmt: skip


def good(scene: Scene) -> Lines:
    """A backup with something of every kind, as lines."""
    scene.save("k", "one", Level.PUBLIC, "tag")
    scene.save("k", "two")
    scene.save("gone", "x", Level.INTERNAL)
    scene.delete("gone", Level.INTERNAL)
    session = scene.store.session(AGENT, "main")
    session.conversation.append([json.dumps({"kind": "asked", "text": "hello"})])
    session.todos.write([{"content": "sail", "state": "in_progress"}])
    session.jobs.create("digest", "@daily", "sum up", channel="open", time_limit_seconds=60)
    session.jobs.post("digest", "an event", event_id="e1")
    Waking(scene.folder, scene.provider).tick()
    return read(back_up(scene))[:-1]


def places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where something stands in a line, and in what is stored as JSON in it."""
    if at:
        yield at
    if at[-1:] == ("content",) and isinstance(value, str) and value[:1] in "{[":
        value = json.loads(value)
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(inner, (*at, name))


def put(value: Any, at: tuple[str | int, ...], new: object) -> Any:
    if not at:
        return new
    if isinstance(value, str):
        return json.dumps(put(json.loads(value), at, new))
    changed = dict(value) if isinstance(value, dict) else dict(enumerate(value))
    changed[at[0]] = put(changed[at[0]], at[1:], new)
    return changed if isinstance(value, dict) else list(changed.values())


def record_of(fields: dict[str, Any]) -> Record:
    plain = {name: fields[name] for name in ("content", "key", "nonce", "version")}
    at = datetime.min
    return Record(
        kind=RecordKind(fields["kind"]), origin=Origin(fields["origin"]), tags=tuple(fields["tags"]), created_at=at,
        updated_at=at, agent=AGENT, level=Level.PUBLIC, **plain,
    )  # fmt: skip


def fitted(lines: Lines, before: Lines) -> bytes:
    """The lines with chains, counts and digest that fit, as far as any can."""
    swaps = {}
    for old, new in zip(before, lines, strict=True):
        if "record" in old and old != new:
            try:
                was, now = record_of(old["record"]), record_of(new["record"])
                swaps[commitment_of(was)] = (commitment_of(now), was.version, now.version)
            except (TypeError, KeyError, ValueError, AttributeError):
                pass
    last = None
    for line in lines:
        last = None if "level" in line else last
        if "entry" in line:
            with suppress(TypeError, KeyError, ValueError, AttributeError, OverflowError):
                last = _anew(line["entry"], last, swaps)
    body = "".join(f"{to_line(line)}\n" for line in lines).encode()
    counts = {name: sum(key in line for line in lines) for name, key in PARTS.items()}
    end = {"end": counts, "keyed": False, "seal": hashlib.sha256(body).hexdigest()}
    return gzip.compress(body + to_line(end).encode() + b"\n", 1)


def _anew(fields: dict[str, Any], last: Any, swaps: dict[str, tuple[str, int, int]]) -> Any:
    if fields["commitment"] in swaps:
        fields["commitment"], was, now = swaps[fields["commitment"]]
        fields["detail"] = fields["detail"].replace(f"version {was}", f"version {now}")
    named = {name: fields[name] for name in ("session", "detail", "commitment")}
    entry = chain(AuditEvent(at=read_timestamp(fields["at"]), action=Action(fields["action"]), **named), last)
    fields.update(previous=entry.previous, hash=entry.hash)
    return entry


def works(scene: Scene) -> None:
    """All that reads, a worker, and a new backup; printed without anything that a terminal obeys."""
    printed = io.StringIO()
    with redirect_stdout(printed):
        for level in Level:
            session = scene.store.session(AGENT, level=level)
            session.memory.search("one two")
            for job in session.jobs.list():
                for line in cli_cron._whole(job):
                    output.emit(line)
            for run, at in [*session.jobs.history("digest"), *session.jobs.history(None)]:
                for line in cli_cron._told(run, at):
                    output.emit(line)
            for line in output.todo_list({"todos": list(map(asdict, session.todos.read()))}):
                output.emit(line)
            session.conversation.read()
        for key in ("k", "gone"):
            scene.store.owner(AGENT).history(key)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", printed.getvalue())
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())
    assert len(list(scene.store.owner(AGENT).find_audit_lines())) > 0
    waking = Waking(scene.folder, scene.provider)
    for level in Level:
        waking.tick(level)
    scene.save("k", "three")
    back_up(scene)


@pytest.mark.long
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_p17_any_one_field_changed_is_refused_by_its_line_or_gives_an_agent_that_works(data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        before = good(Scene(InMemoryProvider(), Path(folder)))
        number = data.draw(st.integers(0, len(before) - 1))
        at = data.draw(st.sampled_from(list(places(before[number]))))
        new = data.draw(st.sampled_from(ODD))
        lines = json.loads(json.dumps(before))
        lines[number] = put(lines[number], at, new)
        path = Path(folder) / "mutated"
        path.write_bytes(fitted(lines, before))
        scene = Scene(InMemoryProvider(), Path(folder))
        refused = _refusal(scene, path)
        if refused is None:
            works(scene)
            return
        assert NAMED.match(refused) or "another agent" in refused, refused
        assert CANARY not in refused
        assert scene.provider.agents() == []
        assert scene.provider.control.sessions(AGENT) == []


def _refusal(scene: Scene, path: Path) -> str | None:
    try:
        restore(scene, path)
    except InvalidArgument as refused:
        return refused.message
    return None


def test_p17_after_the_highest_number_that_is_taken_in_a_save_and_a_backup_can_be_made(scene: Scene) -> None:
    from tests.transfer.test_backup_made import of, refused

    refused(scene, made(scene, of(version=2**52 + 1)), r"line \d+: version: must be a whole number")
    restore(scene, made(scene, of(version=2**52)))
    scene.save("k", "later")
    back_up(scene)


# What a small file can cost


@pytest.fixture
def plain(tmp_path: Path) -> Scene:
    return Scene(InMemoryProvider(), tmp_path)


def _peak(scene: Scene, path: Path, reason: str) -> int:
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgument, match=reason):
            restore(scene, path, dry_run=True)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"record":{"tags":[' + b"[]," * 3_000_000, r"line 2 is not a line of a backup"),
        (b'{"record":' + b'{"a":' * 1_000_000, r"line 2 is not a line of a backup"),
        (b'{"record":{"content":"' + b"x" * 60_000_000, "a line is longer than 10485760 bytes"),
        (b'{"record":{"tags":[' + b'"a",' * 2_000_000, r"line 2 is not a line of a backup"),
    ],
    ids=["lists", "depth", "length", "tags"],
)
def test_p17_no_line_costs_more_than_a_few_times_the_longest_that_is_allowed(
    plain: Scene, line: bytes, reason: str
) -> None:
    heading = to_line({"format": "tidegate-backup", "version": 1, "agent": AGENT,
                       "created_at": "2026-01-01T00:00:00.000000Z"}).encode()  # fmt: skip
    path = plain.file(gzip.compress(heading + b"\n" + line + b"\n", 6), "hostile")
    assert path.stat().st_size < 650_000
    assert _peak(plain, path, reason) < 64 * 1024 * 1024


@pytest.mark.long
def test_p17_sessions_are_bounded_by_the_size_of_the_file(plain: Scene) -> None:
    path = made(plain, sessions=[{**SESSION, "id": f"{n:x}", "name": "n"[: n % 2] + f"{n}"} for n in range(40_000)])
    assert _peak(plain, path, "more sessions than its size allows") < 64 * 1024 * 1024


def test_p17_records_that_no_entry_tells_of_do_not_pile_up(plain: Scene) -> None:
    lines = read(made(plain))[:-1]
    record = next(line["record"] for line in lines if "record" in line)
    at = next(number for number, line in enumerate(lines) if line.get("level") == "INTERNAL")
    lines[at:at] = [{"newest": True, "record": {**record, "key": f"k{n:07}"}} for n in range(20_000)]
    path = plain.file(fitted(lines, lines), "hostile")
    del lines
    assert _peak(plain, path, "the audit chain of PUBLIC does not hold") < 4 * 1024 * 1024
