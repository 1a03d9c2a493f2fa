"""Fields are read as what they must be, or refused by name, with nothing of what is in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tidegate.errors import InvalidArgument
from tidegate.records.fields import Fields, check_types
from tidegate.records.jsonl import NotJsonError, read_flat


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda fields: fields.value("none"), "none: is missing"),
        (lambda fields: fields.within("a"), "a: must be an object"),
        (lambda fields: fields.text("n"), "n: must be a string"),
        (lambda fields: fields.texts("a"), "a: must be a list"),
        (lambda fields: fields.word("a", ("x",)), "a: is not one of the allowed words"),
        (lambda fields: fields.count("n", 1), "n: must be a whole number from 1 to 1"),
        (lambda fields: fields.flag("n"), "n: must be true or false"),
        (lambda fields: fields.time("a"), "a: is not an ISO 8601 time"),
        (lambda fields: fields.time("t"), "t: must be a time in ISO 8601, UTC, to the microsecond"),
        (lambda fields: fields.level("a"), "a: must be one of PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED"),
    ],
)
def test_an_error_names_the_field_and_shows_nothing_of_it(read: Callable[[Fields], object], reason: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read(Fields("line", {"a": "canary", "n": 2, "t": "2026-01-01"}))
    assert refused.value.message == reason


@dataclass
class Shape:
    """Something stored."""

    text: str
    number: int
    maybe: int | None = None


@pytest.mark.parametrize("values", [{"text": 1}, {"number": "1"}, {"number": True}, {"text": None}, {"other": "x"}])
def test_a_value_of_another_type_is_refused(values: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        check_types(values, Shape)


def test_values_of_their_types_pass() -> None:
    check_types({"text": "x", "number": 1, "maybe": None}, Shape)


def test_what_stands_outside_texts_is_bounded_whatever_stands_in_them() -> None:
    assert read_flat('{"a":"[[[[\\"[[\\\\"}', 8) == {"a": '[[[["[[\\'}
    for text in ('{"a":[[[]]]}', '["","","",""]'):
        with pytest.raises(NotJsonError, match="has too many values"):
            read_flat(text, 4)
