"""Import: at one level, marked, in one transaction; what cannot be taken in is refused by its line."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, NOW, Open, Scene

from tidegate.audit.chain import Action
from tidegate.errors import InvalidArgument, Refused, StorageError, TidegateError
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.limits import Limits
from tidegate.records.memory import Memory
from tidegate.records.record import Origin
from tidegate.transfer import transfer as transfer_module
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importing import _past

YESTERDAY = NOW - timedelta(days=1)
BREAKS = "\ufeffa\r\nb\rc\n\u2028d\x85e"
HEADING = {"format": "tidegate-export", "version": 1, "agent": "a", "level": "PUBLIC", "memories": 1}


def line(key: str = "k", content: str = "c", **fields: Any) -> dict[str, Any]:
    return {"key": key, "content": content, **fields}


def memory(scene: Scene, key: str = "k", level: Level = Level.PUBLIC, agent: str = AGENT) -> Memory:
    found = scene.store.session(agent, level=level).memory.get(key)
    assert found is not None
    return found


def everything(scene: Scene, agent: str = AGENT) -> list[Any]:
    """All that a level holds, versions and chain."""
    state: list[Any] = []
    for level in Level:
        with scene.provider.owner_compartment(agent, level) as owner_compartment:
            state.append(sorted(map(repr, owner_compartment.every_version())))
            state.append(list(owner_compartment.entries()))
    return state


def test_what_is_exported_is_imported_exactly(opening: Open) -> None:
    source, target = opening(), opening()
    source.save("u17", BREAKS, Level.INTERNAL, "tag", "\u00e9")
    source.wait(90)
    source.save(" key with \u00e9 spaces ", "x" * 100_000, Level.INTERNAL)
    path = source.folder / "export.jsonl"
    source.store.transfer(AGENT).export_to(path, Level.INTERNAL)
    target.now = source.now + timedelta(days=1)
    assert target.take(path, Level.INTERNAL).counts == (2, 0, 0, 0, 0)
    before, after = source.export(Level.INTERNAL)[1:], target.export(Level.INTERNAL)[1:]
    assert [{**each, "origin": None} for each in after] == [{**each, "origin": None} for each in before]
    assert {each["origin"] for each in after} == {"import"}


def test_u17_line_ends_marks_and_separators_survive_export_and_import(opening: Open) -> None:
    source, target = opening(), opening()
    source.save("u17", BREAKS)
    path = source.folder / "export.jsonl"
    source.store.transfer(AGENT).export_to(path, Level.PUBLIC)
    target.take(path)
    assert target.content("u17") == BREAKS


def test_i05_i06_keys_tags_and_contents_that_look_like_syntax_come_back_as_they_were(opening: Open) -> None:
    odd = [
        "Plan: phase (split: two)", "# heading", "---", "- item", "> quote", "[x]", "{a}", "&a", "*a", "!t", "%d", "|",
        "`cmd` usage", "@home", '"q', "'s", " lead", "trail ", "=HYPERLINK(1)", "+1", "-1", "null", "true", "1e3", "~",
    ]  # fmt: skip
    source, target = opening(), opening()
    for text in odd:
        source.save(text, f"{text}\n\ttab", Level.PUBLIC, text)
    path = source.folder / "export.jsonl"
    source.store.transfer(AGENT).export_to(path, Level.PUBLIC)
    target.take(path)
    assert [line["content"] for line in target.export()[1:]] == [f"{text}\n\ttab" for text in sorted(odd)]
    assert {tuple(line["tags"]) for line in target.export()[1:]} == {(text.strip(),) for text in odd}


def test_d17_exports_appended_or_put_together_import_as_one(opening: Open) -> None:
    one, two, target = opening(), opening(), opening()
    one.save("a", "of one")
    two.save("b", "of two")
    lines: list[str] = []
    for scene in (one, one, two):
        scene.store.transfer(AGENT).export(Level.PUBLIC, lines.append)
    both = target.file("".join(f"{text}\n" for text in lines))
    assert [json.loads(text) for text in both.read_text().splitlines()] == one.export() * 2 + two.export()
    taken = target.take(both)
    assert taken.counts == (2, 0, 0, 1, 0)
    assert taken.said == ["note: line 2: another line for the same key takes precedence"]


def test_i03_an_edited_export_never_lands_below_the_importing_session(scene: Scene) -> None:
    path = scene.lines(
        {**HEADING, "level": "RESTRICTED"},
        line("lowered", "was restricted", classification="PUBLIC"),
        line("forged", "x", classification="PUBLIC", created_by="somebody"),
        line("twice", "first", classification="PUBLIC"),
        line("twice", "second", classification="PUBLIC"),
    )
    taken = scene.take(path, Level.RESTRICTED)
    assert taken.said == [
        "refused: line 3: 'created_by' is not a field of an export",
        "note: line 4: another line for the same key takes precedence",
    ]
    for key, content in (("lowered", "was restricted"), ("twice", "second")):
        found = memory(scene, key, Level.RESTRICTED)
        assert (found.content, found.classification, found.origin) == (content, Level.RESTRICTED, Origin.IMPORT)
        assert scene.content(key, Level.CONFIDENTIAL) is None


@pytest.mark.parametrize("level", [Level.PUBLIC, Level.INTERNAL, Level.CONFIDENTIAL])
def test_p10_what_is_labelled_higher_is_refused_by_line_and_nothing_of_it_is_said(scene: Scene, level: Level) -> None:
    path = scene.lines(
        {**HEADING, "level": "RESTRICTED"},
        *(line(f"SECRET-{each}", "CANARY", classification=str(each)) for each in Level),
    )
    taken = scene.take(path, level)
    assert taken.counts == (level + 1, 0, 0, 0, 3 - level)
    assert taken.said == [
        f"refused: line {above + 2}: classification: is higher than {level}, the level of this import; "
        f"to import it, use `--level {Level(above)}`"
        for above in range(level + 1, 4)
    ]
    assert [each["classification"] for each in scene.export(Level.RESTRICTED)[1:]] == [str(level)] * (level + 1)


def test_p10_a_line_without_a_label_has_that_of_the_heading_above_it(scene: Scene) -> None:
    path = scene.lines(line("free"), {**HEADING, "level": "CONFIDENTIAL"}, line("bound"), HEADING, line("public"))
    taken = scene.take(path, Level.INTERNAL)
    higher = "is higher than INTERNAL, the level of this import; to import it, use `--level CONFIDENTIAL`"
    assert taken.said == [f"refused: line 3: classification: {higher}"]
    assert {each["key"] for each in scene.export(Level.INTERNAL)[1:]} == {"free", "public"}


@pytest.mark.parametrize(
    "heading",
    [
        '{"format": "tidegate-export", "version": 1, "classification": "RESTRICTED"}',
        '{"format": "tidegate-export", "version": 1, "Level": "RESTRICTED"}',
        '{"format": "tidegate-export", "version": 1, "level": "PUBLIC", "meta": {"classification": "RESTRICTED"}}',
        '{"format": "tidegate-export", "version": 1, "level": "RESTRICTED",}',
        '{"format": "another", "version": 1, "level": "RESTRICTED"}',
    ],
)
def test_p10_below_a_heading_that_cannot_be_read_no_line_without_a_label_is_taken_in(
    scene: Scene, heading: str
) -> None:
    bare, own = json.dumps(line("bare")), json.dumps(line("own", classification="PUBLIC"))
    first, again = json.dumps(HEADING), json.dumps(line("again"))
    taken = scene.take(scene.file("\n".join((first, heading, bare, own, first, again))))
    assert "refused: line 3: classification:" in "\n".join(taken.said)
    assert {each["key"] for each in scene.export()[1:]} == {"own", "again"}


def test_a_memory_that_cannot_be_read_keeps_the_heading_above_it(scene: Scene) -> None:
    path = scene.file("\n".join((json.dumps(HEADING), '{"key": "k", "content": "x",}', json.dumps(line("bare")))))
    assert scene.take(path).counts == (1, 0, 0, 0, 1)


NO_LEVEL = "classification: must be PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED"


@pytest.mark.parametrize("label", ["confidential", "Confidential", "cONFIDENTIAL"])
@pytest.mark.parametrize("in_heading", [False, True], ids=["line", "heading"])
def test_p10_a_label_counts_in_any_letter_case(scene: Scene, label: str, in_heading: bool) -> None:
    heading, own = ([{**HEADING, "level": label}], {}) if in_heading else ([], {"classification": label})
    path = scene.lines(*heading, line("k", **own))
    assert "higher than INTERNAL" in "".join(scene.take(path, Level.INTERNAL).said)
    assert scene.take(path, Level.CONFIDENTIAL, exact=True).counts == (1, 0, 0, 0, 0)


@pytest.mark.parametrize("label", [None, "", "SECRET", "public ", "publick", "0", 0, 7, ["PUBLIC"], True])
def test_p17_a_label_that_names_no_level_is_refused_at_every_level(scene: Scene, label: object) -> None:
    taken = scene.take(scene.lines(line(classification=label)), Level.RESTRICTED)
    assert taken.said == [f"refused: line 1: {NO_LEVEL}"]
    assert scene.provider.agents() == []


def test_of_two_lines_for_one_key_the_higher_stands_and_then_the_later(scene: Scene) -> None:
    path = scene.lines(
        line(content="high", classification="INTERNAL"),
        line(content="low", classification="PUBLIC"),
        line(content="low again", classification="PUBLIC"),
    )
    assert scene.take(path, Level.INTERNAL).counts == (1, 0, 0, 2, 0)
    assert scene.content("k", Level.INTERNAL) == "high"


def test_importing_again_changes_nothing(scene: Scene) -> None:
    scene.save("there", "same")
    scene.save("old", "before")
    scene.wait(-3600)
    path = scene.lines(line("new"), line("there", "same"), line("old", "after"), line("new", "wins"))
    scene.wait(7200)
    assert scene.take(path).counts == (1, 1, 1, 1, 0)
    state = everything(scene)
    scene.wait(5)
    assert scene.take(path).counts == (0, 0, 3, 1, 0)
    assert everything(scene) == state


def test_a_memory_saved_later_here_stays_unless_the_owner_says_otherwise(scene: Scene) -> None:
    scene.save("k", "mine")
    path = scene.lines(line(content="theirs", updated_at="2026-02-28T00:00:00Z"))
    assert scene.take(path).said == ["note: line 1: the memory here was saved later; it is kept"]
    assert scene.content("k") == "mine"
    assert scene.take(path, overwrite=True).counts == (0, 1, 0, 0, 0)
    found = memory(scene)
    assert (found.content, found.version, found.updated_at) == ("theirs", 2, NOW)


def test_an_update_is_a_new_version_with_its_entry(scene: Scene) -> None:
    scene.save("k", "mine")
    session = scene.store.session(AGENT).id
    scene.wait(60)
    path = scene.lines(line(content="theirs", created_at="2020-01-01", updated_at="2026-03-01T12:00:30Z"))
    scene.store.transfer(AGENT).import_from(path, Level.PUBLIC, session=session)
    found = memory(scene)
    assert (found.version, found.created_at, found.updated_at) == (2, NOW, NOW + timedelta(seconds=30))
    with scene.provider.view(AGENT, Level.PUBLIC) as view:
        head = view.visible[0].last_entry()
    assert head is not None
    assert (head.event.action, head.event.detail, head.event.at) == (Action.IMPORT, "version 2 updated", scene.now)
    assert head.event.session == session


@pytest.mark.parametrize("when", ["checked", "imported"])
def test_p4_nothing_is_imported_in_a_session_that_was_raised_meanwhile(scene: Scene, when: str) -> None:
    session = scene.store.session(AGENT, "main")
    with pytest.raises(Refused, match="has just risen") as caught:
        _import_in(scene, session.id, when, lambda: session.raise_taint(Level.CONFIDENTIAL))
    assert caught.value.details["rule"] == "P4"
    assert scene.content("k") is None
    assert _refusals(scene) == [(Level.CONFIDENTIAL, session.id, "import P4")]


def test_p13_nothing_is_imported_in_a_session_that_ended_meanwhile(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main")
    with pytest.raises(Refused, match="session ended"):
        _import_in(scene, session.id, "checked", lambda: scene.store.sessions.reset(session.id))
    assert scene.content("k") is None
    assert _refusals(scene) == [(Level.PUBLIC, session.id, "import P7")]


def test_p13_p6_nothing_is_imported_in_a_session_that_is_not_this_agents(scene: Scene) -> None:
    for session in ("unknown", scene.store.session("other", "main").id):
        with pytest.raises(Refused, match="unknown session"):
            _import_in(scene, session, "checked", lambda: None)
    assert scene.content("k") is None
    assert _refusals(scene) == []


def _import_in(scene: Scene, session: str, when: str, meanwhile: Callable[[], object]) -> None:
    def happen(what: str, _: int) -> None:
        if what == when:
            meanwhile()

    transfer = scene.store.transfer(AGENT)
    transfer.import_from(scene.lines(line()), Level.PUBLIC, session=session, progress=happen)


def _refusals(scene: Scene) -> list[tuple[Level, str, str]]:
    lines = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.REFUSE]))
    return [(each.level, each.entry.event.session, each.entry.event.detail) for each in lines]


def test_p8_what_was_deleted_here_does_not_come_back_unless_the_owner_says_so(scene: Scene) -> None:
    scene.save("k", "old")
    path = scene.folder / "export.jsonl"
    scene.store.transfer(AGENT).export_to(path, Level.PUBLIC)
    scene.wait()
    scene.delete("k")
    scene.wait()
    assert scene.take(path).said == ["note: line 2: it was deleted here; it stays deleted"]
    assert scene.content("k") is None
    assert scene.store.session(AGENT).memory.search("old") == []
    assert scene.take(path, restore_deleted=True).counts == (1, 0, 0, 0, 0)
    found = memory(scene)
    assert (found.content, found.version) == ("old", 2)
    assert found.updated_at == NOW + timedelta(seconds=1)


def test_p8_what_expired_here_counts_as_deleted(opening: Open) -> None:
    scene = opening(expiry=Expiry(levels={Level.PUBLIC: timedelta(hours=1)}))
    path = scene.lines(line(updated_at="2026-03-01T12:00:00Z"))
    assert scene.take(path).counts == (1, 0, 0, 0, 0)
    scene.wait(3600)
    assert scene.take(path).said == ["note: line 1: it was deleted here; it stays deleted"]


def test_t11_a_time_to_come_is_not_believed_and_said(scene: Scene) -> None:
    path = scene.lines(line(content="theirs", created_at="2099-01-01", updated_at="2099-01-01T00:00:00Z"))
    os.utime(path, (YESTERDAY.timestamp(), YESTERDAY.timestamp()))
    assert scene.take(path).said == ["note: line 1: its time is in the future; the time of the file is used"]
    assert memory(scene).updated_at == memory(scene).created_at == YESTERDAY
    scene.save("k", "mine")
    assert (memory(scene).content, memory(scene).updated_at) == ("mine", NOW)
    assert [each.key for each in scene.store.session(AGENT).memory.search("mine theirs")] == ["k"]
    scene.wait()
    assert scene.take(path).counts == (0, 0, 0, 1, 0)
    assert scene.content("k") == "mine"


def test_t11_no_time_is_later_than_now_even_where_the_file_is(scene: Scene) -> None:
    path = scene.lines(line("said", updated_at="2099-01-01"), line("unsaid"))
    os.utime(path, (4_000_000_000, 4_000_000_000))
    scene.take(path)
    assert memory(scene, "said").updated_at == memory(scene, "unsaid").updated_at == NOW


def test_t09_times_with_and_without_zones_are_stored_in_utc(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    times = ["2024-05-01T10:00:00", "2024-05-01T10:00:00Z", "2024-05-01T10:00:00+05:45", "2024-05-01T10:00:00-00:00"]
    scene.take(scene.lines(*(line(f"k{number}", updated_at=time) for number, time in enumerate(times))))
    assert [each["updated_at"] for each in scene.export()[1:]] == [
        "2024-05-01T10:00:00.000000Z",
        "2024-05-01T10:00:00.000000Z",
        "2024-05-01T04:15:00.000000Z",
        "2024-05-01T10:00:00.000000Z",
    ]


def test_t13_odd_times_are_stored_sensibly_or_left_out_and_said(scene: Scene) -> None:
    times = [
        "2016-12-31T23:59:60Z", "0001-01-01", "9999-12-31T23:59:59.999999999Z", "1969-07-20", 1700000000000,
        "2024-05-01T24:00", "20240501", 202405011230, "", " null ", None, "2026-02-30", [], 2024, "yesterday", 10**400,
    ]  # fmt: skip
    path = scene.lines(*(line(f"k{number:02}", updated_at=time) for number, time in enumerate(times)))
    os.utime(path, (YESTERDAY.timestamp(), YESTERDAY.timestamp()))
    taken = scene.take(path, strict=True)
    assert taken.counts == (len(times), 0, 0, 0, 0)
    assert taken.said == [
        "note: line 3: its time is in the future; the time of the file is used",
        "note: line 12: updated_at: is not a day of the calendar; the time is left out",
        "note: line 13: updated_at: is not a time; the time is left out",
        "note: line 14: updated_at: is not a plausible time; the time is left out",
        "note: line 15: updated_at: is not an ISO 8601 time; the time is left out",
        "note: line 16: updated_at: is out of range; the time is left out",
    ]
    file_time = YESTERDAY.isoformat()[:19]
    assert [each["updated_at"][:19] for each in scene.export()[1:]] == [
        "2017-01-01T00:00:00",
        "0001-01-01T00:00:00",
        file_time,
        "1969-07-20T00:00:00",
        "2023-11-14T22:13:20",
        "2024-05-02T00:00:00",
        "2024-05-01T00:00:00",
        "2024-05-01T12:30:00",
        *[file_time] * 8,
    ]


@pytest.mark.parametrize("name", ["created_at", "updated_at"])
@pytest.mark.parametrize(
    ("source", "entry"),
    [
        (Source.MEM0, {"id": "1", "memory": "x"}),
        (Source.CHATGPT, {"id": "1", "content": "x"}),
        (Source.MEMORY_SERVICE, {"content": "x", "content_hash": "h"}),
    ],
)
def test_every_source_leaves_out_a_time_that_is_none_and_says_so(
    scene: Scene, source: Source, entry: dict[str, Any], name: str
) -> None:
    taken = scene.take(scene.lines([{**entry, name: "last May"}]))
    assert (taken.done.source, taken.counts) == (source, (1, 0, 0, 0, 0))
    assert taken.said == [f"note: entry 1: {name}: is not an ISO 8601 time; the time is left out"]
    assert scene.take(scene.lines([{**entry, name: ""}])).said == []


def test_b10_a_bare_day_in_a_note_is_a_day_and_a_year_is_no_time(scene: Scene) -> None:
    notes = {"day": "20240501", "minute": "202405011230", "year": "2024", "none": "", "null": "null"}
    for name, time in notes.items():
        scene.file(f"---\ncreated: {time}\n---\nx", f"notes/{name}.md")
    taken = scene.take(scene.folder / "notes")
    assert taken.counts == (5, 0, 0, 0, 0)
    assert taken.said == ["note: year.md: created_at: is not a plausible time; the time is left out"]
    assert memory(scene, "day").created_at == datetime(2024, 5, 1, tzinfo=UTC)
    assert memory(scene, "minute").created_at == datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
    for name in ("year", "none", "null"):
        assert memory(scene, name).created_at == memory(scene, name).updated_at


def test_a_note_whose_time_cannot_be_read_has_that_of_its_file(scene: Scene) -> None:
    path = scene.file("---\nupdated: soon\n---\nx", "notes/n.md")
    os.utime(path, (YESTERDAY.timestamp(), YESTERDAY.timestamp()))
    scene.take(scene.folder / "notes")
    assert memory(scene, "n").updated_at == YESTERDAY


def test_a_file_whose_own_time_is_no_time_counts_as_written_now() -> None:
    assert _past(1e300, NOW) == _past(float("nan"), NOW) == _past(None, NOW) == NOW


@pytest.mark.parametrize(
    "expiry", [Expiry(levels={Level.PUBLIC: timedelta(days=30)}), Expiry(tags={"t": timedelta(1)})]
)
def test_b10_a_memory_that_expiry_would_hide_at_once_is_skipped_and_said(opening: Open, expiry: Expiry) -> None:
    scene = opening(expiry=expiry)
    path = scene.lines(line("old", updated_at="20240501", tags=["t"]), line("new", updated_at="2026-03-01", tags=["t"]))
    reason = "it is older than `expiry` in config.toml allows; it is left out"
    for dry_run in (True, False):
        taken = scene.take(path, dry_run=dry_run)
        assert (taken.counts, taken.said) == ((1, 0, 0, 1, 0), [f"note: line 1: {reason}"])
    assert scene.content("old") is None
    assert scene.content("new") == "c"


def test_an_update_that_expiry_would_hide_at_once_is_skipped_too(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"t": timedelta(days=1)}))
    scene.take(scene.lines(line(updated_at="2024-05-01")))
    taken = scene.take(scene.lines(line(content="other", updated_at="2024-05-02", tags=["t"])))
    assert taken.counts == (0, 0, 0, 1, 0)
    assert scene.content("k") == "c"


def test_an_empty_text_of_another_program_is_skipped_and_said(scene: Scene) -> None:
    for name, text in {"a": "", "b": " \n\u200b\n", "c": "\ufeff", "d": "x", "e": "---\ntags: a\n---\n"}.items():
        scene.file(text, f"notes/{name}.md")
    taken = scene.take(scene.folder / "notes", strict=True)
    assert taken.counts == (2, 0, 0, 3, 0)
    assert taken.said == ["note: a.md: is empty", "note: b.md: is empty", "note: c.md: is empty"]
    assert scene.take(scene.folder / "notes" / "a.md").said == ["note: a.md: is empty"]
    mem0 = scene.take(scene.lines([{"id": "1", "memory": " "}, {"id": "2", "memory": "x"}]))
    assert (mem0.counts, mem0.said) == ((1, 0, 0, 1, 0), ["note: entry 1: is empty"])


def test_a_source_that_holds_nothing_says_so(scene: Scene) -> None:
    path = scene.lines({"format": "tidegate-export", "version": 1, "level": "PUBLIC"})
    assert scene.take(path).said == ["note: file: holds no memories of the kind tidegate"]


def test_a_memory_without_times_has_that_of_the_file(scene: Scene) -> None:
    path = scene.lines(line("none"), line("created", created_at="2020-01-01"), line("odd", created_at="2026-02-28"))
    os.utime(path, (1_700_000_000, 1_700_000_000))
    scene.take(path)
    assert memory(scene, "none").updated_at.timestamp() == 1_700_000_000
    assert memory(scene, "created").updated_at == memory(scene, "created").created_at


def test_a_creation_after_the_last_save_is_taken_as_that(scene: Scene) -> None:
    scene.take(scene.lines(line(created_at="2025-01-01", updated_at="2024-01-01")))
    assert memory(scene).created_at == memory(scene).updated_at


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"content": "c"}, "key: must be a string"),
        (line(key=""), "key: must not be empty or blank"),
        (line(key="a\u2028b"), None),
        (line(key="a\x00b"), None),
        (line(key=3), "key: must be a string"),  # type: ignore[arg-type]
        ({"key": "k"}, "content: must be a string"),
        (line(content=""), "content: must not be empty"),
        (line(content=5), "content: must be a string"),  # type: ignore[arg-type]
        (line(content="x\ud83d"), "content: must not contain NUL or lone surrogates"),
        (line(tags=5), "tags: must be a list of strings"),
        (line(tags=["a", 5]), "tags: each must be a string"),
        (line(level="RESTRICTED"), "'level' is not a field of an export"),
        (["k"], "not a JSON object"),
    ],
)
def test_a_bad_line_is_refused_by_number_and_the_others_are_imported(
    scene: Scene, bad: Any, reason: str | None
) -> None:
    taken = scene.take(scene.lines(line("first"), bad, line("last")))
    assert taken.counts == (2, 0, 0, 0, 1)
    (said,) = taken.said
    assert said.startswith("refused: line 2: ")
    assert reason is None or said == f"refused: line 2: {reason}"


def test_x09_too_long_is_refused_with_the_same_words_as_a_save(opening: Open) -> None:
    scene = opening(limits=Limits(content_bytes_max=10, key_chars_max=5, tags_max=1, tag_chars_max=3))
    bad = [("k", "x" * 11, []), ("k" * 6, "x", []), ("k", "x", ["a", "b"]), ("k", "x", ["long"])]
    words = []
    for each in bad:
        with pytest.raises(TidegateError) as refused:
            scene.store.session(AGENT).memory.save(*each)
        words.append(refused.value.message)
    taken = scene.take(scene.lines(*(line(key, content, tags=tags) for key, content, tags in bad)))
    assert taken.said == [f"refused: line {number}: {word}" for number, word in enumerate(words, 1)]
    assert scene.take(scene.lines(line(content="x" * 10))).counts == (1, 0, 0, 0, 0)


def test_strict_imports_nothing_when_anything_is_refused(scene: Scene) -> None:
    path = scene.lines(line("good"), line("bad", classification="RESTRICTED"))
    with pytest.raises(Refused, match="1 of its memories were refused; nothing was imported"):
        scene.take(path, strict=True)
    assert scene.provider.agents() == []


def test_exact_leaves_out_what_has_another_label_and_counts_it_in_one_line(scene: Scene) -> None:
    labels = [*Level, Level.RESTRICTED]
    path = scene.lines(*(line(f"k{at}", classification=str(label)) for at, label in enumerate(labels)), line("free"))
    taken = scene.take(path, Level.INTERNAL, exact=True, strict=True)
    assert taken.said == ["note: file: 4 memories belong to other levels and are left out"]
    assert taken.counts == (2, 0, 0, 4, 0)
    assert {each["key"] for each in scene.export(Level.RESTRICTED)[1:]} == {"k1", "free"}
    assert scene.take(path, Level.CONFIDENTIAL).counts[3:] == (0, 2)  # P10: those above, without `exact`


def test_p17_exact_refuses_a_label_that_names_no_level(scene: Scene) -> None:
    taken = scene.take(
        scene.lines(line("k", classification="SECRET"), line("low", classification="PUBLIC")), exact=True
    )
    assert taken.said == [f"refused: line 1: {NO_LEVEL}"]
    one = scene.take(scene.lines(line("low", classification="PUBLIC")), Level.INTERNAL, exact=True)
    assert one.said == ["note: file: 1 memory belongs to other levels and is left out"]


def test_a_dry_run_names_the_keys_that_would_be_created_and_updated(scene: Scene) -> None:
    scene.save("b", "old")
    scene.save("same", "c")
    scene.wait()
    dry = scene.take(scene.lines(line("b"), line("a"), line("same"), line("a", "again")), dry_run=True, overwrite=True)
    assert (dry.done.creates, dry.done.updates) == (("a",), ("b",))
    done = scene.take(scene.lines(line("b"), line("a")), overwrite=True).done
    assert (done.created, done.updated, done.creates, done.updates) == (1, 1, (), ())


def test_a_dry_run_says_the_same_and_writes_nothing(scene: Scene) -> None:
    path = scene.lines(line("a"), line("b", classification="RESTRICTED"), line("a", "again"))
    dry = scene.take(path, dry_run=True)
    assert dry.done.dry_run
    assert scene.provider.agents() == []
    wet = scene.take(path)
    assert (dry.counts, dry.said) == (wet.counts, wet.said) == ((1, 0, 0, 1, 1), wet.said)


def test_nothing_is_imported_when_writing_fails_in_the_middle(scene: Scene) -> None:
    scene.save("there", "x")
    state = everything(scene)
    path = scene.lines(*(line(f"k{number}") for number in range(10)))
    calls = iter(range(100))

    def fail(what: str, _: int) -> None:
        if what == "imported" and next(calls) == 6:
            raise StorageError("the disk is full; nothing was changed")

    with pytest.raises(StorageError):
        scene.store.transfer(AGENT).import_from(path, Level.PUBLIC, progress=fail)
    assert everything(scene) == state
    assert scene.take(path).counts == (10, 0, 0, 0, 0)


def test_a_source_that_changes_while_it_is_read_is_not_imported(scene: Scene) -> None:
    path = scene.lines(line("a"), line("b"))

    def change(what: str, done: int) -> None:
        if (what, done) == ("checked", 2):
            scene.lines(line("a"), line("b", "changed"))

    with pytest.raises(InvalidArgument, match="changed while it was read; nothing was imported"):
        scene.store.transfer(AGENT).import_from(path, Level.PUBLIC, progress=change)
    assert scene.content("a") is None


def test_progress_tells_how_many_were_checked_and_imported(scene: Scene) -> None:
    told: list[tuple[str, int]] = []
    path = scene.lines(line("a"), line("b"))
    scene.store.transfer(AGENT).import_from(path, Level.PUBLIC, progress=lambda *each: told.append(each))
    assert told == [("checked", 1), ("checked", 2), ("imported", 1), ("imported", 2)]


def test_an_import_touches_its_own_level_alone(scene: Scene) -> None:
    for level in Level:
        scene.save("k", f"at {level}", level)
    before = {level: scene.export(level) for level in Level}
    scene.wait()
    path = scene.lines(line(content="theirs", updated_at="2026-03-01T12:00:01Z"))
    scene.take(path, Level.INTERNAL)
    assert [each["content"] for each in scene.export(Level.RESTRICTED)[1:]] == [
        "at PUBLIC", "theirs", "at CONFIDENTIAL", "at RESTRICTED",
    ]  # fmt: skip
    assert scene.export(Level.PUBLIC)[1:] == before[Level.PUBLIC][1:]


def test_what_is_imported_is_found_by_search(scene: Scene) -> None:
    scene.take(scene.lines(line("boat", "we sail in May", tags=["sea"])))
    assert [hit.key for hit in scene.store.session(AGENT).memory.search("sail")] == ["boat"]
    assert [each.key for each in scene.store.session(AGENT).memory.list("sea")] == ["boat"]


def test_an_export_of_a_newer_format_is_refused(scene: Scene) -> None:
    taken = scene.take(scene.lines({**HEADING, "version": 2}))
    assert taken.said == ["refused: line 1: the export is from a newer version of Tidegate; upgrade to import it"]


def test_i09_marks_line_ends_and_utf_16_are_read_and_a_mark_inside_is_kept(scene: Scene) -> None:
    record = json.dumps(line(content="\ufeffinside"), ensure_ascii=False)
    texts = [
        f"\ufeff{record}\r\n\r\n".encode(),
        f"{record}\n\ufeff{record}".encode(),
        f"{record}\r\n".encode("utf-16"),
        b"\xfe\xff" + f"{record}\n".encode("utf-16-be"),
    ]
    for text in texts:
        scene.take(scene.file(text), overwrite=True)
        assert scene.content("k") == "\ufeffinside"
    taken = scene.take(scene.file(b'{"key": "a", "content": "\xff"}\n' + record.encode()), source=Source.TIDEGATE)
    assert taken.said == ["refused: line 1: not UTF-8"]


def test_i09_utf_16_that_ends_in_the_middle_is_refused_by_line(scene: Scene) -> None:
    text = (json.dumps(line()) + "\n").encode("utf-16") + b"\x00"
    taken = scene.take(scene.file(text))
    assert taken.said == ["refused: line 2: not UTF-16"]
    assert taken.counts == (1, 0, 0, 0, 1)


def test_r04_hostile_lines_are_refused_one_by_one(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.files.LINE_BYTES_MAX", 64)
    path = scene.file(
        b'{"key": "a", "content": "c"}\n'
        b"not json\n"
        b'{"key": "b", "key": "c", "content": "c"}\n'
        + b"[" * 60
        + b"\n"
        + b"x" * 200
        + b"\n"
        + b"y" * 63
        + b"\n"
        + b'{"key": "d", "content": "c"} {"key": "e", "content": "c"}\n'
        b'{"key": "z", "content": "c"}'
    )
    taken = scene.take(path)
    assert [said.split(": ")[1] for said in taken.said] == ["line 2", "line 3", "line 4", "line 5", "line 6", "line 7"]
    assert taken.said[3] == "refused: line 5: longer than 64 bytes"
    assert taken.counts == (2, 0, 0, 0, 6)


@pytest.mark.long
def test_x10_many_memories_are_imported_and_exported_in_bounded_memory(opening: Open, tmp_path: Path) -> None:
    scene = opening()
    count = 3_000
    path = scene.lines(*(line(f"k{number:05}", "y" * 2_000, tags=["old"]) for number in range(count)))
    tracemalloc.start()
    try:
        dry = scene.take(path, dry_run=True)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert dry.counts == (count, 0, 0, 0, 0)
    assert peak < 2_000_000  # the file is three times as long; what is held is the keys
    assert scene.take(path).counts == (count, 0, 0, 0, 0)
    assert scene.export()[0]["memories"] == count


def test_whoever_does_not_ask_is_not_told(scene: Scene) -> None:
    path = scene.lines(line("a"), line("b", classification="RESTRICTED"))
    done = scene.store.transfer(AGENT).import_from(path, Level.PUBLIC)
    assert (done.created, done.refused, done.source) == (1, 1, Source.TIDEGATE)
    assert transfer_module.Transfer is type(scene.store.transfer(AGENT))
