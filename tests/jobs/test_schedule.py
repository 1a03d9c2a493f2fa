"""When something is due: time zones, both nights on which clocks change, quiet hours. T01, T02."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.errors import InvalidArgument
from tidegate.jobs.schedule import (
    Calendar,
    Every,
    Once,
    dues,
    read_quiet,
    read_schedule,
    read_zone,
)

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
# Of each zone, the days on which its clocks change in 2026, and the hours that are skipped or come twice.
CHANGES = {BERLIN: ("2026-03-29", "2026-10-25", 2), NEW_YORK: ("2026-03-08", "2026-11-01", 1)}


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def shown(schedule: str, zone: str, start: str, days: int) -> list[str]:
    """What the clock in the zone shows at each due time of so many days."""
    found = read_schedule(schedule, zone)
    assert isinstance(found, Calendar)
    begin = datetime.fromisoformat(start).replace(tzinfo=found.zone).astimezone(UTC) - timedelta(seconds=1)
    end = begin + timedelta(days=days)
    return [due.astimezone(found.zone).isoformat() for due in dues(found, begin, end)]


def test_t01_a_time_that_the_clock_skips_is_the_first_moment_after_the_gap() -> None:
    assert shown("30 2 * * *", BERLIN, "2026-03-28", 3) == [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:30:00+02:00",
    ]
    assert shown("30 2 * * *", NEW_YORK, "2026-03-07", 3) == [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ]


def test_t01_a_time_that_the_clock_shows_twice_is_the_first_of_the_two() -> None:
    assert shown("30 2 * * *", BERLIN, "2026-10-24", 3) == [
        "2026-10-24T02:30:00+02:00",
        "2026-10-25T02:30:00+02:00",
        "2026-10-26T02:30:00+01:00",
    ]
    assert shown("30 1 * * *", NEW_YORK, "2026-10-31", 3) == [
        "2026-10-31T01:30:00-04:00",
        "2026-11-01T01:30:00-04:00",
        "2026-11-02T01:30:00-05:00",
    ]


@pytest.mark.parametrize("zone", CHANGES)
@pytest.mark.parametrize("night", [0, 1], ids=["spring", "autumn"])
def test_t01_every_time_of_day_comes_exactly_once_on_a_day_of_change(zone: str, night: int) -> None:
    day = str(CHANGES[zone][night])
    for minute in range(0, 24 * 60, 10):
        found = shown(f"{minute % 60} {minute // 60} * * *", zone, day, 2)
        assert [each[:10] for each in found if each.startswith(day)] == [day]


@pytest.mark.parametrize("zone", CHANGES)
def test_t01_asked_in_the_hour_that_comes_twice_the_next_time_is_in_the_future(zone: str) -> None:
    """A calendar that only looks at what the clock shows would answer with the hour that has passed."""
    hour = int(CHANGES[zone][2])
    schedule = read_schedule(f"30 {hour} * * *", zone)
    start = moment(f"{CHANGES[zone][1]}T00:00:00+00:00")
    for minutes in range(0, 24 * 60, 5):
        at = start + timedelta(minutes=minutes)
        due = schedule.next_after(at)
        assert due is not None
        assert at < due <= at + timedelta(days=1, hours=1)


@pytest.mark.parametrize("zone", [*CHANGES, "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"])
def test_t02_every_quarter_of_an_hour_stays_one_through_both_nights(zone: str) -> None:
    schedule = read_schedule("*/15 * * * *", zone)
    for day in (*CHANGES.get(zone, ("2026-04-05", "2026-10-04"))[:2],):
        start = moment(f"{day}T00:00:00+00:00") - timedelta(days=1)
        found = list(dues(schedule, start, start + timedelta(days=3)))
        assert {later - due for due, later in pairwise(found)} == {timedelta(minutes=15)}
        assert len(found) == 3 * 24 * 4


def test_hourly_is_every_hour_that_passes() -> None:
    start = moment("2026-10-24T20:00:00+00:00")
    found = list(dues(read_schedule("@hourly", BERLIN), start, start + timedelta(hours=12)))
    assert [later - due for due, later in pairwise(found)] == [timedelta(hours=1)] * 11


@given(
    minute=st.integers(0, 59),
    hour=st.integers(0, 23),
    zone=st.sampled_from([BERLIN, NEW_YORK, "Pacific/Kiritimati", "America/St_Johns", "Australia/Lord_Howe"]),
    at=st.datetimes(datetime(2024, 1, 1), datetime(2030, 1, 1)),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_daily_time_is_always_ahead_and_never_more_than_a_day_away(
    minute: int, hour: int, zone: str, at: datetime
) -> None:
    aware = at.replace(tzinfo=UTC)
    due = read_schedule(f"{minute} {hour} * * *", zone).next_after(aware)
    assert due is not None
    assert aware < due <= aware + timedelta(hours=26)
    assert due.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "zone", "at"),
    [
        ("2026-05-01T09:00", NEW_YORK, "2026-05-01T13:00:00+00:00"),
        ("2026-05-01 09:00:30", BERLIN, "2026-05-01T07:00:30+00:00"),
        ("2026-05-01T09:00Z", BERLIN, "2026-05-01T09:00:00+00:00"),
        ("2026-05-01T09:00:00+05:45", "UTC", "2026-05-01T03:15:00+00:00"),
        ("2026-05-01", BERLIN, "2026-04-30T22:00:00+00:00"),
    ],
)
def test_one_time_is_in_the_zone_unless_it_says_where(text: str, zone: str, at: str) -> None:
    schedule = read_schedule(text, zone)
    assert schedule == Once(moment(at))
    assert schedule.next_after(moment(at) - timedelta(seconds=1)) == moment(at)
    assert schedule.next_after(moment(at)) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "must be five fields"),
        ("   ", "must be five fields"),
        ("* * * *", "must be five fields"),
        ("* * * * * *", "must be five fields"),
        ("60 * * * *", "bad minute"),
        ("* 24 * * *", "bad hour"),
        ("* * 30 2 *", "bad day-of-month"),
        ("* * * * MON#6", "bad day-of-week"),
        ("*/0 * * * *", "bad minute"),
        ("$(touch /tmp/p) * * * *", "must be five fields"),
        ("{{config}} * * * *", "bad minute"),
        ("* * * * %s%n", "bad day-of-week"),
        ("0 0 29 2 1#5 " + "x" * 200, "must be five fields"),
        ("2026-02-30", "is not a time"),
        ("2026-13-01T09:00", "is not a time"),
        ("0001-01-01T00:00", "is not a time"),
        ("@reboot", "must be five fields"),
        ("0 0 */31 2 MON#5", "names a day that never comes"),
        (None, "must be five fields"),
        (5, "must be five fields"),
    ],
)
def test_what_is_no_schedule_is_refused_and_says_what_is_one(text: object, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        read_schedule(text, "Asia/Tokyo")
    assert caught.value.details["argument"] == "schedule"


@pytest.mark.parametrize(
    "zone", ["", "Berlin", "../../etc/passwd", "/etc/passwd", "Europe/Berlin\0", "Europe", None, 1]
)
def test_what_is_no_time_zone_is_refused(zone: object) -> None:
    with pytest.raises(InvalidArgument, match="such as Europe/Berlin") as caught:
        read_zone(zone)
    assert caught.value.details["argument"] == "timezone"


@pytest.mark.parametrize(
    ("text", "at", "end"),
    [
        ("22:00-07:00", "2026-03-02T21:59:59+01:00", None),
        ("22:00-07:00", "2026-03-02T22:00:00+01:00", "2026-03-03T07:00:00+01:00"),
        ("22:00-07:00", "2026-03-03T06:59:59+01:00", "2026-03-03T07:00:00+01:00"),
        ("22:00-07:00", "2026-03-03T07:00:00+01:00", None),
        ("12:00-13:00", "2026-03-03T12:30:00+01:00", "2026-03-03T13:00:00+01:00"),
        ("12:00-13:00", "2026-03-03T23:30:00+01:00", None),
        ("22:00-02:30", "2026-03-29T01:30:00+01:00", "2026-03-29T03:30:00+02:00"),  # the clock skips the end
        ("22:00-02:30", "2026-10-25T02:10:00+02:00", "2026-10-25T02:30:00+02:00"),
        ("22:00-02:30", "2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+01:00"),  # the clock shows it twice
    ],
)
def test_quiet_hours_end_when_the_clock_says_so(text: str, at: str, end: str | None) -> None:
    quiet = read_quiet(text, read_zone(BERLIN))
    assert quiet.end_after(moment(at)) == (None if end is None else moment(end))


@pytest.mark.parametrize("text", ["", "22-7", "22:00-22:00", "24:00-07:00", "22:00-07:60", "22:00 - 07:00", None])
def test_what_are_no_quiet_hours_is_refused(text: object) -> None:
    with pytest.raises(InvalidArgument, match="22:00-07:00"):
        read_quiet(text, None)


def test_every_so_many_minutes_is_counted_in_time_that_passes() -> None:
    start = moment("2026-10-24T20:00:00+00:00")
    found = list(dues(Every(30), start, start + timedelta(hours=12)))
    assert found[0] == start + timedelta(minutes=30)
    assert len(found) == 24


def test_nothing_is_due_in_the_quiet_hours_and_then_at_their_end() -> None:
    quiet = read_quiet("22:00-07:00", read_zone(BERLIN))
    start = moment("2026-10-24T21:00:00+02:00")
    found = [
        due.astimezone(quiet.zone).isoformat() for due in dues(Every(30, quiet), start, start + timedelta(hours=12))
    ]
    assert found == [
        "2026-10-24T21:30:00+02:00",
        "2026-10-25T07:00:00+01:00",
        "2026-10-25T07:30:00+01:00",
        "2026-10-25T08:00:00+01:00",
    ]


def test_without_the_calendar_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cronsim", None)
    with pytest.raises(InvalidArgument, match=r"it comes with tidegate\[agent\]$") as raised:
        read_schedule("0 9 * * *", "UTC")
    assert raised.value.details["install"] == "tidegate[agent]"
