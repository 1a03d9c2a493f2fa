"""Search over a view: common words, the budget, answers that are full, what has expired."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.core.scene import AGENT, Scene

from tidegate import Level, Session
from tidegate.errors import InvalidArgument
from tidegate.records.expiry import Expiry
from tidegate.records.memory import Hits
from tidegate.records.record import Record, RecordKind
from tidegate.search import ranking as rank
from tidegate.search import reranking as rerank
from tidegate.storage.base import BudgetSpentError, Candidate
from tidegate.storage.inmemory.provider import InMemoryCompartment, InMemoryProvider
from tidegate.storage.sqlite.provider import SqliteProvider


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(InMemoryProvider(), tmp_path)


def everyone(scene: Scene) -> Session:
    return scene.store.session(AGENT, level=Level.RESTRICTED)


def test_words_that_are_all_common_are_sought_in_the_newest_memories(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "FREQUENCY_MAX", 3)
    for number in range(5):
        scene.save(f"k{number}", "project meeting" if number else "meeting alone")
    explanation = scene.store.session(AGENT).memory.explain("project meeting")
    assert (explanation.looked_up, explanation.common) == ((), (("project",), ("meeting", "meet")))
    assert {hit.key for hit in explanation.found.hits} == {"k1", "k2", "k3", "k4"}
    assert explanation.found.complete
    assert all(parts.bm25 == 0 < parts.common for parts in explanation.parts)


def test_a_page_full_of_the_newest_is_not_complete(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "FREQUENCY_MAX", 3)
    monkeypatch.setattr(rank, "CANDIDATES_MAX", 4)
    for number in range(5):
        scene.save(f"k{number}", "project meeting")
    found = scene.store.session(AGENT).memory.search("project meeting")
    assert ({hit.key for hit in found.hits}, found.complete) == ({"k1", "k2", "k3", "k4"}, False)


def test_a_level_whose_budget_is_spent_leaves_the_others_searched(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = InMemoryCompartment.candidates

    def candidates(self: InMemoryCompartment, terms: Sequence[str]) -> Iterator[Candidate]:
        if self.level is Level.INTERNAL:
            raise BudgetSpentError
        return real(self, terms)

    monkeypatch.setattr(InMemoryCompartment, "candidates", candidates)
    for level in Level:
        scene.save(f"at-{level}", "launch", level)
    found = everyone(scene).memory.search("launch")
    assert found.complete is False
    assert {hit.classification for hit in found.hits} == set(Level) - {Level.INTERNAL}


def test_what_is_shadowed_takes_no_place_among_the_candidates(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank, "CANDIDATES_MAX", 2)
    for number in range(5):
        scene.save(f"k{number}", "launch " * (5 - number))
        if number < 3:
            scene.save(f"k{number}", "other", Level.INTERNAL)
    assert {hit.key for hit in everyone(scene).memory.search("launch")} == {"k3", "k4"}


def test_each_text_is_read_once_and_those_not_reranked_when_they_are_hits(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerank, "RERANKED_MAX", 2)
    read: list[str] = []
    real = InMemoryCompartment.read

    def counted(self: InMemoryCompartment, kind: RecordKind, key: str, **rest: int) -> Record | None:
        read.append(key)
        return real(self, kind, key, **rest)

    for number in range(4):
        scene.save(f"k{number}", "launch " * (4 - number) + "e\u0301" * 400)
    monkeypatch.setattr(InMemoryCompartment, "read", counted)
    hits = scene.store.session(AGENT).memory.search("launch", max_results=3)
    assert [hit.key for hit in hits] == ["k0", "k1", "k2"] == read
    assert all(hit.truncated and len(hit.content) <= 500 and hit.content[-1] == "\u0301" for hit in hits)


def test_texts_are_read_at_once_from_each_level_that_has_candidates(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[Level, set[str]]] = []
    real = InMemoryCompartment.read_several

    def counted(self: InMemoryCompartment, kind: RecordKind, keys: Collection[str], **rest: int) -> dict[str, Record]:
        read.append((self.level, set(keys)))
        return real(self, kind, keys, **rest)

    for level in (Level.PUBLIC, Level.CONFIDENTIAL, Level.RESTRICTED):
        scene.save(f"one-{level}", "launch", level)
        scene.save(f"two-{level}", "launch" if level is not Level.RESTRICTED else "other", level)
    monkeypatch.setattr(InMemoryCompartment, "read_several", counted)
    session = scene.store.session(AGENT, level=Level.CONFIDENTIAL)
    assert len(session.memory.search("launch")) == 4
    assert read == [(level, {f"one-{level}", f"two-{level}"}) for level in (Level.CONFIDENTIAL, Level.PUBLIC)]


def test_a_level_is_asked_only_for_words_that_it_holds(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Level, list[str]]] = []
    real = InMemoryCompartment.candidates

    def candidates(self: InMemoryCompartment, terms: Sequence[str]) -> Iterator[Candidate]:
        asked.append((self.level, sorted(terms)))
        return real(self, terms)

    monkeypatch.setattr(InMemoryCompartment, "candidates", candidates)
    scene.save("here", "harbour", Level.PUBLIC)
    scene.save("there", "lighthouse and harbour", Level.INTERNAL)
    assert len(everyone(scene).memory.search("harbour lighthouse").hits) == 2
    words = {level: [term for term in terms if len(term) > 6] for level, terms in asked}
    assert words == {Level.PUBLIC: ["harbour"], Level.INTERNAL: ["harbour", "lighthous", "lighthouse"]}


def test_an_answer_that_is_full_says_that_it_is_not_complete(scene: Scene) -> None:
    session = scene.store.session(AGENT)
    tags = [f"{number:02}" + "t" * 60 for number in range(64)]
    session.memory.save_many([(f"k{number:03}", "launch " * 60, tags) for number in range(40)])
    found = session.memory.search("launch", max_results=40)
    assert found.complete is False
    assert 10 < len(found.hits) < 40


def test_expired_memories_are_neither_found_by_common_words_nor_by_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank, "FREQUENCY_MAX", 2)
    scene = Scene(InMemoryProvider(), tmp_path, expiry=Expiry(tags={"scratch": timedelta(days=1)}))
    for key, tags in (("old", ["scratch"]), ("one", []), ("two", [])):
        scene.save(key, "project meeting", Level.PUBLIC, *tags)
    scene.now += timedelta(days=2)
    session = everyone(scene)  # of another level, which may not put them away
    assert [hit.key for hit in session.memory.search("project meeting")] == ["one", "two"]
    assert [hit.key for hit in session.memory.search("projcet")] == ["one", "two"]


# Filters


def keys(found: Hits) -> set[str]:
    return {hit.key for hit in found}


@pytest.fixture(params=["memory", "sqlite"])
def filtered(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    """Three memories, a day apart; of one there is a higher variant with another tag, saved later."""
    provider = InMemoryProvider() if request.param == "memory" else SqliteProvider(tmp_path / "home")
    scene = Scene(provider, tmp_path)
    scene.save("old", "green tea", Level.PUBLIC, "Drink")
    scene.now += timedelta(days=1)
    scene.save("both", "green tea", Level.PUBLIC, "drink", "Work, home")
    scene.now += timedelta(days=1)
    scene.save("both", "green tea", Level.CONFIDENTIAL, "secret")
    scene.now += timedelta(days=1)
    scene.save("new", "green tea", Level.PUBLIC, "work")
    yield scene
    scene.store.close()


@pytest.mark.parametrize(
    ("level", "filters", "expected"),
    [
        (Level.PUBLIC, {}, {"old", "both", "new"}),
        (Level.PUBLIC, {"tag": "drink"}, {"old", "both"}),
        (Level.PUBLIC, {"tag": " DRINK "}, {"old", "both"}),
        (Level.PUBLIC, {"tag": "work, HOME"}, {"both"}),
        (Level.PUBLIC, {"tag": "secret"}, set()),
        (Level.CONFIDENTIAL, {"tag": "drink"}, {"old"}),  # the lower variant stays shadowed
        (Level.CONFIDENTIAL, {"tag": "secret"}, {"both"}),
        (Level.PUBLIC, {"since": "2026-03-02"}, {"both", "new"}),
        (Level.CONFIDENTIAL, {"until": "2026-03-02"}, {"old"}),  # its lower variant is from then
        (Level.PUBLIC, {"until": "2026-03-02"}, {"old", "both"}),
        (Level.PUBLIC, {"until": "2026-03-02T11:59:59"}, {"old"}),
        (Level.PUBLIC, {"since": "2026-03-02T12:00Z", "until": "2026-03-02T12:00Z"}, {"both"}),
        (Level.PUBLIC, {"since": datetime(2026, 3, 2, 12)}, {"both", "new"}),
        (Level.PUBLIC, {"since": date(2026, 3, 3), "until": date(2026, 3, 4)}, {"new"}),
        (Level.PUBLIC, {"until": datetime(2026, 3, 2, 13, tzinfo=timezone(timedelta(hours=2)))}, {"old"}),
        (Level.PUBLIC, {"tag": "drink", "since": "2026-03-02"}, {"both"}),
    ],
)
def test_a_filter_leaves_out_what_is_shown_and_uncovers_nothing(
    filtered: Scene, level: Level, filters: dict[str, Any], expected: set[str]
) -> None:
    memory = filtered.store.session(AGENT, level=level).memory
    found = memory.search("tea", **filters)
    assert (keys(found), found.complete) == (expected, True)
    assert keys(memory.explain("tea", **filters).found) == expected


def test_a_filter_comes_before_the_limit_and_after_the_statistics(filtered: Scene) -> None:
    memory = filtered.store.session(AGENT).memory
    scores = {hit.key: hit.score for hit in memory.search("green tea")}
    (hit,) = memory.search("green tea", max_results=1, tag="work")
    assert hit.key == "new"
    assert scores["new"] > 0
    assert [hit.key for hit in memory.list("WORK")] == ["new"]


@pytest.mark.parametrize(
    ("filters", "argument"),
    [
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-02-30"}, "until"),
        ({"since": True}, "since"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "until"),
        ({"since": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2)))}, "since"),
        ({"tag": 7}, "tag"),
        ({"tag": " "}, "tag"),
    ],
)
def test_a_filter_that_will_not_do_is_named(scene: Scene, filters: dict[str, Any], argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        everyone(scene).memory.search("tea", **filters)
    assert caught.value.details == {"argument": argument}


def test_a_filter_that_passes_over_too_much_ends_and_says_so(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.core import search

    monkeypatch.setattr(search, "_BATCH", 4)
    monkeypatch.setattr(search, "PASSED_MAX", 10)
    for number in range(20):
        scene.save(f"k{number}", "green tea", Level.PUBLIC, *(["first"] if number in (3, 19) else []))
    found = scene.store.session(AGENT).memory.search("tea", tag="first")
    assert (keys(found), found.complete) == ({"k3"}, False)
    monkeypatch.setattr(search, "PASSED_MAX", 18)
    found = scene.store.session(AGENT).memory.search("tea", tag="first")
    assert (keys(found), found.complete) == ({"k3", "k19"}, True)


def test_a_filter_keeps_what_was_found_before_the_budget_was_spent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = InMemoryCompartment.candidates

    def spent(self: InMemoryCompartment, terms: Sequence[str]) -> Iterator[Candidate]:
        yield from real(self, terms)
        raise BudgetSpentError

    monkeypatch.setattr(InMemoryCompartment, "candidates", spent)
    scene.save("k", "green tea", Level.PUBLIC, "t")
    found = scene.store.session(AGENT).memory.search("tea", tag="T")
    assert (keys(found), found.complete) == ({"k"}, False)
