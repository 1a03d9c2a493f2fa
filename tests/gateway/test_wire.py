"""The guard on a wire, message by message: what goes out, what comes in, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.message import SessionMessage

from tidegate.config.servers import Server
from tidegate.errors import Refused
from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.process import Process
from tidegate.gateway.wire import Incoming, Outgoing
from tidegate.gateway.wire_guard import Guard
from tidegate.policy.decisions import PolicyRule


def request(number: int, method: str = "tools/call") -> types.JSONRPCRequest:
    return types.JSONRPCRequest(jsonrpc="2.0", id=number, method=method)


def answer(number: int) -> types.JSONRPCResponse:
    return types.JSONRPCResponse(jsonrpc="2.0", id=number, result={})


def notice(method: str) -> types.JSONRPCNotification:
    return types.JSONRPCNotification(jsonrpc="2.0", method=method)


class Peer:
    """The far side of a wire: what it was sent, and what it is going to say."""

    def __init__(self, *says: types.JSONRPCMessage | Exception) -> None:
        self.sent: list[types.JSONRPCMessage] = []
        self.says = list(says)
        self.closed = 0

    async def send(self, item: SessionMessage, /) -> None:
        self.sent.append(item.message)

    async def receive(self) -> SessionMessage | Exception:
        if not self.says:
            raise anyio.EndOfStream
        said = self.says.pop(0)
        return said if isinstance(said, Exception) else SessionMessage(said)

    async def aclose(self) -> None:
        self.closed += 1


class Owner:
    """The policy: whether settled and later bytes may go out, at this moment."""

    def __init__(self, settled: bool = True, later: bool = True) -> None:
        self.settled = settled
        self.later = later

    def __call__(self, settled: bool) -> None:
        if not (self.settled if settled else self.later):
            raise Refused("no", rule=PolicyRule.P14)


def run(act: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(act, 30))


def test_p4_outside_a_call_nothing_goes_out() -> None:
    async def act() -> None:
        peer, guard = Peer(), Guard()
        outgoing = Outgoing(guard, peer)
        for message in (notice("notifications/initialized"), answer(1)):
            await outgoing.send(SessionMessage(message))
        with pytest.raises(anyio.ClosedResourceError):
            await outgoing.send(SessionMessage(request(1)))
        with guard.during(Owner()):
            await outgoing.send(SessionMessage(request(2)))
        with pytest.raises(anyio.ClosedResourceError):
            await outgoing.send(SessionMessage(request(3)))
        assert peer.sent == [request(2)]

    run(act())


def test_p4_later_bytes_that_may_not_go_are_dropped_and_the_call_goes_on() -> None:
    async def act() -> None:
        peer, guard = Peer(), Guard()
        outgoing = Outgoing(guard, peer)
        with guard.during(Owner(later=False)):
            await outgoing.send(SessionMessage(notice("notifications/cancelled")))
            await outgoing.send(SessionMessage(answer(9)))
            await outgoing.send(SessionMessage(notice("notifications/initialized")))
        assert peer.sent == [notice("notifications/initialized")]
        assert not guard.broken.done()

    run(act())


def test_p4_a_call_that_may_not_go_breaks_the_wire_for_good() -> None:
    async def act() -> None:
        peer, guard, owner = Peer(), Guard(), Owner(settled=False)
        outgoing = Outgoing(guard, peer)
        with guard.during(owner):
            with pytest.raises(anyio.ClosedResourceError):
                await outgoing.send(SessionMessage(request(1)))
            owner.settled = True
            with pytest.raises(anyio.ClosedResourceError):
                await outgoing.send(SessionMessage(request(2)))
        assert peer.sent == []
        assert isinstance(guard.broken.result(), Refused)

    run(act())


def test_p14_only_an_awaited_answer_comes_in_and_only_once() -> None:
    async def act() -> None:
        peer = Peer(answer(7), notice("notifications/message"), answer(1), ValueError(), answer(1), answer(2))
        guard = Guard()
        outgoing = Outgoing(guard, peer)
        incoming = Incoming(guard, peer, outgoing)
        with guard.during(Owner()):
            for number in (1, 2):
                await outgoing.send(SessionMessage(request(number)))
            got = [item.message async for item in incoming if isinstance(item, SessionMessage)]
        assert got == [answer(1), answer(2)]
        why = guard.broken.result()
        assert isinstance(why, CutOffError)
        assert why.reason == "ended the connection"

    run(act())


@pytest.mark.parametrize(("later", "count"), [(True, 1), (False, 0)])
def test_p14_what_a_server_asks_is_denied_where_even_that_may_go_out(later: bool, count: int) -> None:
    async def act() -> None:
        peer = Peer(request(5, "sampling/createMessage"))
        guard = Guard()
        incoming = Incoming(guard, peer, Outgoing(guard, peer))
        with guard.during(Owner(later=later)), pytest.raises(anyio.EndOfStream):
            await incoming.receive()
        assert len(peer.sent) == count

    run(act())


def test_nothing_is_read_outside_a_call() -> None:
    async def act() -> None:
        peer, guard = Peer(answer(1)), Guard()
        incoming = Incoming(guard, peer, Outgoing(guard, peer))
        task = asyncio.ensure_future(incoming.receive())
        for _ in range(5):
            await asyncio.sleep(0)
        assert peer.says == [answer(1)]
        with guard.during(Owner()), pytest.raises(anyio.EndOfStream):
            await task
        assert peer.says == []

    run(act())


def test_both_streams_close_what_is_under_them() -> None:
    async def act() -> None:
        peer, guard = Peer(), Guard()
        outgoing = Outgoing(guard, peer)
        async with outgoing, Incoming(guard, peer, outgoing):
            pass
        assert peer.closed == 2

    run(act())


def test_the_first_reason_for_which_a_wire_is_given_up_counts() -> None:
    async def act() -> None:
        guard = Guard()
        guard.give_up(CutOffError("first"))
        guard.give_up(CutOffError("second"))
        assert str(guard.broken.result()) == "first"

    run(act())


def test_a_start_that_is_cancelled_leaves_no_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(asyncio, "create_subprocess_exec", cancelled)

    async def act() -> None:
        with pytest.raises(asyncio.CancelledError):
            await Process.start(Server("x", command=("x",)))

    run(act())
    assert list(tmp_path.iterdir()) == []


def test_a_process_whose_pipe_breaks_has_nothing_more_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        process = await Process.start(Server("x", command=("cat",)))
        process._incoming.set_exception(ConnectionResetError())
        assert await process.read() == b""
        await process.stop()

    run(act())
