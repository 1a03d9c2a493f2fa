"""A server at a URL, over real HTTP: what is sent to it and when, and what of its answers is borne."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
from tests.gateway.conftest import ECHO
from tests.gateway.hostile_marks import CANARY

import tidegate
from tidegate.config.servers import Server
from tidegate.errors import Refused
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.replies import Result
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification
from tidegate.session import Session
from tidegate.store import Store

T = TypeVar("T")
TOOL = {
    "name": ECHO.name,
    "description": ECHO.description,
    "inputSchema": ECHO.input_schema,
    "annotations": ECHO.annotations,
}


class Peer(ThreadingHTTPServer):
    """A small MCP server over HTTP. how: what it does at a call, and `meanwhile` before it answers.

    status, location: of a redirect; where it leads to, every call is answered. seen: every request, with its headers.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.how = "behaves"
        self.status, self.location = 307, "/elsewhere"
        self.meanwhile: Callable[[], object] = lambda: None
        self.replied = threading.Event()
        self.seen: list[tuple[str, str, dict[str, str], Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"

    @property
    def methods(self) -> list[str]:
        return [body.get("method", "reply") if isinstance(body, dict) else "" for _, _, _, body in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Peer

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.command, self.path, dict(self.headers), None))
        self._send(b"", 405)

    do_DELETE = do_GET  # noqa: N815

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.command, self.path, dict(self.headers), body))
        match body.get("method"):
            case "server/discover" if self.server.how.startswith("probed:"):
                self._probed(self.server.how.partition(":")[2])
            case "initialize":
                version = body["params"]["protocolVersion"]
                info = {"name": "peer", "version": "1"}
                self._answer(body, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "tools/list":
                self._answer(body, {"tools": [TOOL]})
            case "tools/call":
                self._call(body)
            case _ if "id" in body and "method" in body:
                self._send(
                    json.dumps({"jsonrpc": "2.0", "id": body["id"], "error": {"code": -32601, "message": ""}}).encode()
                )
            case _:
                self._send(b"", 202)
                if "method" not in body:
                    self.server.replied.set()

    def _probed(self, how: str) -> None:
        if how.isdecimal():
            self._send(CANARY.encode(), int(how))
        elif how == "closes":
            self.close_connection = True
        else:
            self._send(how.encode(), **{"Content-Type": "text/html" if how[0] == "<" else "application/json"})

    def _call(self, body: dict[str, Any]) -> None:
        result = {"content": [{"type": "text", "text": body["params"]["arguments"].get("text", "")}]}
        match self.server.how if self.path == "/mcp" else "behaves":
            case "fails":
                self._send(CANARY.encode(), 500)
            case "redirects":
                self.server.meanwhile()
                self._send(b"", self.server.status, Location=self.server.location)
            case "bomb":
                self._send(gzip.compress(b" " * 50_000_000), **{"Content-Encoding": "gzip"})
            case "endless":
                self._stream(lambda: b" " * 65_536)
            case "many-values":
                self._stream(lambda: b"[{}" + b",{}" * 20_000)
            case "floods-events":
                note = {
                    "jsonrpc": "2.0",
                    "method": "notifications/message",
                    "params": {"level": "info", "data": CANARY},
                }
                self._stream(lambda: f"data: {json.dumps(note)}\n\n".encode(), "text/event-stream")
            case "unreadable":
                self._send(self._unreadable(body))
            case "unreadable-event":
                self._send(b"data: " + self._unreadable(body) + b"\n\n", **{"Content-Type": "text/event-stream"})
            case "asks":
                self._ask(body, result)
            case _:
                self._answer(body, result)

    def _unreadable(self, body: dict[str, Any]) -> bytes:
        result = {"content": [{"type": "text", "text": f"\ud800 {CANARY}"}]}
        return json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}).encode()

    def _ask(self, body: dict[str, Any], result: dict[str, Any]) -> None:
        """Asks for something, waits for the reply, and answers then."""
        ask = {"jsonrpc": "2.0", "id": 9, "method": "sampling/createMessage", "params": {}}
        answer = {"jsonrpc": "2.0", "id": body["id"], "result": result}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(f"data: {json.dumps(ask)}\n\n".encode())
        self.server.replied.wait(10)
        self.wfile.write(f"data: {json.dumps(answer)}\n\n".encode())

    def _answer(self, body: dict[str, Any], result: dict[str, Any]) -> None:
        self._send(json.dumps({"jsonrpc": "2.0", "id": body["id"], "result": result}).encode())

    def _send(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Mcp-Session-Id": "s1", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, piece: Callable[[], bytes], kind: str = "application/json") -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Connection", "close")
        self.end_headers()
        try:
            while True:
                self.wfile.write(piece())
        except OSError:
            self.close_connection = True


