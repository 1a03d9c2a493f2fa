"""Cursors: opaque, bound to agent, taint and tag, and made of nothing that their session has not seen."""

from __future__ import annotations

import base64
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.records.cursor import read_cursor, write_cursor

KEYS = ["k", "", "caf\u00e9", "\U0001f600", "a" * 256, "a b", "=", "\u65e5\u672c"]
storable = st.text(st.characters(exclude_categories=["Cs"]))


def refused(cursor: object, agent: str = "a", taint: Level = Level.PUBLIC, tag: str | None = None) -> bool:
    with pytest.raises(InvalidArgument) as caught:
        read_cursor(cursor, agent, taint, tag)
    assert caught.value.to_dict() == {
        "code": "INVALID_ARGUMENT",
        "message": "cursor: not valid for this list; list again without it",
        "argument": "cursor",
    }
    return True


@pytest.mark.parametrize(("key", "taint", "tag"), [*product(KEYS, Level, [None, "t", ""])])
def test_a_cursor_is_read_where_it_was_written(key: str, taint: Level, tag: str | None) -> None:
    cursor = write_cursor(key, "a", taint, tag)
    assert read_cursor(cursor, "a", taint, tag) == key
    assert cursor.isascii()
    assert cursor.replace("-", "").replace("_", "").isalnum()


def test_without_a_cursor_a_list_begins_before_every_key() -> None:
    assert read_cursor(None, "a", Level.PUBLIC, None) == ""


def test_a_cursor_holds_nowhere_else() -> None:
    places = [(agent, taint, tag) for agent in ("a", "ab", "b") for taint in Level for tag in (None, "", "t", "null")]
    for here in places:
        cursor = write_cursor("k", *here)
        assert [there for there in places if there == here or not refused(cursor, *there)] == [here]


@given(storable, st.integers(0, 400), st.sampled_from("aZ0-_=+/ \n"))
def test_a_cursor_with_any_character_changed_is_refused(key: str, at: int, char: str) -> None:
    cursor = write_cursor(key, "a", Level.PUBLIC, None)
    at %= len(cursor)
    changed = cursor[:at] + char + cursor[at + 1 :]
    assert changed == cursor or refused(changed)


@pytest.mark.parametrize(
    "change",
    [
        lambda c: c + "=",
        lambda c: c + "==",
        lambda c: c + "A",
        lambda c: c[:-1],
        lambda c: " " + c,
        lambda c: c + "\n",
        lambda c: c.encode(),
        lambda c: c[:9] + "\n" + c[9:],
    ],
)  # type: ignore[no-any-return]
def test_only_the_one_way_of_writing_a_cursor_is_read(change: object) -> None:
    assert refused(change(write_cursor("k", "a", Level.PUBLIC, None)))  # type: ignore[operator]


@pytest.mark.parametrize(
    "cursor", ["", "k", "0", 0, 1, True, [], {}, b"", "\0", "\ud800", "\u00e9", "=" * 99, "A" * 100_000, "../x", "null"]
)
def test_anything_else_is_refused(cursor: object) -> None:
    assert refused(cursor)


def test_lists_without_end_are_refused() -> None:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    assert refused(nested)


@given(st.binary(max_size=60))
def test_bytes_that_nobody_sealed_are_refused(data: bytes) -> None:
    assert refused(base64.urlsafe_b64encode(data).decode().rstrip("="))


@given(storable, storable, st.sampled_from(Level), storable)
def test_any_key_of_any_place_comes_back(key: str, agent: str, taint: Level, tag: str) -> None:
    assert read_cursor(write_cursor(key, agent, taint, tag), agent, taint, tag) == key
