"""What callers send: each refusal names the argument and the limit, and what is taken is taken exactly."""

from __future__ import annotations

import itertools
import json
import math
import unicodedata
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.errors import InvalidArgument, LimitExceeded, TidegateError
from tidegate.records.limits import Limits
from tidegate.records.validation import (
    check_agent,
    check_content,
    check_item,
    check_key,
    check_names,
    check_number,
    check_query,
    check_tag,
    check_tags,
    require,
)

T = TypeVar("T")
LIMITS = Limits()
NOT_STRINGS = [None, 7, 7.5, True, b"bytes", ["list"], {"a": 1}, object()]
UNSTORABLE = ["\0", "a\0b", "\ud800", "a\udfffb", "\udc00\ud800"]
CONTROLS = ["\x01", "\t", "\n", "\r", "\x1b[31m", "\x7f", "\x80", "\x85", "\x9b"]
DECEIVING = [
    *"\u061c\u200e\u200f",
    *"\u2028\u2029",
    *"\u202a\u202b\u202c\u202d\u202e",
    *"\u2066\u2067\u2068\u2069",
]


def taken_or_refused(check: Callable[[object, Limits], T], value: object, argument: str) -> T | None:
    """What a check makes of a value; None when it refuses it by name."""
    try:
        return check(value, LIMITS)
    except TidegateError as error:
        if error.details["argument"] != argument:
            raise
        return None


# Agents


@pytest.mark.parametrize(
    "agent", ["a", "0", "assistant", "a.b_c-d", "a" * 64, "con1", "console", "com10", "a..b", "nul-"]
)
def test_an_agent_id_is_taken_as_it_is(agent: str) -> None:
    assert check_agent(agent) == agent


@pytest.mark.parametrize(
    "agent",
    [
        *(
            "",
            " ",
            ".",
            "..",
            "-a",
            "_a",
            ".a",
            "a.",
            "A",
            "aB",
            "a b",
            "a/b",
            "../x",
            "a\\b",
            "a:b",
            "a\n",
            "\na",
            "caf\u00e9",
        ),
        *("a" * 65, "\uff41", "\u0131", "a\u0301"),
        *("con", "prn", "aux", "nul", "com0", "com9", "lpt1", "con.txt", "nul.", "com1.tar.gz", "CON"),
        *NOT_STRINGS,
        *UNSTORABLE,
    ],
)
def test_an_agent_id_that_could_be_another_path_or_device_is_refused(agent: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_agent(agent)
    assert caught.value.details["argument"] == "agent"


# Keys and tags


@pytest.mark.parametrize(
    "key",
    [
        "k",
        "../x",
        "a:b",
        "con",
        "C:\\x",
        "a/b",
        " a ",
        "A",
        "%",
        "_",
        "*",
        "'",
        '"',
        ";",
        "--",
        "\U0001f600",
        "\u05d0",
        "a b",
        "0",
    ],
)
def test_keys_are_taken_as_they_are_with_case_and_spaces(key: str) -> None:
    assert check_key(key, LIMITS) == key


def test_keys_that_differ_in_case_stay_apart_and_twins_in_nfc_and_nfd_are_one() -> None:
    assert check_key("Key", LIMITS) != check_key("key", LIMITS)
    assert check_key("cafe\u0301", LIMITS) == check_key("caf\u00e9", LIMITS) == "caf\u00e9"


@pytest.mark.parametrize(
    "key",
    [*NOT_STRINGS, *UNSTORABLE, *CONTROLS, *DECEIVING, "", " ", "\u3000 \u00a0", "\n", "a\u202eb", "x\x1b]0;t\x07"],
)
@pytest.mark.parametrize("argument", ["key", "name"])
def test_a_key_that_is_blank_or_can_deceive_is_refused_by_name(key: object, argument: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_key(key, LIMITS, argument)
    assert caught.value.details == {"argument": argument}
    assert caught.value.message.startswith(f"{argument}: ")
    assert isinstance(key, str) is False or len(str(key)) < 2 or str(key) not in caught.value.message


@pytest.mark.parametrize("key", ["x" * 256, "\U0001f600" * 256, "e\u0301" * 256, "\u1fbe" * 256])
def test_a_key_of_as_many_code_points_as_allowed_is_taken(key: str) -> None:
    assert len(check_key(key, LIMITS)) == 256


@pytest.mark.parametrize(
    ("key", "actual"),
    [("x" * 257, 257), ("x" * 1_000_000, 1_000_000), ("a\u0301\u0301" * 200, 400), ("\u0344" * 129, 258)],
)
def test_a_key_that_is_too_long_is_a_limit_that_says_by_how_much(key: str, actual: int) -> None:
    with pytest.raises(LimitExceeded) as caught:
        check_key(key, LIMITS)
    assert caught.value.details == {"argument": "key", "limit": 256, "actual": actual}
    assert "256" in caught.value.message
    assert str(actual) in caught.value.message


@given(st.text(max_size=600))
def test_a_key_is_either_refused_or_in_nfc_and_taken_again_unchanged(text: str) -> None:
    key = taken_or_refused(check_key, text, "key")
    if key is None:
        return
    assert key == unicodedata.normalize("NFC", text)
    assert check_key(key, LIMITS) == key
    assert 1 <= len(key) <= 256
    assert key.strip()
    assert not any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in key)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (None, ()),
        ([], ()),
        ("", ()),
        ("[]", ()),
        ("one", ("one",)),
        (" one ", ("one",)),
        (["b", "a", " b", "a"], ("a", "b")),
        (("b", "a"), ("a", "b")),
        ('["b", "a"]', ("a", "b")),
        (' ["b"] ', ("b",)),
        (["", "a", ""], ("a",)),
        ("[not json", ("[not json",)),
        ('{"a": 1}', ('{"a": 1}',)),
        (["Z", "a", "\u00e9", "e\u0301"], ("Z", "a", "\u00e9")),
        (["a,b", "a b"], ("a b", "a,b")),
        ({"b", "a"}, ("a", "b")),
        (dict.fromkeys(("b", "a")).keys(), ("a", "b")),
        ((tag for tag in ("b", "a")), ("a", "b")),
    ],
)
def test_tags_are_trimmed_distinct_and_sorted_however_they_come(tags: object, expected: tuple[str, ...]) -> None:
    assert check_tags(tags, LIMITS) == expected


