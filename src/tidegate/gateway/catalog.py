"""The tools of all servers, by the names that a model uses."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.config.servers import Server
from tidegate.gateway.pins import Definition, Definitions, Pins
from tidegate.policy.servers import Classification

NAME_CHARS_MAX = 64  # the limit of model providers, which accept letters, digits, "_" and "-"

_UNTRUSTED = "none of its tools is trusted yet"
_UNCLASSIFIED = "none of its trusted tools has both a source and a sink: set them in config.toml"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A tool that the owner has trusted.

    classification: None: it cannot be called. pinned: all trusted definitions of its server.
    """

    name: str
    server: Server
    definition: Definition
    classification: Classification | None
    pinned: Definitions


def catalog_name(server: str, tool: str) -> str:
    """Return `SERVER__TOOL`. If it is too long or has other characters, shorten it and add a hash."""
    plain = f"{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    if name == plain and len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[: NAME_CHARS_MAX - 9]}_{hashlib.sha256(tool.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def callable_tools(servers: Iterable[Server], pins: Pins) -> list[CatalogEntry]:
    """Return the tools that can be called, if the taint permits: trusted and classified. Raises: as `catalog`."""
    return [entry for entry in catalog(servers, pins).values() if entry.classification is not None]


def without_tools(servers: Iterable[Server], pins: Pins) -> Mapping[str, str]:
    """Return the servers that offer no tool, each with the reason and what the owner can do. Raises: as `catalog`."""
    servers, pinned = tuple(servers), pins.read()
    offering = {entry.server.name for entry in callable_tools(servers, pins)}
    return {
        server.name: _UNCLASSIFIED
        if pinned.get(server.name)
        else f"{_UNTRUSTED}: look at them with `tidegate tools trust {server.name}`"
        for server in servers
        if server.name not in offering
    }


def catalog(servers: Iterable[Server], pins: Pins) -> Mapping[str, CatalogEntry]:
    """Return the trusted tools of these servers, by name: the same at every taint. Raises: StorageError (pins).

    The pins are read once, so that all entries are from one moment.
    """
    pinned = pins.read()
    entries = [
        CatalogEntry(catalog_name(server.name, tool), server, definition, server.classify(tool), pinned[server.name])
        for server in servers
        for tool, definition in pinned.get(server.name, {}).items()
    ]
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}