@pytest.fixture
def peer() -> Iterator[Peer]:
    with Peer() as opened:
        thread = threading.Thread(target=opened.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield opened
        opened.shutdown()
        thread.join()


@pytest.fixture
def server(peer: Peer) -> Server:
    public = Classification(Level.PUBLIC, Level.PUBLIC)
    return Server("hostile", url=peer.url, headers={"Authorization": "Bearer x"}, classification=public)


@pytest.fixture
def elsewhere(home: Path) -> Iterator[Store]:
    """The same home, as another process has it open."""
    with tidegate.open(home) as opened:
        yield opened


@pytest.fixture
def echo(running: Callable[..., Result], server: Server, peer: Peer) -> Callable[..., Result]:
    def call(how: str, seconds: int = 20) -> Result:
        peer.how = how
        chosen = replace(server, timeout_seconds=seconds)
        return running(chosen, lambda gateway: gateway.call("hostile__echo", {"text": "hello"}))

    return call


def test_a_tool_is_called_over_http_with_the_headers_that_the_owner_set(
    echo: Callable[..., Result], peer: Peer
) -> None:
    assert "\nhello\n" in echo("behaves").text
    assert {headers["Authorization"] for _, _, headers, _ in peer.seen} == {"Bearer x"}


def test_p4_nothing_is_sent_but_what_a_call_needs(running: Callable[..., None], server: Server, peer: Peer) -> None:
    async def act(gateway: Gateway) -> None:
        for _ in range(2):
            await gateway.call("hostile__echo", {"text": "hello"})

    running(server, act)
    assert {method for method, _, _, _ in peer.seen} == {"POST"}, "no stream is opened, and no end is told"
    assert peer.methods[-4:] == ["tools/list", "tools/call"] * 2


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("endless", "sent more than 16777216 bytes"),
        ("many-values", "sent more than 200000 lists and objects"),
        ("floods-events", "sent more than"),
    ],
)
def test_a_server_that_floods_over_http_is_cut_off(echo: Callable[..., Result], how: str, reason: str) -> None:
    assert echo(how).text.startswith(f"hostile__echo: no result: the server {reason}")


@pytest.mark.parametrize("how", ["bomb", "fails"])
def test_what_is_no_answer_over_http_is_an_error_without_its_text(echo: Callable[..., Result], how: str) -> None:
    result = echo(how, 3)
    assert result.failed
    assert CANARY not in result.text


@pytest.mark.parametrize("status", [301, 303, 304, 307, 308])
@pytest.mark.parametrize("where", ["/elsewhere", "elsewhere?a=b", "http://localhost:{port}/elsewhere"])
def test_p14_no_redirect_is_followed_not_even_at_the_same_server(
    echo: Callable[..., Result], peer: Peer, status: int, where: str
) -> None:
    peer.status, peer.location = status, where.format(port=peer.server_port)
    result = echo("redirects")
    assert result.text.startswith(
        "hostile__echo: no result: the server answered with a redirect, which is not followed"
    )
    assert result.failed
    assert peer.methods.count("tools/call") == 1
    assert {path for _, path, _, _ in peer.seen} == {"/mcp"}


@pytest.mark.parametrize("status", [307, 308])
def test_p4_after_a_raise_a_redirect_brings_nothing_to_a_lower_url(
    echo: Callable[..., Result], elsewhere: Store, session: Session, peer: Peer, status: int
) -> None:
    peer.status, peer.meanwhile = status, lambda: elsewhere.sessions.raise_taint(session.id, Level.RESTRICTED)
    assert echo("redirects").failed
    assert peer.methods.count("tools/call") == 1


@pytest.mark.parametrize("status", [307, 308])
def test_p7_after_a_reset_a_redirect_brings_nothing_to_anybody(
    echo: Callable[..., Result], elsewhere: Store, session: Session, peer: Peer, status: int
) -> None:
    peer.status, peer.meanwhile = status, lambda: elsewhere.sessions.reset(session.id)
    with pytest.raises(Refused):
        echo("redirects")
    assert peer.methods.count("tools/call") == 1


@pytest.mark.parametrize("reset", [False, True])
def test_p4_a_message_is_checked_again_once_the_server_is_there_to_take_it(
    echo: Callable[..., Result],
    elsewhere: Store,
    session: Session,
    peer: Peer,
    monkeypatch: pytest.MonkeyPatch,
    reset: bool,
) -> None:
    """Connecting takes as long as the server likes."""
    connected = httpx2.AsyncHTTPTransport.handle_async_request

    async def slowly(transport: httpx2.AsyncHTTPTransport, request: httpx2.Request) -> httpx2.Response:
        if b"tools/call" in request.content:
            sessions = elsewhere.sessions
            sessions.reset(session.id) if reset else sessions.raise_taint(session.id, Level.RESTRICTED)
        return await connected(transport, request)

    monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", slowly)
    with pytest.raises(Refused):
        echo("behaves")
    assert "tools/call" not in peer.methods


def test_p14_what_a_server_asks_for_over_http_is_denied(echo: Callable[..., Result], peer: Peer) -> None:
    assert "\nhello\n" in echo("asks").text
    replies = [body for _, _, _, body in peer.seen if "error" in body]
    assert replies == [{"jsonrpc": "2.0", "id": 9, "error": {"code": -32601, "message": "not offered"}}]


def test_p4_a_session_that_was_raised_reaches_no_lower_url(
    running: Callable[..., None], server: Server, session: Session, peer: Peer
) -> None:
    session.raise_taint(Level.INTERNAL)

    async def act(gateway: Gateway) -> None:
        with pytest.raises(Refused):
            await gateway.call("hostile__echo", {"text": CANARY})

    running(server, act)
    assert peer.seen == []


def test_a_url_where_nobody_listens_is_reported(echo: Callable[..., Result], peer: Peer, server: Server) -> None:
    peer.server_close()
    peer.socket.close()
    assert "no result: the server" in echo("behaves", 3).text


@pytest.mark.parametrize(
    "how", ["400", "401", "404", "405", "406", "422", "500", "503", "closes", "<html>", "{}", "[]", "nonsense"]
)
def test_an_older_server_is_found_whatever_it_answers_at_the_probe(echo: Callable[..., Result], how: str) -> None:
    assert "hello" in echo(f"probed:{how}", 4).text


@pytest.mark.parametrize("how", ["unreadable", "unreadable-event"])
def test_an_answer_that_nobody_can_read_ends_the_wait_and_no_word_of_it_arrives(
    echo: Callable[..., Result], how: str
) -> None:
    result = echo(how)
    assert result.text == "hostile__echo: no result: the server sent an answer that breaks the protocol."
