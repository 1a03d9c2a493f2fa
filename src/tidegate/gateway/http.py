"""HTTP to a server at a URL: each outgoing message is checked, answers are bounded, and no redirect is followed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx2

from tidegate.config.servers import Server
from tidegate.gateway.diagnostics import why_not_reached
from tidegate.gateway.wire_guard import Guard

_REDIRECTED = "answered with a redirect, which is not followed: the owner can check its url in config.toml"


def open_client(server: Server, guard: Guard) -> httpx2.AsyncClient:
    """Return a client for one connection, behind the guard."""
    return httpx2.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(server.timeout_seconds),
        follow_redirects=False,
        transport=_Guarded(httpx2.AsyncHTTPTransport(), guard),
    )


class _Guarded(httpx2.AsyncBaseTransport):
    """A transport that sends only messages, each once and to one address, and counts the bytes of answers.

    A GET would open a stream for unrequested messages, which are dropped anyway (P14), and would itself be a message.
    It is answered here, as by a server without such a stream.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405, request=request)

        async def check(event: str, _: object) -> None:
            # P4: only after connecting, which takes as long as the server likes.
            if event.endswith(".send_request_headers.started") and not self._guard.may_send_now(request.content):
                raise _WithheldError

        request.extensions = {**request.extensions, "trace": check}
        try:
            response = await self._inner.handle_async_request(request)
        except _WithheldError:
            return httpx2.Response(202, request=request)  # as if accepted; the guard tells the waiting caller
        except httpx2.ConnectError as error:
            self._notice(why_not_reached(error))
            raise
        if response.is_error:
            self._notice(f"HTTP status {response.status_code}")
        if response.is_redirect:
            # P4, P14: this address is the classified one. Refused here, because the MCP library would follow with all
            # sent data, without asking the client.
            await response.aclose()
            self._guard.cut_off(_REDIRECTED)
        response.headers.pop("Content-Encoding", None)  # unpacked, it could have any size
        response.stream = _Counted(cast(httpx2.AsyncByteStream, response.stream), self._guard.count)
        return response

    def _notice(self, cause: str) -> None:
        if self._guard.diagnostics is not None:
            self._guard.diagnostics.notice(cause)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _WithheldError(Exception):
    """A message may no longer go out."""


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, inner: httpx2.AsyncByteStream, count: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._count = count

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._inner:
            self._count(piece)
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
