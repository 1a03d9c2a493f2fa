"""Ranking: bounded lookups, BM25 over what is visible, one order."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tidegate.search.analysis import Query, analyse_query
from tidegate.search.ranking import (
    FREQUENCY_MAX,
    PROBE_POSTINGS_MAX,
    PROBE_TERMS_MAX,
    Match,
    Scorer,
    Statistics,
    best_first,
    idf,
    select_common,
    select_terms,
)

STATISTICS = Statistics(1_000, (2_000, 1_000, 50_000))
NOON = datetime(2031, 4, 9, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Counted:
    """How often terms occur in key, tags and content of a memory, and how long these are."""

    counts: Mapping[str, tuple[int, int, int]]
    lengths: tuple[int, int, int]


def in_content(*terms: str, length: int = 50) -> Counted:
    return Counted(dict.fromkeys(terms, (0, 0, 1)), (2, 1, length))


def score(query: Query, memory: Counted, frequencies: Mapping[str, int], statistics: Statistics) -> float:
    terms = ["absent", *memory.counts]
    counts = [number for term, each in memory.counts.items() for number in (terms.index(term), *each)]
    return Scorer(query, terms, frequencies, statistics).score(Match(counts, memory.lengths))


@dataclass(frozen=True)
class Hit:
    score: float
    updated_at: datetime
    key: str


def test_statistics_of_compartments_add_up() -> None:
    assert Statistics(1, (1, 2, 3)) + Statistics(2, (10, 20, 30)) == Statistics(3, (11, 22, 33))
    assert Statistics() + STATISTICS == STATISTICS


def test_rare_words_weigh_more_and_none_weighs_less_than_nothing() -> None:
    assert idf(1, STATISTICS) > idf(500, STATISTICS) > idf(1_000, STATISTICS) > 0


def test_record_with_more_of_the_words_scores_higher() -> None:
    query = analyse_query("migrate postgres")
    frequencies = {"migrat": 20, "migrate": 20, "postgres": 20, "postgr": 20}
    both = score(query, in_content("migrate", "postgres"), frequencies, STATISTICS)
    one = score(query, in_content("postgres"), frequencies, STATISTICS)
    assert both > one > score(query, in_content("else"), frequencies, STATISTICS) == 0


def test_key_weighs_more_than_tags_and_tags_more_than_content() -> None:
    query, frequencies = analyse_query("postgres"), {"postgres": 20}
    even = Statistics(1_000, (10_000, 10_000, 10_000))
    scores = [
        score(query, Counted({"postgres": counts}, (10, 10, 10)), frequencies, even)
        for counts in ((1, 0, 0), (0, 1, 0), (0, 0, 1))
    ]
    assert scores == sorted(scores, reverse=True)
    assert len(set(scores)) == 3


def test_short_record_scores_above_a_long_one() -> None:
    query, frequencies = analyse_query("postgres"), {"postgres": 20}
    short, long = in_content("postgres", length=10), in_content("postgres", length=500)
    assert score(query, short, frequencies, STATISTICS) > score(query, long, frequencies, STATISTICS)


def test_forms_of_one_word_count_once() -> None:
    query, frequencies = analyse_query("running"), {"running": 20, "run": 20}
    one, two = in_content("running"), in_content("running", "run")
    assert score(query, one, frequencies, STATISTICS) == score(query, two, frequencies, STATISTICS)


def test_empty_store_scores_without_error() -> None:
    memory = Counted({"ada": (1, 0, 0)}, (1, 0, 0))
    assert score(analyse_query("ada"), memory, {}, Statistics()) >= 0


def test_scores_are_rounded_to_six_decimals() -> None:
    value = score(analyse_query("postgres"), in_content("postgres"), {"postgres": 3}, STATISTICS)
    assert value == round(value, 6)


def test_ties_go_to_the_newest_then_by_key() -> None:
    later = NOON + timedelta(seconds=1)
    hits = [Hit(1, NOON, "b"), Hit(1, NOON, "a"), Hit(1, later, "z"), Hit(2, NOON, "c")]
    assert [hit.key for hit in best_first(hits)] == ["c", "z", "a", "b"]


def test_unknown_terms_are_not_looked_up() -> None:
    assert select_terms(analyse_query("zebra unicorn"), {"zebra": 2, "unicorn": 0}) == ("zebra",)


def test_f04_lookups_are_rarest_first_within_the_bound() -> None:
    query = analyse_query("zebra project kubernetes")
    frequencies = {"zebra": 9, "project": PROBE_POSTINGS_MAX, "kubernetes": 3}
    assert select_terms(query, frequencies) == ("kubernetes", "zebra")


def test_common_term_is_not_looked_up_however_few_others_there_are() -> None:
    assert select_terms(analyse_query("zebra"), {"zebra": FREQUENCY_MAX}) == ()
    assert select_terms(analyse_query("zebra"), {"zebra": FREQUENCY_MAX - 1}) == ("zebra",)


def test_thousand_words_are_bounded() -> None:
    words = [f"word{number}" for number in range(1_000)]
    query = analyse_query(" ".join(words))
    assert len(select_terms(query, dict.fromkeys(words, 1))) <= PROBE_TERMS_MAX


def test_only_common_words_are_looked_for_together() -> None:
    query = analyse_query("project meeting")
    frequencies = {"project": 500_000, "meeting": 400_000, "meet": 450_000}
    assert select_terms(query, frequencies) == ()
    assert select_common(query, frequencies, ()) == (("meeting", "meet"), ("project",))


def test_common_words_beside_rare_ones_are_looked_for_only_when_two() -> None:
    frequencies = {"zebra": 9, "project": 500_000, "meeting": 400_000}
    one, two = analyse_query("zebra project"), analyse_query("zebra project meeting")
    assert select_common(one, frequencies, select_terms(one, frequencies)) == ()
    assert len(select_common(two, frequencies, select_terms(two, frequencies))) == 2


def test_query_that_is_covered_needs_no_common_words() -> None:
    query, frequencies = analyse_query("zebra project"), {"zebra": 9, "project": 50}
    assert select_common(query, frequencies, select_terms(query, frequencies)) == ()
