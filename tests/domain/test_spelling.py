"""Spelling: words in no visible memory are matched to the vocabulary of those there are."""

import pytest

from tidegate.domain.spelling import closest, corrected, ranges, unknown
from tidegate.domain.text import analyse_query


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
    assert right in closest(word, [("pot", 9), (right, 2), ("zebra", 9)])
    assert any(low <= right < high for low, high in ranges(word))


def test_fewer_errors_come_first_then_more_frequent_words() -> None:
    word = analyse_query("deployemnt").words[0]
    assert closest(word, [("deploymnt", 9), ("deployments", 9), ("deployment", 1)])[0] in {"deploymnt", "deployment"}
    assert closest(analyse_query("tabl").words[0], [("tabs", 1), ("table", 2), ("tall", 3)]) == (
        "tall",
        "table",
        "tabs",
    )


def test_known_short_numeric_and_unspaced_words_are_left_alone() -> None:
    query = analyse_query("postgres cat v2031 会议室")
    assert unknown(query, {"postgres": 3}) == []
    assert [word.text for word in unknown(query, {})] == ["postgres"]


def test_words_held_by_no_memory_any_more_are_not_suggested() -> None:
    assert closest(analyse_query("postgers").words[0], [("postgres", 0)]) == ()


def test_corrected_words_match_what_was_meant_and_weigh_less() -> None:
    query = corrected(analyse_query("postgers migration"), {"postgers": ("postgres",)})
    assert query.words[0].terms == ("postgres",)
    assert query.words[0].weight < query.words[1].weight == 1
