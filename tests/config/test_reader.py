"""`config.toml` and the variables: checked whole, and every complaint names its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tidegate.config.reader import check_environment, read_settings
from tidegate.config.settings import AuditSettings, DefaultSettings, Settings, StorageSettings
from tidegate.errors import InvalidArgument, StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.records.limits import Limits

FULL = """
[limits]
key_chars_max = 100
content_bytes_max = 2_000
tags_max = 3
tag_chars_max = 4
query_chars_max = 5

[storage]
durability = "full"

[audit]
reads = true
key_file = "audit.key"
"""


def settings(folder: Path, text: str | bytes, **environ: str) -> Settings:
    data = text if isinstance(text, bytes) else text.encode()
    (folder / "config.toml").write_bytes(data)
    try:
        return read_settings(folder, environ)
    finally:
        assert (folder / "config.toml").read_bytes() == data, "the file is never rewritten"


def refused(folder: Path, text: str | bytes, **environ: str) -> InvalidArgument:
    with pytest.raises(InvalidArgument) as caught:
        settings(folder, text, **environ)
    assert "\n" not in caught.value.message
    return caught.value


def test_without_a_file_everything_is_the_default(tmp_path: Path) -> None:
    assert read_settings(tmp_path, {}) == Settings(
        DefaultSettings(Level.INTERNAL), Limits(), StorageSettings("normal"), AuditSettings(reads=False, key_file=None)
    )


def test_every_setting_can_be_set(tmp_path: Path) -> None:
    assert settings(tmp_path, FULL) == Settings(
        limits=Limits(key_chars_max=100, content_bytes_max=2000, tags_max=3, tag_chars_max=4, query_chars_max=5),
        storage=StorageSettings(durability="full"),
        audit=AuditSettings(reads=True, key_file=tmp_path / "audit.key"),
    )


@pytest.mark.parametrize("text", [b"", b"\n", b"# nothing\n", b"\xef\xbb\xbf", b"[limits]\n", b"\r\n\r\n"])
def test_an_empty_file_is_the_default(tmp_path: Path, text: bytes) -> None:
    assert settings(tmp_path, text) == Settings()


@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_byte_order_mark_and_either_line_end_are_accepted(tmp_path: Path, bom: bytes, line_end: str) -> None:
    assert settings(tmp_path, bom + FULL.replace("\n", line_end).encode()) == settings(tmp_path, FULL)


@pytest.mark.parametrize(
    ("text", "line", "about"),
    [
        ("[limits]\nkey_chars_max = 100,\n", 2, "key_chars_max: is not valid TOML"),
        ("[limits]\r\nkey_chars_max = 100,\r\n", 2, "key_chars_max: is not valid TOML"),
        ("\n\n[limits\n", 3, "not valid TOML"),
        ('[audit]\nreads = true\nkey_file = "x', 3, "key_file: is not valid TOML"),
        ("[audit]\nreads = true\nreads = false\n", 3, "reads: is not valid TOML"),
        ("[storage]\ndurability = [\n'full',", 3, "not valid TOML"),
        ("[audit]\nkey_file = 'a\\u0000'\n[audit]", 3, "is not valid TOML"),
    ],
)
def test_what_is_not_toml_is_named_with_file_line_and_key(tmp_path: Path, text: str, line: int, about: str) -> None:
    error = refused(tmp_path, text)
    assert error.message.startswith(f"config.toml, line {line}: ")
    assert about in error.message
    assert error.details["line"] == line


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("# x\n[limit]\n", "limit: unknown section"),
        ("colour = 1\n", "colour: unknown key"),
        ("limits = 5\n", "limits: must be a section"),
        ("[[limits]]\n", "limits: must be a section"),
        ("[limits]\n\nkey_max = 5\n", "limits.key_max: unknown key"),
        ('[storage]\ndurability = """\nx"""\nother = 1', "storage.durability: must be"),
        ('[limits]\nkey_chars_max = "100"\n', "limits.key_chars_max: must be a whole number"),
        ("[limits]\ntags_max = true\n", "limits.tags_max: must be a whole number"),
        ("[limits]\ntags_max = 0\n", "limits.tags_max: must be a whole number"),
        ("[limits]\ntags_max = 1.0\n", "limits.tags_max: must be a whole number"),
        ("[limits]\ntags_max = 100_000_001\n", "limits.tags_max: must be a whole number"),
        ("limits.tags_max = -1\n", "limits.tags_max: must be a whole number"),
        ("[storage]\ndurability = 'off'\n", 'storage.durability: must be "normal" or "full"'),
        ("[storage]\ndurability = ['full']\n", "storage.durability: must be"),
        ("[audit]\nreads = 1\n", "audit.reads: must be true or false"),
        ("[audit]\nkey_file = ''\n", "audit.key_file: must be the path of a file"),
        ('[audit]\nkey_file = "a\\u0000"', "audit.key_file: must be the path of a file"),
    ],
)
def test_a_mistake_is_named_with_file_and_key(tmp_path: Path, text: str, about: str) -> None:
    error = refused(tmp_path, text)
    assert error.message.startswith(f"config.toml: {about}")
    assert error.details == {"argument": "config.toml"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[limits\n", "(expected ']' at the end of a table declaration)"),
        ('x = "canary', "(unterminated string)"),
        ("[canary]\n[canary]\n", "(cannot declare … twice)"),
        ("x = {canary = 1, canary = 2}", "(duplicate inline table key …)"),
        ("x canary", "(expected '=' after a key in a key/value pair)"),
        ("x = canary", "(invalid value)"),
    ],
)
def test_what_is_not_toml_is_explained_without_what_stands_there(tmp_path: Path, text: str, reason: str) -> None:
    message = refused(tmp_path, text).message
    assert reason in message
    assert "canary" not in message


def test_a_file_that_is_not_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    assert refused(tmp_path, b"[audit]\nreads = true # \xff\n").message == "config.toml, line 2: is not UTF-8"


def test_utf_16_is_refused(tmp_path: Path) -> None:
    assert "not UTF-8" in refused(tmp_path, FULL.encode("utf-16")).message


def test_a_file_of_nested_brackets_is_refused(tmp_path: Path) -> None:
    assert "nested too deeply" in refused(tmp_path, "x = " + "[" * 50_000).message


def test_a_number_of_many_digits_is_refused(tmp_path: Path) -> None:
    assert "config.toml, line " in refused(tmp_path, "[limits]\ntags_max = " + "1" * 5000).message


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    assert "larger than" in refused(tmp_path, b"#" * (64 * 1024 + 1)).message


def test_what_is_no_plain_file_is_neither_waited_for_nor_read_without_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "audit.key")
    with pytest.raises(InvalidArgument, match=r"audit\.key_file: cannot be read"):
        settings(tmp_path, FULL).audit.secret()
    with pytest.raises(InvalidArgument, match=r"audit\.key_file: cannot be read"):
        settings(tmp_path, FULL.replace("audit.key", "/dev/zero")).audit.secret()
    (tmp_path / "config.toml").unlink()
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(StorageError, match=r"config\.toml: cannot be read"):
        read_settings(tmp_path, {})


def test_a_file_that_cannot_be_read_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    with pytest.raises(StorageError, match=r"config.toml: cannot be read"):
        read_settings(tmp_path, {})


def test_a_variable_comes_before_the_file(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        FULL,
        TIDEGATE_LIMITS_TAGS_MAX="7",
        TIDEGATE_STORAGE_DURABILITY="normal",
        TIDEGATE_AUDIT_READS="false",
        TIDEGATE_AUDIT_KEY_FILE="/keys/a",
    )
    assert (found.limits.tags_max, found.limits.key_chars_max) == (7, 100)
    assert (found.storage.durability, found.audit.reads, found.audit.key_file) == ("normal", False, Path("/keys/a"))


def test_the_file_is_checked_even_where_a_variable_overrides_it(tmp_path: Path) -> None:
    assert "audit.reads: " in refused(tmp_path, "[audit]\nreads = 1\n", TIDEGATE_AUDIT_READS="true").message


@pytest.mark.parametrize(
    ("name", "text", "about"),
    [
        ("TIDEGATE_LIMITS_TAGS", "1", "unknown variable; known: TIDEGATE_LIMITS_KEY_CHARS_MAX, "),
        ("TIDEGATE_AUDIT_", "1", "unknown variable; known: TIDEGATE_AUDIT_READS, "),
        ("TIDEGATE_LIMITS_TAGS_MAX", "many", "must be a whole number"),
        ("TIDEGATE_LIMITS_TAGS_MAX", "", "must be a whole number"),
        ("TIDEGATE_LIMITS_TAGS_MAX", "-1", "must be a whole number"),
        ("TIDEGATE_LIMITS_TAGS_MAX", "9" * 5000, "must be a whole number"),
        ("TIDEGATE_AUDIT_READS", "yes", "must be true or false"),
        ("TIDEGATE_AUDIT_READS", "", "must be true or false"),
        ("TIDEGATE_STORAGE_DURABILITY", "FULL", 'must be "normal" or "full"'),
        ("TIDEGATE_AUDIT_KEY_FILE", "", "must be the path of a file"),
    ],
)
def test_a_mistake_in_a_variable_is_named_with_the_variable(tmp_path: Path, name: str, text: str, about: str) -> None:
    error = refused(tmp_path, "", **{name: text})
    assert error.message.startswith(f"{name}: {about}")
    assert error.details["argument"] == name


def test_other_variables_are_nobodys_business(tmp_path: Path) -> None:
    assert settings(tmp_path, "", TIDEGATE_HOME="/x", TIDEGATE_TEST_DEEP="1", LIMITS="x") == Settings()


@pytest.mark.parametrize("secret", [b"0123456789abcdef", b"0123456789abcdef\n", bytes(32)])
def test_the_audit_secret_is_the_key_file_as_it_is(tmp_path: Path, secret: bytes) -> None:
    (tmp_path / "audit.key").write_bytes(secret)
    assert settings(tmp_path, FULL).audit.secret() == secret


def test_without_a_key_file_there_is_no_audit_secret() -> None:
    assert Settings().audit.secret() is None


@pytest.mark.parametrize("secret", [None, b"", b"short", bytes(65_537)])
def test_p9_a_key_file_that_is_missing_too_short_or_too_long_is_refused(tmp_path: Path, secret: bytes | None) -> None:
    if secret is not None:
        (tmp_path / "audit.key").write_bytes(secret)
    with pytest.raises(TidegateError, match=r"^audit.key_file: "):
        settings(tmp_path, FULL).audit.secret()


def test_a_variable_that_will_not_do_is_found_without_a_home() -> None:
    check_environment({"TIDEGATE_LIMITS_TAGS_MAX": "1", "PATH": "/"})
    with pytest.raises(InvalidArgument, match=r"^TIDEGATE_LIMITS_TAGS_MAX: must be"):
        check_environment({"TIDEGATE_LIMITS_TAGS_MAX": "0"})


@pytest.mark.parametrize(
    ("text", "variables", "expected"),
    [
        ("", {}, "INTERNAL INTERNAL INTERNAL"),
        ('[defaults]\nlevel = "PUBLIC"\n', {}, "PUBLIC PUBLIC PUBLIC"),
        ('[defaults]\nlevel = "PUBLIC"\n[chat]\nlevel = "INTERNAL"\n', {}, "PUBLIC INTERNAL PUBLIC"),
        ('[defaults]\nlevel = "PUBLIC"\n[trigger]\nlevel = "CONFIDENTIAL"\n', {}, "PUBLIC PUBLIC CONFIDENTIAL"),
        ('[chat]\nlevel = "PUBLIC"\n', {}, "INTERNAL PUBLIC INTERNAL"),
        ('[trigger]\nlevel = "PUBLIC"\n', {"DEFAULTS": "RESTRICTED"}, "RESTRICTED RESTRICTED PUBLIC"),
        (
            '[defaults]\nlevel = "PUBLIC"\n',
            {"DEFAULTS": "RESTRICTED", "CHAT": "INTERNAL"},
            "RESTRICTED INTERNAL RESTRICTED",
        ),
    ],
)
def test_chat_and_trigger_start_at_the_default_unless_they_say_otherwise(
    tmp_path: Path, text: str, variables: dict[str, str], expected: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    settings = read_settings(tmp_path, {f"TIDEGATE_{section}_LEVEL": level for section, level in variables.items()})
    found = (settings.defaults.level, settings.chat.level, settings.trigger.level)
    assert " ".join(map(str, found)) == expected


def test_a_ceiling_of_the_trigger_below_the_default_says_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[trigger]\nceiling = "PUBLIC"\n')
    with pytest.raises(InvalidArgument, match=r"^trigger\.ceiling: cannot be below trigger\.level, which is INTERNAL"):
        read_settings(tmp_path, {})
    (tmp_path / "config.toml").write_text('[trigger]\nceiling = "PUBLIC"\nlevel = "PUBLIC"\n')
    assert read_settings(tmp_path, {}).trigger.level is Level.PUBLIC
