"""The protocol, line by line and through the SDK's own client: every request is answered, whatever came before it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest
from mcp import Client
from tests.server.mcp_peer import INITIALIZE, PATIENCE_SECONDS, Peer, serving

from tidegate.core.guidance import GUIDANCE
from tidegate.errors import INTERNAL_ERROR
from tidegate.policy.levels import Level
from tidegate.server import protocol
from tidegate.server.served_session import ServedSession
from tidegate.server.tool_calls import MemoryTools
from tidegate.session import Session
from tidegate.store import Store
from tidegate.tools import TOOLS

PING = b'{"jsonrpc":"2.0","id":"good","method":"ping"}'
MODERN = {
    "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
}


@pytest.fixture
def peer(session: Session) -> Iterator[Peer]:
    with serving(session, instructions=GUIDANCE) as peer:
        yield peer.greet()


def answer_to_good(peer: Peer) -> dict[str, Any]:
    """The answer to a good request; none may be left over from before."""
    peer.send_line(PING + b"\n")
    answer = peer.receive()
    assert answer == {"jsonrpc": "2.0", "id": "good", "result": {}}
    return answer


# Lines


@pytest.mark.parametrize(
    "line",
    [
        b"not json\n",
        b"{\n",
        b'{"jsonrpc":"2.0","id":1\n',
        b"\xff\xfe\xfa\n",
        b'{"jsonrpc":"2.0","id":1,"method":"p\xff"}\n',
        PING + PING + b"\n",
        b"[" * 10_000 + b"]" * 10_000 + b"\n",
        b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b"\n",
        b"Content-Length: 52\r\n",
    ],
    ids=["words", "brace", "cut", "bytes", "method", "two objects", "deep lists", "deep objects", "header"],
)
def test_r04_what_is_not_json_gets_a_parse_error_and_the_next_request_its_answer(peer: Peer, line: bytes) -> None:
    peer.send_line(line)
    answer = peer.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32700)
    assert answer_to_good(peer)


@pytest.mark.parametrize(
    ("line", "answered_id"),
    [
        (b"[]", None),
        (b"[" + PING + b"]", None),
        (b"null", None),
        (b"{}", None),
        (b'{"id": 7}', 7),
        (b'{"jsonrpc": "1.0", "id": 7, "method": "ping"}', 7),
        (b'{"jsonrpc": "2.0", "id": 7, "method": 5}', 7),
        (b'{"jsonrpc": "2.0", "id": "x", "method": "ping", "params": []}', "x"),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', None),
    ],
)
def test_r04_json_that_is_no_request_gets_an_error_and_the_next_request_its_answer(
    peer: Peer, line: bytes, answered_id: object
) -> None:
    peer.send_line(line + b"\n")
    answer = peer.receive()
    assert (answer["id"], answer["error"]["code"]) == (answered_id, -32600)
    assert answer_to_good(peer)


@pytest.mark.parametrize("line", [b"\n", b"   \n", b"\r\n", b"\xef\xbb\xbf\n", b"\t\n\n\n"])
def test_r04_blank_lines_are_skipped(peer: Peer, line: bytes) -> None:
    peer.send_line(line)
    assert answer_to_good(peer)


@pytest.mark.parametrize("line", [b"\xef\xbb\xbf" + PING + b"\n", PING + b"\r\n", b"  " + PING + b"  \n"])
def test_r04_a_request_is_answered_however_its_line_is_dressed(peer: Peer, line: bytes) -> None:
    peer.send_line(line)
    assert peer.receive()["id"] == "good"


def test_r04_of_duplicate_keys_the_last_counts(peer: Peer) -> None:
    peer.send_line(b'{"jsonrpc":"2.0","id":1,"id":"good","method":"nope","method":"ping"}\n')
    assert peer.receive() == {"jsonrpc": "2.0", "id": "good", "result": {}}


@pytest.mark.parametrize(
    "message", ['"id":99,"result":{}', '"id":99,"error":{"code":1,"message":"x"}', '"method":"notifications/x"']
)
def test_answers_and_notifications_that_nobody_asked_for_are_skipped(peer: Peer, message: str) -> None:
    peer.send_line(f'{{"jsonrpc":"2.0",{message}}}\n'.encode())
    assert answer_to_good(peer)


def test_an_unknown_method_is_answered(peer: Peer) -> None:
    assert peer.ask("tools/raise", {})["error"]["code"] == -32601
    assert answer_to_good(peer)


def test_a_method_with_a_lone_surrogate_is_answered(peer: Peer) -> None:
    assert peer.ask("tools/\udcff")["error"]["code"] in (-32600, -32601)
    assert answer_to_good(peer)


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": "memory_get", "arguments": []}, {"name": None}])
def test_a_call_that_is_no_call_is_answered(peer: Peer, params: dict[str, Any]) -> None:
    assert peer.ask("tools/call", params)["error"]["code"] == -32602
    assert answer_to_good(peer)


# Lone surrogates in what a model sends


@pytest.mark.parametrize(
    ("name", "arguments", "argument"),
    [
        ("memory_save", {"key": "k", "content": "x\ud83d y"}, "content"),
        ("memory_save", {"key": "k\udc00", "content": "x"}, "key"),
        ("memory_save", {"key": "k", "content": "x", "tags": ["\udc00"]}, "tags"),
        ("memory_search", {"query": "\ud83d"}, "query"),
        ("memory_list", {"tag": "\ud83d"}, "tag"),
        ("memory_list", {"cursor": "\ud83d"}, "cursor"),
        ("memory_get", {"key": "\udfff"}, "key"),
        ("memory_delete", {"key": "\udfff"}, "key"),
    ],
)
def test_u07_lone_surrogates_are_refused_by_argument(
    peer: Peer, name: str, arguments: dict[str, Any], argument: str
) -> None:
    error = peer.call(name, **arguments)["error"]
    assert (error["code"], error["argument"]) == ("INVALID_ARGUMENT", argument)
    assert peer.call("memory_list")["memories"] == []


@pytest.mark.parametrize("name", ["nope", "nope\udcff", "", "memory_save ", "x" * 100_000, "memory_save\0"])
def test_u08_an_unknown_tool_is_refused_in_valid_utf_8(peer: Peer, name: str) -> None:
    answer = peer.ask("tools/call", {"name": name, "arguments": {}})
    assert answer["result"]["isError"] is True
    assert answer["result"]["structuredContent"]["error"]["code"] == "REFUSED"
    assert answer_to_good(peer)


def test_an_unknown_argument_with_a_lone_surrogate_is_refused_in_valid_utf_8(peer: Peer) -> None:
    assert peer.call("memory_get", **{"key": "k", "x\udcff": "y"})["error"]["code"] == "INVALID_ARGUMENT"
    assert answer_to_good(peer)


def test_numbers_that_json_does_not_have_are_refused_by_argument(peer: Peer) -> None:
    for number in (float("nan"), float("inf"), 10**400):
        error = peer.call("memory_search", query="x", max_results=number)["error"]
        assert error["argument"] == "max_results"


# Handshake


@pytest.mark.parametrize(
    ("asked", "spoken"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),  # a revision without a handshake: the newest with one is offered
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_r11_the_protocol_revision_is_negotiated_and_the_tools_work(session: Session, asked: str, spoken: str) -> None:
    with serving(session) as peer:
        assert peer.ask("initialize", {**INITIALIZE, "protocolVersion": asked})["result"]["protocolVersion"] == spoken
        peer.notify("notifications/initialized")
        assert len(peer.ask("tools/list")["result"]["tools"]) == 5
        result = peer.ask("tools/call", {"name": "memory_save", "arguments": {"key": "k", "content": "x"}})["result"]
        assert json.loads(result["content"][0]["text"])["saved"] is True


def test_r11_the_newest_revision_works_without_a_handshake(session: Session) -> None:
    with serving(session, instructions=GUIDANCE) as peer:
        assert peer.ask("server/discover", MODERN)["result"]["instructions"] == GUIDANCE
        listed = peer.ask("tools/list", MODERN)["result"]
        assert len(listed["tools"]) == 5
        assert (listed["ttlMs"], listed["cacheScope"]) == (3_600_000, "public")
        assert len(json.dumps(listed)) <= 6_000  # every model pays for it in every conversation
        call = {**MODERN, "name": "memory_save", "arguments": {"key": "k", "content": "x"}}
        assert peer.ask("tools/call", call)["result"]["structuredContent"]["saved"] is True


def test_r11_a_missing_protocol_revision_is_an_error_and_a_good_handshake_still_works(session: Session) -> None:
    with serving(session) as peer:
        assert peer.ask("initialize", {"capabilities": {}, "clientInfo": {}})["error"]["code"] == -32602
        assert peer.greet()


def test_r11_tools_are_not_listed_before_the_handshake_and_are_after_it(session: Session) -> None:
    with serving(session) as peer:
        assert "error" in peer.ask("tools/list")
        assert len(peer.greet().ask("tools/list")["result"]["tools"]) == 5


def test_only_tools_one_resource_and_one_prompt_are_offered(session: Session) -> None:
    with serving(session) as peer:
        result = peer.ask("initialize", INITIALIZE)["result"]
        assert result["capabilities"] == {
            "tools": {"listChanged": False},
            "resources": {"listChanged": False, "subscribe": False},
            "prompts": {"listChanged": False},
        }
        assert result["serverInfo"]["name"] == "tidegate"


# Many calls at once


def test_c01_calls_sent_without_waiting_are_each_answered_once_and_take_effect_in_their_order(peer: Peer) -> None:
    calls = [
        *(("memory_save", {"key": f"k{n:02}", "content": "tea"}, "saved") for n in range(50)),
        *(("memory_delete", {"key": f"k{n:02}"}, "deleted") for n in range(20)),
        *(("memory_search", {"query": "tea"}, "results") for _ in range(20)),
    ]
    sent = {peer.send("tools/call", {"name": name, "arguments": given}): field for name, given, field in calls}
    answers = [peer.receive() for _ in sent]
    assert sorted(answer["id"] for answer in answers) == sorted(sent)
    assert all(sent[answer["id"]] in answer["result"]["structuredContent"] for answer in answers)
    left = peer.call("memory_list")["memories"]
    assert [memory["key"] for memory in left] == [f"k{n:02}" for n in range(20, 50)]


def test_what_was_sent_before_the_input_ended_is_answered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    ended, call_tool = threading.Event(), session.call_tool

    def call_once_ended(*call: Any) -> dict[str, object]:
        ended.wait(PATIENCE_SECONDS)
        return call_tool(*call)

    monkeypatch.setattr(session, "call_tool", call_once_ended)
    with serving(session, at_end=ended.set) as peer:
        peer.greet()
        for _ in range(50):
            peer.send_line(b'{"id": "bad"}\n')
        for n in range(50):
            peer.send("tools/call", {"name": "memory_save", "arguments": {"key": f"k{n}", "content": "x"}})
        peer.send_line(b'{"jsonrpc":"2.0","id":"last","method":"ping"}')  # its line does not end, either
        peer.close_input()
        answers = peer.receive_rest()
    assert len(answers) == 101
    assert all(("error" if answer["id"] == "bad" else "result") in answer for answer in answers)


def test_more_requests_than_are_read_ahead_are_all_answered(peer: Peer) -> None:
    count = protocol.READ_AHEAD_MAX + 100
    sent = [peer.send("ping") for _ in range(count)]
    assert sorted(peer.receive()["id"] for _ in range(count)) == sent


def test_no_more_is_read_ahead_than_fits_in_memory(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "READ_AHEAD_BYTES_MAX", 1_000_000)
    started, go_on = threading.Event(), threading.Event()
    held: list[int] = []
    take = protocol._Room.take

    def call_slowly(name: str, arguments: object = None) -> dict[str, Any]:
        started.set()
        assert go_on.wait(PATIENCE_SECONDS)
        return {}

    def take_and_tell(self: protocol._Room, size: int) -> None:
        take(self, size)
        held.append(self._bytes)

    monkeypatch.setattr(protocol._Room, "take", take_and_tell)
    monkeypatch.setattr(session, "call_tool", call_slowly)
    with serving(session) as peer:
        peer.greet()
        sizes = (10, 600_000, 300_000, 300_000, 2_000_000, 10)  # the last but one is read when it is alone
        calls = [{"name": "memory_get", "arguments": {"key": "x" * size}} for size in sizes]
        sender = threading.Thread(target=lambda: [peer.send("tools/call", call) for call in calls])
        sender.start()  # it waits until there is room
        assert started.wait(PATIENCE_SECONDS)
        go_on.set()
        assert len([peer.receive() for _ in sizes]) == len(sizes)
        sender.join()
    assert max(held) > 2_000_000
    assert sorted(held)[-2] <= 1_000_000


def test_a_cancelled_request_is_not_waited_for_at_the_end(session: Session) -> None:
    with serving(session) as peer:
        peer.greet()
        for _ in range(20):
            sent = peer.send("tools/call", {"name": "memory_list", "arguments": {}})
            peer.notify("notifications/cancelled", {"requestId": sent})
        assert answer_after_cancels(peer)


def answer_after_cancels(peer: Peer) -> dict[str, Any]:
    """The answer to a good request; cancelled ones may or may not have been answered before it."""
    peer.send_line(PING + b"\n")
    return next(answer for answer in iter(peer.receive, {}) if answer["id"] == "good")


# Contents


@pytest.mark.parametrize(
    "content",
    ["\u2713 \u5b8c\u6210 \U0001f680", "\ufeffa\r\nb\rc\n\u2028d\x85e\u2029", "\x1b[31m\x7f", "\u202eabc", "\n"],
)
def test_u17_contents_come_back_exactly(peer: Peer, content: str) -> None:
    peer.call("memory_save", key="k", content=content)
    assert peer.call("memory_get", key="k")["content"] == content


def test_u17_no_character_of_a_content_ends_a_line_for_any_reader(peer: Peer) -> None:
    peer.call("memory_save", key="k", content="a\u2028b\u2029c\x85d\x0be\x0cf\x1eg")
    peer.send("tools/call", {"name": "memory_get", "arguments": {"key": "k"}})
    assert len(peer.receive_line().decode().splitlines()) == 1


def test_r12_the_largest_content_is_answered_whole(peer: Peer) -> None:
    content = "\u00e9" * (512 * 1024)
    assert peer.call("memory_save", key="k", content=content)["saved"] is True
    peer.send("tools/call", {"name": "memory_get", "arguments": {"key": "k"}})
    line = peer.receive_line()
    assert json.loads(line)["result"]["structuredContent"]["content"] == content
    assert len(line) < 2.1 * 1024 * 1024  # the result, as structured content and as text


def test_a_content_over_the_limit_is_refused_with_both_numbers(peer: Peer) -> None:
    error = peer.call("memory_save", key="k", content="x" * (1024 * 1024 + 1))["error"]
    assert (error["code"], error["limit"], error["actual"]) == ("LIMIT", 1024 * 1024, 1024 * 1024 + 1)


# Through the SDK's client


def through_client(session: Session, use: Callable[[Client], Awaitable[None]], *, instructions: str = "") -> None:
    async def run() -> None:
        async with Client(
            protocol.build(MemoryTools(ServedSession(lambda: session)), instructions=instructions)
        ) as client:
            await use(client)

    asyncio.run(run())


def test_the_tools_are_listed_as_they_are_defined(session: Session) -> None:
    async def use(client: Client) -> None:
        for shown, tool in zip((await client.list_tools()).tools, TOOLS.values(), strict=True):
            assert (shown.name, shown.title, shown.description) == (tool.name, tool.title, tool.description)
            assert (shown.input_schema, shown.output_schema) == (tool.input_schema, tool.output_schema)
            assert shown.annotations
            assert shown.annotations.model_dump(by_alias=True, exclude_none=True) == tool.annotations.to_dict()

    through_client(session, use)


def test_the_tool_list_is_the_same_at_every_taint(store: Store) -> None:
    """P5."""
    lists = []

    async def use(client: Client) -> None:
        lists.append((await client.list_tools()).model_dump_json())

    for level in Level:
        through_client(store.session("assistant", str(level), level), use)
    assert len(set(lists)) == 1


def test_the_instructions_reach_the_client(session: Session) -> None:
    async def use(client: Client) -> None:
        assert client.instructions == "Be kind."

    through_client(session, use, instructions="Be kind.")


def test_results_come_as_structured_content_and_as_the_same_text(session: Session) -> None:
    async def use(client: Client) -> None:
        result = await client.call_tool("memory_save", {"key": "k", "content": "x"})
        assert not result.is_error
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]

    through_client(session, use)


def test_errors_come_as_tool_errors_in_both_forms(session: Session) -> None:
    async def use(client: Client) -> None:
        result = await client.call_tool("memory_delete", {"key": "k"})
        assert result.is_error
        assert result.structured_content
        assert result.structured_content["error"]["code"] == "NOT_FOUND"
        assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]

    through_client(session, use)


def test_a_fault_of_ours_is_answered_without_a_word_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P12, P17."""

    def fail(*_: object) -> None:
        raise RuntimeError("SELECT secret FROM /home/x")

    monkeypatch.setattr(session, "call_tool", fail)
    shown = asyncio.run(MemoryTools(ServedSession(lambda: session)).call("memory_get", {"key": "k"}))
    assert shown.is_error
    assert shown.structured_content == {"error": {"code": "STORAGE", "message": INTERNAL_ERROR}}
    assert "RuntimeError" in caplog.text
    assert "secret" not in caplog.text


