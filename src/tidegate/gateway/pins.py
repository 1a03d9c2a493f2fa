"""Pins: the tool definitions that the owner has trusted, by server. Owner state, in `pins.json` in the home.

A tool can be called only while its server defines it exactly as when the owner trusted it (P14). A model also gets the
pinned definition: so its list of tools is the same at every taint, and no server is asked for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path
from typing import Any

from tidegate.errors import StorageError, TidegateError
from tidegate.files import DOCUMENT_BYTES_MAX, read_small, writing
from tidegate.policy.servers import Pin
from tidegate.records.times import write_timestamp

PINS_NAME = "pins.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server defines it, hints included.

    digest: SHA-256 of the definition, independent of the order of keys. size: of the definition, in bytes of JSON.
    """

    name: str
    title: str | None
    description: str | None
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any] | None
    digest: str = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":")).encode("ascii")
        object.__setattr__(self, "digest", hashlib.sha256(text).hexdigest())
        object.__setattr__(self, "size", len(text))

    def to_dict(self) -> dict[str, Any]:
        """Return the server's statements, by field."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.init}


Definitions = Mapping[str, Definition]
"""Definitions of one server, by the name of the tool."""


class Pins:
    """The pins of one home. Every call looks them up, so that the owner's trust counts from the next call on."""

    def __init__(self, home: Path) -> None:
        self._path = home / PINS_NAME
        self._known: tuple[tuple[int, int, int], dict[str, Definitions]] | None = None

    def read(self) -> Mapping[str, Definitions]:
        """Return the trusted definitions by server. Raises: StorageError when the file cannot be read or is damaged."""
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return {}
        except OSError:
            raise _unreadable() from None
        # The file is replaced, never rewritten, so this distinguishes versions.
        stamp = status.st_ino, status.st_mtime_ns, status.st_size
        if self._known is None or self._known[0] != stamp:
            self._known = stamp, {name: _definitions(pinned) for name, pinned in self._load().items()}
        return self._known[1]

    def of(self, server: str) -> Definitions:
        """Return the trusted definitions of one server. Raises: as `read`."""
        return self.read().get(server, {})

    def trust(self, server: str, definitions: Iterable[Definition], at: datetime) -> None:
        """Replace the server's trusted definitions by these. For the owner."""
        tools = [{**each.to_dict(), "sha256": each.digest} for each in sorted(definitions, key=lambda each: each.name)]
        pins = {**self._load(), server: {"trusted_at": write_timestamp(at), "tools": tools}}
        text = json.dumps({"format": _FORMAT, "servers": pins}, indent=1, sort_keys=True)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with writing(self._path) as file:
                file.write(f"{text}\n".encode("ascii"))
        except (OSError, TidegateError):
            raise StorageError(
                f"{PINS_NAME}: cannot be written; check the permissions and free space of the home"
            ) from None

    def _load(self) -> dict[str, Any]:
        try:
            found = json.loads(read_small(self._path, DOCUMENT_BYTES_MAX))
            if found["format"] != _FORMAT:
                raise ValueError
            servers: dict[str, Any] = found["servers"]
            for pinned in servers.values():
                _definitions(pinned)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            # P17: without readable pins no tool is trusted.
            raise _unreadable() from None
        return servers


def compare(pinned: Definitions, found: Definitions) -> dict[str, Pin]:
    """Return for each tool, pinned or found, how it compares with its pin."""
    names = sorted({*pinned, *found})
    return {name: _compare(pinned.get(name), found.get(name)) for name in names}


def verdict(tool: str, pinned: Definitions, found: Definitions) -> Pin:
    """Return how a tool compares with its pin; one changed definition blocks all tools of the server."""
    states = compare(pinned, found)
    changed = any(state is Pin.CHANGED for state in states.values())
    return Pin.CHANGED if changed else states.get(tool, Pin.UNKNOWN)


def _compare(pinned: Definition | None, found: Definition | None) -> Pin:
    if pinned is None:
        return Pin.NEW
    if found is None:
        return Pin.GONE
    return Pin.TRUSTED if found.digest == pinned.digest else Pin.CHANGED


def _definitions(pinned: Mapping[str, Any]) -> Definitions:
    return {tool["name"]: _definition(tool) for tool in pinned["tools"]}


def _definition(tool: Mapping[str, Any]) -> Definition:
    definition = Definition(**{name: value for name, value in tool.items() if name != "sha256"})
    if not isinstance(definition.name, str) or tool["sha256"] != definition.digest:
        raise ValueError
    return definition


def _unreadable() -> StorageError:
    return StorageError(
        f"{PINS_NAME}: the trusted definitions cannot be read, or are damaged; check its permissions, or remove it and "
        "run `tidegate tools trust` for each server"
    )
