"""HTTP to a server at a URL: its answers bounded, nothing followed elsewhere, nothing asked that no call asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import httpx2

from tidegate.config_servers import Server


def open_client(server: Server, count: Callable[[bytes], None]) -> httpx2.AsyncClient:
    """A client for one connection. count: told of each piece that comes in; raises when it is too much."""
    return httpx2.AsyncClient(
        headers={**server.headers, "Accept-Encoding": "identity"},
        timeout=httpx2.Timeout(server.timeout_seconds),
        follow_redirects=False,  # what was classified is this address
        transport=_Bounded(httpx2.AsyncHTTPTransport(), count),
    )


class _Bounded(httpx2.AsyncBaseTransport):
    """A transport that counts, and that sends messages alone.

    A GET would open a stream for what servers say unasked, which is dropped anyway (P14), and would be a message of
    its own. It is answered here, as by a server that offers none.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport, count: Callable[[bytes], None]) -> None:
        self._inner = inner
        self._count = count

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method != "POST":
            return httpx2.Response(405, request=request)
        response = await self._inner.handle_async_request(request)
        response.headers.pop("Content-Encoding", None)  # unpacked, it could be any size
        response.stream = _Counted(cast(httpx2.AsyncByteStream, response.stream), self._count)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


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
