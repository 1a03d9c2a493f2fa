"""`doctor`: findings in words and as JSON Lines, an honest exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.storage.scene import database, raw


def test_a_home_that_is_well_is_exit_0(cli: Run) -> None:
    cli("save", "k", "one")
    ran = cli("doctor")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.endswith("no problems found\n")
    assert cli("doctor", "--json").stderr == b""


def test_a_home_that_is_not_there_is_exit_0_and_not_made(cli: Run, home: Path) -> None:
    ran = cli("doctor")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == f"no home at {home}: nothing has been saved there yet\n"
    assert cli("doctor", "--json").stderr == b""
    assert not home.exists()


def test_findings_are_exit_1_and_say_what_to_do(cli: Run, home: Path) -> None:
    cli("save", "k", "one", "--level", "PUBLIC")
    raw(database(home), "DELETE FROM tagged", "UPDATE audit SET detail = 'forged'")
    ran = cli("doctor")
    assert ran.code == 1
    assert ran.out.splitlines()[0].startswith("error     agents/assistant/public.db: audit entry 1: ")
    assert ran.out.splitlines()[1].startswith("          ")
    (finding,) = [json.loads(line) for line in cli("doctor", "--json").out.splitlines()]
    assert set(finding) == {"severity", "where", "problem", "advice", "repaired"}
    told = ran.err.splitlines()
    assert told[0] == f"home: {home}"
    assert str(home) not in ran.out + "".join(told[1:])


def test_what_was_found_by_then_is_shown_when_an_examination_breaks_off(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("save", "k", "one")
    home.chmod(0o755)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("tidegate.owner.doctor.examine_compartment", fail)
    ran = cli("doctor")
    assert (ran.code, ran.out.startswith("warning   home: other users can access it")) == (3, True)


def test_anchors_are_met_as_audit_verify_meets_them(cli: Run, home: Path, tmp_path: Path) -> None:
    cli("save", "k", "one", "--level", "PUBLIC")
    anchors = tmp_path / "anchors.jsonl"
    anchors.write_bytes(cli("audit", "anchor").stdout)
    assert cli("doctor", "--anchor", str(anchors)).code == 0
    raw(database(home), "DELETE FROM audit", "DELETE FROM records", "DELETE FROM tagged")
    assert "was anchored at 1" in cli("doctor", "--anchor", str(anchors)).out
    assert cli("doctor", "--anchor", str(tmp_path / "none"), "--json").error["argument"] == "anchor"


def test_repair_puts_right_what_is_safe_to_and_exit_is_1_while_anything_is_left(cli: Run, home: Path) -> None:
    cli("save", "k", "one", "--tag", "t", "--level", "PUBLIC")
    raw(database(home), "DELETE FROM tagged")
    home.chmod(0o755)
    ran = cli("doctor", "--repair")
    assert ran.code == 0
    assert [line.split()[0] for line in ran.out.splitlines()] == ["repaired", "repaired"]
    assert ran.err.endswith("\n2 repaired\n")
    raw(database(home), "DELETE FROM tagged", "UPDATE audit SET detail = 'forged'")
    ran = cli("doctor", "--repair", "--json")
    assert ran.code == 1
    assert [json.loads(line)["repaired"] for line in ran.out.splitlines()] == [True, False]


def test_a_warning_alone_is_exit_0_and_shown(cli: Run, home: Path) -> None:
    cli("save", "k", "one", "--level", "PUBLIC")
    home.chmod(0o755)
    ran = cli("doctor")
    assert (ran.code, ran.out.startswith("warning   home: other users can access it: its mode is 755\n")) == (0, True)
    assert ran.err.endswith("\n1 warning\n")
    raw(database(home), "UPDATE audit SET detail = 'forged'")
    ran = cli("doctor")
    assert (ran.code, ran.err.endswith("\n1 error, 1 warning\n")) == (1, True)


@pytest.mark.parametrize(
    ("name", "mode"),
    [("agents/assistant/public.db", 0o644), ("control.db", 0o640), (".", 0o777), ("agents/assistant", 0o720)],
)
def test_what_others_may_read_or_replace_is_an_error(cli: Run, home: Path, name: str, mode: int) -> None:
    cli("save", "k", "one", "--session", "main")
    cli("session", "new", "main")
    (home / name).chmod(mode)
    ran = cli("doctor", "--json")
    assert (ran.code, json.loads(ran.out)["severity"]) == (1, "error")
    assert cli("doctor", "--repair").code == 0


def test_a_configuration_that_keeps_all_else_from_running_is_a_finding(cli: Run, home: Path) -> None:
    cli("save", "k", "one")
    (home / "config.toml").write_text("no toml")
    (home / "config.toml").chmod(0o600)
    assert cli("get", "k").code == 2
    ran = cli("doctor")
    assert (ran.code, ran.out.startswith("error     config.toml: line 1: ")) == (1, True)


def test_one_agent_can_be_named_and_level_and_session_have_no_use(cli: Run, home: Path) -> None:
    cli("save", "k", "one")
    cli("save", "k", "one", "--agent", "second")
    raw(database(home), "DELETE FROM statistics")
    assert cli("doctor").code == 1
    assert cli("doctor", "--agent", "second").code == 0
    assert cli("doctor", "--agent", "No Agent", "--json").error["argument"] == "agent"
    for option, value in (("level", "PUBLIC"), ("session", "main")):
        assert cli("doctor", f"--{option}", value, "--json").error["argument"] == option
