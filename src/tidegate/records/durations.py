"""Ages as the owner writes them: 90d, 12h, 0."""

from __future__ import annotations

import re
from datetime import timedelta

from tidegate.errors import InvalidArgument

_AGE = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])|0", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

AGE_FORM = "a whole number and s, m, h, d or w, such as 90d or 12h"


def read_age(text: object, argument: str) -> timedelta:
    """Return the duration that the text names; 0 needs no unit. Raises: InvalidArgument, which names the argument."""
    match = _AGE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidArgument(f"{argument}: must be {AGE_FORM}", argument=argument)
    return timedelta(**{_UNITS[match["unit"]]: int(match["number"])}) if match["unit"] else timedelta()
