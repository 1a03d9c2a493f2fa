"""A server's tools in short: few lines, and nothing that changed is left out in silence (P14)."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.cli.tool_changes import question, short
from tidegate.gateway.pins import Definition
from tidegate.policy.servers import Pin

NEW, CHANGED, GONE, TRUSTED = Pin.NEW, Pin.CHANGED, Pin.GONE, Pin.TRUSTED


def tool(description: str | None = "Says it.", **schema: Any) -> Definition:
    return Definition("echo", None, description, {"type": "object", **schema}, None, None)


def new(definition: Definition) -> list[str]:
    return list(short("echo", NEW, None, definition))


def changed(before: Definition, after: Definition) -> list[str]:
    heading, *lines = short("echo", CHANGED, before, after)
    assert heading == "changed: echo"
    return lines


@pytest.mark.parametrize(
    ("pins", "asked"),
    [
        ([NEW] * 14, "Trust 14 new tools of files?"),
        ([NEW, TRUSTED], "Trust 1 new tool of files?"),
        ([CHANGED, NEW, NEW], "Trust 2 new and 1 changed tools of files?"),
        ([CHANGED, GONE], "Trust 1 changed tool and forget 1 gone tool of files?"),
        ([GONE, GONE], "Forget 2 gone tools of files?"),
    ],
)
def test_the_question_counts(pins: list[Pin], asked: str) -> None:
    assert question("files", pins) == asked


def test_a_new_tool_is_its_name_one_line_and_its_arguments() -> None:
    properties = {"path": {"type": "string"}, "head": {"type": ["integer", "null"]}, "x": {"$ref": "#"}, "y": True}
    assert new(tool("Reads.", properties=properties, required=["path"])) == [
        "new: echo",
        "  Reads.",
        "  arguments: path: string, head?: integer|null, x?: any, y?: any",
    ]
    assert list(short("echo", GONE, tool(), None)) == ["gone: echo", "  Says it.", "  arguments: none"]
    assert list(short("echo", NEW, None, None)) == ["new: echo"]


def test_what_is_cut_from_a_new_tool_is_counted() -> None:
    assert new(tool("One.\nTwo."))[1] == "  One. … and 5 more characters"
    assert new(tool("x" * 101))[1] == f"  {'x' * 100} … and 1 more character"
    assert new(tool(None))[1] == new(tool(" \n "))[1] == "  no description"
    many = {f"a{number}": {"type": "string"} for number in range(25)}
    assert new(tool(properties=many))[2].endswith("a19?: string, … and 5 more")


def test_what_a_server_writes_as_a_name_or_a_type_cannot_pass_for_another() -> None:
    shown = new(tool(properties={"a: string, b": {"type": "c\nd"}, "n" * 99: {"type": 5}}, required="a"))[2]
    assert shown == f'  arguments: "a: string, b"?: "c\\nd", {"n" * 60} … and 39 more characters?: any'


def test_a_changed_tool_says_what_changed_with_both_values() -> None:
    before = tool("Says it.", properties={"text": {"type": "string"}})
    after = tool("Sends it.", properties={"text": {"type": "string", "description": "All."}})
    assert changed(before, after) == [
        "  description",
        '    - "Says it."',
        '    + "Sends it."',
        "  input_schema.properties.text.description",
        '    + "All."',
    ]
    assert changed(after, before)[-1] == '    - "All."'


@pytest.mark.parametrize(("was", "now"), [(True, 1), (1, 1.0), ({}, []), ({}, {"a": {}}), (None, "null")])
def test_p14_whatever_changes_the_hash_is_shown(was: object, now: object) -> None:
    before, after = tool(x=was), tool(x=now)
    assert before.digest != after.digest
    assert changed(before, after)


def test_p14_a_change_far_into_a_long_text_is_shown_and_what_is_cut_is_counted() -> None:
    same = "word " * 1000
    assert changed(tool(f"{same}safe{same}"), tool(f"{same}evil{same}"))[1:] == [
        "    - … word word word word safeword word word word  …",
        "    + … word word word word evilword word word word  …",
    ]
    assert changed(tool("a"), tool("b" * 1000))[2] == f'    + "{"b" * 299} … and 702 more characters'
    many = {f"a{number}": {"type": "string"} for number in range(50)}
    assert changed(tool(properties={"z": 1}), tool(properties={"z": 1, **many}))[-1] == "  … and 10 more places"


def test_p14_a_change_below_any_depth_is_shown() -> None:
    low: Any = "was"
    high: Any = "now"
    for _ in range(100):
        low, high = {"a": low}, {"a": high}
    path, old, fresh = changed(tool(x=low), tool(x=high))
    assert path == f"  input_schema.x{'.a' * 6}"
    assert '"was"' in old
    assert '"now"' in fresh
