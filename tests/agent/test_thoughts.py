"""Thoughts between tags: no part of an answer, however the response is cut into pieces."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent.thoughts import ThinkingHabit, ThoughtFilter, without_thoughts


def shown(*pieces: str, habit: ThinkingHabit | None = None, cut: bool = False) -> list[str]:
    """What is shown after each piece, and at the end."""
    thoughts = ThoughtFilter(habit or ThinkingHabit(plain=True))
    return [*(thoughts.feed(piece) for piece in pieces), thoughts.finish(cut=cut)]


def answer(text: str, habit: ThinkingHabit | None = None) -> str:
    return "".join(shown(text, habit=habit))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>The user wants x</think>Answer", "Answer"),
        ("<think>\nThe user wants x\n</think>\n\nAnswer\n", "Answer\n"),
        (" \n<think>x</think> Answer", "Answer"),
        ("<THINK>x</Think>Answer", "Answer"),
        ("<think></think>Answer", "Answer"),
        ("<think>x</think>", ""),
        ("<think>x", ""),
        ("<think>x</thin", ""),
        ("<think>a</think>\n<think>b</think>Answer", "Answer"),
        ("<thinking>x</thinking>Answer", "Answer"),
        ("<thought>x</thought>Answer", "Answer"),
        ("<reasoning>x</reasoning>Answer", "Answer"),
        ("<seed:think>x</seed:think>Answer", "Answer"),
        ("[THINK]x[/THINK]Answer", "Answer"),
        ("◁think▷x◁/think▷Answer", "Answer"),
        ("<think>a </thinking> b</think>Answer", "Answer"),
        ("<think>a</think>NOTHING", "NOTHING"),
    ],
)
def test_thoughts_at_the_start_are_no_part_of_the_answer(text: str, said: str) -> None:
    for habit in (ThinkingHabit(plain=True), ThinkingHabit(), ThinkingHabit(unopened=True)):
        assert answer(text, habit) == said


@pytest.mark.parametrize(
    "text",
    [
        "Write `<think>` before, and `</think>` after.",
        "The tag <think> opens thoughts.",
        "Like this:\n```\n<think>x</think>\n```\nDone.",
        '"<think>" is a tag, and "</think>" too.',
        "`</think>` ends them.",
        "  \n indented",
        "<thinker> is no tag",
        "<",
        "<thin",
        "[1] is a footnote",
        "",
        "< 3 > 2",
    ],
)
def test_what_an_answer_says_about_the_tags_stays(text: str) -> None:
    assert answer(text) == text
    assert answer(text, ThinkingHabit()) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("The user wants x</think>Answer", "Answer"),
        ("The user wants x\n</think>\n\nAnswer", "Answer"),
        ('He said "x"</think>"Answer"', '"Answer"'),
        ("All of it</think>", ""),
        ("x</thinking>Answer", "Answer"),
        ("x[/THINK]Answer", "Answer"),
        ("x</think><think>y</think>Answer", "Answer"),
        ("It says `</think>` there</think>Answer", "Answer"),
    ],
)
def test_an_end_alone_ends_thoughts_that_the_prompt_opened(text: str, said: str) -> None:
    habit = ThinkingHabit()
    assert [answer(text, habit), answer(text, habit)] == [said, said]


def test_nothing_is_shown_before_it_is_known_whether_the_prompt_opens_thoughts() -> None:
    assert shown("The user", " wants x</th", "ink>Ans", "wer", habit=ThinkingHabit()) == ["", "", "Ans", "wer", ""]
    assert shown("An ", "answer", habit=ThinkingHabit()) == ["", "", "An answer"]


def test_a_model_that_was_seen_to_open_none_is_shown_piece_by_piece() -> None:
    habit = ThinkingHabit()
    shown("An ", "answer", habit=habit)
    assert shown("One ", "more", habit=habit) == ["One ", "more", ""]
    assert shown("Says ", "</think> ", "there", habit=habit) == ["Says ", "</think> ", "there", ""]


def test_a_model_that_opens_its_thoughts_itself_is_shown_after_them() -> None:
    habit = ThinkingHabit()
    assert shown("<thi", "nk>x</", "think>", "\n", "One ", "more", habit=habit) == ["", "", "", "", "One ", "more", ""]
    assert shown("One ", "more", habit=habit) == ["One ", "more", ""]


@pytest.mark.parametrize("cut", [False, True])
def test_a_model_whose_prompt_opens_thoughts_stays_held(cut: bool) -> None:
    habit = ThinkingHabit()
    shown("x</think>y", habit=habit)
    assert shown("a ", "b", habit=habit, cut=cut) == ["", "", "" if cut else "a b"]
    assert shown("a", "</think>", "b", habit=habit) == ["", "", "b", ""]


def test_a_cut_or_empty_response_teaches_nothing() -> None:
    habit = ThinkingHabit()
    shown("one", habit=habit, cut=True)
    shown(" ", habit=habit)
    assert habit == ThinkingHabit()


@given(
    st.lists(
        st.sampled_from(["<think>", "</think>", "<thinking>", "x", "\n", "`", " ", "<", "/", '"', "</th", "ink>"]),
        max_size=12,
    ).map("".join),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([(True, False), (False, False), (False, True)]),
)
def test_it_does_not_matter_how_a_response_is_cut(text: str, cuts: list[int], seen: tuple[bool, bool]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert "".join(shown(*pieces, habit=ThinkingHabit(*seen))) == "".join(shown(*text, habit=ThinkingHabit(*seen)))
    assert without_thoughts(text) == "".join(shown(*text, habit=ThinkingHabit()))
