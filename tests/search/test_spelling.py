"""Spelling: words in no visible memory are matched to the vocabulary of those there are."""

import pytest

from tidegate.search.analysis import analyse_query
from tidegate.search.spelling import closest, corrected, ranges, unknown


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("postgers", "postgres"),
        ("recieve", "receive"),
        ("kuberentes", "kubernetes"),
        ("meating", "meeting"),
        ("tabel", "table"),
    ],
)
def test_typing_error_finds_the_word_that_was_meant(wrong: str, right: str) -> None:
    word = analyse_query(wrong).words[0]
    assert right in closest(word, ["pot", right, "zebra"])
    assert any(low <= right < high for low, high in ranges(word))


def test_the_fewest_errors_come_first() -> None:
    assert closest(analyse_query("tabel").words[0], ["table", "tabler", "tablet"]) == ("table",)
    assert closest(analyse_query("deployemnt").words[0], ["deployments", "deployment"]) == ("deployment", "deployments")
    assert closest(analyse_query("zebra").words[0], ["postgres"]) == ()


def test_of_words_that_live_only_those_with_the_fewest_errors_count() -> None:
    query, both = analyse_query("deployemnt"), {"deployemnt": ("deployment", "deployments")}
    assert corrected(query, both, {"deployment": 1, "deployments": 1}).terms == ("deployment",)
    assert corrected(query, both, {"deployment": 0, "deployments": 1}).terms == ("deployments",)


def test_known_short_numeric_and_unspaced_words_are_left_alone() -> None:
    query = analyse_query("postgres cat v2031 会议室")
    assert unknown(query, {"postgres": 3}) == []
    assert [word.text for word in unknown(query, {})] == ["postgres"]


def test_corrected_words_match_what_was_meant_and_weigh_less() -> None:
    query = corrected(analyse_query("postgers migration"), {"postgers": ("postgres",)}, {"postgres": 2})
    assert query.words[0].terms == ("postgres",)
    assert query.words[0].weight < query.words[1].weight == 1


def test_words_held_by_no_memory_any_more_are_not_suggested() -> None:
    query = analyse_query("postgers")
    assert corrected(query, {"postgers": ("postgres",)}, {"postgres": 0}) == query
