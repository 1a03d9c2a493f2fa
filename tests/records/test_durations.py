"""Ages as the owner writes them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tidegate.errors import InvalidArgument
from tidegate.records.durations import read_age


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("0", timedelta()),
        ("0d", timedelta()),
        ("90d", timedelta(days=90)),
        ("12h", timedelta(hours=12)),
        ("30m", timedelta(minutes=30)),
        ("45s", timedelta(seconds=45)),
        ("2w", timedelta(weeks=2)),
        ("999999w", timedelta(weeks=999_999)),
    ],
)
def test_an_age_is_a_whole_number_and_a_unit(text: str, age: timedelta) -> None:
    assert read_age(text, "age") == age


@pytest.mark.parametrize(
    "text",
    ["", "7", "d", "-1d", "+1d", "1.5d", "1 d", " 1d", "1d ", "1d\n", "1D", "1y", "1d12h", "1000000d", "٣d", 7, None],
)
def test_anything_else_is_refused_by_the_name_of_the_argument(text: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^older-than: must be") as raised:
        read_age(text, "older-than")
    assert raised.value.details == {"argument": "older-than"}
