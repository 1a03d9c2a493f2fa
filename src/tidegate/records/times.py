"""Times and durations: read in many forms, written in one: ISO 8601, UTC, to the microsecond."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, time, timedelta, timezone

from tidegate.errors import InvalidArgument

TIME_FORM = "such as 2030-05-01 or 2030-05-01T09:00Z"
_LAST_OF_DAY = timedelta(days=1) - timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[Tt ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,18}))?)?"
    r"\s?(?P<zone>Z|z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_BASIC = re.compile(  # without marks between the parts; also without a T, as in the names of notes
    r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)"
    r"(?:[Tt ]?(?P<hour>\d\d)(?P<minute>\d\d)(?:(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,18}))?)?"
    r"(?P<zone>Z|z|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_DAY = re.compile(r"\s*\d{4}(-?)\d\d\1\d\d\s*", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,9})?", re.ASCII)
_SECONDS_MIN, _SECONDS_MAX = 631_152_000, 4_102_444_800  # the years 1990 to 2099
_UNITS = (1, 10**3, 10**6, 10**9)  # of a second; no number is plausible in two of them, or is also a day

# Durations
_DURATION = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])|0", re.ASCII)
_DURATION_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
DURATION_FORM = "a whole number followed by s, m, h, d or w, such as 90d or 12h"


class NotATimeError(ValueError):
    """A value is not a time; the message says why, without any of the value."""


def write_timestamp(at: datetime) -> str:
    """Return a time as all results show it: ISO 8601, UTC, to the microsecond. The texts sort like the times."""
    return at.astimezone(UTC).isoformat("T", "microseconds")[: -len("+00:00")] + "Z"


def read_timestamp(value: object) -> datetime:
    """Return the time that a value names, in UTC.

    Text: ISO 8601, of a day or a time of day, also without marks (20240501); without a zone it is UTC; a leap second
    counts as the second after it, 24:00 as the start of the next day; digits beyond microseconds are cut. Numbers, also
    as text: such a day or minute, or a time from 1990 to 2099 in seconds, milli-, micro- or nanoseconds since 1970.
    Raises: NotATimeError.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NotATimeError("is not a time")
    try:
        if isinstance(value, str):
            text = value.strip()
            number = float(text) if _NUMBER.fullmatch(text) else None
        else:
            number = float(value)
            text = str(int(number)) if number.is_integer() else ""
        since_epoch = None if number is None else _since_epoch(number)
        return since_epoch or _iso(text, numeric=number is not None)
    except OverflowError:
        raise NotATimeError("is out of range") from None


def read_bound(value: object, argument: str, *, end: bool = False) -> datetime | None:
    """Return a bound that a caller gave, inclusive; None for none. end: the later one, for which a day is all of it.

    value: as for `read_timestamp`, or a `datetime`, of UTC if it has no zone, or a `date`. Raises: InvalidArgument.
    """
    if value is None:
        return None
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        text = value.isoformat() if isinstance(value, date) else value
        start = read_timestamp(text)
        whole_day = end and isinstance(text, str) and _DAY.fullmatch(text) and start.time() == time()
        return start + _LAST_OF_DAY if whole_day else start
    except NotATimeError as error:
        raise InvalidArgument(f"{argument}: {error}; give a day or a time, {TIME_FORM}", argument=argument) from None
    except OverflowError:
        raise InvalidArgument(f"{argument}: is out of range", argument=argument) from None


def _since_epoch(number: float) -> datetime | None:
    """Return a plausible time since 1970; None for any other number."""
    if not math.isfinite(number):
        raise NotATimeError("is not a time")
    seconds = (number / unit for unit in _UNITS)
    plausible = next((each for each in seconds if _SECONDS_MIN <= each < _SECONDS_MAX), None)
    return None if plausible is None else _EPOCH + timedelta(seconds=plausible)


def _iso(text: str, *, numeric: bool) -> datetime:
    match = _BASIC.fullmatch(text) or _ISO.fullmatch(text)
    if match is None:
        raise NotATimeError("is not a plausible time" if numeric else "is not an ISO 8601 time")
    year, month, day, hour, minute, second = (int(match[name] or 0) for name in _PARTS)
    if hour > 24 or minute > 59 or second > 60 or (hour == 24 and minute + second > 0):
        raise NotATimeError("is not a time of day")
    zone = _zone(match["zone"])
    try:
        start = datetime(year, month, day, tzinfo=zone)
    except ValueError:
        raise NotATimeError("is not a day of the calendar") from None
    microsecond = int((match["fraction"] or "").ljust(6, "0")[:6])
    within = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=microsecond)
    return (start + within).astimezone(UTC)


_PARTS = ("year", "month", "day", "hour", "minute", "second")


def _zone(zone: str | None) -> timezone:
    if zone is None or zone[0] not in "+-":
        return UTC
    digits = zone[1:].replace(":", "").ljust(4, "0")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if offset >= timedelta(days=1):
        raise NotATimeError("has an impossible zone")
    return timezone(offset if zone[0] == "+" else -offset)


def read_duration(text: object, argument: str) -> timedelta:
    """Return the duration in the text; 0 needs no unit. Raises: InvalidArgument, which names the argument."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument(f"{argument}: must be {DURATION_FORM}", argument=argument)
    return timedelta(**{_DURATION_UNITS[match["unit"]]: int(match["number"])}) if match["unit"] else timedelta()
