"""Fields that others may have written: each is read as the expected type, or refused by its name (P17)."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import fields as declared
from datetime import datetime
from typing import Any

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level, read_label
from tidegate.records.times import NotATimeError, read_timestamp, write_timestamp

_STORED = {"int": int, "bool": bool}  # JSON types of fields; all others are text


class Fields:
    """The fields of one object. Every error names the field and shows nothing of its value (P12)."""

    def __init__(self, name: str, value: object) -> None:
        if not isinstance(value, dict):
            raise unfit(name, "must be an object")
        self._values: dict[str, Any] = value

    def has(self, name: str) -> bool:
        """Return whether the object has the field."""
        return name in self._values

    def within(self, name: str) -> Fields:
        """Return the fields of the object under that name. Raises: InvalidArgument."""
        return Fields(name, self.value(name))

    def value(self, name: str) -> Any:
        """Return any value. Raises: InvalidArgument when it is missing."""
        if name not in self._values:
            raise unfit(name, "is missing")
        return self._values[name]

    def text(self, name: str, form: re.Pattern[str] | None = None) -> str:
        """Check that a value is storable text in this form, and return it. Raises: InvalidArgument."""
        return check_text(name, self.value(name), form)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts. Raises: InvalidArgument."""
        value = self.value(name)
        if not isinstance(value, list):
            raise unfit(name, "must be a list")
        return tuple(check_text(name, each) for each in value)

    def word(self, name: str, words: Collection[str]) -> str:
        """Return one of these words. Raises: InvalidArgument."""
        value = self.text(name)
        if value not in words:
            raise unfit(name, "is not one of the allowed words")
        return value

    def count(self, name: str, most: int) -> int:
        """Return a whole number from 1 to `most`. Raises: InvalidArgument."""
        value = self.value(name)
        if type(value) is not int or not 1 <= value <= most:
            raise unfit(name, f"must be a whole number from 1 to {most}")
        return value

    def flag(self, name: str) -> bool:
        """Return true or false. Raises: InvalidArgument."""
        value = self.value(name)
        if not isinstance(value, bool):
            raise unfit(name, "must be true or false")
        return value

    def time(self, name: str) -> datetime:
        """Return a time, in the form that this program writes. Raises: InvalidArgument."""
        value = self.text(name)
        try:
            time = read_timestamp(value)
        except NotATimeError as error:
            raise unfit(name, str(error)) from None
        if write_timestamp(time) != value:
            raise unfit(name, "must be a time in ISO 8601, UTC, to the microsecond")
        return time

    def level(self, name: str) -> Level:
        """Return a level. Raises: InvalidArgument."""
        level = read_label(self.value(name))
        if level is None:
            raise unfit(name, f"must be one of {', '.join(map(str, Level))}")
        return level


def check_text(name: str, value: object, form: re.Pattern[str] | None = None) -> str:
    """Check that a value is storable text in this form, and return it. Raises: InvalidArgument."""
    if not isinstance(value, str):
        raise unfit(name, "must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise unfit(name, "must not contain lone surrogates") from None
    if form is not None and not form.fullmatch(value):
        raise unfit(name, "does not have the required form")
    return value


def check_types(values: dict[str, Any], kind: type[Any]) -> None:
    """Check that each value has the JSON type of its field in the dataclass.

    Raises: TypeError, also for an undeclared field. The dataclass itself notices a missing one.
    """
    types = {field.name: str(field.type) for field in declared(kind)}
    for name, value in values.items():
        if name not in types:
            raise TypeError
        plain = types[name].removesuffix(" | None")
        if type(value) is not _STORED.get(plain, str) and not (value is None and plain != types[name]):
            raise TypeError


def unfit(name: str, what: str) -> InvalidArgument:
    """Return the error about a field."""
    return InvalidArgument(f"{name}: {what}", argument=name)
