"""Nearness: which words of a text tell, and which memories share enough of them."""

from __future__ import annotations

from tidegate.search.nearness import RARE_MAX, nearness, telling_words


def words(key: str, content: str) -> list[str]:
    return [terms[0] for terms in telling_words(key, content)]


def test_the_longest_words_tell_and_function_words_do_not() -> None:
    assert words("user-name", "The user's name is Ada Lovelace") == ["lovelace", "user", "name", "ada"]
    assert words("tea", "what is it for?") == ["tea"]
    assert words("?!", "?!") == []


def test_a_word_comes_with_all_its_forms() -> None:
    assert ("meeting", "meet") in telling_words("k", "the meeting")


def test_of_a_long_text_few_words_of_the_beginning_count() -> None:
    found = words("k", " ".join(f"word{number:04}" for number in range(10_000)))
    assert len(found) == 8
    assert max(found) < "word0100"


def test_two_words_and_a_good_part_of_all_must_be_shared() -> None:
    assert nearness([["a"], ["a"], [], [], []]) == {"a": 2.0}
    assert nearness([["a"], ["a"], [], [], [], []]) == {}
    assert nearness([["a"]]) == {}
    assert nearness([]) == {}


def test_the_rarer_a_shared_word_the_more_it_counts() -> None:
    assert nearness([["a", "b"], ["a", "b"], ["a", "c"], ["b"]]) == {"a": 1.5, "b": 2.0}


def test_common_words_count_neither_for_nor_against() -> None:
    common = [f"m{number}" for number in range(RARE_MAX + 1)]
    assert nearness([common, common]) == {}
    assert nearness([["a"], ["a"], common, common, common, common]) == {"a": 2.0}
