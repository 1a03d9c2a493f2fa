"""JSON-RPC over standard input and output: one message a line, in UTF-8 regardless of the locale.

The input is untrusted: each line is a message, a fault that can be answered, or blank. No line ends the server.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

LINE_BYTES_MAX = 16 * 1024 * 1024
"""The longest line that is read: well above the largest content with every character escaped."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600

_SKIP_BYTES = 64 * 1024
# Valid inside JSON strings, but line ends to some clients.
_LINE_ENDS = {"\x85": "\\u0085", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class MessageLines(Protocol):
    """A file that is read by lines only."""

    def readline(self, limit: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Fault:
    """The answer to a line that is not a message. id: of the request, if it has a usable one."""

    code: int
    message: str
    id: str | int | None = None


@dataclass(frozen=True, slots=True)
class Wire:
    """The two files that carry messages."""

    incoming: BinaryIO
    outgoing: BinaryIO


def claim() -> Wire:
    """Reserve standard input and output for the protocol.

    From then on other readers find the end of the file, and other output goes to standard error.
    Raises: OSError when one of them is closed, or open the other way only.
    """
    sys.stdout.flush()
    os.read(0, 0)
    os.write(1, b"")
    wire = Wire(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb", buffering=0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return wire


def read(incoming: MessageLines, *, bytes_max: int = LINE_BYTES_MAX) -> Iterator[dict[str, Any] | Fault]:
    """Yield messages and faults, line by line, until the end of the file. Blocks."""
    while line := incoming.readline(bytes_max + 1):
        if len(line) > bytes_max and not line.endswith(b"\n"):
            while (rest := incoming.readline(_SKIP_BYTES)) and not rest.endswith(b"\n"):
                continue
            yield Fault(PARSE_ERROR, f"Parse error: a line of more than {bytes_max} bytes")
        elif (parsed := parse(line)) is not None:
            yield parsed


def parse(line: bytes) -> dict[str, Any] | Fault | None:
    """Return the content of a line: a JSON object with an answerable id, a fault, or None if it is blank.

    Of duplicate keys the last counts. Lone surrogates in values are kept: the tools refuse them by argument.
    """
    try:
        text = line.decode("utf-8-sig").strip()
        message = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return Fault(PARSE_ERROR, "Parse error: not one JSON text in UTF-8")
    if not text:
        return None
    if not isinstance(message, dict):
        return Fault(INVALID_REQUEST, "Invalid request: not a JSON object")
    if "id" in message and not _is_id(message["id"]):
        return Fault(INVALID_REQUEST, "Invalid request: id must be a string or a whole number")
    return message


def encode(message: dict[str, Any]) -> bytes:
    """Return a message as one line of UTF-8. Lone surrogates, which UTF-8 lacks, become question marks."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    for end, escape in _LINE_ENDS.items():
        text = text.replace(end, escape)
    return text.encode("utf-8", "replace") + b"\n"


def write(outgoing: BinaryIO, line: bytes) -> None:
    """Write a complete line. Blocks. Raises: OSError when the reader is gone."""
    rest = memoryview(line)
    while rest:
        rest = rest[outgoing.write(rest) :]


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= char <= "\udfff" for char in value)
    return isinstance(value, int) and not isinstance(value, bool)
