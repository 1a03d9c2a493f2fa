"""The README is true: its commands print what it says, its Python runs, its client configuration works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from tests.conftest import Run

from tidegate.cli.main import COMMANDS, root

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
_SCORE = re.compile(r"(?<= )\d+\.\d{6}(?= )")


@dataclass(frozen=True, slots=True)
class Example:
    command: str
    output: str


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(README) if kind == language]


def examples() -> Iterator[Example]:
    """Each command of the console blocks, with the lines below it."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield Example(command, output)


def steady(text: str) -> str:
    """The text without what differs from run to run."""
    return _SCORE.sub("SCORE", _TIME.sub("TIME", text))


def test_the_two_commands_come_first() -> None:
    assert [example.command for example in examples() if example.command.startswith("make ")] == [
        "make demo",
        "make test",
    ]
    assert README.index("make demo") < README.index("make test") < README.index("## In an MCP client")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(r"^demo:", makefile, re.MULTILINE)
    assert re.search(r"^test:", makefile, re.MULTILINE)


def test_ci_runs_the_two_commands() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert re.findall(r"^make .*$", script.read_text(encoding="utf-8"), re.MULTILINE) == ["make test", "make demo"]


def test_every_command_prints_what_the_readme_says(cli: Run) -> None:
    told = [example for example in examples() if example.command.startswith("tidegate ")]
    assert len(told) > 8
    for example in told:
        words = shlex.split(example.command.partition(" < ")[0])[1:]
        ran = cli(*words, stdin=b"From standard input, as it is.\n")
        assert ran.code == 0, example
        assert steady(ran.out + ran.err) == steady(example.output), example.command


def test_the_demo_prints_what_the_readme_says(process: Run) -> None:
    ran = process("demo")
    assert (ran.code, blocks("text")[0] in ran.out) == (0, True)


def test_the_python_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    [example] = blocks("python")
    ran = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ran.stdout in blocks("text")


def test_the_client_configuration_is_a_command_line_that_is_understood() -> None:
    [block] = blocks("json")
    server = json.loads(block)["mcpServers"]["tidegate"]
    assert server["command"] == "tidegate"
    verb, *rest = server["args"]
    command = root.get_command(click.Context(root), verb)
    assert command is not None
    assert command.make_context(verb, rest)


@pytest.mark.parametrize("target", re.findall(r"\]\((?!http)([^)]+)\)", README))
def test_links_lead_somewhere(target: str) -> None:
    assert (ROOT / target).exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_named_in_the_readme(name: str) -> None:
    assert re.search(rf"tidegate {name}\b|`{name}`", README)
