"""What the owner learns of a server that does not answer, when they ask it for its tools; and who does not."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tidegate.config.servers import Server
from tidegate.gateway.connections import look
from tidegate.gateway.diagnostics import CutOffError, ServerDiagnostics, why_not_reached, why_not_started
from tidegate.gateway.process import Process


def told(server: Server) -> CutOffError:
    with pytest.raises(CutOffError) as caught:
        asyncio.run(look(server))
    return caught.value


def runs(code: str) -> Server:
    return Server("x", command=(sys.executable, "-IS", "-c", code))


def test_the_last_words_of_a_server_that_dies_are_told() -> None:
    error = told(runs("import sys; sys.stderr.write('x' * 100_000 + '\\n' * 9); import no_such_module"))
    assert error.reason == "ended the connection"
    assert error.lines[-1] == "ModuleNotFoundError: No module named 'no_such_module'"
    assert len(error.lines[0]) == 300


def test_no_more_than_the_last_lines_are_kept() -> None:
    diagnostics = ServerDiagnostics()
    for number in range(10_000):
        diagnostics.add_output(b"\xff %d\n" % number)
    assert diagnostics.lines == [f"\ufffd {number}" for number in range(9_992, 10_000)]


def test_a_path_that_is_here_and_not_where_the_server_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server.py").write_text("")
    assert "it runs in an empty folder" in told(Server("x", command=(sys.executable, "server.py"))).reason


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    nothing = Server("x", command=("/nonexistent/program",))
    assert "(the program does not exist)" in told(nothing).reason
    assert "(its cwd does not exist)" in told(Server("x", command=("true",), cwd="/nonexistent")).reason
    (tmp_path / "file").write_text("")
    assert "(this user may not run the program)" in told(Server("x", command=(str(tmp_path / "file"),))).reason
    assert why_not_started(nothing, ValueError()) == "the program cannot be run"


class _Missing(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), _Missing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_url_that_leads_nowhere(site: HTTPServer) -> None:
    assert "(HTTP status 404)" in told(Server("x", url=f"http://127.0.0.1:{site.server_port}/wrong")).reason
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and listens to nobody
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/mcp"
        assert "(connection refused: no server listens there)" in told(Server("x", url=url)).reason


def test_each_reason_why_nobody_is_reached_has_words() -> None:
    outer = OSError()
    outer.__cause__ = ExceptionGroup("", [OSError(), socket.gaierror()])
    assert why_not_reached(outer) == "the host is unknown"
    assert why_not_reached(ssl.SSLError()) == "no TLS, or no valid certificate"
    assert why_not_reached(OSError()) == "no connection"


def test_p12_what_a_server_writes_is_dropped_where_the_owner_does_not_ask() -> None:
    async def act() -> None:
        process = await Process.start(runs("import sys; sys.stderr.write('canary')"))
        assert process._process.stderr is None
        await process.stop()

    asyncio.run(act())


def test_a_child_that_holds_standard_error_open_holds_up_nobody(tmp_path: Path) -> None:
    code = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(6)'], "
    error = told(runs(code + "stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True)"))
    assert error.reason == "ended the connection"
