"""Whatever a client sends, each request is answered once, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.mcp_peer import serving

from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

TEXTS = st.one_of(
    st.text(st.characters(exclude_categories=()), max_size=20),  # lone surrogates among them
    st.sampled_from(["key", "content", "tags", "level", "name", "arguments", "_meta", "cursor", "\ud800", "\0"]),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(
    st.one_of(st.sampled_from(["key", "content", "tags", "query", "limit"]), TEXTS), VALUES, max_size=4
)
CALLS = st.fixed_dictionaries({"name": st.one_of(st.sampled_from(list(TOOLS)), TEXTS), "arguments": ARGUMENTS})
METHODS = st.sampled_from(["tools/call", "tools/list", "initialize", "ping", "server/discover", "resources/list", "x"])
REQUESTS = st.tuples(METHODS, st.one_of(CALLS, VALUES))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(REQUESTS, max_size=8), st.booleans())
def test_each_request_is_answered_once_whatever_it_holds(requests: list[tuple[str, Any]], greeted: bool) -> None:
    with (
        Store(InMemoryProvider(), toolset=TOOLS) as store,
        serving(store.session("assistant", "main")) as peer,
    ):
        if greeted:
            peer.greet()
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": f"fuzz-{number}", "method": method, "params": params}
            peer.send_line(json.dumps(message).encode() + b"\n")
        peer.close_input()
        answers = peer.receive_rest()
    assert sorted(answer["id"] for answer in answers) == [f"fuzz-{number}" for number in range(len(requests))]
    for answer in answers:
        assert ("result" in answer) != ("error" in answer)
        assert "Traceback" not in json.dumps(answer)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b" ")), max_size=8))
def test_no_line_keeps_the_next_request_from_its_answer(lines: list[bytes]) -> None:
    with (
        Store(InMemoryProvider(), toolset=TOOLS) as store,
        serving(store.session("assistant", "main")) as peer,
    ):
        peer.greet()
        for line in lines:
            peer.send_line(line + b"\n")
        peer.send_line(b'{"jsonrpc":"2.0","id":"good","method":"ping"}\n')
        assert {"jsonrpc": "2.0", "id": "good", "result": {}} in iter(peer.receive, {})
