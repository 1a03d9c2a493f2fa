"""docs/configuration.md is true: its settings are all there are, with the defaults, and its variables are settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tidegate.config import reader as config
from tidegate.config.reader import read_settings
from tidegate.config.settings import Settings
from tidegate.records.limits import Limits

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")


def test_the_settings_of_the_page_are_all_there_are_and_the_defaults(tmp_path: Path) -> None:
    [block] = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "config.toml").write_text(block, encoding="utf-8")
    assert read_settings(tmp_path, {}) == Settings(limits=Limits())
    everything = tomllib.loads(re.sub(r"^# (?=\w+ = )", "", block, flags=re.MULTILINE))
    assert {section: set(table) for section, table in everything.items()} == {
        section: set(kinds) for section, kinds in config.SECTIONS.items()
    }


@pytest.mark.parametrize("name", re.findall(r"TIDEGATE_[A-Z]+_[A-Z_]+", PAGE))
def test_the_variables_of_the_page_are_settings(name: str) -> None:
    _, section, key = name.lower().split("_", 2)
    assert key in config.SECTIONS[section]