@pytest.mark.parametrize(
    "tags",
    [
        7,
        True,
        {"a": 1},
        {7},
        b"a",
        [None],
        [7],
        [["a"]],
        "[null]",
        "[1]",
        '[["a"]]',
        ["a\nb"],
        ["\0"],
        ["\ud800"],
        ["\u202e"],
    ],
)
def test_tags_that_are_no_strings_or_can_deceive_are_refused_by_name(tags: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_tags(tags, LIMITS)
    assert caught.value.details == {"argument": "tags"}


@pytest.mark.parametrize(
    ("tags", "limit", "actual"),
    [
        ([f"t{number}" for number in range(65)], 64, 65),
        ([f"t{number}" for number in range(100_000)], 64, 100_000),
        (json.dumps([f"t{number}" for number in range(65)]), 64, 65),
        (["x" * 65], 64, 65),
        ("x" * 65, 64, 65),
        ("[" * 100_000, 64, 100_000),
    ],
)
def test_too_many_tags_or_too_long_ones_are_a_limit(tags: object, limit: int, actual: int) -> None:
    with pytest.raises(LimitExceeded) as caught:
        check_tags(tags, LIMITS)
    assert caught.value.details == {"argument": "tags", "limit": limit, "actual": actual}


def test_tags_without_an_end_are_a_limit() -> None:
    with pytest.raises(LimitExceeded):
        check_tags(itertools.repeat("tag"), LIMITS)


@pytest.mark.parametrize("item", [("k", "c"), ["k", "c", None], ("k", "c", ["t"])])
def test_an_item_to_save_is_key_content_and_maybe_tags(item: object) -> None:
    assert check_item(item) == item


@pytest.mark.parametrize("item", [{"key": "k", "content": "c"}, "kc", ("k",), ("k", "c", [], "more"), 7, None])
def test_what_would_unpack_into_something_else_is_no_item(item: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_item(item)
    assert caught.value.details == {"argument": "items"}


def test_as_many_and_as_long_tags_as_allowed_are_taken() -> None:
    tags = [f"{number:064}" for number in range(64)]
    assert check_tags([*tags, *tags], LIMITS) == tuple(tags)


@given(st.lists(st.text(max_size=70), max_size=70))
def test_tags_are_either_refused_or_taken_again_unchanged(tags: list[str]) -> None:
    taken = taken_or_refused(check_tags, tags, "tags")
    if taken is None:
        return
    assert list(taken) == sorted(set(taken))
    assert check_tags(list(taken), LIMITS) == check_tags(json.dumps(taken), LIMITS) == taken
    assert [check_tag(tag, LIMITS) for tag in taken] == list(taken)


def test_a_tag_to_filter_by_is_read_as_a_tag_is_stored() -> None:
    assert check_tag(None, LIMITS) is None
    assert check_tag(" cafe\u0301 ", LIMITS) == "caf\u00e9"
    for tag in ("", " ", 7, ["a"], "\0", "a\nb"):
        with pytest.raises(InvalidArgument):
            check_tag(tag, LIMITS)


# Contents and queries


@pytest.mark.parametrize(
    "content",
    [" ", "\n", "\x1b[31m", "\u202e", "e\u0301", "\u00e9", "a\r\nb", "\ufeff", "\ufffe", "\U0010ffff", "x" * 1_048_576],
)
def test_a_content_is_taken_exactly(content: str) -> None:
    assert check_content(content, LIMITS) == content


@pytest.mark.parametrize("content", [*NOT_STRINGS, *UNSTORABLE, ""])
def test_a_content_that_cannot_be_kept_exactly_is_refused_by_name(content: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_content(content, LIMITS)
    assert caught.value.details == {"argument": "content"}


@pytest.mark.parametrize("content", ["x" * 1_048_577, "\u00e9" * 524_289, "\U0001f600" * 262_145])
def test_a_content_is_measured_in_bytes_of_utf_8(content: str) -> None:
    with pytest.raises(LimitExceeded) as caught:
        check_content(content, LIMITS)
    assert caught.value.details == {"argument": "content", "limit": 1_048_576, "actual": len(content.encode())}


@pytest.mark.parametrize("query", ["", " ", '"', "a AND (b", "key:x", "*", "\x1b", "\n", "x" * 4096])
def test_a_query_is_taken_as_it_is(query: str) -> None:
    assert check_query(query, LIMITS) == query


def test_a_query_that_is_no_string_or_too_long_is_refused_by_name() -> None:
    for query in [*NOT_STRINGS, *UNSTORABLE]:
        with pytest.raises(InvalidArgument) as caught:
            check_query(query, LIMITS)
        assert caught.value.details == {"argument": "query"}
    with pytest.raises(LimitExceeded) as exceeded:
        check_query("x" * 4097, LIMITS)
    assert exceeded.value.details == {"argument": "query", "limit": 4096, "actual": 4097}


# Numbers


@pytest.mark.parametrize(("value", "expected"), [(None, 10), (1, 1), (100, 100), (10.0, 10), (1e2, 100)])
def test_a_whole_number_counts_however_it_is_written(value: object, expected: int) -> None:
    found = check_number("max_results", value, default=10, most=100)
    assert (found, type(found)) == (expected, int)


@pytest.mark.parametrize(
    "value",
    [0, -1, 101, 1.5, 0.999, 100.0001, True, False, "10", "", [], {}, math.nan, math.inf, -math.inf, 10**400, 1e308],
)
def test_any_other_number_is_refused_by_name_and_range(value: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_number("max_results", value, default=10, most=100)
    assert caught.value.message == "max_results: must be a whole number from 1 to 100"
    assert caught.value.details == {"argument": "max_results"}


# Names of arguments


def test_known_arguments_are_taken_and_the_first_unknown_is_refused_by_its_place() -> None:
    check_names([], ["key"])
    check_names(["key", "tags"], ["key", "tags"])
    with pytest.raises(InvalidArgument) as caught:
        check_names(["key", "colour", "size"], ["key", "tags"])
    assert caught.value.message == "arguments: field 2 has an unknown name; known names: key, tags"
    assert caught.value.details == {"argument": "arguments"}


@pytest.mark.parametrize(
    "name", ["", "Key", "key ", "x" * 10_000, "\ud800", "\0", "\x1b[31m", "\u202e", 7, None, ("a",)]
)
def test_p12_an_unknown_name_is_in_no_error_whatever_it_is(name: object) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_names([name], [])
    message = "arguments: field 1 has an unknown name; known names: none"
    assert caught.value.to_dict() == {"code": "INVALID_ARGUMENT", "message": message, "argument": "arguments"}


def test_what_is_missing_or_null_is_asked_for_by_name() -> None:
    require({"key": "", "content": 0}, "key", "content")
    for arguments in ({}, {"key": None}):
        with pytest.raises(InvalidArgument) as caught:
            require(arguments, "key")
        assert (caught.value.message, caught.value.details) == ("key: is required", {"argument": "key"})
