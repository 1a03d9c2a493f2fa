"""What may pass between a session and one server, message by message (P4, P14)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import mcp_types as types

from tidegate.errors import Refused
from tidegate.gateway.bounds import CALL_BYTES_MAX, CALL_MESSAGES_MAX, CALL_VALUES_MAX, CutOffError
from tidegate.gateway.diagnostics import ServerDiagnostics

Check = Callable[[bool], None]
"""Raises Refused when bytes may not go out. True: for those that were settled when the call was allowed."""


class Guard:
    """What may pass on one wire, and at which moment.

    broken: done once the connection is of no more use; its result says why. aside: more on that, for the owner alone.
    """

    def __init__(self, aside: ServerDiagnostics | None = None) -> None:
        self.aside = aside
        self.broken: asyncio.Future[CutOffError | Refused] = asyncio.get_running_loop().create_future()
        self._check: Check | None = None
        self._during = asyncio.Event()
        self._awaited: set[int | str] = set()
        self._bytes = self._values = self._messages = 0

    @contextmanager
    def during(self, check: Check) -> Iterator[None]:
        """One call: until its end messages pass, as far as `check` lets them."""
        self._check = check
        self._bytes = self._values = self._messages = 0
        self._during.set()
        try:
            yield
        finally:
            self._during.clear()
            self._check = None

    async def wait(self) -> None:
        """Until there is a call."""
        await self._during.wait()

    def give_up(self, why: CutOffError | Refused) -> None:
        """The first reason counts."""
        if not self.broken.done():
            self.broken.set_result(why)

    def count(self, piece: bytes) -> None:
        """Bytes came in, and are not parsed yet. Raises: CutOffError when it is too much for one call."""
        self._bytes += len(piece)
        self._values += piece.count(b"{") + piece.count(b"[")
        if self._bytes > CALL_BYTES_MAX:
            self.cut_off(f"sent more than {CALL_BYTES_MAX} bytes")
        if self._values > CALL_VALUES_MAX:
            self.cut_off(f"sent more than {CALL_VALUES_MAX} lists and objects")

    def cut_off(self, reason: str) -> NoReturn:
        """The connection is of no more use. Raises: CutOffError."""
        error = CutOffError(reason)
        self.give_up(error)  # here, since a library may stand between this and whoever would hear of it
        raise error

    def may_send(self, message: types.JSONRPCMessage) -> bool:
        """P4: for every message to the server, at the moment at which it goes out."""
        settled = isinstance(message, types.JSONRPCRequest) or _method(message) == "notifications/initialized"
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
        """The same of a message as it stands on the wire, once more: where some time passes before it is there."""
        return self.may_send(types.jsonrpc_message_adapter.validate_json(body, by_name=False))

    def admits(self, message: types.JSONRPCMessage) -> bool:
        """P14: an answer that is awaited. All else is unsolicited. Raises: CutOffError when there is too much of it."""
        self._messages += 1
        if self._messages > CALL_MESSAGES_MAX:
            raise CutOffError(f"sent more than {CALL_MESSAGES_MAX} messages")
        if not isinstance(message, types.JSONRPCResponse | types.JSONRPCError) or message.id not in self._awaited:
            return False
        self._awaited.discard(message.id)
        return True


def _method(message: Any) -> str | None:
    return getattr(message, "method", None)
