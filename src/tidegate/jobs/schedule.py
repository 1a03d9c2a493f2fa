"""Schedules: a calendar of five fields in a time zone, one time, or an interval in minutes.

Only this module imports cronsim. Nothing here reads a clock. The rule for nights when clocks change:

- A calendar whose minute and hour fields both name times (`30 2 * * *`) means that time of day, once each day: if the
  clock skips it, the first moment after the gap; if the clock shows it twice, the first of the two.
- A calendar whose minute or hour field begins with `*` (`*/15 * * * *`) means each time that the clock shows a match:
  every quarter of an hour stays every quarter of an hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Protocol
from zoneinfo import ZoneInfo

from tidegate.errors import InvalidArgument
from tidegate.records.times import NotATimeError, read_timestamp

SCHEDULE_CHARS_MAX = 200
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
_FIELD_NAMES = ("minute", "hour", "day-of-month", "month", "day-of-week")
_ZONE = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}")
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_OFFSET = re.compile(r"(?:[Zz]|UTC|[+-]\d\d(?::?\d\d)?)\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_QUIET = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)", re.ASCII)

SCHEDULE_FORM = (
    "five fields (minute, hour, day, month, weekday, such as `30 7 * * 1-5`), @hourly, @daily, @weekly, @monthly, "
    "@yearly, or one time, such as 2030-05-01T09:00"
)


class NoCalendarError(InvalidArgument):
    """A schedule of five fields, valid or not, cannot be read because its library is not installed."""


class Schedule(Protocol):
    """A rule for due times."""

    def next_after(self, at: datetime) -> datetime | None:
        """Return the first due time after `at`, in UTC; None: never again."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """Five fields, in a time zone."""

    fields: str
    zone: tzinfo

    def next_after(self, at: datetime) -> datetime | None:
        from cronsim import CronSim

        for found in CronSim(self.fields, at.astimezone(self.zone)):
            due = found.astimezone(UTC)  # times in one zone would compare by clock face
            if due > at:
                return due
        return None


@dataclass(frozen=True, slots=True)
class Once:
    """One time."""

    at: datetime

    def next_after(self, at: datetime) -> datetime | None:
        return self.at if self.at > at else None


@dataclass(frozen=True, slots=True)
class Quiet:
    """Hours of the day, in a time zone, in which nothing is due. The end is not part of them."""

    start: time
    end: time
    zone: tzinfo

    def end_after(self, at: datetime) -> datetime | None:
        """Return the end of the quiet hours around `at`; None outside them."""
        local = at.astimezone(self.zone)
        shown = local.time().replace(tzinfo=None)
        over_midnight = self.start > self.end
        within = shown >= self.start or shown < self.end if over_midnight else self.start <= shown < self.end
        if not within:
            return None
        day = local.date() + timedelta(days=1) if over_midnight and shown >= self.start else local.date()
        end = datetime.combine(day, self.end, tzinfo=self.zone).astimezone(UTC)
        if end <= at:  # the clock shows the end twice, and `at` is between
            end = datetime.combine(day, self.end.replace(fold=1), tzinfo=self.zone).astimezone(UTC)
        return end if end > at else None


@dataclass(frozen=True, slots=True)
class Every:
    """An interval in minutes of elapsed time, outside the quiet hours."""

    minutes: int
    quiet: Quiet | None = None

    def next_after(self, at: datetime) -> datetime | None:
        step = timedelta(minutes=self.minutes)
        due = _EPOCH + ((at - _EPOCH) // step + 1) * step
        end = self.quiet.end_after(due) if self.quiet else None
        return due if end is None else end


def read_schedule(schedule: object, zone: object) -> Calendar | Once:
    """Return the schedule that two texts name. zone: from the tz database, such as Europe/Berlin.

    A time without an offset is in the zone. Raises: InvalidArgument.
    """
    found = read_zone(zone)
    if not isinstance(schedule, str) or not schedule.strip() or len(schedule) > SCHEDULE_CHARS_MAX:
        raise _bad(f"must be {SCHEDULE_FORM}")
    text = " ".join(schedule.split())
    if _DAY.match(text):
        return Once(_time(text, found))
    return Calendar(_fields(_NAMED.get(text.lower(), text), found), found)


def check_form(schedule: object, zone: object) -> None:
    """Check that the two could be valid on another machine, with its time zones or its calendar library.

    Raises: InvalidArgument.
    """
    if not isinstance(zone, str) or not _ZONE.fullmatch(zone):
        raise _no_zone()
    with suppress(NoCalendarError):
        read_schedule(schedule, "UTC")


def read_zone(zone: object) -> tzinfo:
    """Return the time zone of a name. Raises: InvalidArgument."""
    if zone == "UTC":
        return UTC  # works without a database of time zones
    try:
        if isinstance(zone, str) and _ZONE.fullmatch(zone):
            return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):  # unknown, or no database of time zones
        pass
    raise _no_zone()


def read_quiet(text: object, zone: tzinfo | None) -> Quiet:
    """Return quiet hours, such as `22:00-07:00`. zone: by default UTC. Raises: InvalidArgument."""
    match = _QUIET.fullmatch(text) if isinstance(text, str) else None
    if match is None or match.group(1, 2) == match.group(3, 4):
        raise InvalidArgument("quiet: must be two different times of day, such as 22:00-07:00", argument="quiet")
    hours = [int(number) for number in match.groups()]
    return Quiet(time(hours[0], hours[1]), time(hours[2], hours[3]), zone or UTC)


def dues(schedule: Schedule, after: datetime, until: datetime) -> Iterator[datetime]:
    """Yield every due time after `after` and up to `until`, inclusive."""
    due = schedule.next_after(after)
    while due is not None and due <= until:
        yield due
        due = schedule.next_after(due)


def _time(text: str, zone: tzinfo) -> datetime:
    try:
        at = read_timestamp(text)
        if not _OFFSET.search(text[10:]):
            at = at.replace(tzinfo=zone).astimezone(UTC)
    except (NotATimeError, OverflowError):
        raise _bad(f"is not a time; it must be {SCHEDULE_FORM}") from None
    return at


def _fields(text: str, zone: tzinfo) -> str:
    """Return the five fields, checked. Raises: InvalidArgument."""
    if len(text.split(" ")) != 5:
        raise _bad(f"must be {SCHEDULE_FORM}")
    try:
        from cronsim import CronSim, CronSimError
    except ModuleNotFoundError:
        missing = "schedule: the library for cron fields is not installed; it comes with tidegate[agent]"
        raise NoCalendarError(missing, argument="schedule", install="tidegate[agent]") from None
    try:
        first = next(CronSim(text, datetime(2000, 1, 1, tzinfo=zone)), None)
    except CronSimError as error:
        named = next((name for name in _FIELD_NAMES if str(error) == f"Bad {name}"), "field")  # P12: never its own text
        raise _bad(f"cannot be read (bad {named}); it must be {SCHEDULE_FORM}") from None
    if first is None:
        raise _bad("names a day that never comes; choose another")
    return text


def _no_zone() -> InvalidArgument:
    hint = "such as Europe/Berlin or UTC (if the system has no such database: pip install tzdata)"
    return InvalidArgument(f"timezone: must be a name of the tz database, {hint}", argument="timezone")


def _bad(reason: str) -> InvalidArgument:
    return InvalidArgument(f"schedule: {reason}", argument="schedule")
