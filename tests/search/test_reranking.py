"""Reranking: parts of words and shared company, bounded and from visible texts alone."""

from tidegate.search.analysis import analyse_query
from tidegate.search.ranking import Statistics
from tidegate.search.reranking import RERANKED_MAX, rerank

STATISTICS = Statistics(100, (100, 0, 1_000))


def gains(query: str, *texts: str) -> list[float]:
    candidates = [(1.0, text) for text in texts]
    return [gain.total for gain in rerank(analyse_query(query), candidates, (), {}, STATISTICS)]


def test_compound_gains_over_an_unrelated_text() -> None:
    compound, other, third = gains("Wirtschaft", "die Landwirtschaft wächst", "der Garten wächst", "das Haus steht")
    assert compound > max(other, third)


def test_misspelled_word_gains_over_an_unrelated_text() -> None:
    right, other, third = gains("kubernets", "we run kubernetes", "we run on foot", "they walk home")
    assert right > max(other, third)


def test_company_of_the_leaders_lifts_a_text_that_shares_it() -> None:
    candidates = [
        (9.0, "telescope lens and tripod"),
        (8.0, "telescope mirror with tripod"),
        (1.0, "the tripod stands in the shed"),
        (1.0, "the shovel stands in the shed"),
        *[(0.5, f"something else {number}") for number in range(8)],
    ]
    found = rerank(analyse_query("telescope"), candidates, ("telescope",), {"telescope": 2}, STATISTICS)
    assert found[2].feedback > found[3].feedback


def test_nothing_to_rerank_gives_nothing() -> None:
    assert rerank(analyse_query("ada"), [], (), {}, STATISTICS) == []


def test_gains_are_never_negative_and_bounded_in_number() -> None:
    texts = [f"text {number} ada" for number in range(RERANKED_MAX)]
    found = gains("ada lovelace", *texts)
    assert len(found) == RERANKED_MAX
    assert min(found) >= 0


def test_scores_of_zero_and_texts_without_words_are_no_error() -> None:
    assert rerank(analyse_query("🚀"), [(0.0, "🚀"), (0.0, "")], (), {}, STATISTICS)


def test_gains_are_the_same_for_the_same_candidates() -> None:
    texts = ("会议改到下周三", "会议在周五", "ฉันพูดภาษาไทย", "hello there")
    assert gains("会议", *texts) == gains("会议", *texts)


def test_word_too_common_to_look_up_counts_where_it_stands() -> None:
    candidates = [(1.0, "the zebra crossing"), (1.0, "the zebra project")]
    frequencies = {"zebra": 2, "project": 40}
    one, both = rerank(analyse_query("zebra project"), candidates, ("zebra",), frequencies, STATISTICS)
    assert one.common == 0 < both.common
    looked_up = rerank(analyse_query("zebra project"), candidates, ("zebra", "project"), frequencies, STATISTICS)
    assert [gain.common for gain in looked_up] == [0, 0]
