"""Why a server is cut off or does not answer: a short reason for all, the details for the owner only (P12)."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterator, Sequence

from tidegate.config.servers import Server

_BYTES_MAX = 8 * 1024
_LINES_MAX = 8
_LINE_CHARS_MAX = 300


class CutOffError(Exception):
    """The connection to a server is no longer usable. Never leaves the gateway.

    reason: continues "the server …", in our own words. lines: the server's standard error, if the owner asked for it
    (P12). misunderstood: the server was there, and may only not have understood us.
    """

    def __init__(self, reason: str, lines: Sequence[str] = (), *, misunderstood: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lines = list(lines)
        self.misunderstood = misunderstood


def unreadable() -> CutOffError:
    """Return the error for an answer that cannot be read."""
    return CutOffError("sent an answer that breaks the protocol", misunderstood=True)


class ServerDiagnostics:
    """Details of one server's failure, for the owner who asks for its tools.

    cause: in our own words; "" when unknown. lines: the server's own words, to be escaped where they are shown.
    """

    def __init__(self) -> None:
        self.cause = ""
        self._output = b""

    def notice(self, cause: str) -> None:
        """Keep the first cause; later ones follow from it."""
        self.cause = self.cause or cause

    def begin_again(self) -> None:
        """Forget the output: the server is started once more."""
        self._output = b""

    def add_output(self, piece: bytes) -> None:
        """Add output from the server's standard error. Only the end is kept."""
        self._output = (self._output + piece)[-_BYTES_MAX:]

    @property
    def lines(self) -> list[str]:
        """Return the last lines of the output; long ones are cut."""
        lines = self._output.decode("utf-8", "replace").splitlines()
        return [line[:_LINE_CHARS_MAX] for line in lines if line.strip()][-_LINES_MAX:]


def why_not_started(server: Server, error: Exception) -> str:
    """Return why a program could not be run, without its path."""
    if server.cwd is not None and not os.path.isdir(os.path.expanduser(server.cwd)):
        return "its cwd does not exist"
    if isinstance(error, FileNotFoundError):
        return "the program does not exist"
    if isinstance(error, PermissionError):
        return "this user may not run the program"
    return "the program cannot be run"


def misplaced(server: Server) -> bool:
    """Return whether the command has a path that exists here, but not in the empty folder where the server runs."""
    return server.cwd is None and any(
        not part.startswith("-") and not os.path.isabs(part) and os.path.isfile(part) for part in server.command
    )


def why_not_reached(error: BaseException) -> str:
    """Return why no server could be reached at a URL."""
    for each in _causes(error):
        if isinstance(each, ConnectionRefusedError):
            return "connection refused: no server listens there"
        if isinstance(each, socket.gaierror):
            return "the host is unknown"
        if isinstance(each, ssl.SSLError):
            return "no TLS, or no valid certificate"
    return "no connection"


def _causes(error: BaseException) -> Iterator[BaseException]:
    yield error
    for each in error.exceptions if isinstance(error, BaseExceptionGroup) else (error.__cause__ or error.__context__,):
        if each is not None:
            yield from _causes(each)
