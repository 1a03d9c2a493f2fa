"""Channels, from `[channels.NAME]` in `config.toml`: destinations for the results of wake-ups.

    [channels.phone]
    kind = "apprise"
    url_env = "TIDEGATE_PHONE_URL"    # variable with the URL, which is often a secret; or: url = "json://…"
    clearance = "INTERNAL"            # highest level that may be shown there

    [channels.diary]
    kind = "file"
    path = "~/diary.jsonl"            # one JSON object per line; never inside the home
    clearance = "RESTRICTED"

    [channels.console]
    kind = "log"
    clearance = "PUBLIC"

A channel without clearance shows nothing (P14).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated

from tidegate.config.kinds import (
    LEVEL,
    TEXT,
    SettingKind,
    bad_setting,
    is_variable,
    read_named,
    read_table,
    schema_of,
    value_if,
)
from tidegate.policy.levels import Level

SECTION = "channels"
KEYS: Mapping[str, tuple[str, ...]] = {"log": (), "file": ("path",), "apprise": ("url", "url_env")}
"""The keys of each kind of channel, in addition to kind and clearance."""


def _text(kind: SettingKind) -> SettingKind:
    """Return a kind whose message asks for a text first."""
    return replace(kind, explain=lambda wants, value: wants if TEXT.accept(value) else TEXT.wants)


_KIND = SettingKind(f"one of {', '.join(KEYS)}", value_if(lambda value: isinstance(value, str) and value in KEYS))
_VARIABLE = SettingKind("the name of an environment variable", value_if(is_variable))


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """A channel. kind: log, file or apprise. clearance: the highest level that may be shown; None: no level."""

    name: str
    kind: Annotated[str, _KIND]
    clearance: Annotated[Level | None, _text(LEVEL)] = None
    path: Annotated[Path | None, TEXT] = None
    url: Annotated[str | None, TEXT] = field(default=None, repr=False)
    url_env: Annotated[str | None, _text(_VARIABLE)] = None


_SCHEMA = schema_of(ChannelSettings)


def read_channels(tables: object, home: Path) -> dict[str, ChannelSettings]:
    """Return the channels of the file, by name. Raises: InvalidArgument, for the first mistake."""
    return read_named(tables, SECTION, partial(_read_channel, home=home))


def _read_channel(name: str, table: object, *, home: Path) -> ChannelSettings:
    place = f"{SECTION}.{name}"
    if not isinstance(table, dict):
        raise bad_setting(place, f"must be a section, [{place}]")
    if "kind" not in table:
        raise bad_setting(place, f"needs a kind, one of {', '.join(KEYS)}")
    kind = _KIND.accept(table["kind"])
    if kind is None:
        raise bad_setting(f"{place}.kind", _KIND.wanted(table["kind"]))
    schema = {key: _SCHEMA[key] for key in ("kind", "clearance", *KEYS[kind])}
    found = read_table(table, schema, place, known=f"for {kind}")
    if kind == "file" and "path" not in found:
        raise bad_setting(place, "needs a path")
    if kind == "apprise" and ("url" in found) == ("url_env" in found):
        raise bad_setting(place, "needs a url or a url_env, and not both")
    if "path" in found:
        found["path"] = _outside(found["path"], home, f"{place}.path")
    return ChannelSettings(name, **found)


def _outside(text: str, home: Path, place: str) -> Path:
    """Return the real path. Raises: InvalidArgument for a relative path, or one in the home."""
    expanded = os.path.expanduser(text)
    if not os.path.isabs(expanded):
        raise bad_setting(place, "must be an absolute path or begin with ~")
    real = Path(os.path.realpath(expanded))
    if real.is_relative_to(os.path.realpath(home)):
        raise bad_setting(place, "is in the home, which holds every memory: choose a path outside")
    return real
