"""The guard on the wire to one server: which messages may pass, and how much of them (P4, P14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

import mcp_types as types

from tidegate.errors import Refused
from tidegate.gateway.diagnostics import CutOffError, ServerDiagnostics

CALL_BYTES_MAX = 16 * 1024 * 1024
"""The maximum size of everything that a server sends during one call, dropped messages included."""

CALL_MESSAGES_MAX = 10_000
"""The same, counted in messages."""

CALL_VALUES_MAX = 200_000
"""The same, counted in lists and objects: three bytes of JSON can take hundreds in memory."""

Check = Callable[[bool], None]
"""Raises Refused when bytes may not go out. True: for bytes that were fixed when the call was allowed."""


class Guard:
    """Decides which messages may pass on one wire, and when.

    broken: done once the connection is no longer usable; its result says why. diagnostics: details, for the owner.
    """

    def __init__(self, diagnostics: ServerDiagnostics | None = None) -> None:
        self.diagnostics = diagnostics
        self.broken: asyncio.Future[CutOffError | Refused] = asyncio.get_running_loop().create_future()
        self._check: Check | None = None
        self._during = asyncio.Event()
        self._awaited: set[int | str] = set()
        self._bytes = self._values = self._messages = 0

    @contextmanager
    def during(self, check: Check) -> Iterator[None]:
        """Let messages pass during one call, if `check` permits them."""
        self._check = check
        self._bytes = self._values = self._messages = 0
        self._during.set()
        try:
            yield
        finally:
            self._during.clear()
            self._check = None

    async def wait(self) -> None:
        """Wait until there is a call."""
        await self._during.wait()

    def give_up(self, why: CutOffError | Refused) -> None:
        """Break the connection; the first reason counts."""
        if not self.broken.done():
            self.broken.set_result(why)

    def count(self, piece: bytes) -> None:
        """Count incoming bytes before they are parsed. Raises: CutOffError when one call has too many."""
        self._bytes += len(piece)
        self._values += piece.count(b"{") + piece.count(b"[")
        if self._bytes > CALL_BYTES_MAX:
            self.cut_off(f"sent more than {CALL_BYTES_MAX} bytes")
        if self._values > CALL_VALUES_MAX:
            self.cut_off(f"sent more than {CALL_VALUES_MAX} lists and objects")

    def cut_off(self, reason: str) -> NoReturn:
        """Give the connection up. Raises: CutOffError."""
        error = CutOffError(reason)
        self.give_up(error)  # here, because a library may be between this and the caller
        raise error

    def may_send(self, message: types.JSONRPCMessage) -> bool:
        """Return whether a message may go to the server: checked for each, just before it goes out (P4)."""
        method = getattr(message, "method", None)
        settled = isinstance(message, types.JSONRPCRequest) or method == "notifications/initialized"
        if self._check is None or self.broken.done():
            return False
        try:
            self._check(settled)
        except Refused as refused:
            if settled:
                self.give_up(refused)
            return False
        if isinstance(message, types.JSONRPCRequest):
            self._awaited.add(message.id)
        return True

    def may_send_now(self, body: bytes) -> bool:
        """Return `may_send` of a message in its wire form: checked again, because connecting takes time."""
        return self.may_send(types.jsonrpc_message_adapter.validate_json(body, by_name=False))

    def count_message(self) -> None:
        """Count an incoming message, or a line that is none. Raises: CutOffError when one call has too many."""
        self._messages += 1
        if self._messages > CALL_MESSAGES_MAX:
            raise CutOffError(f"sent more than {CALL_MESSAGES_MAX} messages")

    def admits(self, message: types.JSONRPCMessage) -> bool:
        """Return whether a message is an awaited answer; others are dropped (P14)."""
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.id not in self._awaited:
            return False
        self._awaited.discard(message.id)
        return True


def count_values(data: object, most: int) -> int:
    """Return the number of values that JSON data consists of, without itself; `most` + 1 for any higher number.

    The libraries validate data with a few errors for each value, all at once, while every other thread waits.
    """
    values, unread = 0, [data]
    while unread and values <= most:
        each = unread.pop()
        if isinstance(each, dict | list):
            values += len(each)
            if values <= most:
                unread.extend(each.values() if isinstance(each, dict) else each)
    return min(values, most + 1)
