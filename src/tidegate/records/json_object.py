"""The values that public calls answer, as JSON objects."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from enum import Enum
from typing import Any

from tidegate.records.times import write_timestamp


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A value that can be written as a JSON object."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, as JSON has them: levels and other choices as text, times in ISO 8601, UTC."""
        return {field.name: _to_json(getattr(self, field.name)) for field in fields(self)}


def _to_json(value: object) -> Any:
    match value:
        case JsonObject():
            return value.to_dict()
        case Enum():
            return str(value)
        case datetime():
            return write_timestamp(value)
        case Mapping():
            return {str(name): _to_json(each) for name, each in value.items()}
        case Collection() if not isinstance(value, str):
            return [_to_json(each) for each in value]
        case _:
            return value
