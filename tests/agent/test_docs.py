"""docs/agent.md is true: its commands print what it says, its settings work, its story is played with real servers."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agent.test_provider import serving
from tests.conftest import Ran, Run
from tests.gateway import test_real_servers

from tidegate.cli.chat_session import HELP
from tidegate.config.reader import read_settings
from tidegate.config.settings import ChatSettings

modules, owner = test_real_servers.modules, test_real_servers.owner  # fixtures
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "agent.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def blocks(language: str) -> list[str]:
    return [text for kind, text in _BLOCK.findall(PAGE) if kind == language]


def examples(language: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of such blocks, with the lines below it."""
    for block in blocks(language):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, sorted(output.splitlines())


def shown(ran: Ran) -> list[str]:
    """Both streams, as lines in no order; times are alike."""
    return sorted(_TIME.sub("TIME", ran.out + ran.err).splitlines())


def run(cli: Run, command: str, monkeypatch: pytest.MonkeyPatch) -> Ran:
    words = shlex.split(command)
    with monkeypatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        return cli(*words[1:])


def test_its_commands_print_what_it_says(cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home.mkdir()
    (home / "config.toml").write_text(blocks("toml")[0])
    told = [example for example in examples("console") if "tidegate" in example[0].split(" [")[0].split('"')[0]]
    assert len(told) > 12
    for command, output in told:
        assert shown(run(cli, command, monkeypatch)) == output, command


def test_its_settings_are_understood_and_are_what_it_says(tmp_path: Path) -> None:
    found = []
    for number, text in enumerate(blocks("toml")[:3]):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.toml").write_text(text)
        found.append(read_settings(folder, {}).chat)
    assert [chat.model for chat in found] == ["scripted", "qwen3:8b", "openai:gpt-5-mini"]
    assert [chat.base_url for chat in found] == [None, "http://127.0.0.1:11434/v1", None]
    assert found[2].model_clearance < ChatSettings().model_clearance


def test_the_local_models_settings_work_against_a_server_that_speaks_so(cli: Run, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    with serving(tmp_path / "requests") as server:
        local = blocks("toml")[1].replace("11434", str(server.port))
        (home / "config.toml").write_text(local)
        assert cli("chat", "--message", "Hello, my name is Ada.").code == 0
        assert json.loads(server.requests[0])["model"] == "qwen3:8b"


def test_its_story_is_played_with_real_servers(
    cli: Run, home: Path, owner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "story.json"
    script.write_text(blocks("json")[0].replace("/tmp/plans", str(owner)))
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", f"scripted:{script}")
    for command, output in examples("story"):
        assert shown(run(cli, command, monkeypatch)) == output, command
    assert not [file for file in home.rglob("public.db*") if b"orchid-4417" in file.read_bytes()]
    saved = cli("get", "launch", "--level", "CONFIDENTIAL", "--json").json
    assert (saved["classification"], saved["origin"]) == ("CONFIDENTIAL", "tool")
    assert cli("get", "launch", "--json").code == 1


def test_its_script_is_one(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s.json").write_text(blocks("json")[1])
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", f"scripted:{tmp_path / 's.json'}")
    assert cli("chat", "--message", "any plans?").out == "I know of none.\n"


def test_the_commands_at_the_terminal_are_those_of_help() -> None:
    told = set(re.findall(r"^\| `(/\w+)", PAGE, re.MULTILINE))
    assert told <= set(re.findall(r"^(/\w+)", HELP, re.MULTILINE))
    assert len(told) >= 7


@pytest.mark.parametrize("page", ["agent.md", "attacks.md"])
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)", (DOCS / page).read_text(encoding="utf-8")):
        assert (DOCS / target).exists(), target
