"""Excerpts: 500 code points at most, never half a grapheme, and answers of at most 100 kB."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from apsw.unicode import grapheme_iter
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.policy.levels import Level
from tidegate.records.excerpt import LOOK_AHEAD, AnswerSize, excerpt
from tidegate.records.limits import ANSWER_BYTES_MAX
from tidegate.records.memory import Memory
from tidegate.records.record import Origin

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
FLAG = "\U0001f1e9\U0001f1ea"


@pytest.mark.parametrize("content", ["", "a", "a" * 500, "\U0001f600" * 500, "\r\n" * 250, "e\u0301" * 250])
def test_what_is_short_enough_stays_whole(content: str) -> None:
    assert excerpt(content) == (content, False)


@pytest.mark.parametrize(
    ("content", "length"),
    [
        ("a" * 501, 500),
        ("a" * 100_000, 500),
        ("a" * 499 + "\r\n", 499),
        ("a" * 498 + "\r\n" + "b", 500),
        ("a" * 500 + "\r\n", 500),
        ("a" * 499 + "e\u0301", 499),
        ("a" * 499 + "e\u0301" + "b" * 99, 499),
        ("a" * 498 + "e\u0301" + "b", 500),
        ("a" * 495 + FAMILY, 495),
        ("a" * 493 + FAMILY + "b", 500),
        ("a" * 499 + FLAG, 499),
        ("a" * 498 + FLAG + FLAG, 500),
        ("\u65e5" * 501, 500),
        ("e" + "\u0301" * 600, 500),
    ],
)
def test_what_is_longer_is_cut_at_the_last_boundary_that_fits(content: str, length: int) -> None:
    assert excerpt(content) == (content[:length], True)


pieces = st.sampled_from(
    ["a", " ", "\r\n", "e\u0301", FAMILY, FLAG, "\u65e5", "\u0915\u094d\u0937", "\U0001f600", "\n"]
)


@settings(max_examples=25)
@given(st.lists(pieces, min_size=150, max_size=600).map("".join))
def test_an_excerpt_is_the_longest_run_of_whole_graphemes_that_fits(content: str) -> None:
    short, truncated = excerpt(content)
    graphemes = list(grapheme_iter(content))
    expected = ""
    for grapheme in graphemes:
        if len(expected) + len(grapheme) > 500:
            break
        expected += grapheme
    assert (short, truncated) == (expected, expected != content)


@settings(max_examples=25)
@given(st.lists(pieces, min_size=400, max_size=700).map("".join))
def test_the_first_code_points_are_enough_to_make_an_excerpt(content: str) -> None:
    assert excerpt(content[:LOOK_AHEAD]) == excerpt(content)


def memory(key: str, content: str, tags: tuple[str, ...]) -> Memory:
    at = datetime(2030, 1, 1, 12, 30, 15, 123456, UTC)
    return Memory(
        key=key,
        content=content,
        classification=Level.CONFIDENTIAL,
        tags=tags,
        version=1,
        origin=Origin.IMPORT,
        created_at=at,
        updated_at=at,
        truncated=True,
    )


def as_json(shown: Memory) -> dict[str, object]:
    return {
        "key": shown.key,
        "content": shown.content,
        "classification": shown.classification.name,
        "tags": list(shown.tags),
        "origin": shown.origin,
        "updated_at": shown.updated_at.isoformat(),
        "truncated": True,
        "score": 123.456789,
    }


@pytest.mark.parametrize("char", ["a", "\u00e9", "\u65e5", "\U0001f600", "\x01", '"', "\\", "\n"])
@pytest.mark.parametrize("tags", [0, 64])
def test_an_answer_of_what_was_taken_is_at_most_100_kb_and_holds_something(char: str, tags: int) -> None:
    each = memory(char * 256, char * 500, tuple(f"{number:02}{char * 62}" for number in range(tags)))
    echoed = char * 4096
    size, taken = AnswerSize(echoed=echoed), 0
    while size.takes(each):
        taken += 1
    answer = {"query": echoed, "results": [as_json(each)] * taken, "complete": False, "next_cursor": "A" * 1400}
    written = len(json.dumps(answer, ensure_ascii=False).encode())
    assert taken > 0
    assert written <= ANSWER_BYTES_MAX
    assert written + 2 * len(json.dumps(as_json(each), ensure_ascii=False).encode()) > ANSWER_BYTES_MAX - 10_000


def test_what_no_longer_fits_leaves_no_room_for_more() -> None:
    size = AnswerSize()
    assert not size.takes(memory("k", "\x01" * 20_000, ()))
    assert not size.takes(memory("k", "a", ()))
