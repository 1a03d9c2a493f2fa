"""Foreign servers as `[servers.NAME]` in `config.toml` names them, checked whole.

    [servers.files]
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/plans"]    # or: url = "https://…"
    source = "CONFIDENTIAL"    # of whatever its tools return
    sink = "CONFIDENTIAL"      # the highest that they may be told

    [servers.files.tools.list_allowed_directories]    # what is set here, comes before what is set above
    source = "INTERNAL"

A tool without source or sink is not callable (P14).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidegate.config import exposure as config_reach
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level, read_label
from tidegate.policy.servers import Classification, launders

SECTION = "servers"
TIMEOUT_SECONDS = 60
_TIMEOUT_SECONDS_MAX = 3600
_SERVERS_MAX = 32

Complain = Callable[[tuple[str, ...], str], InvalidArgument]
"""Makes the error for a place in the file, given as its keys from the outermost inward."""


@dataclass(frozen=True, slots=True)
class Server:
    """A foreign MCP server. It has a command or a URL.

    cwd: where the command runs; without one, in an empty folder of its own. environment: what it gets besides a few
    variables that every program needs. classification: of tools that are not in `tools`; None: not callable.
    timeout_seconds: for a connection, and for each call.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    cwd: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    classification: Classification | None = None
    tools: Mapping[str, Classification | None] = field(default_factory=dict)
    timeout_seconds: int = TIMEOUT_SECONDS

    def classify(self, tool: str) -> Classification | None:
        """Source and sink of a tool; None for one that is not classified."""
        return self.tools.get(tool, self.classification)


@dataclass(frozen=True, slots=True)
class _ServerKeyKind:
    wants: str
    accepts: Callable[[Any], bool]


def is_text(value: object) -> bool:
    """Whether it is a text that says something, such as a path."""
    return isinstance(value, str) and value.strip() != "" and "\0" not in value


def _is_table(value: object, key: str) -> bool:
    # A name that is no name, or a value with a line end in it, would say something else than it seems to.
    return isinstance(value, dict) and all(
        re.fullmatch(key, name) and isinstance(text, str) and not re.search("[\0\r\n]", text)
        for name, text in value.items()
    )


def is_name(value: object) -> bool:
    """Whether it can be the name of a section that the owner names."""
    return isinstance(value, str) and re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", value) is not None


def is_url(value: object) -> bool:
    """Whether it is a URL that can be reached by HTTP, without a user or a password in it."""
    if not is_text(value):
        return False
    try:
        parts = urlsplit(str(value))
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None
    except ValueError:
        return False


_LEVEL = _ServerKeyKind(f"one of {', '.join(Level.__members__)}", lambda value: read_label(value) is not None)
_CLASSIFICATION = {"source": _LEVEL, "sink": _LEVEL}
_KEYS: Mapping[str, _ServerKeyKind] = {
    "command": _ServerKeyKind(
        'a list of strings, ["program", "argument", …]',
        lambda value: (
            isinstance(value, list)
            and bool(value)
            and is_text(value[0])
            and all(isinstance(word, str) and "\0" not in word for word in value)
        ),
    ),
    "url": _ServerKeyKind("an http or https URL, without user and password", is_url),
    "cwd": _ServerKeyKind("the path of a folder", is_text),
    "env": _ServerKeyKind("a table of strings", lambda value: _is_table(value, "[A-Za-z_][A-Za-z0-9_]*")),
    "headers": _ServerKeyKind("a table of strings", lambda value: _is_table(value, "[A-Za-z0-9!#$%&'*+.^_`|~-]+")),
    "timeout_seconds": _ServerKeyKind(
        f"a whole number from 1 to {_TIMEOUT_SECONDS_MAX}",
        lambda value: isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _TIMEOUT_SECONDS_MAX,
    ),
    **_CLASSIFICATION,
    "tools": _ServerKeyKind("a section for each tool", lambda value: isinstance(value, dict)),
    "unsafe_launders": _ServerKeyKind("true or false", lambda value: isinstance(value, bool)),
}


