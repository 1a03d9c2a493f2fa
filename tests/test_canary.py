"""No byte that is stored or said below a level holds that level's secret."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from tests.yardstick import leaks_storage
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, InMemoryBackend, SqliteBackend
from tests.yardstick.canary import SECRETS, Emitted, answers, files, holds, script, stained, told
from tests.yardstick.effort import portions
from tests.yardstick.generate import random_trace
from tests.yardstick.leaks import know_the_home
from tests.yardstick.worlds import World

from tidegate.policy.levels import Level


@pytest.fixture
def disk() -> Iterator[SqliteBackend]:
    made = SqliteBackend()
    yield made
    made.close()


def leaked(emitted: list[Emitted]) -> list[str]:
    return [f"{level} in {each.where}: {each.data[:2000]!r}" for each in emitted for level in told(each)]


def on_disk(backend: SqliteBackend, steps: t.Trace) -> list[Emitted]:
    """What was said, and what lies in the home while it is open, and once it is closed."""
    world = World(backend)
    emitted = list(answers(world, steps))
    emitted += files(backend.home)
    world.close()
    return emitted + list(files(backend.home))


def test_no_answer_holds_the_secret_of_a_level_above(backend: Backend) -> None:
    world = World(backend)
    said = list(answers(world, script()))
    world.close()
    assert not leaked(said)
    for level in Level:
        mine = [each for each in said if each.level is level]
        assert sum(holds(each.data, SECRETS[level]) for each in mine) > 10, "the script says too little"


def test_the_search_finds_what_a_fault_copies_down(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = InMemoryBackend()
    know_the_home(monkeypatch)
    leaks_storage.a_save_is_copied_to_the_levels_below(monkeypatch)
    assert leaked(list(answers(World(backend), script())))
    backend.close()


def test_no_file_holds_the_secret_of_a_level_above(disk: SqliteBackend) -> None:
    emitted = on_disk(disk, script())
    assert not leaked(emitted)
    for level in Level:
        name = f"agents/ada/{level.name.lower()}.db"
        assert any(holds(each.data, SECRETS[level]) for each in emitted if each.where == name)


def test_the_control_store_holds_no_secret_at_all(disk: SqliteBackend) -> None:
    control = [each for each in on_disk(disk, script()) if each.where.startswith("control.db")]
    assert control
    assert not [secret for secret in SECRETS.values() for each in control if holds(each.data, secret)]


def test_an_audit_row_holds_no_content_key_tag_or_query(backend: Backend) -> None:
    world = World(backend)
    world.run(script())
    for level in Level:
        with world.compartment("ada", level) as compartment:
            entries = repr(list(compartment.entries())).encode()
        assert len(entries) > 1_000
        assert not [secret for secret in SECRETS.values() if holds(entries, secret)]
    world.close()


def test_nothing_is_logged_or_printed(
    backend: Backend, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    world = World(backend)
    world.run(script())
    world.close()
    assert not [record for record in caplog.records if record.name.startswith("tidegate")]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("seeds", portions(50, 2_000, size=25), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_random_traces_leave_no_secret_below_its_level(disk: SqliteBackend, seeds: range) -> None:
    for seed in seeds:
        assert not leaked(on_disk(disk, stained(random_trace(f"canary {seed}", 30)))), f"seed 'canary {seed}'"


@pytest.mark.parametrize("form", ["plain", "hex", "base64"])
def test_a_secret_is_found_in_every_form(form: str) -> None:
    import base64

    secret = SECRETS[Level.RESTRICTED]
    data = {"plain": secret.encode(), "hex": secret.encode().hex().encode()}
    data["base64"] = base64.urlsafe_b64encode(f"a key, then {secret}, then more".encode())
    assert holds(b"before " + data[form] + b" after", secret)
    assert told(Emitted("there", Level.PUBLIC, data[form])) == [Level.RESTRICTED]
    assert told(Emitted("there", Level.RESTRICTED, data[form])) == []
