"""Expiry in the configuration: by tag and by level, by the owner alone, checked whole."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tidegate.config.reader import read_settings
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry


def load(home: Path, text: str, **environ: str) -> Expiry:
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text, encoding="utf-8")
    return read_settings(home, environ).expiry


def test_without_rules_nothing_expires(home: Path) -> None:
    assert not load(home, "")
    assert not load(home, "[expiry]\n[expiry.tags]\n")


def test_rules_by_tag_and_by_level_are_read(home: Path) -> None:
    rules = load(home, '[expiry.tags]\nscratch = "7d"\n"two words" = "12h"\n[expiry.levels]\nPUBLIC = "365d"\n')
    assert rules.tags == {"scratch": timedelta(days=7), "two words": timedelta(hours=12)}
    assert rules.levels == {Level.PUBLIC: timedelta(days=365)}


def test_tags_are_taken_as_they_are_stored(home: Path) -> None:
    assert list(load(home, '[expiry.tags]\n" cafe\u0301 " = "7d"\n').tags) == ["caf\u00e9"]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[expiry.tags]\nscratch = "a week"\n', "expiry.tags"),
        ("[expiry.tags]\nscratch = 7\n", "expiry.tags"),
        ('[expiry.tags]\nscratch = "0"\n', "expiry.tags"),
        ('[expiry]\ntags = "7d"\n', "expiry.tags"),
        ('[expiry.levels]\nSECRET = "7d"\n', "expiry.levels"),
        ('[expiry.levels]\npublic = "7d"\n', "expiry.levels"),
        ('[expiry.keys]\nk = "7d"\n', "expiry.keys"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(home: Path, text: str, named: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"config.toml: {named}: "):
        load(home, text)


def test_the_rule_that_will_not_do_is_named(home: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"; wrong: 'RESTRICTD'$"):
        load(home, '[expiry]\nlevels = {PUBLIC = "1d", RESTRICTD = "7d"}\n')
    with pytest.raises(InvalidArgument, match=r"; wrong: 'scratch'$"):
        load(home, '[expiry.tags]\nscratch = "a week"\nother = "7d"\n')


def test_a_variable_holds_rules_as_json(home: Path) -> None:
    assert load(home, "", TIDEGATE_EXPIRY_TAGS='{"scratch": "7d"}').tags == {"scratch": timedelta(days=7)}
    for text in ("7d", '{"scratch": 7}', "[" * 100_000):
        with pytest.raises(InvalidArgument, match=r"^TIDEGATE_EXPIRY_TAGS: "):
            load(home, "", TIDEGATE_EXPIRY_TAGS=text)
