"""Lists of tools with bad entries: each is left out and named, and the others work."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import mcp_types as types
import pytest
from pydantic import ValidationError
from tests.gateway.conftest import hostile

from tidegate.errors import Refused
from tidegate.gateway import tool_list
from tidegate.gateway.connections import look
from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.replies import Result
from tidegate.gateway.tool_list import ENTRY_VALUES_MAX, ERRORS_MAX, ToolList

OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}
ECHO = {
    "name": "echo",
    "description": "Says the same again.",
    "inputSchema": OBJECT,
    "annotations": {"readOnlyHint": True},
}
PARAMETER = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "A"}}}
BAD: list[tuple[Any, str, str]] = [
    ({"name": "bad", "inputSchema": {}}, "bad", 'inputSchema: must have "type": "object"'),
    ({"name": "bad", "inputSchema": {"type": "array"}}, "bad", 'inputSchema: must have "type": "object"'),
    ({"name": "bad", "inputSchema": "object"}, "bad", "inputSchema: not as the protocol says"),
    ({"name": "bad", "inputSchema": None}, "bad", "inputSchema: not as the protocol says"),
    ({"name": "bad"}, "bad", "inputSchema: missing"),
    ({"inputSchema": OBJECT}, "(tool 2)", "name: missing"),
    ({"name": None, "inputSchema": OBJECT}, "(tool 2)", "name: not as the protocol says"),
    ({"name": 5, "inputSchema": OBJECT}, "(tool 2)", "name: not as the protocol says"),
    ({"name": " ", "inputSchema": OBJECT}, "(tool 2)", "name: missing"),
    ({"name": "bad", "description": 5, "inputSchema": OBJECT}, "bad", "description: not as the protocol says"),
    ({"name": "bad", "title": [], "inputSchema": OBJECT}, "bad", "title: not as the protocol says"),
    ({"name": "bad", "annotations": 5, "inputSchema": OBJECT}, "bad", "annotations: not as the protocol says"),
    ({"name": "bad", "outputSchema": 5, "inputSchema": OBJECT}, "bad", "outputSchema: not as the protocol says"),
    (None, "(tool 2)", "not as the protocol says"),
    ("bad", "(tool 2)", "not as the protocol says"),
    ([], "(tool 2)", "not as the protocol says"),
    (
        {"name": "bad", "description": "x" * 300_000, "inputSchema": OBJECT},
        "bad",
        "definition: more than 262144 bytes",
    ),
]


DEFINITION = {key: ECHO[key] for key in ("name", "description", "inputSchema")}
FULL = [5] * ENTRY_VALUES_MAX


def listed(*pages: dict[str, Any], **environment: str) -> ToolList:
    return asyncio.run(look(hostile("lists", PAGES=json.dumps(pages), **environment)))


def sifted(*entries: Any, version: str = "2025-11-25") -> ToolList:
    """The same without a server: what the library then reads of the sifted page."""
    listing = ToolList(version)
    envelope = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    page = listing.sift({**envelope, "tools": list(entries)})
    listing.add(types.ListToolsResult.model_validate(page, by_name=False).tools)
    return listing


@pytest.mark.parametrize(("entry", "name", "why"), BAD)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_one_bad_tool_is_named_and_left_out(entry: Any, name: str, why: str, version: str) -> None:
    found = sifted(ECHO, entry, {**ECHO, "name": "other"}, version=version)
    assert set(found.definitions) == {"echo", "other"}
    assert found.unusable == {name: why}


HUGE: list[dict[str, Any]] = [
    {"icons": FULL},
    {"_meta": {"canary": FULL}},
    {"canary": {str(each): each for each in FULL} | {"x": [{"y": FULL}]}},
    {"inputSchema": {"type": "object", "required": FULL}},
    {"inputSchema": {"type": "object", "properties": {"a": {"enum": FULL}}}},
    {"inputSchema": {"type": "object", "a": [[each] for each in FULL]}},
]


@pytest.mark.parametrize("more", HUGE)
def test_an_entry_of_too_many_values_is_left_out_before_anything_validates_it(
    more: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    validated = seen_by_the_validator(monkeypatch)
    found = sifted(ECHO, {**DEFINITION, "name": "bad", **more})
    assert set(found.definitions) == {"echo"}
    assert found.unusable == {"bad": f"definition: more than {ENTRY_VALUES_MAX} values"}
    assert [[tool["name"] for tool in page["tools"]] for page in validated] == [["echo"]]


def test_an_entry_of_as_many_values_as_may_be_is_a_tool() -> None:
    values = ENTRY_VALUES_MAX - len(DEFINITION) - 2
    tool = {**DEFINITION, "inputSchema": {"type": "object", "enum": [5] * values}}
    assert set(sifted(tool).definitions) == {"echo"}
    assert sifted({**tool, "more": 5}).unusable == {"echo": f"definition: more than {ENTRY_VALUES_MAX} values"}


@pytest.mark.parametrize("values", [FULL, [*FULL[:-9]]])
def test_all_entries_of_a_list_have_a_bound_together_on_whatever_page(
    values: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    validated = seen_by_the_validator(monkeypatch)
    tools = [{**DEFINITION, "name": f"t{place}", "icons": values} for place in range(5)]
    listing = ToolList("2025-11-25")
    for count in (5, 4):
        assert listing.sift({"tools": tools[:count]})["tools"] == []
    with pytest.raises(CutOffError, match=f"lists tools of more than {tool_list.LIST_VALUES_MAX} values"):
        listing.sift({"tools": tools})
    assert len(validated) in (0, 10)


def test_the_rest_of_a_page_is_not_validated_again_for_each_tool_and_what_nobody_reads_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    validated = seen_by_the_validator(monkeypatch)
    tools = [{**ECHO, "name": f"t{place}"} for place in range(3)]
    page = {"tools": tools, "nextCursor": "2", "ttlMs": 5, "_meta": {"x": FULL * 9}, "canary": FULL * 9}
    assert ToolList("2025-11-25").sift(page) == {"tools": tools, "nextCursor": "2", "ttlMs": 5}
    assert [{*page} for page in validated] == [{"tools", "resultType", "ttlMs", "cacheScope"}] * 3
    assert "canary" not in str(validated)


def seen_by_the_validator(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    real = tool_list.validate_server_result

    def validate(method: str, version: str, data: dict[str, Any]) -> None:
        seen.append(data)
        real(method, version, data)

    monkeypatch.setattr(tool_list, "validate_server_result", validate)
    return seen


@pytest.mark.parametrize("count", [ERRORS_MAX, ERRORS_MAX + 1])
def test_of_an_entry_with_many_errors_none_is_spelled_out(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    spelled: list[int] = []

    class Counting(Exception):  # in the place of pydantic's, whose methods cannot be replaced
        def __init__(self, error: ValidationError) -> None:
            self.error_count = error.error_count
            self.error = error

        def errors(self, **how: bool) -> list[Any]:
            spelled.append(self.error_count())
            return list(self.error.errors(**how))

    real = tool_list.validate_server_result

    def validate(*given: Any) -> None:
        try:
            real(*given)
        except ValidationError as error:
            raise Counting(error) from None

    monkeypatch.setattr(tool_list, "validate_server_result", validate)
    monkeypatch.setattr(tool_list, "ValidationError", Counting)
    found = sifted({**ECHO, "name": "bad", "icons": [5] * count})
    assert found.unusable == {"bad": "not as the protocol says" if spelled == [] else "icons: not as the protocol says"}
    assert spelled == [count] * (count == ERRORS_MAX)


@pytest.mark.parametrize("step", ["sift", "add"])
def test_the_loop_is_free_while_a_list_is_sifted(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = getattr(ToolList, step)

    async def look_on() -> ToolList:
        loop, free = asyncio.get_running_loop(), threading.Event()

        def slow(tools: ToolList, given: Any) -> Any:
            loop.call_soon_threadsafe(free.set)
            assert free.wait(5)
            return real(tools, given)

        monkeypatch.setattr(ToolList, step, slow)
        return await look(hostile("lists", PAGES=json.dumps([{"tools": [ECHO]}])))

    assert set(asyncio.run(look_on()).definitions) == {"echo"}


@pytest.mark.parametrize(
    "page",
    [
        {"nextCursor": 5},
        {"nextCursor": FULL},
        {"nextCursor": {"x": FULL}},
        {"tools": 5},
        {"tools": None},
    ],
)
def test_a_page_that_is_none_breaks_the_protocol(page: dict[str, Any]) -> None:
    with pytest.raises(CutOffError, match="sent an answer that breaks the protocol"):
        listed({"tools": [ECHO], **page})


def test_a_name_that_is_listed_twice_is_nobodys() -> None:
    found = listed({"tools": [ECHO, {**ECHO, "name": "b"}], "nextCursor": "2"}, {"tools": [ECHO, ECHO]})
    assert set(found.definitions) == {"b"}
    assert found.unusable == {"echo": "listed more than once"}


@pytest.mark.parametrize("order", [1, -1])
def test_a_bad_entry_under_the_name_of_a_good_one_takes_both(order: int) -> None:
    found = sifted(*[ECHO, {"name": "echo"}, {**ECHO, "name": "b"}][::order])
    assert set(found.definitions) == {"b"}
    assert set(found.unusable) == {"echo"}


def test_a_tool_that_the_library_drops_is_named() -> None:
    found = listed({"tools": [ECHO, {"name": "bad", "inputSchema": PARAMETER}]}, MODERN="yes")
    assert set(found.definitions) == {"echo"}
    assert found.unusable == {"bad": "x-mcp-header: not as the protocol says"}


def test_nothing_that_the_server_wrote_is_in_a_reason() -> None:
    schema = {"type": "object", "properties": {"canary-key": 5}, "required": ["canary-value", 7]}
    found = sifted({"name": "bad", "inputSchema": schema, "annotations": {"canary": "canary"}})
    assert list(found.unusable) == ["bad"]
    assert "canary" not in str(found.unusable)


@pytest.mark.parametrize("cursor", ["", None])
def test_an_empty_cursor_is_the_end(cursor: str | None) -> None:
    found = listed({"tools": [ECHO], "nextCursor": cursor}, {"tools": [{**ECHO, "name": "never"}]})
    assert set(found.definitions) == {"echo"}


@pytest.mark.parametrize("cursors", [("a", "a"), ("a", "b", "a"), ("a", "b", "b")])
def test_a_cursor_that_comes_again_is_the_end(cursors: tuple[str, ...]) -> None:
    pages = [{"tools": [{**ECHO, "name": f"t{place}"}], "nextCursor": each} for place, each in enumerate(cursors)]
    assert set(listed(*pages).definitions) == {f"t{place}" for place in range(len(cursors))}


def test_too_many_tools_are_still_a_bound_bad_ones_included() -> None:
    with pytest.raises(CutOffError, match="lists more than 500 tools"):
        listed({"tools": [5] * 300, "nextCursor": "2"}, {"tools": [5] * 300})


def test_a_list_that_is_no_list_breaks_the_protocol() -> None:
    with pytest.raises(CutOffError, match="sent an answer that breaks the protocol"):
        listed({"tools": {"echo": ECHO}})


def test_the_tools_beside_a_bad_one_can_be_called(running: Callable[..., Result]) -> None:
    server = hostile("lists", PAGES=json.dumps([{"tools": [BAD[0][0], ECHO]}]))

    async def act(gateway: Gateway) -> Result:
        return await gateway.call("hostile__echo", {"text": "hello"})

    assert "hello" in running(server, act).text


def test_p14_a_trusted_tool_that_turned_bad_is_refused(running: Callable[..., None]) -> None:
    server = hostile("lists", PAGES=json.dumps([{"tools": [{**ECHO, "inputSchema": {}}]}]))

    async def act(gateway: Gateway) -> None:
        with pytest.raises(Refused, match="no longer has this tool"):
            await gateway.call("hostile__echo", {"text": "hello"})

    running(server, act)


def test_a_schema_that_is_nested_too_deeply_is_no_reason_to_lose_the_others() -> None:
    deep: Any = {"type": "object"}
    for _ in range(2_000):
        deep = {"type": "object", "properties": {"a": deep}}
    listing = ToolList("2025-11-25")
    good = types.Tool(name="echo", input_schema=OBJECT)
    listing.add([types.Tool.model_construct(name="deep", input_schema=deep), good])
    assert set(listing.definitions) == {"echo"}
    assert listing.unusable == {"deep": "definition: nested too deeply"}
