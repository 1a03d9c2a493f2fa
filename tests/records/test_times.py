"""Times of other programs and durations of the owner: each is read exactly, or refused with a reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from tidegate.errors import InvalidArgument
from tidegate.records.times import NotATimeError, read_duration, read_timestamp, write_timestamp


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2024-05-01T10:20:30.123456Z", "2024-05-01T10:20:30.123456Z"),
        ("2024-05-01T10:20:30", "2024-05-01T10:20:30.000000Z"),
        ("2024-05-01 10:20", "2024-05-01T10:20:00.000000Z"),
        ("2024-05-01", "2024-05-01T00:00:00.000000Z"),
        ("2024-05-01T10:20:30+05:45", "2024-05-01T04:35:30.000000Z"),
        ("2024-05-01T10:20:30-0330", "2024-05-01T13:50:30.000000Z"),
        ("2024-05-01T10:20:30+02", "2024-05-01T08:20:30.000000Z"),
        ("2024-05-01T10:20:30-00:00", "2024-05-01T10:20:30.000000Z"),
        ("2024-05-01 10:20:30 UTC", "2024-05-01T10:20:30.000000Z"),
        (" 2024-05-01T10:20:30,5z ", "2024-05-01T10:20:30.500000Z"),
    ],
)
def test_t09_a_time_is_read_in_its_zone_and_without_one_as_utc(value: str, moment: str) -> None:
    assert write_timestamp(read_timestamp(value)) == moment


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000000Z"),
        ("0001-01-01", "0001-01-01T00:00:00.000000Z"),
        ("9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999Z"),
        ("1969-07-20T20:17:40Z", "1969-07-20T20:17:40.000000Z"),
        ("2024-05-01T24:00", "2024-05-02T00:00:00.000000Z"),
        (1_700_000_000, "2023-11-14T22:13:20.000000Z"),
        (1_700_000_000.25, "2023-11-14T22:13:20.250000Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20.000000Z"),
        (1_700_000_000_000_000, "2023-11-14T22:13:20.000000Z"),
        (1_700_000_000_000_000_000, "2023-11-14T22:13:20.000000Z"),
        ("1700000000", "2023-11-14T22:13:20.000000Z"),
        ("1700000000.5", "2023-11-14T22:13:20.500000Z"),
        ("20240501", "2024-05-01T00:00:00.000000Z"),
        (20240501, "2024-05-01T00:00:00.000000Z"),
        (20240501.0, "2024-05-01T00:00:00.000000Z"),
        ("19991231", "1999-12-31T00:00:00.000000Z"),
        ("202405011230", "2024-05-01T12:30:00.000000Z"),
        (202405011230, "2024-05-01T12:30:00.000000Z"),
        ("20240501123045", "2024-05-01T12:30:45.000000Z"),
        ("20240501T1230", "2024-05-01T12:30:00.000000Z"),
        ("20240501T123045.5Z", "2024-05-01T12:30:45.500000Z"),
        ("20240501T123045+0200", "2024-05-01T10:30:45.000000Z"),
        ("2024-05-01t10:20:30z", "2024-05-01T10:20:30.000000Z"),
        (631_152_000, "1990-01-01T00:00:00.000000Z"),
        (4_102_444_799, "2099-12-31T23:59:59.000000Z"),
    ],
)
def test_t13_odd_times_are_read_sensibly(value: object, moment: str) -> None:
    assert write_timestamp(read_timestamp(value)) == moment


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("2026-02-30", "is not a day of the calendar"),
        ("2026-13-01", "is not a day of the calendar"),
        ("0000-01-01", "is not a day of the calendar"),
        ("2026-02-03T25:00", "is not a time of day"),
        ("2026-02-03T24:00:01", "is not a time of day"),
        ("2026-02-03T10:60", "is not a time of day"),
        ("2026-02-03T10:20:61", "is not a time of day"),
        ("2026-02-03T10:20+24:00", "has an impossible zone"),
        ("0001-01-01T00:00+01:00", "is out of range"),
        ("9999-12-31T23:59-01:00", "is out of range"),
        ("yesterday", "is not an ISO 8601 time"),
        ("2024-0501", "is not an ISO 8601 time"),
        ("2024", "is not a plausible time"),
        (2024, "is not a plausible time"),
        ("202405", "is not a plausible time"),
        ("12345678", "is not a plausible time"),
        ("20241345", "is not a day of the calendar"),
        (0, "is not a plausible time"),
        (1, "is not a plausible time"),
        (-14182940.5, "is not a plausible time"),
        ("-20240501", "is not a plausible time"),
        (20240501.5, "is not a plausible time"),
        (631_151_999, "is not a plausible time"),
        (4_102_444_800, "is not a plausible time"),
        (1e300, "is not a plausible time"),
        ("", "is not an ISO 8601 time"),
        ("\u0662\u0660\u0662\u0664-01-01", "is not an ISO 8601 time"),
        (float("nan"), "is not a time"),
        (float("inf"), "is not a time"),
        (10**400, "is out of range"),
        (True, "is not a time"),
        (None, "is not a time"),
        ([2024], "is not a time"),
    ],
)
def test_t13_what_is_no_time_is_refused_with_a_reason(value: object, reason: str) -> None:
    with pytest.raises(NotATimeError) as refused:
        read_timestamp(value)
    assert str(refused.value) == reason


def test_a_time_is_written_in_utc_to_the_microsecond() -> None:
    there = timezone(timedelta(hours=14))
    assert write_timestamp(datetime(2026, 1, 1, 3, tzinfo=there)) == "2025-12-31T13:00:00.000000Z"
    assert write_timestamp(datetime(1, 1, 1, tzinfo=UTC)) == "0001-01-01T00:00:00.000000Z"


# Durations, as the owner writes them


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
    assert read_duration(text, "age") == age


@pytest.mark.parametrize(
    "text",
    ["", "7", "d", "-1d", "+1d", "1.5d", "1 d", " 1d", "1d ", "1d\n", "1D", "1y", "1d12h", "1000000d", "٣d", 7, None],
)
def test_any_other_duration_is_refused_by_the_name_of_the_argument(text: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^older-than: must be") as raised:
        read_duration(text, "older-than")
    assert raised.value.details == {"argument": "older-than"}
