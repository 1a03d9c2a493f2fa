"""JSON Lines: exact, one line each, and read with suspicion."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.records.jsonl import NotJsonError, read_object, read_value, to_line

EVERY_BREAK = "\ufeffa\r\nb\rc\n\u2028d\u2029\x85e\x0b\x0c\x1c\x1d\x1e\x00\x1b[2J\u202e"


@given(st.text())
def test_every_text_is_one_line_and_comes_back_exact(text: str) -> None:
    line = to_line({"content": text})
    assert read_object(line) == {"content": text}
    assert line.splitlines() == [line]


def test_u17_nothing_that_any_reader_splits_at_or_swallows_stands_raw_in_a_line() -> None:
    line = to_line([EVERY_BREAK])
    assert len(line.splitlines()) == 1
    assert not set(line) & set("\ufeff\x85\u2028\u2029\x1b\u202e")
    assert read_value(line) == [EVERY_BREAK] == json.loads(line)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1]", "not a JSON object"),
        ('{"a": 1, "a": 2}', "a name occurs twice in one object"),
        ('{"a": {"b": 1, "b": 2}}', "a name occurs twice in one object"),
        ('{"a"', "not JSON (line 1, column 5)"),
        ("[" * 100_000, "not readable JSON"),
        ('{"a": ' + "9" * 5_000 + "}", "not readable JSON"),
    ],
)
def test_what_is_no_object_is_refused_with_a_reason(text: str, reason: str) -> None:
    with pytest.raises(NotJsonError) as refused:
        read_object(text)
    assert str(refused.value) == reason
