"""The sections [run], [trigger] and [channels.NAME]: what they may say, and what a mistake is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidegate.config import channels as config_channels
from tidegate.config.reader import read_settings
from tidegate.config.settings import RunSettings, Settings, TriggerSettings
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level


def loaded(home: Path, text: str, **environ: str) -> Settings:
    (home / "config.toml").write_text(text, encoding="utf-8")
    return read_settings(home, environ)


def test_without_a_word_there_is_a_default_for_everything(tmp_path: Path) -> None:
    settings = read_settings(tmp_path, {})
    assert (settings.run, settings.trigger, settings.channels) == (RunSettings(), TriggerSettings(), {})
    assert settings.trigger.level is Level.INTERNAL


def test_every_key_counts(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        """
        [run]
        grace_minutes = 5
        time_limit_minutes = 2
        lease_seconds = 30
        rerun_interrupted = false
        channel = "diary"
        [trigger]
        every_minutes = 10
        quiet = "22:00-07:00"
        timezone = "Europe/Berlin"
        level = "INTERNAL"
        ceiling = "CONFIDENTIAL"
        channel = "phone"
        [channels.phone]
        kind = "log"
        [channels.diary]
        kind = "log"
        """,
    )
    assert settings.run == RunSettings(5, 2, 30, False, "diary")
    trigger = TriggerSettings(10, "22:00-07:00", "Europe/Berlin", Level.INTERNAL, Level.CONFIDENTIAL, "phone")
    assert settings.trigger == trigger


def test_variables_win(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        CHANNEL.replace("diary", "x") + "[trigger]\nevery_minutes = 10\n",
        TIDEGATE_TRIGGER_EVERY_MINUTES="20",
        TIDEGATE_RUN_CHANNEL="x",
    )
    assert (settings.trigger.every_minutes, settings.run.channel) == (20, "x")


@pytest.mark.parametrize("section", ["run", "trigger"])
def test_a_channel_that_nobody_configured_is_refused(tmp_path: Path, section: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{section}\.channel: no section \[channels\.phone\]; channels: none"):
        loaded(tmp_path, f'[{section}]\nchannel = "phone"\n')
    with pytest.raises(InvalidArgument, match="channels: diary"):
        loaded(tmp_path, CHANNEL, **{f"TIDEGATE_{section.upper()}_CHANNEL": "phone"})


def test_a_ceiling_below_the_level_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be below") as caught:
        loaded(tmp_path, '[trigger]\nlevel = "INTERNAL"\nceiling = "PUBLIC"\n')
    assert caught.value.details["argument"] == "trigger.ceiling"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("trigger.every_minutes", "0"),
        ("trigger.quiet", '"22-7"'),
        ("trigger.timezone", '"Mars"'),
        ("trigger.level", '"SECRET"'),
        ("trigger.channel", '"No Such"'),
        ("run.lease_seconds", "-1"),
        ("run.rerun_interrupted", '"yes"'),
        ("run.unknown", "1"),
    ],
)
def test_a_mistake_is_named_with_its_key(tmp_path: Path, key: str, value: str) -> None:
    section, _, name = key.partition(".")
    with pytest.raises(InvalidArgument, match=rf"^config.toml: {re.escape(key)}: ") as caught:
        loaded(tmp_path, f"# first\n[{section}]\n{name} = {value}\n")
    assert caught.value.details == {"argument": "config.toml"}


CHANNEL = '[channels.diary]\nkind = "file"\npath = "/var/tmp/diary"\nclearance = "INTERNAL"\n'


def test_channels_of_each_kind(tmp_path: Path) -> None:
    channels = loaded(
        tmp_path,
        CHANNEL
        + '[channels.console]\nkind = "log"\n'
        + '[channels.phone]\nkind = "apprise"\nurl_env = "PHONE"\nclearance = "PUBLIC"\n'
        + '[channels.hook]\nkind = "apprise"\nurl = "json://user:hush@localhost"\n',
    ).channels
    assert channels["diary"] == config_channels.ChannelSettings("diary", "file", Level.INTERNAL, Path("/var/tmp/diary"))
    assert channels["console"].clearance is None
    assert channels["phone"].url_env == "PHONE"
    assert "hush" not in repr(channels)


def test_a_path_may_begin_with_the_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/var/tmp")
    assert loaded(tmp_path, CHANNEL.replace("/var/tmp/", "~/")).channels["diary"].path == Path("/var/tmp/diary")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("channels.diary", "channels.Diary", "a channel's name must be"),
        ('kind = "file"', "", r"channels\.diary: needs a kind, one of log, file, apprise"),
        ('"file"', '["file"]', r"channels\.diary\.kind: must be one of"),
        ('"file"', '"mail"', r"channels\.diary\.kind: must be one of"),
        ('path = "/var/tmp/diary"', "", "needs a path"),
        ('"/var/tmp/diary"', '"diary"', "must be an absolute path"),
        ('"/var/tmp/diary"', '""', "must be a string that is not empty"),
        ('"/var/tmp/diary"', "5", "must be a string that is not empty"),
        ('"INTERNAL"', '"SECRET"', "clearance: must be one of PUBLIC"),
        ("path", "url", r"unknown key; known for file: kind, clearance, path"),
        ('"file"\npath = "/var/tmp/diary"', '"apprise"', "needs a url or a url_env, and not both"),
        ('"file"\npath = "/var/tmp/diary"', '"apprise"\nurl = "x"\nurl_env = "Y"', "needs a url or a url_env"),
        ('"file"\npath = "/var/tmp/diary"', '"apprise"\nurl_env = "json://x"', "name of an environment variable"),
        ("[channels.diary]", "[[channels.diary]]", "must be a section"),
        ("[channels.diary]", "[channels]\ndiary = 5\n[limits]", "must be a section"),
    ],
)
def test_a_channel_that_will_not_do_is_named(tmp_path: Path, before: str, after: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^config.toml: .*{words}"):
        loaded(tmp_path, CHANNEL.replace(before, after))


@pytest.mark.parametrize("text", ["channels = 5", 'channels = "x"'])
def test_channels_that_are_no_sections_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidArgument, match="must be sections"):
        loaded(tmp_path, text)


def test_there_are_only_so_many_channels(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="more than 32 channels"):
        loaded(tmp_path, "".join(f'[channels.c{number}]\nkind = "log"\n' for number in range(33)))


def test_a_file_in_the_home_is_refused_by_whatever_way_it_is_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "link").symlink_to(home)
    for path in (
        home / "diary",
        home / "agents" / "x" / "public.db",
        tmp_path / "link" / "diary",
        home / ".." / "home" / "d",
    ):
        with pytest.raises(InvalidArgument, match="is in the home"):
            loaded(home, CHANNEL.replace("/var/tmp/diary", str(path)))
