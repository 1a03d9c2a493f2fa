"""Cursors: where a list continues. Opaque, and bound to the agent, taint and tag of that list."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level

_DIGEST_BYTES = 16


def write_cursor(after: str, agent: str, taint: Level, tag: str | None) -> str:
    """Return a cursor that continues after the key `after`. It holds only what its session has already seen (P5)."""
    position = after.encode()
    return base64.urlsafe_b64encode(_seal(position, agent, taint, tag) + position).decode("ascii").rstrip("=")


def read_cursor(cursor: object, agent: str, taint: Level, tag: str | None) -> str:
    """Return the key to continue after; "", which sorts before every key, without a cursor."""
    if cursor is None:
        return ""
    try:
        sealed = cursor.encode("ascii") if isinstance(cursor, str) else b""
        data = base64.urlsafe_b64decode(sealed + b"=" * (-len(sealed) % 4))
        seal, position = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
        if seal == _seal(position, agent, taint, tag) and write_cursor(position.decode(), agent, taint, tag) == cursor:
            return position.decode()
    except (ValueError, binascii.Error):
        pass  # the same error for every invalid cursor
    raise InvalidArgument("cursor: not valid for this list; list again without it", argument="cursor")


def _seal(position: bytes, agent: str, taint: Level, tag: str | None) -> bytes:
    bound = json.dumps([agent, taint.name, tag]).encode("ascii")
    return hashlib.sha256(bound + b"\0" + position).digest()[:_DIGEST_BYTES]
