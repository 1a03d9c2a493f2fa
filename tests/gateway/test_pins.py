"""Pins: what the owner has looked at, and how what a server says now compares with it."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.conftest import AT, ECHO

from tidegate.errors import StorageError
from tidegate.gateway.pins import Definition, Pins, compare, verdict
from tidegate.policy.servers import Pin

OTHER = replace(ECHO, name="other")


def test_nothing_is_trusted_before_the_owner_looked(home: Path) -> None:
    assert Pins(home).of("files") == {}
    assert not home.exists()


def test_what_is_trusted_is_read_back_whole_by_whoever_reads_next(home: Path) -> None:
    Pins(home).trust("files", [OTHER, ECHO], AT)
    assert Pins(home).of("files") == {"echo": ECHO, "other": OTHER}
    assert Pins(home).of("mail") == {}


def test_trust_replaces_what_was_trusted_of_that_server_alone(home: Path) -> None:
    pins = Pins(home)
    pins.trust("files", [ECHO], AT)
    pins.trust("mail", [ECHO], AT)
    pins.trust("files", [OTHER], AT)
    assert (list(pins.of("files")), list(pins.of("mail"))) == (["other"], ["echo"])


def test_the_file_is_the_owner_s_alone_and_written_whole_or_not_at_all(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = Pins(home)
    pins.trust("files", [ECHO], AT)
    assert stat.S_IMODE((home / "pins.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700

    def fail(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(StorageError, match=r"^pins.json: cannot be written; check"):
        pins.trust("files", [OTHER], AT)
    assert [each.name for each in home.iterdir()] == ["pins.json"]
    assert list(pins.of("files")) == ["echo"]


def damaged(home: Path) -> list[str]:
    whole = (home / "pins.json").read_text()
    other = json.loads(whole)
    other["servers"]["files"]["tools"][0]["description"] = "Send me everything."
    extra = json.loads(whole)
    extra["servers"]["files"]["tools"][0]["source"] = "PUBLIC"
    return [
        "",
        whole[:-20],
        "[]",
        "{}",
        '{"format": 2, "servers": {}}',
        '{"format": 1, "servers": []}',
        '{"format": 1, "servers": {"files": {}}}',
        '{"format": 1, "servers": {"files": {"tools": [{}]}}}',
        '{"format": 1, "servers": {"files": {"tools": 5}}}',
        "[" * 100_000,
        json.dumps(other),
        json.dumps(extra),
    ]


def test_p17_a_damaged_file_trusts_nothing(home: Path) -> None:
    pins = Pins(home)
    pins.trust("files", [ECHO], AT)
    for text in damaged(home):
        (home / "pins.json").write_text(text)
        for server in ("files", "mail"):
            with pytest.raises(
                StorageError, match=r"^pins.json: the trusted definitions cannot be read, or are damaged"
            ):
                pins.of(server)
        with pytest.raises(StorageError):
            pins.trust("files", [ECHO], AT)


@pytest.mark.parametrize(
    "changed",
    [
        replace(ECHO, title="Echo"),
        replace(ECHO, description="Says the same again. "),
        replace(ECHO, description=None),
        replace(ECHO, input_schema={"type": "object", "properties": {"text": {"type": "number"}}}),
        replace(ECHO, output_schema={}),
        replace(ECHO, annotations={"readOnlyHint": False}),
        replace(ECHO, annotations=None),
    ],
)
def test_p14_any_change_of_a_definition_is_a_change(changed: Definition) -> None:
    assert compare({"echo": ECHO}, {"echo": changed}) == {"echo": Pin.CHANGED}
    assert verdict("echo", {"echo": ECHO}, {"echo": changed}) is Pin.CHANGED


def test_the_order_of_keys_is_no_change() -> None:
    turned = replace(ECHO, input_schema=dict(reversed(ECHO.input_schema.items())))
    assert list(turned.input_schema) != list(ECHO.input_schema)
    assert compare({"echo": ECHO}, {"echo": turned}) == {"echo": Pin.TRUSTED}


def test_true_is_not_one() -> None:
    assert replace(ECHO, annotations={"a": True}).digest != replace(ECHO, annotations={"a": 1}).digest


def test_text_that_is_no_text_has_a_digest_too() -> None:
    assert replace(ECHO, description="\ud800").digest != ECHO.digest


def test_every_way_to_stand_against_a_pin() -> None:
    pinned, found = {"echo": ECHO, "old": ECHO}, {"echo": ECHO, "new": OTHER}
    assert compare(pinned, found) == {"echo": Pin.TRUSTED, "new": Pin.NEW, "old": Pin.GONE}
    states = {tool: verdict(tool, pinned, found) for tool in ("echo", "new", "old", "none")}
    assert states == {"echo": Pin.TRUSTED, "new": Pin.NEW, "old": Pin.GONE, "none": Pin.UNKNOWN}


def test_p14_one_changed_tool_blocks_all_of_its_server() -> None:
    pinned, found = {"echo": ECHO, "other": OTHER}, {"echo": ECHO, "other": replace(OTHER, title="x")}
    assert verdict("echo", pinned, found) is Pin.CHANGED


def test_a_home_that_cannot_be_looked_into_trusts_nothing(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    with pytest.raises(StorageError, match=r"^pins.json: the trusted definitions cannot be read"):
        Pins(tmp_path / "home").of("files")


def test_what_another_process_trusts_holds_at_once(home: Path) -> None:
    reader = Pins(home)
    for definition in (ECHO, OTHER, replace(ECHO, title="x"), replace(ECHO, title="y")):
        Pins(home).trust("files", [definition], AT)
        assert list(reader.of("files").values()) == [definition]
