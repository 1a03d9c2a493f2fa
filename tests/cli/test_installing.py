"""What a command says to install is installed where this program is, by words that work from the current folder."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Run

from tidegate.cli import installing
from tidegate.cli.installing import install_command

CHECKOUT = {"dir_info": {"editable": True}}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a virtual environment that is not active, and no other program."""
    folder = tmp_path / "a checkout"
    (folder / ".venv" / "bin").mkdir(parents=True)
    monkeypatch.setattr(sys, "executable", str(folder / ".venv" / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(folder)
    return folder


def installed_from(monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None) -> None:
    text = None if origin is None else json.dumps(origin)
    monkeypatch.setattr(installing, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))


def test_in_a_checkout_it_is_the_checkout_again_with_the_extra(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": checkout.as_uri(), **CHECKOUT})
    assert install_command("tidegate[agent]") == ".venv/bin/python -m pip install -e '.[agent]'"


def test_elsewhere_it_names_the_checkout(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": checkout.as_uri(), **CHECKOUT})
    monkeypatch.chdir(checkout / ".venv" / "bin")
    python = checkout / ".venv" / "bin" / "python"
    assert install_command("tidegate[agent]") == f"'{python}' -m pip install -e '{checkout}[agent]'"


def test_of_a_folder_that_was_installed_it_is_the_folder(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed_from(monkeypatch, {"url": checkout.as_uri(), "dir_info": {}})
    assert install_command("tidegate[server]") == ".venv/bin/python -m pip install '.[server]'"


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        (None, "'tidegate[agent]'"),
        (
            {"url": "file:///x/tidegate-0.1.0-py3-none-any.whl", "archive_info": {}},
            "'tidegate[agent] @ file:///x/tidegate-0.1.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://host/tidegate.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'tidegate[agent] @ git+https://host/tidegate.git@abc'",
        ),
    ],
    ids=["registry", "wheel", "repository"],
)
def test_it_comes_from_where_the_package_came_from(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, origin: dict[str, Any] | None, words: str
) -> None:
    installed_from(monkeypatch, origin)
    assert install_command("tidegate[agent]") == f".venv/bin/python -m pip install {words}"


def test_a_package_that_is_not_installed_comes_from_a_registry(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(installing, "distribution", missing)
    assert install_command("tidegate[agent]").endswith(" install 'tidegate[agent]'")


def test_of_another_package_it_is_that_package(checkout: Path) -> None:
    command = install_command("pydantic-ai-slim[anthropic]")
    assert command == ".venv/bin/python -m pip install 'pydantic-ai-slim[anthropic]'"


def test_without_pip_it_is_for_uv(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda _: None)
    command = install_command("pydantic-ai-slim[groq]")
    assert command == "uv pip install --python .venv/bin/python 'pydantic-ai-slim[groq]'"


def test_an_interpreter_on_the_path_is_called_by_its_name(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path(sys.executable)
    python.touch(0o700)
    monkeypatch.setenv("PATH", str(python.parent))
    assert install_command("x[y]") == "python -m pip install 'x[y]'"


# What commands say


def test_a_command_says_what_is_missing_and_for_people_what_installs_it(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "openai:any")
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    said = cli("chat", "--message", "hello")
    missing = "chat.model: the model library is not installed; it comes with tidegate[agent]"
    assert (said.code, said.out, said.err) == (2, "", f"tidegate: {missing}: {install_command('tidegate[agent]')}\n")
    error = cli("chat", "--message", "hello", "--json").error
    assert (error["message"], error["install"]) == (missing, "tidegate[agent]")
    assert os.sep not in str(error)  # P12


def test_a_chat_at_the_terminal_says_so_before_anything_is_made(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    monkeypatch.setitem(sys.modules, "rich", None)
    said = cli("chat", terminal=True)
    assert said.code == 2
    assert said.err.startswith("tidegate: chat: the terminal library is not installed; it comes with tidegate[agent]: ")
    assert not home.exists()


def test_a_run_that_has_channels_for_it_says_that_apprise_is_missing(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    channel = '[channels.phone]\nkind = "apprise"\nurl_env = "URL"\nclearance = "PUBLIC"\n'
    (home / "config.toml").write_text(f'[chat]\nmodel = "scripted"\n{channel}')
    monkeypatch.setitem(sys.modules, "apprise", None)
    assert "apprise is not installed" in cli("run", "--once").err
    monkeypatch.delitem(sys.modules, "apprise")
    assert "apprise" not in cli("run", "--once").err