def parse(tables: object, home: Path, complain: Complain) -> dict[str, Server]:
    """The servers of the file, by name. Raises: InvalidArgument, by `complain`, for the first mistake."""
    if not isinstance(tables, dict):
        raise complain((SECTION,), "must be sections, [servers.NAME]")
    if len(tables) > _SERVERS_MAX:
        raise complain((SECTION,), f"has more than {_SERVERS_MAX} servers")
    return {name: _server(name, table, home, complain) for name, table in tables.items()}


def _server(name: str, table: object, home: Path, complain: Complain) -> Server:
    at = (SECTION, name)
    if not is_name(name):
        raise complain(at, "a server's name is up to 32 of a-z, 0-9 and -")
    checked = _checked(table, _KEYS, at, complain)
    _check_kind(checked, at, complain)
    server = Server(
        name=name,
        command=tuple(checked.get("command", ())),
        url=checked.get("url"),
        cwd=checked.get("cwd"),
        environment=checked.get("env", {}),
        headers=checked.get("headers", {}),
        classification=_classification(checked, {}),
        tools=_tools(checked, at, complain),
        timeout_seconds=checked.get("timeout_seconds", TIMEOUT_SECONDS),
    )
    _check_laundering(server, checked, at, complain)
    _check_reach(server, home, at, complain)
    return server


def _checked(
    table: object, keys: Mapping[str, _ServerKeyKind], at: tuple[str, ...], complain: Complain
) -> dict[str, Any]:
    if not isinstance(table, dict):
        raise complain(at, f"must be a section, [{'.'.join(at)}]")
    for key, value in table.items():
        if key not in keys:
            raise complain((*at, key), f"unknown key; known here: {', '.join(keys)}")
        if not keys[key].accepts(value):
            raise complain((*at, key), f"must be {keys[key].wants}")
    return table


def _check_kind(checked: Mapping[str, Any], at: tuple[str, ...], complain: Complain) -> None:
    if ("command" in checked) == ("url" in checked):
        raise complain(at, "needs a command or a url, and not both")
    for key in ("cwd", "env") if "url" in checked else ("headers",):
        if key in checked:
            raise complain((*at, key), f"has no use beside {'url' if 'url' in checked else 'command'}")


def _classification(*tables: Mapping[str, Any]) -> Classification | None:
    """What the first table that says so says of source and sink; None when one of them is missing."""
    source, sink = (next((table[key] for table in tables if key in table), None) for key in _CLASSIFICATION)
    levels = read_label(source), read_label(sink)
    return None if levels[0] is None or levels[1] is None else Classification(levels[0], levels[1])


def _tools(checked: Mapping[str, Any], at: tuple[str, ...], complain: Complain) -> dict[str, Classification | None]:
    return {
        tool: _classification(_checked(table, _CLASSIFICATION, (*at, "tools", tool), complain), checked)
        for tool, table in checked.get("tools", {}).items()
    }


def _check_laundering(server: Server, checked: Mapping[str, Any], at: tuple[str, ...], complain: Complain) -> None:
    """P14: within one server no source below a sink, or what was written high could be read back low."""
    named = {"the server": server.classification, **{f"{tool!a}": each for tool, each in server.tools.items()}}
    classified = {name: each for name, each in named.items() if each is not None}
    if launders(classified.values()) and not checked.get("unsafe_launders", False):
        raise complain(at, f"would launder: {_laundering(classified)}; `unsafe_launders = true` accepts it")


def _laundering(classified: Mapping[str, Classification]) -> str:
    """How: one that is written high, and one that is read low."""
    high = max(classified, key=lambda name: classified[name].sink)
    low = min(classified, key=lambda name: classified[name].source)
    sink, source = f"the sink of {high}, {classified[high].sink}", f"the source of {low}, {classified[low].source}"
    return f"{sink}, is above {source}, so that what was written high could be read back low"


def _check_reach(server: Server, home: Path, at: tuple[str, ...], complain: Complain) -> None:
    """Trusted is the configuration, not the server: one that can open the home's files stands outside every gate."""
    key = config_reach.exposes_home(server.command, server.cwd, server.environment, home) if server.command else None
    if key is not None:
        raise complain((*at, key), "reaches the home, where every memory lies: give it a folder of its own")
