"""Times and durations: read in many forms, written in one: ISO 8601, UTC, to the microsecond."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone

from tidegate.errors import InvalidArgument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ISO = re.compile(
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:[.,](?P<fraction>\d{1,18}))?)?"
    r"\s?(?P<zone>Z|z|UTC|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_NUMBER = re.compile(r"-?\d{1,20}(\.\d{1,9})?", re.ASCII)
# From here on a number would be centuries away in seconds, and so on for each finer unit.
_SECONDS_PARTS = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))

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

    Text: ISO 8601, of a day or a time of day; without a zone it is UTC; a leap second counts as the second after it,
    24:00 as the start of the next day; digits beyond microseconds are cut. Numbers, also as text: since 1970, in
    seconds, or in milli-, micro- or nanoseconds if seconds would be past the year 5138.
    Raises: NotATimeError.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise NotATimeError("is not a time")
    text = value.strip() if isinstance(value, str) else None
    try:
        if text is None:
            return _since_epoch(float(value))
        return _since_epoch(float(text)) if _NUMBER.fullmatch(text) else _iso(text)
    except OverflowError:
        raise NotATimeError("is out of range") from None


def _since_epoch(number: float) -> datetime:
    if not math.isfinite(number):
        raise NotATimeError("is not a time")
    unit = next((unit for least, unit in _SECONDS_PARTS if abs(number) >= least), 1.0)
    return _EPOCH + timedelta(seconds=number / unit)


def _iso(text: str) -> datetime:
    match = _ISO.fullmatch(text)
    if match is None:
        raise NotATimeError("is not an ISO 8601 time")
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
