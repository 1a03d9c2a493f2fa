"""The shapes that make up the tools' schemas.

Input schemas use only what strict hosts accept: objects, arrays, strings and whole numbers, one type each. Schemas of
answers are brief: a client sends every word of them to its model, or ignores them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.tools.tool import Schema

# Types without words: fields of answers, items of lists.
TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}


def text(title: str, description: str) -> Schema:
    """Return the schema of a string."""
    return {"type": "string", "title": title, "description": description}


def choice(title: str, description: str, choices: Sequence[str]) -> Schema:
    """Return the schema of one of a few strings."""
    return {**text(title, description), "enum": list(choices)}


def limit(title: str, description: str, *, most: int, default: int) -> Schema:
    """Return the schema of a whole number, from 1 to `most`."""
    return {**COUNT, "title": title, "description": description, "minimum": 1, "maximum": most, "default": default}


def array(title: str, description: str, items: Schema) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "title": title, "description": description, "items": items}


def inputs(properties: dict[str, Schema], *, required: Sequence[str] = ()) -> Schema:
    """Return the schema of a tool's arguments: these and no others."""
    return {**record(properties), "required": list(required)}


def outputs(properties: dict[str, Schema]) -> Schema:
    """Return the schema of a tool's result, or of its error.

    Nothing is required, because widely used clients validate an error's structured content against this schema too, and
    would show their own complaint instead.
    """
    return record({**properties, "error": {"type": "object"}})


def record(properties: dict[str, Schema]) -> Schema:
    """Return the schema of an object with these fields and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


def list_of(properties: dict[str, Schema]) -> Schema:
    """Return the schema of a list of objects in an answer."""
    return {"type": "array", "items": {"type": "object", "properties": properties}}
