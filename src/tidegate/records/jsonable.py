"""Results as JSON: the one encoder of dataclasses, enums and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

from tidegate.records.times import write_timestamp

_AS_THEY_ARE = (str, int, bool, float, type(None))


def jsonable(value: object) -> Any:
    """Return a value in JSON types: a dataclass as an object of its fields, an enum as its word, a time as text.

    Raises: TypeError for a value of another type.
    """
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):  # a level is a number too, but shown by its name
        return str(value)
    if isinstance(value, datetime):
        return write_timestamp(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if is_dataclass(value):
        return {field.name: jsonable(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [jsonable(each) for each in value]
    if isinstance(value, str | Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in JSON")
