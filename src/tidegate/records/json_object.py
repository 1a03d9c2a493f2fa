"""The values that public calls return, as JSON objects."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tidegate.records.jsonable import jsonable


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A value that can be written as a JSON object."""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, in JSON types: levels and other choices as text, times in ISO 8601, UTC."""
        return {field.name: jsonable(getattr(self, field.name)) for field in fields(self)}
