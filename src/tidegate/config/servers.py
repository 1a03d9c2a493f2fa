"""Foreign servers, from `[servers.NAME]` in `config.toml`, completely checked.

    [servers.files]
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv/plans"]    # or: url = "https://…"
    source = "CONFIDENTIAL"    # level of everything that its tools return
    sink = "CONFIDENTIAL"      # highest level that may be sent to them

    [servers.files.tools.list_allowed_directories]    # overrides the settings above
    source = "INTERNAL"

A tool without source or sink is not callable (P14).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tidegate.config.exposure import exposes_home
from tidegate.config.kinds import (
    FLAG,
    LEVEL,
    URL,
    SettingKind,
    bad_setting,
    is_text,
    number_up_to,
    read_named,
    read_table,
    schema_of,
    value_if,
)
from tidegate.policy.servers import Classification, launders

SECTION = "servers"
TIMEOUT_SECONDS = 60
_TIMEOUT_SECONDS_MAX = 3600


def _read_command(value: object) -> tuple[str, ...] | None:
    if not (isinstance(value, list) and value and is_text(value[0])):
        return None
    return tuple(value) if all(isinstance(word, str) and "\0" not in word for word in value) else None


def _table_of_texts(key: str) -> SettingKind:
    """Return the kind of a table of texts. key: the pattern of its names."""

    # A malformed name, or a value with a line end, would mean something else than it seems to.
    def accepts(value: object) -> bool:
        return isinstance(value, dict) and all(
            re.fullmatch(key, name) and isinstance(text, str) and not re.search("[\0\r\n]", text)
            for name, text in value.items()
        )

    return SettingKind("a table of strings", value_if(accepts))


@dataclass(frozen=True, slots=True)
class Server:
    """A foreign MCP server. It has a command or a URL.

    cwd: the folder in which the command runs; None: an empty folder of its own. env: variables for it, in addition to
    a few that every program needs. classification: of tools that are not in `tools`; None: not callable.
    timeout_seconds: for a connection, and for each call.
    """

    name: str
    command: Annotated[
        tuple[str, ...], SettingKind('a list of strings, ["program", "argument", …]', _read_command)
    ] = ()
    url: Annotated[str | None, URL] = None
    cwd: Annotated[str | None, SettingKind("the path of a folder", value_if(is_text))] = None
    env: Annotated[Mapping[str, str], _table_of_texts("[A-Za-z_][A-Za-z0-9_]*")] = field(
        default_factory=dict, repr=False
    )
    headers: Annotated[Mapping[str, str], _table_of_texts("[A-Za-z0-9!#$%&'*+.^_`|~-]+")] = field(
        default_factory=dict, repr=False
    )
    classification: Classification | None = None
    tools: Mapping[str, Classification | None] = field(default_factory=dict)
    timeout_seconds: Annotated[int, number_up_to(_TIMEOUT_SECONDS_MAX)] = TIMEOUT_SECONDS

    def classify(self, tool: str) -> Classification | None:
        """Return the source and the sink of a tool; None for a tool without classification."""
        return self.tools.get(tool, self.classification)


_CLASSIFICATION = {"source": LEVEL, "sink": LEVEL}
_TOOLS = SettingKind("a section for each tool", value_if(lambda value: isinstance(value, dict)))
KEYS = {**schema_of(Server), **_CLASSIFICATION, "tools": _TOOLS, "unsafe_launders": FLAG}
"""The keys of a server's section."""


def read_servers(tables: object, home: Path) -> dict[str, Server]:
    """Return the servers of the file, by name. Raises: InvalidArgument, for the first mistake."""
    return read_named(tables, SECTION, partial(_read_server, home=home))


def _read_server(name: str, table: object, *, home: Path) -> Server:
    place = f"{SECTION}.{name}"
    found = read_table(table, KEYS, place)
    _check_transport(found, place)
    tools = {
        tool: _classification(read_table(own, _CLASSIFICATION, f"{place}.tools.{tool}"), found)
        for tool, own in found.pop("tools", {}).items()
    }
    launders_accepted = found.pop("unsafe_launders", False)
    classification = _classification(found)
    own = {key: value for key, value in found.items() if key not in _CLASSIFICATION}
    server = Server(name=name, classification=classification, tools=tools, **own)
    if not launders_accepted:
        _check_laundering(server, place)
    # A server that can open the home's files bypasses every gate.
    key = exposes_home(server.command, server.cwd, server.env, home) if server.command else None
    if key is not None:
        advice = "give it another folder or, if it runs `tidegate`, another `--home`"
        raise bad_setting(f"{place}.{key}", f"reaches the home, which holds every memory: {advice}")
    return server


def _check_transport(found: Mapping[str, Any], place: str) -> None:
    if ("command" in found) == ("url" in found):
        raise bad_setting(place, "needs a command or a url, and not both")
    for key in ("cwd", "env") if "url" in found else ("headers",):
        if key in found:
            other = "url" if "url" in found else "command"
            raise bad_setting(f"{place}.{key}", f"cannot be combined with {other}")


def _classification(*tables: Mapping[str, Any]) -> Classification | None:
    """Return the source and the sink, each from the first table that has it; None if one of them is missing."""
    source, sink = (next((table[key] for table in tables if key in table), None) for key in _CLASSIFICATION)
    return None if source is None or sink is None else Classification(source, sink)


def _check_laundering(server: Server, place: str) -> None:
    """Check that no source is below a sink: data written high could be read back low."""
    # P14: within one server, since all its tools may share what they know.
    named = {"the server": server.classification, **{f"{tool!a}": each for tool, each in server.tools.items()}}
    classified = {name: each for name, each in named.items() if each is not None}
    if launders(classified.values()):
        raise bad_setting(
            place,
            f"would let data flow down: {_laundering(classified)}; lower that sink or raise that source, or accept it "
            "with `unsafe_launders = true`",
        )


def _laundering(classified: Mapping[str, Classification]) -> str:
    """Return how, in words: which tool is written high, and which is read low."""
    high = max(classified, key=lambda name: classified[name].sink)
    low = min(classified, key=lambda name: classified[name].source)
    sink, source = f"the sink of {high}, {classified[high].sink}", f"the source of {low}, {classified[low].source}"
    return f"{sink}, is above {source}, so data written high could be read back low"