def test_the_owners_raise_is_noticed_at_the_next_call(store: Store, session: Session) -> None:
    async def use(client: Client) -> None:
        before = await client.call_tool("memory_save", {"key": "k", "content": "x"})
        store.sessions.raise_taint(session.id, Level.CONFIDENTIAL)
        after = await client.call_tool("memory_save", {"key": "k", "content": "x"})
        assert [result.structured_content["classification"] for result in (before, after)] == [  # type: ignore[index]
            "PUBLIC",
            "CONFIDENTIAL",
        ]

    through_client(session, use)


@pytest.mark.parametrize("name", TOOLS)
def test_after_a_reset_every_call_is_refused_and_says_how_to_go_on(store: Store, session: Session, name: str) -> None:
    """P7."""
    store.sessions.reset(session.id)
    answer = asyncio.run(MemoryTools(ServedSession(lambda: session)).call(name, {"key": "k", "content": "x"}))
    shown = answer.structured_content
    assert shown
    assert shown["error"]["code"] == "REFUSED"
    assert shown["error"]["message"].startswith("session ended")
    assert "tidegate mcp --session NAME" in shown["error"]["message"]


def test_a_level_that_the_model_sends_has_no_effect(peer: Peer, session: Session) -> None:
    """P2."""
    saved = peer.call("memory_save", key="k", content="x", classification="RESTRICTED", level=3, taint="RESTRICTED")
    assert saved["classification"] == "PUBLIC"
    assert session.taint is Level.PUBLIC
