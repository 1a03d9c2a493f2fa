"""What hosts read about the tools: valid, complete, and plain enough for the strictest of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator

from tidegate.policy.events import LEVEL_ARGUMENTS
from tidegate.tools import TOOLS
from tidegate.tools.tool import Tool

UNIONS = {"anyOf", "oneOf", "allOf", "not", "$ref", "if"}

each_tool = pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)


def schemas_within(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema and all that it holds."""
    yield schema
    for part in [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]:
        yield from schemas_within(part)


def test_there_are_exactly_the_five_tools_under_their_own_names() -> None:
    assert list(TOOLS) == ["memory_save", "memory_get", "memory_search", "memory_list", "memory_delete"]
    assert all(name == tool.name and re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name, tool in TOOLS.items())


def test_the_tool_list_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TOOLS["memory_raise"] = TOOLS["memory_get"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "arguments", "required"),
    [
        ("memory_save", ["key", "content", "tags"], ["key", "content"]),
        ("memory_get", ["key"], ["key"]),
        ("memory_search", ["query", "max_results", "tag", "since", "until"], ["query"]),
        ("memory_list", ["tag", "limit", "cursor"], []),
        ("memory_delete", ["key"], ["key"]),
    ],
)
def test_arguments_are_the_documented_ones(name: str, arguments: list[str], required: list[str]) -> None:
    schema = TOOLS[name].input_schema
    assert list(schema["properties"]) == arguments
    assert schema["required"] == required


@each_tool
def test_no_argument_carries_a_level_or_an_identity(tool: Tool) -> None:
    """P2, P13."""
    assert not set(tool.input_schema["properties"]) & (LEVEL_ARGUMENTS | {"agent", "user", "session", "ceiling"})


@each_tool
@pytest.mark.parametrize("dialect", [Draft7Validator, Draft202012Validator])
def test_schemas_are_valid(tool: Tool, dialect: type[Draft7Validator]) -> None:
    dialect.check_schema(tool.input_schema)
    dialect.check_schema(tool.output_schema)


@each_tool
def test_inputs_have_one_plain_type_each_and_no_unions(tool: Tool) -> None:
    for schema in schemas_within(tool.input_schema):
        assert isinstance(schema["type"], str)
        assert not UNIONS & set(schema)


@each_tool
def test_every_argument_says_its_type_title_and_meaning(tool: Tool) -> None:
    for part in tool.input_schema["properties"].values():
        assert part["type"]
        assert part["title"]
        assert part["description"].endswith(".")


@each_tool
def test_every_field_of_an_answer_says_its_type(tool: Tool) -> None:
    for part in list(schemas_within(tool.output_schema))[1:]:
        assert part["type"]
        assert part["type"] != "array" or part["items"]


@each_tool
def test_nothing_undeclared_is_allowed_in_or_out(tool: Tool) -> None:
    assert tool.input_schema["additionalProperties"] is False
    assert tool.output_schema["additionalProperties"] is False
    assert tool.input_schema["type"] == tool.output_schema["type"] == "object"


@each_tool
def test_every_tool_has_a_title_a_description_and_all_four_annotations(tool: Tool) -> None:
    assert set(tool.annotations.to_dict()) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert tool.title
    assert "Use it" in tool.description
    assert len(tool.description) < 400


@pytest.mark.parametrize(
    ("name", "read_only", "destructive"),
    [
        ("memory_save", False, False),
        ("memory_get", True, False),
        ("memory_search", True, False),
        ("memory_list", True, False),
        ("memory_delete", False, True),
    ],
)
def test_annotations_say_what_the_tool_does(name: str, read_only: bool, destructive: bool) -> None:
    hints = TOOLS[name].annotations
    assert (hints.read_only, hints.destructive) == (read_only, destructive)
    assert hints.idempotent
    assert not hints.open_world
