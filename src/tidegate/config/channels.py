"""Channels as `[channels.NAME]` in `config.toml` names them: where results of wake-ups go.

    [channels.phone]
    kind = "apprise"
    url_env = "TIDEGATE_PHONE_URL"    # the variable that holds the URL, which is often a secret; or: url = "json://…"
    clearance = "INTERNAL"            # the highest level that may be shown there

    [channels.diary]
    kind = "file"
    path = "~/diary.jsonl"            # one JSON object a line; never inside the home
    clearance = "RESTRICTED"

    [channels.console]
    kind = "log"
    clearance = "PUBLIC"

A channel without clearance shows nothing (P14).
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate.config.servers import Complain, is_name, is_text
from tidegate.policy.levels import Level, read_label

SECTION = "channels"
_CHANNELS_MAX = 32
_KEYS = {"log": (), "file": ("path",), "apprise": ("url", "url_env")}


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """A channel. kind: log, file or apprise. clearance: the highest level that may be shown; None: nothing may."""

    name: str
    kind: str
    clearance: Level | None = None
    path: Path | None = None
    url: str | None = field(default=None, repr=False)
    url_env: str | None = None


def parse(tables: object, home: Path, complain: Complain) -> dict[str, ChannelSettings]:
    """The channels of the file, by name. Raises: InvalidArgument, by `complain`, for the first mistake."""
    if not isinstance(tables, dict):
        raise complain((SECTION,), "must be sections, [channels.NAME]")
    if len(tables) > _CHANNELS_MAX:
        raise complain((SECTION,), f"has more than {_CHANNELS_MAX} channels")
    return {name: _channel(name, table, home, complain) for name, table in tables.items()}


def is_variable(value: object) -> bool:
    """Whether it can be the name of an environment variable, and is not rather what one holds."""
    return isinstance(value, str) and re.fullmatch(r"[A-Z_][A-Z0-9_]*", value) is not None


def _channel(name: str, table: object, home: Path, complain: Complain) -> ChannelSettings:
    at = (SECTION, name)
    if not is_name(name):
        raise complain(at, "a channel's name is up to 32 of a-z, 0-9 and -")
    if not isinstance(table, dict):
        raise complain(at, f"must be a section, [{'.'.join(at)}]")
    kind = table.get("kind")
    if "kind" not in table:
        raise complain(at, f"needs a kind: {', '.join(_KEYS)}")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise complain((*at, "kind"), f"must be one of {', '.join(_KEYS)}")
    known = ("kind", "clearance", *_KEYS[kind])
    for key, value in table.items():
        if key not in known:
            raise complain((*at, key), f"unknown key; known for {kind}: {', '.join(known)}")
        if not is_text(value):
            raise complain((*at, key), "must be a text, not empty")
    _check(table, kind, at, complain)
    path = _path(table["path"], home, at, complain) if "path" in table else None
    return ChannelSettings(name, kind, read_label(table.get("clearance")), path, table.get("url"), table.get("url_env"))


def _check(table: dict[str, Any], kind: str, at: tuple[str, ...], complain: Complain) -> None:
    if "clearance" in table and read_label(table["clearance"]) is None:
        raise complain((*at, "clearance"), f"must be one of {', '.join(Level.__members__)}")
    if kind == "file" and "path" not in table:
        raise complain(at, "needs a path")
    if kind == "apprise" and ("url" in table) == ("url_env" in table):
        raise complain(at, "needs a url or a url_env, and not both")
    if "url_env" in table and not is_variable(table["url_env"]):
        raise complain((*at, "url_env"), "must be the name of an environment variable")


def _path(text: str, home: Path, at: tuple[str, ...], complain: Complain) -> Path:
    path = Path(os.path.realpath(os.path.expanduser(text)))
    if not os.path.isabs(os.path.expanduser(text)):
        raise complain((*at, "path"), "must be an absolute path, or begin with ~")
    if path.is_relative_to(os.path.realpath(home)):
        raise complain((*at, "path"), "lies in the home, where every memory lies: write it elsewhere")
    return path
