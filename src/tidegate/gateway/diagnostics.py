"""Why a server does not answer, for the owner who asks it for its tools, and for nobody else (P12)."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator

from tidegate.config.servers import Server
from tidegate.records.excerpt import cut

_BYTES_MAX = 8 * 1024
_LINES_MAX = 8
_LINE_CHARS_MAX = 300


class ServerDiagnostics:
    """What was noticed of one server.

    cause: in our own words; "" when nothing is known. The lines are the server's, to be escaped where they are shown.
    """

    def __init__(self) -> None:
        self.cause = ""
        self._written = b""

    def notice(self, cause: str) -> None:
        """The first cause counts."""
        self.cause = self.cause or cause

    def wrote(self, piece: bytes) -> None:
        """The server wrote to its standard error. Only the end is kept."""
        self._written = (self._written + piece)[-_BYTES_MAX:]

    @property
    def lines(self) -> list[str]:
        """The last lines of it, cut where they are long."""
        lines = self._written.decode("utf-8", "replace").splitlines()
        return [cut(line, _LINE_CHARS_MAX) for line in lines if line.strip()][-_LINES_MAX:]


def why_not_started(server: Server, error: Exception) -> str:
    """Why a program could not be run, without its path."""
    if server.cwd is not None and not os.path.isdir(os.path.expanduser(server.cwd)):
        return "there is no such folder as its cwd"
    if isinstance(error, FileNotFoundError):
        return "there is no such program"
    if isinstance(error, PermissionError):
        return "this user may not run the program"
    return "the program cannot be run"


def misplaced(server: Server) -> bool:
    """Whether a path in the command is one here, and none in the empty folder that the server runs in."""
    return server.cwd is None and any(
        not part.startswith("-") and not os.path.isabs(part) and os.path.isfile(part) for part in server.command
    )


def why_not_reached(error: BaseException) -> str:
    """Why nobody could be reached at a URL."""
    for each in _causes(error):
        if isinstance(each, ConnectionRefusedError):
            return "connection refused: nobody listens there"
        if isinstance(each, socket.gaierror):
            return "there is no such host"
        if isinstance(each, ssl.SSLError):
            return "no TLS, or a certificate that is not accepted"
    return "no connection"


def _causes(error: BaseException) -> Iterator[BaseException]:
    yield error
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,):
        if each is not None:
            yield from _causes(each)
