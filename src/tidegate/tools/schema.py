"""The few shapes that make up the tools' schemas.

Input schemas keep to what strict hosts accept: objects, arrays, strings and whole numbers, one type each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.policy.levels import Level
from tidegate.tools.tool import Schema


def text(title: str, description: str) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", "title": title, "description": description}


def choice(title: str, description: str, choices: Sequence[str]) -> Schema:
    """Return the schema of one of a few strings."""
    return {**text(title, description), "enum": list(choices)}


def level(title: str, description: str) -> Schema:
    """Return the schema of a level in an answer. No input has one (P2)."""
    return choice(title, description, [str(each) for each in Level])


def time(title: str, description: str) -> Schema:
    """Return the schema of a time. Without `format`: strict validators refuse to compile formats unknown to them."""
    return text(title, f"{description} ISO 8601, UTC.")


def flag(title: str, description: str) -> Schema:
    """Return the schema of true or false."""
    return {"type": "boolean", "title": title, "description": description}


def count(title: str, description: str) -> Schema:
    """Return the schema of a whole number, from 1."""
    return {"type": "integer", "title": title, "description": description, "minimum": 1}


def limit(title: str, description: str, *, most: int, default: int) -> Schema:
    """Return the schema of a whole number, from 1 to `most`."""
    return {**count(title, description), "maximum": most, "default": default}


def array(title: str, description: str, items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "title": title, "description": description, "items": items}


def inputs(properties: dict[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """Return the schema of a tool's arguments: these and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def outputs(properties: dict[str, Schema]) -> Schema:
    """Return the schema of a tool's result, or of its error.

    Nothing is required, since widely used clients hold an error's structured content to this schema as well, and
    would show their own complaint in place of it.
    """
    return {
        "type": "object",
        "properties": {**properties, "error": _ERROR},
        "additionalProperties": False,
    }


def record(title: str, description: str, properties: dict[str, Schema]) -> Schema:
    """Return the schema of an object inside an answer."""
    return {
        "type": "object",
        "title": title,
        "description": description,
        "properties": properties,
        "additionalProperties": False,
    }


_ERROR: Schema = {
    "type": "object",
    "title": "Error",
    "description": "Why nothing was done. When it is there, nothing else is.",
    "properties": {
        "code": choice("Code", "The kind of error.", ["INVALID_ARGUMENT", "LIMIT", "NOT_FOUND", "REFUSED", "STORAGE"]),
        "message": text("Message", "What is wrong, and what to do."),
    },
    "required": ["code", "message"],
    "additionalProperties": True,
}
