"""docs/servers.md is true: its configuration works, its keys are all there are, its Python runs, its numbers hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tidegate.config import servers as config_servers
from tidegate.config.reader import read_settings
from tidegate.gateway import connections, process, replies, tool_list, wire_guard
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification

DOCS = (Path(__file__).parent.parent.parent / "docs" / "servers.md").read_text(encoding="utf-8")


WORDS = " ".join(DOCS.split())


def block(language: str) -> str:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)[0]


def test_the_configuration_of_the_page_works(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(block("toml"), encoding="utf-8")
    servers = read_settings(tmp_path, {}).servers
    assert servers["files"].classify("anything") == Classification(Level.CONFIDENTIAL, Level.CONFIDENTIAL)
    assert servers["web"].classify("search") == Classification(Level.PUBLIC, Level.PUBLIC)
    assert servers["web"].classify("anything") is None


def test_every_key_of_a_server_is_explained() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \|", DOCS, re.MULTILINE)) == sorted(config_servers.KEYS)


def test_the_python_of_the_page_runs(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", block("python")],
        env={"TIDEGATE_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    mebibyte = 1024 * 1024
    assert f"may send {process.LINE_BYTES_MAX // mebibyte} MiB in one message" in WORDS
    assert f"and {wire_guard.CALL_BYTES_MAX // mebibyte} MiB during one call" in WORDS
    assert f"at most {connections.RESULT_VALUES_MAX:,} values in an answer" in WORDS
    assert f"or {tool_list.ENTRY_VALUES_MAX:,} values" in WORDS
    assert f"the first {replies.RESULT_CHARS_MAX:,} characters" in WORDS
    assert f"for each call; {config_servers.TIMEOUT_SECONDS} unless" in WORDS
