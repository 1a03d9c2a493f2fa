"""The one encoder of results: what JSON has no type for becomes text, and nothing is guessed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from tidegate.policy.levels import Level
from tidegate.records.jsonable import jsonable
from tidegate.records.record import Origin


@dataclass(frozen=True, slots=True)
class Found:
    """A result, as any."""

    level: Level
    at: datetime | None
    more: tuple[Found, ...] = ()


NOON = datetime(2026, 5, 1, 14, tzinfo=timezone(timedelta(hours=2)))


def test_a_dataclass_is_an_object_of_its_fields_in_their_order() -> None:
    value = jsonable(Found(Level.CONFIDENTIAL, NOON, (Found(Level.PUBLIC, None),)))
    inner = {"level": "PUBLIC", "at": None, "more": []}
    assert value == {"level": "CONFIDENTIAL", "at": "2026-05-01T12:00:00.000000Z", "more": [inner]}
    assert list(value) == ["level", "at", "more"]


def test_a_level_is_its_name_and_never_its_number() -> None:
    assert json.dumps(jsonable({Level.PUBLIC: [Level.RESTRICTED]})) == '{"PUBLIC": ["RESTRICTED"]}'


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "x", [1, [2]], {"a": {"b": None}}])
def test_what_is_json_is_left_as_it_is(value: object) -> None:
    assert jsonable(value) == value
    assert type(jsonable(value)) is type(value)


def test_words_and_paths_are_texts() -> None:
    assert [type(each) for each in jsonable([Origin.OWNER, Path("a/b")])] == [str, str]
    assert jsonable(Path("a/b")) == "a/b"


@pytest.mark.parametrize("value", [b"x", object(), timedelta(), datetime.now(UTC).date()])
def test_what_has_no_form_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="has no form in JSON"):
        jsonable({"x": value})
