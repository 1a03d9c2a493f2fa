"""Thoughts between tags: no part of an answer, however the response is cut into pieces."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.agent.thoughts import ThinkingHabit, ThoughtFilter, without_thoughts


def shown(*pieces: str, habit: ThinkingHabit | None = None, cut: bool = False) -> list[str]:
    """What is shown after each piece, and at the end."""
    thoughts = ThoughtFilter(habit or ThinkingHabit(plain=True))
    return [*(thoughts.feed(piece) for piece in pieces), thoughts.finish(cut=cut)]


def delivered(*pieces: str, habit: ThinkingHabit | None = None, cut: bool = False) -> str:
    """What is left of it, without what was withdrawn."""
    thoughts = ThoughtFilter(habit or ThinkingHabit(plain=True))
    text = "".join(thoughts.feed(piece) for piece in pieces)
    text += thoughts.finish(cut=cut)
    return text[thoughts.withdrawn :]


def answer(text: str, habit: ThinkingHabit | None = None) -> str:
    return delivered(text, habit=habit)


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
    assert shown("An ", "answer", habit=habit) == ["", "", "An answer"]
    assert shown("One ", "more", habit=habit) == ["One ", "more", ""]
    assert shown("Says ", "`</think>` ", "there", habit=habit) == ["Says ", "`</think>` ", "there", ""]


@pytest.mark.parametrize("before", [[], ["Hi."], ["Hi."] * 9, ["<think>x</think>Hi."]])
def test_a_late_end_alone_withdraws_all_that_was_shown_before_it(before: list[str]) -> None:
    habit = ThinkingHabit()
    for each in before:
        shown(each, habit=habit)
    assert delivered("SECRET ", "thought</th", "ink>", "Answer", habit=habit) == "Answer"
    assert (habit.plain, habit.unopened) == (False, True)
    assert shown("Hi", ".", habit=habit) == ["", "", "Hi."]


@pytest.mark.parametrize(
    "text",
    [
        '<think>The user asks about "</think>". SECRET stays here.</think>Answer',
        "<think>\nI say `</think>` here SECRET\n</think>Answer",
        "<think>\n```\n</think>\n```\nSECRET\n</think>Answer",
        "<think>one <think> two </think> SECRET three</think>Answer",
        "<think>one <think> two <think>3</think> </think> SECRET three</think>Answer",
        "<think>one `<think>` SECRET</think>Answer",
        "<think>The tag <think> opens. SECRET</think>Answer",
        "<think>An open `quote. SECRET</think>Answer",
        "<think>```\nan open block SECRET</think>Answer",
        '<think>The end "</think>" and ``` SECRET</think>Answer',
        "<think>The tag </think> is an end. SECRET</think>Answer",
        "\u200b<think>SECRET</think>Answer",
        "\ufeff\n<think>SECRET</think>\u200bAnswer".replace("</think>\u200b", "</think>"),
        "<think >SECRET</think>Answer",
        "<think>SECRET</think >Answer",
        "< think>SECRET</ think>Answer",
        '<think budget="high">SECRET</think>Answer',
        "<thoughts>SECRET</thoughts>Answer",
        "<|begin_of_thought|>SECRET<|end_of_thought|>Answer",
        'The user asks about "<think>". SECRET</think>Answer',
        'The user asks about "</think>". SECRET</think >Answer',
        "SECRET</think>SECRET</think>Answer",
        "x <think>y</think> SECRET</think>Answer",
    ],
)
def test_no_thoughts_are_left_however_they_name_their_own_tags(text: str) -> None:
    for habit in (ThinkingHabit(plain=True), ThinkingHabit(), ThinkingHabit(unopened=True)):
        assert delivered(text, habit=replace(habit)) == delivered(*text, habit=habit) == "Answer"
    assert without_thoughts(text) == "Answer"


@pytest.mark.parametrize(
    ("habit", "at_limit", "left"),
    [
        (ThinkingHabit(), True, ""),
        (ThinkingHabit(), False, "a cut"),
        (ThinkingHabit(unopened=True), False, ""),
        (ThinkingHabit(plain=True), True, "a cut"),
    ],
)
def test_a_cut_response_may_consist_of_thoughts_unless_the_model_is_known(
    habit: ThinkingHabit, at_limit: bool, left: str
) -> None:
    thoughts = ThoughtFilter(habit)
    assert thoughts.feed("a cut") + thoughts.finish(cut=True, at_limit=at_limit) == left


@pytest.mark.parametrize("text", ['<think>"</think>" is', "<think>a <think> b</think> c", "<think>x"])
def test_opened_thoughts_that_are_cut_leave_nothing(text: str) -> None:
    assert delivered(text, cut=True) == ""


def test_a_tag_without_an_end_mark_is_text() -> None:
    for text in ("<think/>Hi", "<thinks>Hi", "a <think" + " x" * 99, "``", "Hi [", "a <"):
        assert answer(text) == answer(text, ThinkingHabit()) == text


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
    assert shown("one", habit=habit, cut=True) == ["", "one"]
    shown(" ", habit=habit)
    assert habit == ThinkingHabit()


@given(
    st.lists(
        st.sampled_from(
            [
                "<think>",
                "</think>",
                "<thinking>",
                "<think >",
                "x",
                "\n",
                "`",
                "```",
                "\u200b",
                " ",
                "<",
                "/",
                '"',
                "</th",
                "ink>",
            ]
        ),
        max_size=12,
    ).map("".join),
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([(True, False), (False, False), (False, True)]),
)
def test_it_does_not_matter_how_a_response_is_cut(text: str, cuts: list[int], seen: tuple[bool, bool]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    whole = delivered(text, habit=ThinkingHabit(*seen))
    assert delivered(*pieces, habit=ThinkingHabit(*seen)) == delivered(*text, habit=ThinkingHabit(*seen)) == whole
    assert without_thoughts(text) == delivered(*text, habit=ThinkingHabit())
