"""docs/gateway.md is true: its configuration is understood, its tables are those of the code, its numbers hold."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from tidegate.cli.main import root
from tidegate.gateway.catalog import NAME_CHARS_MAX
from tidegate.policy.levels import Level
from tidegate.policy.result_labels import claimed_level, result_label
from tidegate.server import gateway_tools

DOCS = (Path(__file__).parent.parent.parent / "docs" / "gateway.md").read_text(encoding="utf-8")
WORDS = " ".join(DOCS.split())


def blocks() -> list[Any]:
    return [json.loads(block) for block in re.findall(r"^```json\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)]


def test_the_client_configuration_is_a_command_line_that_is_understood() -> None:
    verb, *rest = blocks()[0]["mcpServers"]["tidegate"]["args"]
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    assert command.make_context(verb, rest)


def test_the_label_of_the_page_is_one_of_ours() -> None:
    assert blocks()[1] == result_label(Level.CONFIDENTIAL, trusted=False)


def test_the_table_of_our_labels_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `([A-Z]+)` \| `(\w+)` \|$", DOCS, re.MULTILINE)
    assert [name for name, _ in rows] == [str(level) for level in Level]
    for name, confidentiality in rows:
        assert result_label(Level[name], trusted=True)["ifc"] == {
            "integrity": "trusted",
            "confidentiality": confidentiality,
        }


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('`ifc` or `security_label`, with the confidentiality `public` or `["public"]`', {"confidentiality": "public"}),
        (
            '`ifc` or `security_label`, with the confidentiality `public` or `["public"]`',
            {"confidentiality": ["public"]},
        ),
        ("… with `private`, or with a list of other readers", {"confidentiality": "private"}),
        ("… with `private`, or with a list of other readers", {"confidentiality": ["ada"]}),
        ("`privateHint` (draft SEP-1913): `true`", {"privateHint": True}),
        ("`sensitiveHint` (draft SEP-1913): `low`", {"sensitiveHint": "low"}),
        ("`sensitiveHint`: `medium`", {"sensitiveHint": "medium"}),
        ("`sensitiveHint`: `high`", {"sensitiveHint": "high"}),
        ("any of these with a value that is not in this table", {"sensitiveHint": "none"}),
    ],
)
def test_the_table_of_others_labels_is_that_of_the_code(row: str, said: dict[str, object]) -> None:
    [level] = re.findall(rf"^\| {re.escape(row)} \| `([A-Z]+)` \|$", DOCS, re.MULTILINE)
    places = [{"ifc": said}, {"security_label": said}] if "confidentiality" in said else [said]
    assert [claimed_level([place]) for place in places] == [Level[level]] * len(places)


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"at most {NAME_CHARS_MAX} characters" in WORDS
    assert f"keep the list for {gateway_tools.LIST_TTL_MS // 1000} seconds" in WORDS
    assert f"every {gateway_tools.PROGRESS_SECONDS:.0f} seconds" in WORDS
