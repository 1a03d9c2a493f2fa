"""Expiry: by tag and by level, as the owner's configuration says. What has expired is as if it had been deleted."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, NOW, Open, Scene

import tidegate
from tidegate.audit.chain import Action
from tidegate.core import expiry as core_expiry
from tidegate.core import maintenance
from tidegate.errors import NotFound
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.record import Record, RecordKind
from tidegate.search import ranking as rank
from tidegate.storage.base import StorageProvider

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
DAY = 86_400
WEEK = timedelta(days=7)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def scene(opening: Open) -> Scene:
    """Scratch lives a week, and whatever is INTERNAL a day."""
    return opening(expiry=Expiry(tags={"scratch": WEEK}, levels={INTERNAL: timedelta(days=1)}))


def listed(scene: Scene, level: Level = PUBLIC, tag: str | None = None) -> list[str]:
    return [memory.key for memory in scene.store.session(AGENT, level=level).memory.list(tag)]


def found(scene: Scene, query: str, level: Level = PUBLIC) -> list[str]:
    return [hit.key for hit in scene.store.session(AGENT, level=level).memory.search(query)]


def expired(scene: Scene) -> int:
    return len(list(scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.EXPIRE]))))


def test_a_memory_lives_to_the_moment_before_it_expires(scene: Scene) -> None:
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(7 * DAY - 1)
    assert scene.content("k") == "text"
    scene.wait(1)
    assert scene.content("k") is None


@pytest.mark.parametrize(
    ("age", "now"),
    [(timedelta(weeks=999_999), NOW), (timedelta.max, NOW), (timedelta(days=30), NOW.replace(year=9999, month=12))],
)
def test_what_would_expire_after_the_last_of_all_times_never_does(opening: Open, age: timedelta, now: datetime) -> None:
    scene = opening(expiry=Expiry(levels={PUBLIC: age}), now=now)
    scene.save("k", "apples")
    scene.save("k", "pears")
    for level in Level:
        assert scene.content("k", level) == "pears"
        assert listed(scene, level) == found(scene, "pears", level) == ["k"]
    scene.wait(DAY)
    assert scene.content("k") == "pears"


def test_what_has_expired_is_in_no_get_list_or_search(scene: Scene) -> None:
    scene.save("k", "apples", PUBLIC, "scratch")
    scene.save("stays", "apples")
    scene.wait(8 * DAY)
    for level in Level:  # a reader above cannot put it away, and does not see it either
        assert scene.content("k", level) is None
        assert listed(scene, level) == found(scene, "apples", level) == ["stays"]
        assert listed(scene, level, "scratch") == []


def test_an_expired_variant_shadows_nothing(scene: Scene) -> None:
    scene.save("k", "the low apples")
    scene.save("k", "the high pears", INTERNAL)
    assert (found(scene, "apples", RESTRICTED), scene.content("k", RESTRICTED)) == ([], "the high pears")
    scene.wait(DAY)
    assert (found(scene, "apples", RESTRICTED), scene.content("k", RESTRICTED)) == (["k"], "the low apples")
    assert found(scene, "pears", RESTRICTED) == []
    assert listed(scene, RESTRICTED) == ["k"]


def test_the_shortest_rule_that_applies_counts(scene: Scene) -> None:
    scene.save("k", "text", INTERNAL, "scratch", "other")
    scene.wait(DAY)
    assert scene.content("k", INTERNAL) is None


def test_what_no_rule_names_never_expires(scene: Scene) -> None:
    scene.save("k", "text", PUBLIC, "other")
    scene.wait(100_000 * DAY)
    assert scene.content("k") == "text"


def test_saving_again_unchanged_begins_the_time_anew(scene: Scene) -> None:
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(6 * DAY)
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(6 * DAY)
    assert scene.content("k") == "text"


def test_a_save_over_what_has_expired_creates_it_and_versions_count_on(scene: Scene) -> None:
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(8 * DAY)
    saved = scene.store.session(AGENT).memory.save("k", "text", ["scratch"])
    assert (saved.version, saved.status) == (2, "created")
    memory = scene.store.session(AGENT).memory.get("k")
    assert memory is not None
    assert memory.created_at == scene.now


def test_a_delete_of_what_has_expired_answers_as_of_what_never_was(scene: Scene) -> None:
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(8 * DAY)
    answers = []
    for key in ("k", "never"):
        with pytest.raises(NotFound) as raised:
            scene.store.session(AGENT).memory.delete(key)
        answers.append(raised.value.to_dict())
    assert answers[0] == answers[1]


def test_a_delete_says_which_variant_shows_again_by_what_has_not_expired(scene: Scene) -> None:
    scene.save("k", "text", INTERNAL)
    scene.wait(DAY)
    scene.save("k", "text", CONFIDENTIAL)
    assert scene.store.session(AGENT, level=CONFIDENTIAL).memory.delete("k").still_visible is None


def test_pages_are_full_whatever_has_expired_between(scene: Scene) -> None:
    for number in range(40):
        scene.save(f"k{number:02}", "text", PUBLIC, *(["scratch"] if number % 4 else []))
    scene.wait(8 * DAY)
    page = scene.store.session(AGENT).memory.list().page(limit=3)
    assert [memory.key for memory in page.memories] == ["k00", "k04", "k08"]
    assert listed(scene) == [f"k{number:02}" for number in range(0, 40, 4)]


def test_what_has_expired_is_read_for_no_page_and_no_block(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(200):
        scene.save(f"k{number:03}", "text", PUBLIC, "rule", "scratch")
    scene.save("last", "text", PUBLIC, "rule")
    scene.wait(8 * DAY)
    read, real = list[str](), type(_own(scene.provider)).page

    def page(*arguments: Any, **named: Any) -> list[Record]:
        found = real(*arguments, **named)
        read.extend(record.key for record in found)
        return found

    monkeypatch.setattr(type(_own(scene.provider)), "page", page)
    assert scene.store.session(AGENT).context().included == 1
    assert listed(scene) == listed(scene, PUBLIC, "rule") == ["last"]
    assert set(read) == {"last"}


@pytest.mark.parametrize("now", [NOW, NOW.replace(year=1), NOW.replace(year=9999)])
def test_what_a_page_leaves_out_is_just_what_is_seen_as_expired(opening: Open, now: datetime) -> None:
    ages = (timedelta.max, timedelta(weeks=9_000), WEEK, timedelta(days=1))
    expiry = Expiry(tags={'"a\\': WEEK, "b": timedelta.max}, levels={INTERNAL: timedelta(weeks=9_000)})
    scene = opening(expiry=expiry)
    for level, tags in product((PUBLIC, INTERNAL), ([], ['"a\\'], ["b"], ['"a\\', "b"], ["c"])):
        scene.save("-".join(("k", *tags)), "text", level, *tags)
    for level, age, moved in product((PUBLIC, INTERNAL), ages, (-MOMENT, timedelta(0), MOMENT)):
        with scene.provider.view(AGENT, level) as view, suppress(OverflowError):
            at = now + age + moved
            for tag in (None, '"a\\', "b"):
                held = partial(view.visible[0].page, RecordKind.MEMORY, after="", tag=tag, limit=99, chars_max=0)
                living = [each for each in held() if expiry.seen_at(each, at).live]
                assert held(bygone=expiry.bygone(level, at)) == living


def test_a_write_puts_away_what_has_expired_at_its_own_level_with_an_entry(scene: Scene) -> None:
    scene.save("k", "apples", PUBLIC, "scratch")
    scene.save("k", "apples", INTERNAL)
    expires_at = scene.now + WEEK
    scene.wait(8 * DAY)
    assert expired(scene) == 0
    scene.save("other", "apples", RESTRICTED)
    assert expired(scene) == 0  # P2: nobody writes at another level
    scene.save("other", "apples")
    (line,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.EXPIRE]))
    assert (line.level, line.key, line.entry.event.at, line.entry.event.session) == (PUBLIC, "k", scene.now, "")
    assert scene.store.owner(AGENT).history("k", PUBLIC)[0].deleted_at == expires_at
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


def test_what_was_put_away_counts_in_no_statistics(scene: Scene) -> None:
    scene.save("k", "apples pears", PUBLIC, "scratch")
    scene.wait(8 * DAY)
    scene.save("other", "apples")
    with scene.provider.view(AGENT, PUBLIC) as view:
        assert view.visible[0].statistics().documents == 1
        assert not view.visible[0].frequencies(["pears"]).get("pears")


def test_a_search_passes_over_only_so_many_expired_memories_and_says_that_it_is_incomplete(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_expiry, "PASSED_MAX", 5)
    scene.save("early", "apples apples apples")
    for number in range(40):
        scene.save(f"old-{number:02}", "apples pears", PUBLIC, "scratch")
    scene.wait(8 * DAY)
    monkeypatch.setattr(maintenance, "SWEEP_STEP", 0)
    scene.save("new", "apples apples apples")
    read, real = list[str](), core_expiry.ExpiringReader.read

    def counted(compartment: core_expiry.ExpiringReader, kind: RecordKind, key: str, **rest: int) -> Record | None:
        read.append(key)
        return real(compartment, kind, key, **rest)

    monkeypatch.setattr(core_expiry.ExpiringReader, "read", counted)
    for common in (False, True):  # as rare words, and as words that are looked for in the newest alone
        if common:
            monkeypatch.setattr(rank, "FREQUENCY_MAX", 10)
        read.clear()
        hits = scene.store.session(AGENT).memory.search("apples")
        keys = {hit.key for hit in hits.hits}
        assert keys, "what was found before counts"
        assert keys <= {"early", "new"}
        assert not hits.complete
        assert 6 <= len(read) <= 1 + 2 * 6


def test_a_write_puts_away_only_so_many_and_the_next_goes_on(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "SWEEP_STEP", 2)
    scene = opening(expiry=Expiry(levels={PUBLIC: WEEK}))
    for number in range(5):
        scene.save(f"k{number}", "text")
    scene.wait(8 * DAY)
    for expected in (2, 4, 5, 5):
        scene.save("other", "text")
        assert expired(scene) == expected
        assert listed(scene) == ["other"]


def test_a_process_looks_for_what_has_expired_once_in_a_while(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = opening(expiry=Expiry(levels={PUBLIC: timedelta(seconds=90)}))
    scene.save("k", "text")
    scene.wait(89)
    scene.save("other", "text")  # looked, and found nothing
    scene.wait(1)
    scene.save("other", "text 2")
    assert (expired(scene), scene.content("k")) == (0, None)
    scene.wait(60)
    scene.save("other", "text 3")
    assert expired(scene) == 1


def test_kinds_other_than_memories_never_expire(opening: Open) -> None:
    scene = opening(expiry=Expiry(levels={PUBLIC: WEEK}))
    scene.save("k", "text")
    with scene.provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        memory = owner_compartment.read(RecordKind.MEMORY, "k")
    assert memory is not None
    from dataclasses import replace

    other = replace(memory, kind=RecordKind.TODO)
    assert Expiry(levels={PUBLIC: WEEK}).expires_at(other) is None
    assert Expiry(levels={PUBLIC: WEEK}).expires_at(memory) == NOW + WEEK
    session = scene.store.session(AGENT, level=PUBLIC)
    session.jobs.create("digest", "@yearly", "Look.")
    scene.now += 52 * WEEK
    assert [job.name for job in session.jobs.list()] == ["digest"]


def test_without_rules_the_views_are_the_providers_own(opening: Open) -> None:
    scene = opening()
    scene.save("k", "text")
    views = maintenance.MaintainedViews(scene.provider, Expiry(), lambda: scene.now)
    with views.view(AGENT, PUBLIC) as view, views.writable_view(AGENT, PUBLIC) as writable:
        assert {type(each) for each in (*view.visible, writable.own)} == {type(_own(scene.provider))}


def _own(provider: StorageProvider) -> object:
    with provider.view(AGENT, PUBLIC) as view:
        return view.visible[0]


def test_with_rules_everything_of_a_compartment_can_still_be_asked(scene: Scene) -> None:
    scene.save("k", "apples", PUBLIC, "scratch")
    views = maintenance.MaintainedViews(scene.provider, Expiry(tags={"scratch": WEEK}), lambda: scene.now)
    with views.view(AGENT, PUBLIC) as view:
        own = view.visible[0]
        assert [entry.sequence for entry in own.entries()] == [1]
        last = own.last_entry()
        assert last is not None
        assert last.sequence == 1
        assert own.read("memory", "other") is None  # type: ignore[arg-type]
        assert own.index_whole()


def test_the_rules_of_a_home_are_in_its_configuration(home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text('[expiry.tags]\nscratch = "7d"\n[expiry.levels]\nINTERNAL = "1d"\n')
    now = NOW
    with tidegate.open(home, clock=lambda: now) as store:
        low, high = store.session(AGENT, level=Level.PUBLIC).memory, store.session(AGENT, level=INTERNAL).memory
        low.save("k", "text", ["scratch"])
        high.save("other", "text")
        now += timedelta(days=1)
        assert [memory.key for memory in high.list()] == ["k"]
        now += timedelta(days=6)
        assert list(low.list()) == []


def test_reading_goes_on_where_nothing_can_be_put_away(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.save("k", "text", PUBLIC, "scratch")
    scene.wait(8 * DAY)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a read wrote")

    monkeypatch.setattr(type(scene.provider), "writable_view", refuse)
    monkeypatch.setattr(type(scene.provider), "owner_compartment", refuse)
    assert scene.content("k") is None
    assert listed(scene) == found(scene, "text") == []


def test_a_rule_covers_a_tag_in_any_case_and_form(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"Scratch": WEEK, "scratch": timedelta(days=1)}))
    scene.save("k", "words", PUBLIC, "SCRATCH")
    scene.save("other", "words", PUBLIC, "scratches")
    assert listed(scene) == ["k", "other"]
    scene.now += timedelta(days=1)  # the shorter of rules that are alike
    assert listed(scene) == ["other"]
    assert listed(scene, tag="scratch") == []
    assert [hit.key for hit in scene.store.session(AGENT).memory.search("words")] == ["other"]
    assert scene.store.session(AGENT).memory.get("k") is None
