"""Reads the settings of a home: `config.toml`, the variables that override it, and checks between settings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

from tidegate.config import channels, servers
from tidegate.config.kinds import CONFIG_NAME, Schema, bad_setting, read_table, schema_of
from tidegate.config.settings import Settings
from tidegate.errors import InvalidArgument, StorageError
from tidegate.files import read_small, reason_of

_FILE_BYTES_MAX = 64 * 1024

_TYPES: Mapping[str, Any] = {name: kind for name, kind in get_type_hints(Settings).items() if is_dataclass(kind)}
SECTIONS: Mapping[str, Schema] = {name: schema_of(kind) for name, kind in _TYPES.items()}
"""The sections with known keys, in the order of the dataclass. The others hold tables that the owner names."""

_Chosen = dict[str, dict[str, Any]]


def read_settings(home: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a home: environment over file over default. The complete file is checked.

    Variables are named `TIDEGATE_<SECTION>_<KEY>`. Raises: InvalidArgument, which names the file and the key, or the
    variable; StorageError if the file cannot be read.
    """
    tables = _read_file(home / CONFIG_NAME)
    made: dict[str, Any] = {
        servers.SECTION: servers.read_servers(tables.pop(servers.SECTION, {}), home),
        channels.SECTION: channels.read_channels(tables.pop(channels.SECTION, {}), home),
    }
    chosen: _Chosen = {section: {} for section in SECTIONS}
    for section, table in tables.items():
        chosen[section] = read_table(table, _schema(section, table), section)
    for section, key, value in _from_environment(environ):
        chosen[section][key] = value
    if "key_file" in chosen["audit"]:
        chosen["audit"]["key_file"] = home / chosen["audit"]["key_file"]
    if "level" in chosen["defaults"]:  # for the sections that set no level of their own
        for section in ("chat", "trigger"):
            chosen[section].setdefault("level", chosen["defaults"]["level"])
    made |= {section: kind(**chosen[section]) for section, kind in _TYPES.items()}
    settings = Settings(**made)
    _check(settings)
    return settings


def check_environment(environ: Mapping[str, str] = os.environ) -> None:
    """Raise InvalidArgument for a variable that will not do: unlike the file, it stays so while the process runs."""
    for _ in _from_environment(environ):
        pass


def _check(settings: Settings) -> None:
    """Raise InvalidArgument if settings contradict one another: nothing is guessed."""
    for section in ("run", "trigger"):
        name, argument = getattr(settings, section).channel, f"{section}.channel"
        if name is not None and name not in settings.channels:
            known = ", ".join(settings.channels) or "none"
            raise InvalidArgument(f"{argument}: no section [channels.{name}]; channels: {known}", argument=argument)
    if not settings.trigger.level.can_flow_to(settings.trigger.ceiling):
        level = f"trigger.level, which is {settings.trigger.level} (by default that of defaults.level)"
        raise InvalidArgument(
            f"trigger.ceiling: cannot be below {level}; raise the ceiling, or set a lower trigger.level",
            argument="trigger.ceiling",
        )


def _schema(section: str, table: object) -> Schema:
    if section not in SECTIONS:
        what = "section" if isinstance(table, dict) else "key"
        known = ", ".join(field.name for field in fields(Settings))
        raise bad_setting(section, f"unknown {what}; the sections are {known}")
    return SECTIONS[section]


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    """Yield the section, the key and the value of each variable that is a setting, in the order of their names."""
    for name in sorted(environ):
        for section, schema in SECTIONS.items():
            prefix = f"TIDEGATE_{section}_".upper()
            if name.startswith(prefix):
                key = name.removeprefix(prefix).lower()
                yield section, key, _from_variable(name, prefix, schema, environ[name])


def _from_variable(name: str, prefix: str, schema: Schema, text: str) -> object:
    kind = schema.get(name.removeprefix(prefix).lower())
    if kind is None:
        known = ", ".join(f"{prefix}{key}".upper() for key in schema)
        raise InvalidArgument(f"{name}: unknown variable; known: {known}", argument=name)
    value = kind.parse(text)
    kept = kind.accept(value)
    if kept is None:
        raise InvalidArgument(f"{name}: {kind.wanted(value)}", argument=name)
    return kept


def _read_file(path: Path) -> dict[str, Any]:
    try:
        data = read_small(path, _FILE_BYTES_MAX)
    except FileNotFoundError:
        return {}
    except OSError as error:
        advice = reason_of(error, "check its permissions")
        raise StorageError(f"{CONFIG_NAME}: cannot be read; {advice}") from None
    return _parse(_decode(data))


def _decode(data: bytes) -> str:
    """Return the text: UTF-8, with or without a byte order mark, with either kind of line end."""
    if len(data) > _FILE_BYTES_MAX:
        raise _bad_line(1, f"the file is larger than {_FILE_BYTES_MAX} bytes")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _bad_line(data.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None


def _parse(text: str) -> dict[str, Any]:
    import tomllib  # many homes have no such file

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _bad_line(1, "is nested too deeply") from None
    except ValueError as error:
        at = re.search(r"\(at line (\d+)", str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        begun = re.match(r"\s*([A-Za-z0-9_.-]+)\s*=", text.split("\n")[line - 1])
        key = f"{begun[1]}: " if begun else ""
        reason = f"{key}is not valid TOML{_reason(error)}: check commas, quotes and brackets"
        raise _bad_line(line, reason) from None


def _reason(error: ValueError) -> str:
    """Return the parser's own words, without any value or name that it quotes."""
    words = re.sub(r" \(at .*", "", str(error), flags=re.DOTALL)
    words = re.sub(r"(['\"]).{3,}?\1|\(.*?\)", "…", words, flags=re.DOTALL)  # a quoted syntax character may stay
    return f" ({words[:1].lower()}{words[1:]})"


def _bad_line(line: int, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{CONFIG_NAME}, line {line}: {reason}", argument=CONFIG_NAME, line=line)
