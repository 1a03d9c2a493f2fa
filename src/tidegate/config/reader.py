"""What can be configured: the sections of `config.toml`, the variables that override them, and their checks."""

from __future__ import annotations

import json
import re
import tomllib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from tidegate.config import channels as config_channels
from tidegate.config import servers as config_servers
from tidegate.errors import InvalidArgument, StorageError
from tidegate.files import read_small
from tidegate.jobs import schedule
from tidegate.policy.levels import Level, read_label
from tidegate.records import expiry
from tidegate.records.limits import Limits
from tidegate.records.times import DURATION_FORM

CONFIG_NAME = "config.toml"
_FILE_BYTES_MAX = 64 * 1024
_NUMBER_MAX = 100_000_000


@dataclass(frozen=True, slots=True)
class _SettingKind:
    """What one setting may be, in words and in code, and how a variable's text becomes one."""

    wants: str
    accepts: Callable[[Any], bool]
    parse: Callable[[str], object] = str
    faults: Callable[[Any], str] = lambda _: ""

    def wanted(self, value: object) -> str:
        """What it must be, when it is not."""
        return f"must be {self.wants}{self.faults(value)}"


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _NUMBER_MAX


def _parse_number(text: str) -> object:
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else None


def _is_rules(read: Callable[[Any], object]) -> Callable[[Any], bool]:
    def accepts(value: object) -> bool:
        try:
            return isinstance(value, dict) and read(value) is not None
        except InvalidArgument:
            return False

    return accepts


def _bad_rules(read: Callable[[Any], object]) -> Callable[[Any], str]:
    """Which of the rules will not do."""
    accepts = _is_rules(read)

    def faults(value: object) -> str:
        bad = [f"{name[:40]!a}" for name, age in value.items() if not accepts({name: age})] if _is_table(value) else []
        return f"; wrong: {', '.join(bad[:5])}" if bad else ""

    return faults


