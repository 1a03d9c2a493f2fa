"""Every example in a command's help is run, in a home where it makes sense, and succeeds."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import Run

from tidegate.cli.common import Command
from tidegate.cli.main import root

# What starts servers, or needs foreign ones, is run by tests of its own; here its examples are only parsed.
PARSED_ONLY = {"mcp", "demo", "tools", "serve", "gateway", "chat", "run", "cron"}
EMPTY_HOME = {"restore-backup"}
MCP_EXPORT = '{"type":"entity","name":"Ada","entityType":"person","observations":["speaks French"]}\n'


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        elif isinstance(command, Command):
            yield (*path, name), command


EXAMPLES = [(path, command, example) for path, command in commands(root) for example in command.examples]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a home that has been used for a while, and the files that the examples name."""
    from tidegate.cli.main import main

    folder = tmp_path_factory.mktemp("scene")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("TIDEGATE_HOME", str(folder / "home"))
        for line in (
            "save user-name Ada --level PUBLIC",
            "save user-name Ada",
            "save user-name 'Ada Lovelace' --tag persona",
            "save gone x",
            "delete gone",
            "save plan 'We launch'",
            "save plan 'We launch in June' --level INTERNAL",
            "save plan 'We launch in May' --level INTERNAL",
            "save plan 'We merge' --level CONFIDENTIAL",
            "save other x --agent a",
            "session new main --level INTERNAL",
            "session new chat --level INTERNAL",
            "export memories.jsonl --level CONFIDENTIAL",
            "backup assistant.backup",
        ):
            assert main(shlex.split(line)) == 0, line
    (folder / "notes.txt").write_text("Some notes.\n")
    (folder / "memory.jsonl").write_text(MCP_EXPORT)
    (folder / "notes").mkdir()
    (folder / "notes" / "garden.md").write_text("# Garden\n\nThe roses need water.\n")
    return folder


@pytest.fixture
def place(scene: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the scene, as the working folder; its home is the one that `cli` uses."""
    shutil.copytree(scene, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(cli: Run, example: str) -> int:
    """The exit code, with what a shell would do about `<` and `>>`."""
    line, _, source = example.partition(" < ")
    line, _, target = line.partition(" >> ")
    ran = cli(*shlex.split(line)[1:], stdin=Path(source).read_bytes() if source else b"")
    if target:
        assert ran.out
        with Path(target).open("a") as file:
            file.write(ran.out)
    return ran.code


@pytest.mark.parametrize(("path", "command", "example"), EXAMPLES, ids=[example for _, _, example in EXAMPLES])
def test_the_example_does_what_it_says(
    cli: Run, place: Path, path: tuple[str, ...], command: Command, example: str
) -> None:
    words = shlex.split(example.partition(" < ")[0].partition(" >> ")[0])
    assert words[: len(path) + 1] == ["tidegate", *path]
    if path[0] in PARSED_ONLY:
        assert command.make_context(path[-1], words[len(path) + 1 :])
        return
    if path[0] in EMPTY_HOME:
        shutil.rmtree(place / "home")
    if path == ("session", "new"):
        assert run(cli, "tidegate session reset main --yes") == 0
        example = example.replace(" main ", " another ")
    if "anchors.jsonl" in example:
        assert run(cli, "tidegate audit anchor >> anchors.jsonl") == 0
    assert run(cli, example) == 0


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 15
