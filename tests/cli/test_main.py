"""The command line as a whole: help, usage, exits, streams, locales, and where the home is looked for."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import Ran, Run

from tidegate.cli import main as command_line
from tidegate.cli.common import Command, CommandSpec, Options
from tidegate.errors import InvalidArgument, StorageError


def commands(group: click.Group = command_line.root, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


COMMANDS = list(commands())
NAMES = [" ".join(path) for path, _ in COMMANDS]


@pytest.mark.parametrize("path", [(), *(path for path, _ in COMMANDS)], ids=["", *NAMES])
def test_every_command_has_help_that_fits_a_terminal(cli: Run, path: tuple[str, ...]) -> None:
    ran = cli(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"Usage: {' '.join(('tidegate', *path))} ")
    assert path == ("demo",) or "Common options:" in ran.out
    assert all(len(line) <= 100 for line in ran.out.splitlines())


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=NAMES)
def test_every_argument_and_option_is_explained(path: tuple[str, ...], command: click.Command) -> None:
    assert command.help, path
    assert all(param.help for param in command.params if isinstance(param, click.Option | click.Argument))
    assert isinstance(command, click.Group) or (isinstance(command, Command) and command.examples)


def test_the_version_is_the_packages(cli: Run) -> None:
    from importlib.metadata import version

    assert cli("--version").out == f"tidegate {version('tidegate')}\n"


def test_without_a_command_the_help_is_shown_as_an_error(process: Run) -> None:
    ran = process()
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("Usage: tidegate ")


def test_a_misuse_says_where_to_read_on(cli: Run) -> None:
    ran = cli("save")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "tidegate: Missing argument 'KEY' (see: tidegate save --help)\n"


def test_what_there_is_to_choose_from_is_said_in_one_line(cli: Run) -> None:
    ran = cli("relabel", "k")
    assert "Choose from: PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED (see: tidegate relabel --help)\n" in ran.err


def test_levels_are_taken_in_any_letter_case_and_named_in_theirs(cli: Run) -> None:
    assert cli("list", "--level", "Internal", "--json").code == 0
    assert "is not one of 'PUBLIC', 'INTERNAL', 'CONFIDENTIAL', 'RESTRICTED'" in cli("list", "--level", "secret").err


def test_the_short_option_shows_the_help_too(cli: Run) -> None:
    assert cli("save", "-h").out == cli("save", "--help").out


@pytest.mark.parametrize("name", ["agent", "audit", "cron", "session", "tools"])
def test_the_commands_of_a_group_are_listed_with_whole_sentences(cli: Run, name: str) -> None:
    listed = cli(name, "--help").out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert listed.endswith(".")
    assert "..." not in listed


@pytest.mark.parametrize(("path", "command"), COMMANDS, ids=NAMES)
def test_help_shows_the_common_options_that_a_command_takes_and_the_others_are_refused(
    cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch, path: tuple[str, ...], command: click.Command
) -> None:
    monkeypatch.setenv("TIDEGATE_HOME", str(home))
    listed = cli(*path, "--help").out.partition("Common options:\n")[2].partition("\n\n")[0]
    shown = set(re.findall(r"^  --(\w+)", listed, re.MULTILINE))
    missing = {("demo",): {"home", "json"}, ("mcp",): {"json"}, ("gateway",): {"json"}, ("run",): {"json"}}.get(
        path, set()
    )
    assert {"home", "json"} - missing <= shown <= {*Options.__slots__} - missing
    if isinstance(command, Command):
        words = shlex.split(re.split(" [<>]", command.examples[0])[0])[1:]
        for name in {*Options.__slots__} - shown:
            option = [f"--{name}"] if name == "json" else [f"--{name}", "PUBLIC"]
            # Also if an argument is missing, so that its value is taken for none.
            for line in ([*option, *words], [*words, *option], [*path, *option]):
                with pytest.raises(InvalidArgument, match=f"^{name}: this command does not take --{name}$"):
                    command_line.root.main(line, standalone_mode=False)


def test_help_is_shown_whatever_is_refused(cli: Run) -> None:
    for line in (("--level", "PUBLIC", "agent", "list", "--help"), ("--json", "demo", "--help")):
        ran = cli(*line)
        assert (ran.code, ran.out.startswith("Usage: ")) == (0, True)


def test_what_a_common_option_means_is_said_where_it_is_not_the_usual(cli: Run) -> None:
    assert "--session NAME  Only entries of this session" in cli("audit", "show", "--help").out
    assert "[default: defaults.level in config.toml, or INTERNAL]" in " ".join(cli("save", "--help").out.split())
    assert "[default: all levels]" in " ".join(cli("history", "--help").out.split())


def test_after_two_dashes_json_is_a_word(cli: Run) -> None:
    ran = cli("get", "a", "--", "--json")
    assert (ran.code, ran.out) == (2, "")


def test_help_loads_neither_the_engine_nor_an_extra() -> None:
    code = "import sys, tidegate.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"apsw", "Stemmer", "fastmcp", "mcp", "pydantic", "anyio", "asyncio", "platformdirs", "tidegate.store"}
    assert not heavy & set(loaded)


@pytest.mark.parametrize(("name", "place"), command_line.COMMANDS.items(), ids=command_line.COMMANDS)
def test_every_command_is_at_its_place_under_its_name(name: str, place: CommandSpec) -> None:
    command = command_line.root.get_command(click.Context(command_line.root), name)
    assert command is not None
    assert command.name == name


def test_the_list_of_commands_is_one_line_each(cli: Run) -> None:
    listed = cli("--help").out.partition("Commands:\n")[2].partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in listed] == list(command_line.COMMANDS)


def test_an_unknown_command_is_refused(cli: Run) -> None:
    ran = cli("bogus")
    assert (ran.code, ran.err) == (2, "tidegate: No such command 'bogus' (see: tidegate --help)\n")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("sav", "k", "v"), "Did you mean 'save'?"),
        (("restore-bakup", "f"), "'restore-backup'"),
        (("session", "rais", "main"), "Did you mean 'raise'?"),
        (("list", "--sesion", "main"), "'--session'"),
        (("list", "--limt", "3"), "Did you mean '--limit'?"),
        (("rm", "k"), "No such command 'rm'. Did you mean 'delete'?"),
        (("undelete", "k"), "Did you mean 'restore'?"),
    ],
)
def test_what_was_mistyped_is_answered_with_what_is_like_it(cli: Run, words: tuple[str, ...], meant: str) -> None:
    ran = cli(*words)
    assert (ran.code, ran.out, meant in ran.err) == (2, "", True)
    assert " (see: tidegate" in ran.err


def test_words_that_people_type_are_no_commands_and_stand_for_some() -> None:
    for word, meant in command_line._ALIASES.items():
        assert (word in command_line.COMMANDS, meant.split()[0] in command_line.COMMANDS) == (False, True)


def test_the_common_options_are_the_documented_ones() -> None:
    assert set(Options.__slots__) == {"home", "agent", "session", "level", "json"}


def test_a_storage_error_is_exit_3(cli: Run, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").mkdir()
    ran = cli("list", "--json")
    assert (ran.code, ran.error["code"]) == (3, "STORAGE")


def test_what_nobody_foresaw_is_one_line_without_its_text(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise KeyError("secret content")

    monkeypatch.setattr("tidegate.open", broken)
    ran = cli("list", "--json")
    assert (ran.code, ran.error["code"]) == (3, "STORAGE")
    assert "secret" not in ran.out + ran.err
    assert "KeyError" in ran.out
    monkeypatch.setenv("TIDEGATE_DEBUG", "1")
    with pytest.raises(KeyError):
        cli("list")


def test_ctrl_c_is_exit_130_without_a_traceback(cli: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("tidegate.cli.memory.standard_input", interrupted)
    ran = cli("save", "k", "-")
    assert (ran.code, ran.out) == (130, "")
    assert "Traceback" not in ran.err


def saved(process: Run, home: Path, content: str = "x") -> None:
    assert process("--home", str(home), "save", "k", content).code == 0


def written_to(home: Path, stdout: int) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "tidegate", "--home", str(home), "get", "k"]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=60, check=False)


@pytest.mark.parametrize("size", [1, 200_000], ids=["at the end", "on the way"])
def test_a_broken_pipe_is_silent(process: Run, home: Path, size: int) -> None:
    process("--home", str(home), "save", "k", "-", stdin=b"x" * size)
    read, write = os.pipe()
    os.close(read)
    ran = written_to(home, write)
    os.close(write)
    assert (ran.returncode, ran.stderr) == (1, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_a_full_device_is_one_line(process: Run, home: Path) -> None:
    saved(process, home)
    with open("/dev/full", "wb") as full:
        ran = written_to(home, full.fileno())
    assert (ran.returncode, ran.stderr.count(b"\n")) == (3, 1)
    assert b"standard output" in ran.stderr


def redirected(home: Path, streams: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    command = shlex.join([sys.executable, "-m", "tidegate", "--home", str(home), *words])
    return subprocess.run(["/bin/sh", "-c", f"{command} {streams}"], capture_output=True, timeout=60, check=False)


@pytest.mark.parametrize(
    ("streams", "words"),
    [
        (">&-", ["export", "--level", "INTERNAL"]),
        (">&-", ["list", "--json"]),
        (">&-", ["--help"]),
        ("1</dev/null", ["get", "k"]),
        ("<&- >&-", ["save", "k", "x"]),
    ],
)
def test_a_closed_standard_output_is_an_error(process: Run, home: Path, words: list[str], streams: str) -> None:
    saved(process, home)
    ran = redirected(home, streams, *words)
    assert (ran.returncode, ran.stderr.count(b"\n")) == (3, 1)  # so nothing is said to be exported
    assert b"write standard output" in ran.stderr


def test_a_command_that_writes_nothing_needs_no_standard_output(home: Path) -> None:
    assert redirected(home, ">&-", "list").returncode == 0


def test_a_closed_standard_input_is_an_error_where_it_is_read(process: Run, home: Path) -> None:
    ran = redirected(home, "<&-", "save", "k", "-")
    assert (ran.returncode, ran.stdout) == (3, b"")
    assert b"read standard input" in ran.stderr
    assert redirected(home, "<&-", "save", "k", "x").returncode == 0


@pytest.mark.parametrize("streams", ["<&-", ">&-", "<&- >&-", "0>/dev/null"])
def test_an_mcp_server_without_its_streams_ends_with_an_error(home: Path, streams: str) -> None:
    ran = redirected(home, f"</dev/null {streams}", "mcp")
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert b"must be open" in ran.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    ("streams", "words", "code"),
    [
        ("2>&-", ["get", "none"], 1),
        ("2>/dev/full", ["get", "none"], 1),
        ("<&- 2>&-", ["get", "k"], 0),
        ("2>/dev/full", ["unknown"], 2),
        ("2>/dev/full", [], 2),
    ],
)
def test_a_closed_or_full_standard_error_breaks_nothing(
    process: Run, home: Path, words: list[str], code: int, streams: str
) -> None:
    saved(process, home)
    assert redirected(home, streams, *words).returncode == code


TEXT = "✓ 完成 🚀"
LOCALES = {
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"},
    "POSIX without coercion": {
        "LC_ALL": "POSIX",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": None,
    },
    "ASCII streams": {"PYTHONIOENCODING": "ascii"},
    "UTF-16 streams": {"PYTHONIOENCODING": "utf-16"},
}


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES.keys())
def test_u09_it_is_utf_8_whatever_the_locale(process: Run, home: Path, locale: dict[str, str | None]) -> None:
    place = ["--home", str(home)]
    assert process(*place, "save", TEXT, TEXT, env=locale).code == 0
    ran = process(*place, "get", TEXT, "--json", env=locale)
    assert (ran.json["key"], ran.json["content"]) == (TEXT, TEXT)
    assert TEXT in process(*place, "get", TEXT, env=locale).out
    assert process(*place, "save", "piped", "-", stdin=TEXT.encode(), env=locale).code == 0
    assert process(*place, "get", "piped", "--json").json["content"] == TEXT


def test_words_that_are_not_utf_8_are_refused_by_name(process: Run, home: Path) -> None:
    ran = process("--home", str(home), "save", "k", b"caf\xe9", "--json")
    assert (ran.code, ran.error["argument"]) == (2, "content")
    assert process("--home", str(home), "get", b"caf\xe9", "--json").error["argument"] == "key"


def one_line(ran: Ran) -> bool:
    return ran.out == "" and ran.err.startswith("tidegate: ") and ran.err.count("\n") == 1


def test_k04_an_explicit_home_always_works(process: Run, home: Path, tmp_path: Path) -> None:
    bare = dict.fromkeys(os.environ) | {"PATH": os.environ["PATH"]}
    for env in (bare, bare | {"HOME": ""}, bare | {"HOME": "/nonexistent"}, bare | {"XDG_DATA_HOME": "relative"}):
        assert process("--home", str(home), "save", "k", "x", env=env, cwd=tmp_path).code == 0
        assert process("get", "k", env=env | {"TIDEGATE_HOME": str(home)}, cwd=tmp_path).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_k04_a_home_that_does_not_exist_is_one_line(process: Run, tmp_path: Path) -> None:
    ran = process("save", "k", "x", env={"HOME": str(tmp_path / "gone")}, cwd=tmp_path)
    assert (ran.code, one_line(ran)) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_k04_a_relative_data_folder_is_never_used(process: Run, tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    env = {"HOME": str(tmp_path / "user"), "XDG_DATA_HOME": "relative"}
    assert process("save", "k", "x", env=env, cwd=tmp_path).code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["user"]


@pytest.mark.parametrize("name", ["a b", "mem.db?x=1#y", "%2e%2e", "ünï", "file", "q'\"", "-x"])
def test_i13_a_home_is_a_path_and_nothing_else(process: Run, tmp_path: Path, name: str) -> None:
    place = f"--home={tmp_path / name}"
    assert process(place, "save", "k", "low").code == 0
    assert process(place, "get", "k", "--level", "RESTRICTED", "--json").json["content"] == "low"
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["file:mem.db?mode=ro", "postgresql://host/x", "C:\\Users\\Kim L\\mem.db"])
def test_i13_what_is_no_path_makes_no_folder(process: Run, tmp_path: Path, name: str) -> None:
    ran = process("--home", name, "save", "k", "x", cwd=tmp_path)
    assert (ran.code, one_line(ran)) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_python_m_is_the_same_as_the_command(process: Run, cli: Run) -> None:
    assert process("--version").out == cli("--version").out


def test_mcp_and_gateway_get_the_common_options(cli: Run, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.policy.levels import Level
    from tidegate.server import serve as mcp

    served: list[object] = []

    def serve(*arguments: object, command: str) -> int:
        served.extend([*arguments, command])
        return 0

    monkeypatch.setattr(mcp, "serve", serve)
    assert cli("mcp", "--agent", "a", "--session", "s", "--level", "INTERNAL").code == 0
    assert cli("gateway", "--agent", "a", "--session", "s").code == 0
    assert served == [str(home), "a", "s", Level.INTERNAL, "mcp", str(home), "a", "s", None, "gateway"]


def test_without_a_seat_the_gateway_does_not_start_and_says_what_to_write(cli: Run, home: Path) -> None:
    ran = cli("gateway", "--agent", "a")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(
        "tidegate: session: give this client a session of its own, for example `tidegate gateway "
    )
    assert not home.exists()
    assert cli("gateway", "--session", "").err.startswith("tidegate: name: ")


def test_main_reads_the_command_line_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["tidegate", "--version"])
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert command_line.main() == 0


def test_errors_of_every_kind_have_an_exit_code() -> None:
    assert command_line._EXIT_CODES[StorageError] == 3
    assert sorted(set(command_line._EXIT_CODES.values())) == [1, 2, 3]


def test_an_error_under_json_is_one_object_on_standard_output(cli: Run) -> None:
    ran = cli("save", "", "x", "--json")
    assert json.loads(ran.out).keys() == {"error"}
    assert ran.err == ""
