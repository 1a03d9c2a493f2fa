"""The kinds of settings, each in words and in code, and the reader of a table of settings.

A dataclass is the schema of a table. Each field defines its kind by its type, or by a `SettingKind` in its annotation.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import urlsplit

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level, read_label
from tidegate.records.expiry import read_levels, read_tags
from tidegate.records.times import DURATION_FORM

CONFIG_NAME = "config.toml"
_NUMBER_MAX = 100_000_000
_NAMED_MAX = 32

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SettingKind:
    """The values that a setting accepts.

    wants: the accepted values, in words. read: returns the stored form of a value; for a wrong value, returns None or
    raises InvalidArgument. parse: makes the value from an environment variable's text. explain: the words for a
    particular wrong value.
    """

    wants: str
    read: Callable[[Any], Any]
    parse: Callable[[str], object] = str
    explain: Callable[[str, Any], str] = lambda wants, _: wants

    def accept(self, value: object) -> Any:
        """Return the stored form of the value, or None for a wrong value."""
        try:
            return self.read(value)
        except InvalidArgument:
            return None

    def wanted(self, value: object) -> str:
        """Return the end of the message for a wrong value."""
        return f"must be {self.explain(self.wants, value)}"


Schema = Mapping[str, SettingKind]
"""Kinds by key, in the order in which messages list the keys."""


def bad_setting(place: str, reason: str) -> InvalidArgument:
    """Return the error for a place in the file. place: its keys, the outermost first."""
    return InvalidArgument(f"{CONFIG_NAME}: {place}: {reason}", argument=CONFIG_NAME)


def schema_of(table: type) -> dict[str, SettingKind]:
    """Return the kind of each setting of a dataclass, by key. A field without a known kind is not a setting."""
    hints = get_type_hints(table, include_extras=True)
    kinds = {field.name: _kind_of(hints[field.name]) for field in fields(table) if field.init}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def read_table(table: object, schema: Schema, place: str, known: str = "here") -> dict[str, Any]:
    """Return the settings of a table in their stored form. Raises: InvalidArgument, for the first mistake."""
    if not isinstance(table, dict):
        raise bad_setting(place, f"must be a section, [{place}]")
    found = dict[str, Any]()
    for key, value in table.items():
        if key not in schema:
            raise bad_setting(f"{place}.{key}", f"unknown key; known {known}: {', '.join(schema)}")
        found[key] = schema[key].accept(value)
        if found[key] is None:
            raise bad_setting(f"{place}.{key}", schema[key].wanted(value))
    return found


def read_named(tables: object, section: str, read: Callable[[str, object], T]) -> dict[str, T]:
    """Return the tables of a section, by the owner's names for them. Raises: InvalidArgument.

    read: makes one value from its name and its table.
    """
    if not isinstance(tables, dict):
        raise bad_setting(section, f"must be sections, [{section}.NAME]")
    if len(tables) > _NAMED_MAX:
        raise bad_setting(section, f"has more than {_NAMED_MAX} {section}")
    found = dict[str, T]()
    for name, table in tables.items():
        if not is_name(name):
            one = section.removesuffix("s")
            raise bad_setting(f"{section}.{name}", f"a {one}'s name must be 1 to 32 characters of a-z, 0-9 and -")
        found[name] = read(name, table)
    return found


def is_text(value: object) -> bool:
    """Return whether the value is a text that is not blank, such as a path."""
    return isinstance(value, str) and value.strip() != "" and "\0" not in value


def is_name(value: object) -> bool:
    """Return whether the value can be the owner's name for a section."""
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", value) is not None


def is_variable(value: object) -> bool:
    """Return whether the value can be the name of an environment variable, rather than the content of one."""
    return isinstance(value, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", value) is not None


def is_url(value: object) -> bool:
    """Return whether the value is an HTTP URL without a user or a password."""
    if not is_text(value):
        return False
    try:
        parts = urlsplit(str(value))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


def value_if(accepts: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Return a reader that accepts a value unchanged, if `accepts` is true for it."""
    return lambda value: value if accepts(value) else None


def number_up_to(largest: int) -> SettingKind:
    """Return the kind of whole numbers from 1 to `largest`."""
    return SettingKind(
        f"a whole number from 1 to {largest}",
        value_if(lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest),
        lambda text: int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None,
    )


def _rules(name: str, read: Callable[[Any], Mapping[Any, timedelta]]) -> SettingKind:
    """Return the kind of a table of ages. The words for a wrong table name its wrong rules."""
    wants = f"a table of {name}, each with an age: {DURATION_FORM}"
    kind = SettingKind(wants, lambda value: read(value) if isinstance(value, dict) else None, _parse_json)

    def explain(_: str, value: object) -> str:
        rules = value.items() if isinstance(value, dict) else ()
        bad = [f"{rule[:40]!a}" for rule, age in rules if kind.accept({rule: age}) is None]
        return f"{wants}; wrong: {', '.join(bad[:5])}" if bad else wants

    return replace(kind, explain=explain)


def _parse_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read_zone(value: Any) -> Any:
    from tidegate.jobs.schedule import read_zone  # few homes set one, and all that opens a store would wait for it

    return read_zone(value) and value


def _read_quiet(value: Any) -> Any:
    from tidegate.jobs.schedule import read_quiet

    return read_quiet(value, None) and value


NUMBER = number_up_to(_NUMBER_MAX)
FLAG = SettingKind("true or false", value_if(lambda value: isinstance(value, bool)), {"true": True, "false": False}.get)
LEVEL = SettingKind(f"one of {', '.join(Level.__members__)}", read_label)
TEXT = SettingKind("a string that is not empty", value_if(is_text))
FILE = SettingKind("the path of a file", lambda value: Path(os.path.expanduser(value)) if is_text(value) else None)
URL = SettingKind("an http or https URL without a user or a password", value_if(is_url))
VARIABLE = SettingKind("the name of an environment variable, not the key itself", value_if(is_variable))
CHANNEL = SettingKind("the NAME of a channel in [channels.NAME]", value_if(is_name))
ZONE = SettingKind("a time zone, such as Europe/Berlin", _read_zone)
QUIET = SettingKind("two different times of day, such as 22:00-07:00", _read_quiet)

# The kind of a field by its type, unless its annotation has a kind.
_BY_TYPE: Mapping[object, SettingKind] = {
    int: NUMBER,
    bool: FLAG,
    Level: LEVEL,
    Mapping[str, timedelta]: _rules("tags", read_tags),
    Mapping[Level, timedelta]: _rules("levels", read_levels),
}


def _kind_of(hint: object) -> SettingKind | None:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, SettingKind):
            return extra
    if get_origin(hint) is Literal:
        words = get_args(hint)
        return SettingKind(" or ".join(f'"{word}"' for word in words), value_if(lambda value: value in words))
    return _BY_TYPE.get(hint)
