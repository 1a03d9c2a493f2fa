"""`tidegate cron`, as its owner types it."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path

import pytest
from tests.conftest import Run

from tidegate.cli import cron as cli_cron
from tidegate.errors import InvalidArgument
from tidegate.worker.worker import Worker

ADD = ("cron", "add", "digest", "30 7 * * 1-5", "Sum up what is new.")


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", "scripted")


def test_a_job_that_is_added_says_when_it_runs_next(cli: Run) -> None:
    made = cli(*ADD, "--timezone", "Europe/Berlin", "--json").json
    assert {name: made[name] for name in ("name", "schedule", "timezone", "prompt", "classification", "origin")} == {
        "name": "digest",
        "schedule": "30 7 * * 1-5",
        "timezone": "Europe/Berlin",
        "prompt": "Sum up what is new.",
        "classification": "INTERNAL",
        "origin": "owner",
    }
    assert made["next_run_at"].endswith((":30:00.000000Z",))
    assert (made["ceiling"], made["channel"], made["time_limit_seconds"]) == ("RESTRICTED", None, None)
    shown = cli("cron", "list").out
    assert shown.startswith("INTERNAL      next 2")
    assert re.search(r"T07:30:00\+0[12]:00  30 7 \* \* 1-5 Europe/Berlin  digest\n  Sum up what is new\.\n\Z", shown)


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (("cron", "add", "digest", "@daily", "-"), "prompt"),
        (("cron", "run-now", "digest", "--event", "-"), "event"),
        (("save", "k", "-"), "content"),
        (("chat", "--message", "-"), "message"),
    ],
)
def test_standard_input_that_is_not_utf_8_is_a_wrong_argument(cli: Run, words: tuple[str, ...], argument: str) -> None:
    done = cli(*words, stdin=b"M\xfcll")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"tidegate: {argument}: standard input is not UTF-8\n"


def test_where_there_is_nothing_to_list_people_are_told(cli: Run) -> None:
    assert (cli("cron", "list").err, cli("cron", "list", "--json").err) == ("no jobs\n", "")
    assert (cli("cron", "history").err, cli("cron", "history", "--json").err) == ("no runs\n", "")


def test_the_owner_sees_all_levels_unless_they_say_less(cli: Run) -> None:
    cli(*ADD, "--level", "PUBLIC")
    cli(*ADD, "--level", "CONFIDENTIAL")
    listed = [json.loads(line) for line in cli("cron", "list", "--json").out.splitlines()]
    assert [job["classification"] for job in listed] == ["CONFIDENTIAL", "PUBLIC"]
    assert len(cli("cron", "list", "--level", "INTERNAL").out.splitlines()) == 2  # of one job
    assert cli("cron", "show", "digest", "--json").json["classification"] == "CONFIDENTIAL"
    assert cli("cron", "show", "digest", "--json", "--level", "PUBLIC").json["classification"] == "PUBLIC"


def test_in_a_named_session_a_job_is_at_its_taint(cli: Run) -> None:
    cli("session", "new", "work", "--level", "INTERNAL")
    assert cli(*ADD, "--session", "work", "--json").json["classification"] == "INTERNAL"
    assert cli("cron", "list", "--session", "work").out.startswith("INTERNAL")
    assert cli(*ADD, "--session", "work", "--level", "PUBLIC").code == 2


def test_what_is_removed_is_gone_at_its_own_level_only(cli: Run) -> None:
    cli(*ADD)
    cli(*ADD, "--level", "PUBLIC")
    assert cli("cron", "remove", "digest", "--json").json == {
        "deleted": True,
        "name": "digest",
        "classification": "INTERNAL",
    }
    gone = cli("cron", "remove", "digest", "--json")
    assert (gone.code, gone.error["code"]) == (1, "NOT_FOUND")
    assert cli("cron", "remove", "digest", "--level", "PUBLIC").out == "deleted digest at PUBLIC\n"
    assert cli("cron", "list").out == ""


def test_a_prompt_can_come_from_standard_input(cli: Run) -> None:
    cli("cron", "add", "digest", "@daily", "-", stdin="Zum Müll.\nHeute.".encode())
    assert cli("cron", "show", "digest", "--json").json["prompt"] == "Zum Müll.\nHeute."
    assert cli("cron", "show", "digest").out.endswith("  Zum Müll.\n  Heute.\n")


@pytest.mark.parametrize(
    ("words", "code", "argument"),
    [
        (("add", "x", "every day", "p"), 2, "schedule"),
        (("add", "x", "@daily", "p", "--timezone", "Mars"), 2, "timezone"),
        (("add", "x", "@daily", "p", "--time-limit", "soon"), 2, "time_limit"),
        (("add", "x", "@daily", "p", "--time-limit", "3d"), 2, "time_limit"),
        (("add", "x", "@daily", "p", "--channel", "nowhere"), 1, "channel"),
        (("add", "x", "@daily", ""), 2, "prompt"),
        (("show", "x"), 1, "name"),
        (("run-now", "x"), 1, "name"),
        (("history", "x"), 1, "name"),
        (("history", "x", "--limit", "0"), 2, "limit"),
    ],
)
def test_what_will_not_do_says_which_argument(cli: Run, words: tuple[str, ...], code: int, argument: str) -> None:
    refused = cli("cron", *words, "--json")
    assert (refused.code, refused.error["argument"]) == (code, argument)
    assert cli("cron", "list").out == ""


def test_a_ceiling_below_the_level_is_refused(cli: Run) -> None:
    assert cli(*ADD, "--level", "INTERNAL", "--ceiling", "PUBLIC", "--json").error["rule"] == "P4"


def test_a_result_that_cannot_be_delivered_is_told_in_the_list_and_in_the_history(
    cli: Run, home: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    cli(*ADD)
    (home / "config.toml").write_text(
        f'[run]\nchannel = "diary"\n[channels.diary]\nkind = "file"\npath = "{folder}"\nclearance = "RESTRICTED"\n'
    )
    assert "undelivered" not in cli("cron", "list", "--json").json
    cli("cron", "run-now", "digest")
    assert cli("run", "--once").code == 1
    reason = "the file cannot be written: this path cannot be a file"
    assert cli("cron", "list").out.endswith(f"\n  run 2: given up to diary: {reason}\n")
    assert cli("cron", "list", "--json").json["undelivered"] == {"run": 2, "reason": reason}
    assert f"  given up to diary: {reason}\n" in cli("cron", "history", "digest").out
    folder.rmdir()
    cli("cron", "run-now", "digest")
    assert cli("run", "--once").code == 0
    assert "diary" not in cli("cron", "list").out


@pytest.mark.parametrize("verb", ["remove", "run-now"])
def test_a_job_that_is_not_there_is_said_to_an_owner_with_the_level_and_a_command(cli: Run, verb: str) -> None:
    nowhere = "tidegate: name: no job has this name at INTERNAL; `tidegate cron list` lists the jobs\n"
    assert cli("cron", verb, "nope").err == nowhere
    cli("cron", "add", "low", "@daily", "x", "--level", "PUBLIC")
    below = "tidegate: name: no job has this name at INTERNAL; one exists at PUBLIC; use --level PUBLIC\n"
    assert cli("cron", verb, "low").err == below


def test_the_history_of_a_job_that_never_was_is_not_found_and_that_of_a_deleted_one_is_shown(cli: Run) -> None:
    cli(*ADD, "--level", "CONFIDENTIAL")
    nowhere = "tidegate: name: no job has this name\n"
    assert cli("cron", "history", "nope").err == cli("cron", "show", "nope").err == nowhere
    assert cli("cron", "history", "digest", "--level", "INTERNAL").err == nowhere, "P5: as if it were not there"
    assert cli("cron", "history", "digest").code == 0
    cli("cron", "run-now", "digest", "--level", "CONFIDENTIAL")
    assert cli("run", "--once").err == "tidegate run: 1 run\n"
    cli("cron", "remove", "digest", "--level", "CONFIDENTIAL")
    assert "run 2 " in cli("cron", "history", "digest").out


def test_the_times_of_a_job_are_iso_with_a_t(cli: Run) -> None:
    added = cli(*ADD, "--timezone", "UTC").out
    assert re.search(r"next \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ  ", added)
    cli("cron", "run-now", "digest")
    assert re.search(r"due \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ, ", cli("cron", "history", "digest").out)


def test_run_now_history_and_a_channel(cli: Run, home: Path, tmp_path: Path) -> None:
    home.mkdir()
    channel = f'[channels.diary]\nkind = "file"\npath = "{tmp_path / "diary"}"\nclearance = "INTERNAL"\n'
    (home / "config.toml").write_text(channel)
    cli("cron", "add", "greet", "@yearly", "hello", "--channel", "diary", "--time-limit", "90s")
    assert cli("cron", "show", "greet", "--json").json["time_limit_seconds"] == 90
    assert cli("cron", "run-now", "greet").out == "queued as run 2 at INTERNAL\n"
    ran = cli("run", "--once")
    assert (ran.code, ran.err) == (0, "tidegate run: 1 run\n")
    history = cli("cron", "history", "greet").out
    assert "  delivered to diary\n" in history
    assert "  | " in history
    told = [json.loads(line) for line in cli("cron", "history", "greet", "--json").out.splitlines()]
    assert [run["state"] for run in told] == ["waiting", "done"]
    assert json.loads((tmp_path / "diary").read_text())["job"] == "greet"
    assert cli("cron", "history").out == ""


def test_an_event_of_the_same_id_is_queued_once(cli: Run) -> None:
    cli(*ADD)
    first = cli("cron", "run-now", "digest", "--event", "-", "--id", "7", "--json", stdin=b"came in").json
    again = cli("cron", "run-now", "digest", "--event", "-", "--id", "7", "--json", stdin=b"came in").json
    assert first["number"] == again["number"] == 2
    assert cli("run", "--once").err == "tidegate run: 1 run\n"
    assert cli("cron", "run-now", "digest", "--event", "x", "--id", "7").out == "run 2 already has this event\n"


def test_the_list_shows_the_beginning_of_a_prompt_and_utc_where_a_zone_is_gone(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("cron", "add", "long", "@daily", "x" * 500, "--timezone", "Europe/Berlin")
    assert cli("cron", "list").out.endswith(f"\n  {'x' * 100}…\n")

    def gone(_: str) -> None:
        raise InvalidArgument("timezone: is gone")

    monkeypatch.setattr(cli_cron, "read_zone", gone)
    assert ":00Z  @daily Europe/Berlin  long\n" in cli("cron", "list").out


def test_w02_a_name_cannot_forge_a_line_on_the_terminal(cli: Run) -> None:
    cli("cron", "add", "a  \u2060 RESTRICTED next", "@daily", "x\n\x1b[31mRESTRICTED  forged")
    first, second = cli("cron", "list").out.splitlines()
    assert (first[:8], second) == ("INTERNAL", "  x\\n\\x1b[31mRESTRICTED  forged")
    assert all(
        line.startswith(("INTERNAL", "  "))
        for line in cli("cron", "show", "a  \u2060 RESTRICTED next").out.splitlines()
    )


def test_run_takes_no_level_and_needs_a_model(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "does not take --level" in cli("run", "--once", "--level", "PUBLIC").err
    monkeypatch.delenv("TIDEGATE_CHAT_MODEL")
    assert cli("run", "--once").err.startswith("tidegate: chat.model")


def test_p6_an_agent_whose_files_cannot_be_read_keeps_no_other_from_its_runs(cli: Run, home: Path) -> None:
    for agent in ("ada", "bob"):
        cli(*ADD, "--agent", agent)
        cli("cron", "run-now", "digest", "--agent", agent)
    for path in (home / "agents" / "ada").glob("*.db*"):
        path.write_bytes(b"garbage")
    assert cli("run", "--once").code != 0
    assert cli("run", "--once", "--agent", "bob").err == "tidegate run: 0 runs\n"


def test_p6_whatever_goes_wrong_with_one_agent_keeps_no_other_from_its_runs(
    cli: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for agent in ("ada", "bob"):
        cli(*ADD, "--agent", agent)
        cli("cron", "run-now", "digest", "--agent", agent)
    real = Worker.tick

    def tick(worker: Worker) -> int:
        if worker._agent == "ada":
            raise ValueError("nobody thought of that")
        return real(worker)

    with monkeypatch.context() as patch, suppress(ValueError):  # however it is told
        patch.setattr(Worker, "tick", tick)
        assert cli("run", "--once").code != 0
    assert cli("run", "--once", "--agent", "bob").err == "tidegate run: 0 runs\n"


def test_run_once_looks_at_all_agents_or_at_one(cli: Run) -> None:
    for agent in ("ada", "bob"):
        cli(*ADD, "--agent", agent)
        cli("cron", "run-now", "digest", "--agent", agent)
    assert cli("run", "--once", "--agent", "bob").err == "tidegate run: 1 run\n"
    assert cli("run", "--once").err == "tidegate run: 1 run\n"
    assert cli("run", "--once").err == "tidegate run: 0 runs\n"
