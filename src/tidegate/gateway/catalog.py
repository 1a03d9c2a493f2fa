"""The tools of all servers under the names that a model calls them by."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.config.servers import Server
from tidegate.gateway.pins import Definition, Pins
from tidegate.policy.servers import Classification

NAME_CHARS_MAX = 64  # of model providers; they take letters, digits, "_" and "-"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """A tool that the owner has trusted. classification: None when it has none, so that it cannot be called."""

    name: str
    server: Server
    definition: Definition
    classification: Classification | None


def catalog_name(server: str, tool: str) -> str:
    """`SERVER__TOOL`; where that is too long or has other characters, cut, replaced, and told apart by a hash."""
    plain = f"{server}__{tool}"
    name = re.sub(r"[^A-Za-z0-9_-]", "_", plain)
    if name == plain and len(name) <= NAME_CHARS_MAX:
        return name
    return f"{name[: NAME_CHARS_MAX - 9]}_{hashlib.sha256(tool.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def catalog(servers: Iterable[Server], pins: Pins) -> Mapping[str, CatalogEntry]:
    """The trusted tools of these servers, by name; the same at every taint. Raises: StorageError (pins)."""
    found = [_entry(server, each) for server in servers for each in pins.of(server.name).values()]
    return {offer.name: offer for offer in sorted(found, key=lambda offer: offer.name)}


def _entry(server: Server, definition: Definition) -> CatalogEntry:
    name = catalog_name(server.name, definition.name)
    return CatalogEntry(name, server, definition, server.classify(definition.name))
