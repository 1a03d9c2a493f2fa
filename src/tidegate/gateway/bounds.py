"""How much of a foreign server is borne, and the one error for whatever goes beyond."""

from __future__ import annotations

LINE_BYTES_MAX = 4 * 1024 * 1024
"""One message."""

CALL_BYTES_MAX = 16 * 1024 * 1024
"""All that a server sends during one call, also what is dropped."""

CALL_MESSAGES_MAX = 10_000
"""The same, counted in messages."""

CALL_VALUES_MAX = 200_000
"""The same, counted in lists and objects: three bytes of JSON that take hundreds in memory."""

ARGUMENTS_BYTES_MAX = 1024 * 1024
TOOLS_MAX = 500
PAGES_MAX = 50
DEFINITION_BYTES_MAX = 256 * 1024


class CutOffError(Exception):
    """The connection is of no more use. Never leaves the gateway.

    reason: goes on from "the server …", in our own words. lines: what the server wrote to its standard error, where
    the owner asked (P12).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines: list[str] = []
