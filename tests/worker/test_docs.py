"""docs/wakeups.md is true: its commands print what it says, its settings work, its numbers hold; so does the unit."""

from __future__ import annotations

import re
import shlex
from configparser import RawConfigParser
from pathlib import Path

import pytest
from tests.conftest import Run

from tidegate.cli.cron import cron
from tidegate.cli.main import root
from tidegate.config import channels as config_channels
from tidegate.config.reader import read_settings
from tidegate.jobs.job import JOBS_MAX, QUEUE_MAX, RunState
from tidegate.jobs.retention import RUNS_KEPT
from tidegate.policy.rules import GENERATIONS_MAX
from tidegate.worker.delivery import ATTEMPTS_MAX
from tidegate.worker.quiet_answer import NOTHING

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "wakeups.md").read_text(encoding="utf-8")
WORDS = " ".join(PAGE.split())
UNIT = (ROOT / "contrib" / "systemd" / "tidegate.service").read_text(encoding="utf-8")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_command_of_the_page_prints_what_the_page_says(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")
    told = "".join(block for block in blocks("console") if "pip install" not in block)
    shown = []
    for line in re.findall(r"^\$ tidegate (.*)$", told, re.MULTILINE):
        ran = cli(*shlex.split(line))
        assert ran.code == 0, (line, ran.err)
        shown.append(f"$ tidegate {line}\n{_TIME.sub('TIME', ran.out)}")
    assert "".join(shown) == told
    assert len(shown) > 8


def test_the_settings_of_the_page_work_and_are_all_kinds_of_channels(tmp_path: Path) -> None:
    (text,) = blocks("toml")
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    settings = read_settings(tmp_path, {})
    assert (settings.run.channel, settings.trigger.channel) == ("phone", "diary")
    assert set(settings.channels) == {"phone", "diary", "console"}
    assert set(re.findall(r'^kind = "(\w+)"', text, re.MULTILINE)) == set(config_channels.KEYS)


def test_every_state_and_every_command_is_explained() -> None:
    assert re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE) == [str(state) for state in RunState]
    assert set(cron.commands) - {"show"} <= set(re.findall(r"tidegate cron ([\w-]+)", PAGE))
    assert "run" in root.specs  # type: ignore[attr-defined]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"{JOBS_MAX} jobs at a level, and a job can have {QUEUE_MAX} queued runs" in WORDS
    assert f"after {GENERATIONS_MAX} generations it is refused" in WORDS
    assert f"The newest {RUNS_KEPT} runs of a job are kept" in WORDS
    assert f"{ATTEMPTS_MAX} times in about a day" in WORDS
    assert f"answers {NOTHING}, and Tidegate sends nothing" in WORDS


def test_the_unit_runs_the_command_and_lets_nobody_else_read_what_it_writes() -> None:
    unit = RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(UNIT)
    service = dict(unit["Service"])
    assert service["ExecStart"].endswith("/tidegate run")
    assert (service["UMask"], service["ProtectSystem"], service["NoNewPrivileges"]) == ("0077", "strict", "yes")
    assert unit["Install"]["WantedBy"] == "default.target"
