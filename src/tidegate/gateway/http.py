"""HTTP to a server at a URL: each message checked as it goes out, answers bounded, and nothing followed anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx2

from tidegate.config.servers import Server
from tidegate.gateway.diagnostics import why_not_reached
from tidegate.gateway.guard import Guard

_REDIRECTED = "answered with a redirect, and none is followed: the owner looks at its url in config.toml"


def open_client(server: Server, guard: Guard) -> httpx2.AsyncClient:
    """Return a client for one connection, behind the guard."""
    return httpx2.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(server.timeout_seconds),
        follow_redirects=False,
        transport=_Guarded(httpx2.AsyncHTTPTransport(), guard),
    )


class _Guarded(httpx2.AsyncBaseTransport):
    """A transport that sends messages alone, each once and to one address, and counts what comes back.

    A GET would open a stream for messages that nobody asked for, which are dropped anyway (P14), and would be a message
    itself. It is answered here, as by a server that has no such stream.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405, request=request)

        async def check(event: str, _: object) -> None:
            # P4: once the server is there to take it, since connecting takes as long as the server likes.
            if event.endswith(".send_request_headers.started") and not self._guard.may_send_now(request.content):
                raise _WithheldError

        request.extensions = {**request.extensions, "trace": check}
        try:
            response = await self._inner.handle_async_request(request)
        except _WithheldError:
            return httpx2.Response(202, request=request)  # as if it had been taken; whoever waits is told by the guard
        except httpx2.ConnectError as error:
            self._notice(why_not_reached(error))
            raise
        if response.is_error:
            self._notice(f"HTTP status {response.status_code}")
        if response.is_redirect:
            # P4, P14: what was classified is this address. Here, since the MCP library follows by itself, with all that
            # was sent, and asks no client whether it should.
            await response.aclose()
            self._guard.cut_off(_REDIRECTED)
        response.headers.pop("Content-Encoding", None)  # unpacked, it could be any size
        response.stream = _Counted(cast(httpx2.AsyncByteStream, response.stream), self._guard.count)
        return response

    def _notice(self, cause: str) -> None:
        if self._guard.diagnostics is not None:
            self._guard.diagnostics.notice(cause)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _WithheldError(Exception):
    """A message may not go out any more."""


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
