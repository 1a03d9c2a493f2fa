"""Calls as servers stream them: each is put together from its own pieces, and from no others."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any

import pytest
from tests.agent.played_server import call, calls, reply_to

A, B = '{"key": "a", "content": "x"}', '{"key": "b", "content": "y"}'
GET, SAVE = "memory_get", "memory_save"


def halves(text: str) -> tuple[str, str]:
    return text[:9], text[9:]


def interleaved(**extra: Any) -> list[dict[str, Any]]:
    first, second = halves(A), halves(B)
    return [
        call(first[0], index=0, id="a1", name=SAVE, **extra),
        call(second[0], index=1, id="a2", name=SAVE),
        call(first[1], index=0),
        call(second[1], index=1),
    ]


TWO: dict[str, list[dict[str, Any]]] = {
    "as the protocol says": [call(A, index=0, id="a1", name=SAVE), call(B, index=1, id="a2", name=SAVE)],
    "interleaved": interleaved(),
    "all with index 0": [call(A, index=0, id="a1", name=SAVE), call(B, index=0, id="a2", name=SAVE)],
    "index 0, in pieces": [
        call("", index=0, id="a1", name=SAVE),
        *(call(half, index=0) for half in halves(A)),
        call("", index=0, id="a2", name=SAVE),
        *(call(half, index=0) for half in halves(B)),
    ],
    "id, then name, at index 0": [
        call(A, index=0, id="a1", name=SAVE),
        call(index=0, id="a2", name=SAVE),
        call(B, index=0),
    ],
    "name and id in every piece": [
        *(call(half, index=0, id="a1", name=SAVE) for half in halves(A)),
        *(call(half, index=1, id="a2", name=SAVE) for half in halves(B)),
    ],
    "name and id in every piece, all with index 0": [
        *(call(half, index=0, id="a1", name=SAVE) for half in halves(A)),
        *(call(half, index=0, id="a2", name=SAVE) for half in halves(B)),
    ],
    "interleaved by id alone": [
        call(halves(A)[0], index=0, id="a1", name=SAVE),
        call(halves(B)[0], index=0, id="a2", name=SAVE),
        call(halves(A)[1], index=0, id="a1"),
        call(halves(B)[1], index=0, id="a2"),
    ],
    "no index": [call(A, id="a1", name=SAVE), call(B, id="a2", name=SAVE)],
    "no index, in pieces": [
        call(halves(A)[0], id="a1", name=SAVE),
        call(halves(A)[1]),
        call(halves(B)[0], id="a2", name=SAVE),
        call(halves(B)[1]),
    ],
    "no index, interleaved by id": [
        call(halves(A)[0], id="a1", name=SAVE),
        call(halves(B)[0], id="a2", name=SAVE),
        call(halves(A)[1], id="a1"),
        call(halves(B)[1], id="a2"),
    ],
    "null index": [call(A, index=None, id="a1", name=SAVE), call(B, index=None, id="a2", name=SAVE)],
    "no ids": [call(A, index=0, name=SAVE), call(B, index=1, name=SAVE)],
    "empty ids": [call(A, index=0, id="", name=SAVE), call(B, index=0, id="", name=SAVE)],
    "no ids, all with index 0": [call(A, index=0, name=SAVE), call(B, index=0, name=SAVE)],
    "neither ids nor index": [call(A, name=SAVE), call(B, name=SAVE)],
    "neither, in pieces with the name in each": [
        *(call(half, name=SAVE) for half in halves(A)),
        *(call(half, name=SAVE) for half in halves(B)),
    ],
    "one id for all": [call(A, index=0, id="x", name=SAVE), call(B, index=1, id="x", name=SAVE)],
    "one id and one index for all": [call(A, index=0, id="x", name=SAVE), call(B, index=0, id="x", name=SAVE)],
    "a new id in every piece": [
        call("", index=0, id="r1", name=SAVE),
        *(call(half, index=0, id=f"r2{half}") for half in halves(A)),
        call("", index=1, id="r3", name=SAVE),
        *(call(half, index=1, id=f"r4{half}") for half in halves(B)),
    ],
    "the index counts the pieces": [
        call(halves(A)[0], index=0, id="a1", name=SAVE),
        call(halves(A)[1], index=1, id="a1"),
        call(halves(B)[0], index=2, id="a2", name=SAVE),
        call(halves(B)[1], index=3, id="a2"),
    ],
    "a whole call is sent again at the end": [
        *(call(half, index=0, id="a1", name=SAVE) for half in halves(A)),
        call(B, index=1, id="a2", name=SAVE),
        call(A, index=0, id="a1", name=SAVE),
        call(B, index=1, id="a2", name=SAVE),
    ],
    "the id comes late": [
        call("", index=0, name=SAVE),
        call(A, index=0, id="a1"),
        call("", index=1, name=SAVE),
        call(B, index=1, id="a2"),
    ],
    "an empty piece at the end": [
        call(A, index=0, id="a1", name=SAVE),
        call("", index=0, id="r9"),
        call(B, index=1, id="a2", name=SAVE),
        call("", index=1, name=SAVE),
    ],
    "the name in every piece, one of which ends like a whole": [
        call(A[:-1] + ', "tags": {}', index=0, name=SAVE),
        call("}", index=0, name=SAVE),
        call(B, index=1, name=SAVE),
    ],
    "names in pieces": [
        call(index=0, id="a1", name="memory_"),
        call(A, index=0, name="save"),
        call(B, index=1, id="a2", name=SAVE),
    ],
}


def without_tags(arguments: str) -> str:
    return arguments.replace(', "tags": {}', "")


@pytest.mark.parametrize("how", TWO)
def test_two_calls_are_two_calls(how: str) -> None:
    found = [(each.name, without_tags(each.arguments)) for each in reply_to(calls(*TWO[how])).calls]
    assert found == [(SAVE, A), (SAVE, B)]


@pytest.mark.parametrize("how", TWO)
def test_all_in_one_chunk_they_are_two_as_well(how: str) -> None:
    response = [({"tool_calls": TWO[how]}, None), ({}, "tool_calls")]
    assert [without_tags(each.arguments) for each in reply_to(response).calls] == [A, B]


def test_calls_of_different_tools_without_arguments_are_told_apart_by_their_names() -> None:
    reply = reply_to(calls(call("", index=0, name="todo_read"), call("", index=0, name="cron_list")))
    assert [each.name for each in reply.calls] == ["todo_read", "cron_list"]


def test_arguments_that_come_as_an_object_are_taken() -> None:
    piece = {"index": 0, "id": "a", "function": {"name": GET, "arguments": {"key": "k"}}}
    (found,) = reply_to(calls(piece)).calls
    assert json.loads(found.arguments) == {"key": "k"}


def test_a_piece_without_a_function_spoils_nothing() -> None:
    reply = reply_to(calls({"index": 0, "id": "a"}, call(A, index=0, name=SAVE), {"index": 0}))
    assert [(each.name, each.arguments) for each in reply.calls] == [(SAVE, A)]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_interleaved_calls_stay_right_in_any_order(order: tuple[int, ...]) -> None:
    texts = [json.dumps({"key": str(number), "content": "x" * number}) for number in range(3)]
    begun = [call(texts[n][:4], index=n, id=f"i{n}", name=SAVE) for n in range(3)]
    rest = [call(texts[n][4:8], index=n) for n in order] + [call(texts[n][8:], index=n) for n in reversed(order)]
    assert [each.arguments for each in reply_to(calls(*begun, *rest)).calls] == texts


def test_nonsense_arguments_stay_with_their_own_call() -> None:
    reply = reply_to(calls(call("{[}", index=0, id="a", name=GET), call(A, index=0, id="b", name=SAVE)))
    assert [each.arguments for each in reply.calls] == ["{[}", A]