def _is_table(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_read_by(read: Callable[[Any], object]) -> Callable[[Any], bool]:
    def accepts(value: object) -> bool:
        try:
            return read(value) is not None
        except InvalidArgument:
            return False

    return accepts


def _parse_table(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


_NUMBER = _SettingKind(f"a whole number from 1 to {_NUMBER_MAX}", _is_number, _parse_number)
_FLAG = _SettingKind("true or false", lambda value: isinstance(value, bool), {"true": True, "false": False}.get)
_DURABILITY = _SettingKind('"normal" or "full"', lambda value: value in ("normal", "full"))
_PATH = _SettingKind("the path of a file", config_servers.is_text)
_TEXT = _SettingKind("a text, not empty", config_servers.is_text)
_LEVEL = _SettingKind(f"one of {', '.join(Level.__members__)}", lambda value: read_label(value) is not None)
_URL = _SettingKind("an http or https URL, without user and password", config_servers.is_url)
_VARIABLE = _SettingKind(
    "the name of an environment variable: the key itself does not belong here",
    config_channels.is_variable,
)
_CHANNEL = _SettingKind("the name of a channel, as in [channels.NAME]", config_servers.is_name)
_ZONE = _SettingKind("a time zone, such as Europe/Berlin", _is_read_by(schedule.read_zone))
_QUIET = _SettingKind(
    "two different times of day, such as 22:00-07:00", _is_read_by(lambda text: schedule.read_quiet(text, None))
)
_TAG_RULES = _SettingKind(
    f"a table of tags, each with an age: {DURATION_FORM}",
    _is_rules(expiry.read_tags),
    _parse_table,
    _bad_rules(expiry.read_tags),
)
_LEVEL_RULES = _SettingKind(
    f"a table of levels, each with an age: {DURATION_FORM}",
    _is_rules(expiry.read_levels),
    _parse_table,
    _bad_rules(expiry.read_levels),
)

SECTIONS: Mapping[str, Mapping[str, _SettingKind]] = {
    "limits": {field.name: _NUMBER for field in fields(Limits)},
    "storage": {"durability": _DURABILITY},
    "audit": {"reads": _FLAG, "key_file": _PATH},
    "expiry": {"tags": _TAG_RULES, "levels": _LEVEL_RULES},
    "chat": {
        "model": _TEXT,
        "base_url": _URL,
        "api_key_env": _VARIABLE,
        "level": _LEVEL,
        "clearance": _LEVEL,
        "model_clearance": _LEVEL,
        "history_chars_max": _NUMBER,
        "context_chars_max": _NUMBER,
    },
    "run": {
        "grace_minutes": _NUMBER,
        "time_limit_minutes": _NUMBER,
        "lease_seconds": _NUMBER,
        "rerun_interrupted": _FLAG,
        "channel": _CHANNEL,
    },
    "trigger": {
        "every_minutes": _NUMBER,
        "quiet": _QUIET,
        "timezone": _ZONE,
        "level": _LEVEL,
        "ceiling": _LEVEL,
        "channel": _CHANNEL,
    },
}

# Sections of sections, each named by the owner.
_NAMED: Mapping[str, Callable[[object, Path, config_servers.Complain], Mapping[str, object]]] = {
    config_servers.SECTION: config_servers.parse,
    config_channels.SECTION: config_channels.parse,
}

Chosen = dict[str, dict[str, Any]]
"""By section and key, what was set; what was not is absent."""


def read(path: Path, environ: Mapping[str, str]) -> Chosen:
    """What the file and the variables `TIDEGATE_<SECTION>_<KEY>` set, all of it checked; variables win.

    Raises InvalidArgument, which names file, line and key, or the variable; StorageError when the file cannot be read.
    """
    chosen: Chosen = {section: {} for section in SECTIONS}
    chosen.update({section: {} for section in _NAMED})
    for section, key, value in [*_from_file(path), *_from_environment(environ)]:
        chosen[section][key] = value
    return chosen


def _from_file(path: Path) -> Iterator[tuple[str, str, object]]:
    try:
        raw = read_small(path, _FILE_BYTES_MAX)
    except FileNotFoundError:
        return
    except OSError:
        raise StorageError(f"{CONFIG_NAME}: cannot be read") from None
    text = _decoded(raw)
    sections = _parsed(text)
    for section, parse in _NAMED.items():
        for name, made in parse(sections.pop(section, {}), path.parent, partial(_complaint, text)).items():
            yield section, name, made
    for section, table in sections.items():
        for key, value in _entries(text, section, table):
            yield section, key, _checked(text, section, key, value)


def _complaint(text: str, at: tuple[str, ...], reason: str) -> InvalidArgument:
    return _bad_line(_line_of(text, *at), f"{'.'.join(at)}: {reason}")


def _decoded(raw: bytes) -> str:
    """UTF-8, with or without a byte order mark, with lines ended in either way."""
    if len(raw) > _FILE_BYTES_MAX:
        raise _bad_line(1, f"the file is larger than {_FILE_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _bad_line(raw.count(b"\n", 0, error.start) + 1, "is not UTF-8") from None


def _parsed(text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise _bad_line(1, "is nested too deeply") from None
    except ValueError as error:
        at = re.search(r"\(at line (\d+)", str(error))
        line = int(at[1]) if at else text.count("\n") + 1
        reason = f"{_key_on(text, line)}is not valid TOML{_reason(error)}: look for commas, quotes, brackets"
        raise _bad_line(line, reason) from None


def _reason(error: ValueError) -> str:
    """The parser's own words, without a value or a name that it may quote."""
    words = re.sub(r" \(at .*", "", str(error), flags=re.DOTALL)
    words = re.sub(r"(['\"]).{3,}?\1|\(.*?\)", "…", words, flags=re.DOTALL)  # a sign of the syntax may stay
    return f" ({words[:1].lower()}{words[1:]})"


def _key_on(text: str, line: int) -> str:
    """The key that a line begins with, as the start of a message."""
    key = re.match(r"\s*([A-Za-z0-9_.-]+)\s*=", text.split("\n")[line - 1])
    return f"{key[1]}: " if key else ""


def _entries(text: str, section: str, table: object) -> Iterator[tuple[str, object]]:
    if section not in SECTIONS:
        what = "section" if isinstance(table, dict) else "key"
        raise _bad_line(_line_of(text, section), f"{section}: unknown {what}; the sections are {_names()}")
    if not isinstance(table, dict):
        raise _bad_line(_line_of(text, section), f"{section}: must be a section, [{section}]")
    yield from table.items()


def _checked(text: str, section: str, key: str, value: object) -> object:
    kind = SECTIONS[section].get(key)
    if kind is None:
        known = ", ".join(SECTIONS[section])
        raise _bad_line(_line_of(text, section, key), f"{section}.{key}: unknown key; known here: {known}")
    if not kind.accepts(value):
        raise _bad_line(_line_of(text, section, key), f"{section}.{key}: {kind.wanted(value)}")
    return value


def _line_of(text: str, *keys: str) -> int:
    """The line on which a setting is complete: the first at which the file, read up to there, holds it."""
    lines = text.split("\n")
    ends = list(_ends(text))
    # Halving what is left: read line by line, a file of some thousand lines would take minutes.
    at = bisect_left(ends, True, key=lambda count: _holds("\n".join(lines[:count]), keys))
    return ends[at] if at < len(ends) else len(lines)


_PART = re.compile(
    r"""\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*|[\[\]{}]|\n""", re.DOTALL
)


def _ends(text: str) -> Iterator[int]:
    """The lines at whose ends a file of valid TOML can be cut off: not within a value of several lines."""
    line, depth = 1, 0
    for part in _PART.findall(text):
        if part == "\n" and depth == 0:
            yield line
        line += part.count("\n")
        depth += (part in "[{") - (part in "]}")


def _holds(text: str, keys: tuple[str, ...]) -> bool:
    table: Any = tomllib.loads(text)
    for key in keys:
        if not isinstance(table, dict) or key not in table:
            return False
        table = table[key]
    return True


def _names() -> str:
    return ", ".join((*SECTIONS, *_NAMED))


def _bad_line(line: int, reason: str) -> InvalidArgument:
    return InvalidArgument(f"{CONFIG_NAME}, line {line}: {reason}", argument=CONFIG_NAME, line=line)


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, object]]:
    for name in sorted(environ):
        for section in SECTIONS:
            prefix = f"TIDEGATE_{section}_".upper()
            if name.startswith(prefix):
                key = name.removeprefix(prefix).lower()
                yield section, key, _from_variable(name, section, key, environ[name])


def _from_variable(name: str, section: str, key: str, text: str) -> object:
    kind = SECTIONS[section].get(key)
    if kind is None:
        known = ", ".join(f"TIDEGATE_{section}_{key}".upper() for key in SECTIONS[section])
        raise InvalidArgument(f"{name}: unknown variable; known: {known}", argument=name)
    value = kind.parse(text)
    if not kind.accepts(value):
        raise InvalidArgument(f"{name}: {kind.wanted(value)}", argument=name)
    return value
