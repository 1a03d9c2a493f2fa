"""JSON Lines: one value a line. No character changes, however the text is sent or split."""

from __future__ import annotations

import json
from typing import Any

from tidegate.records.invisible_text import escape_json

LINE_BYTES_MAX = 16 * 1024 * 1024
"""The longest line that is read from a file: the longest content with each byte escaped, and room to spare."""


class NotJsonError(ValueError):
    """A text is not one JSON object; the message says why, without any of the text."""


def to_line(value: object) -> str:
    """Return one line of JSON for a file: as `json_line`, without spaces between values."""
    return escape_json(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def json_line(value: object) -> str:
    """Return one line of JSON: exact when parsed, with no character that ends a line, reorders it or is invisible."""
    return escape_json(json.dumps(value, ensure_ascii=False))


def read_object(text: str) -> dict[str, Any]:
    """Return the one object that a line holds. Raises: NotJsonError, also when a name occurs twice."""
    value = read_value(text)
    if not isinstance(value, dict):
        raise NotJsonError("not a JSON object")
    return value


def read_flat(text: str, marks_max: int) -> Any:
    """Return any JSON value that has at most `marks_max` bytes outside its strings. Raises: NotJsonError.

    This bounds its depth and the number of its values before any is created: two bytes of JSON can become an object
    of fifty.
    """
    bare = text.encode("utf-8", "surrogatepass").replace(b"\\\\", b"").replace(b'\\"', b"")
    if bare.count(b'"') > 2 * marks_max or sum(map(len, bare.split(b'"')[::2])) > marks_max:
        raise NotJsonError("has too many values")
    return read_value(text)


def read_value(text: str) -> Any:
    """Return any JSON value. Raises: NotJsonError."""
    try:
        return json.loads(text, object_pairs_hook=_distinct)
    except NotJsonError:
        raise
    except json.JSONDecodeError as error:
        raise NotJsonError(f"not JSON (line {error.lineno}, column {error.colno})") from None
    except (ValueError, RecursionError):  # a number of thousands of digits; endless nesting
        raise NotJsonError("not readable JSON") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Readers differ in which of the two they take: one might be checked and the other used.
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotJsonError("a name occurs twice in one object")
    return found
