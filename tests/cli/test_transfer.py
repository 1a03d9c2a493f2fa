"""Export, import, backup and restore on the command line: what is printed, where, and the exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.conftest import Run

from tidegate.transfer.importers.raw_memory import Source

BREAKS = "\ufeffa\r\nb\rc\n\u2028d\x85e"


def save(cli: Run, key: str, content: str, level: str = "PUBLIC", *words: str) -> None:
    assert cli("save", key, "-", "--level", level, *words, stdin=content.encode()).code == 0


def lines(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def write(path: Path, *records: Any) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture
def other(tmp_path: Path) -> list[str]:
    """Words that name another home, which does not exist yet."""
    return ["--home", str(tmp_path / "other")]


def test_an_export_is_on_standard_output_and_what_is_said_of_it_is_not(cli: Run) -> None:
    save(cli, "a", "public")
    save(cli, "b", "internal", "INTERNAL")
    ran = cli("export", "--level", "PUBLIC")
    assert [line.get("key") for line in lines(ran.stdout)] == [None, "a"]
    assert (ran.code, ran.err) == (0, "exported 1 memory at PUBLIC\n")
    ran = cli("export", "-", "--level", "INTERNAL", "--json")
    assert [line.get("level", line.get("classification")) for line in lines(ran.stdout)] == [
        "INTERNAL",
        "PUBLIC",
        "INTERNAL",
    ]
    assert ran.err == ""


def test_an_export_to_a_file_is_private_and_counted(cli: Run, tmp_path: Path) -> None:
    save(cli, "a", "public")
    path = tmp_path / "out.jsonl"
    assert cli("export", str(path), "--level", "PUBLIC", "--json").json == {"exported": 1, "level": "PUBLIC"}
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_bytes().count(b"\n") == 2
    ran = cli("export", str(path), "--level", "PUBLIC")
    assert (ran.out, ran.err) == ("", "exported 1 memory at PUBLIC\n")


def test_u17_every_code_point_survives_the_command_line(cli: Run, tmp_path: Path, other: list[str]) -> None:
    save(cli, "u17", BREAKS)
    path = tmp_path / "out.jsonl"
    path.write_bytes(cli("export", "--level", "PUBLIC").stdout)
    assert cli("import", str(path), *other).code == 0
    assert cli("get", "u17", "--json", *other).json["content"] == BREAKS


def test_d17_exports_appended_and_put_together_import_as_one(cli: Run, tmp_path: Path, other: list[str]) -> None:
    save(cli, "a", "one")
    save(cli, "b", "two", "PUBLIC", "--agent", "second")
    path = tmp_path / "all.jsonl"
    with path.open("ab") as file:
        for words in ([], [], ["--agent", "second"]):
            file.write(cli("export", "--level", "PUBLIC", *words).stdout)
    assert len(lines(path.read_bytes())) == 6
    result = cli("import", str(path), "--json", *other).json
    assert (result["created"], result["skipped"], result["refused"]) == (2, 1, 0)


def test_an_import_says_what_it_did_and_what_it_refused(cli: Run, tmp_path: Path) -> None:
    path = write(
        tmp_path / "in.jsonl",
        {"key": "a", "content": "low", "classification": "PUBLIC"},
        {"key": "b", "content": "CANARY", "classification": "RESTRICTED"},
    )
    dry = cli("import", path, "--level", "INTERNAL", "--dry-run")
    assert (dry.code, cli("list", "--json", "--level", "INTERNAL").json["memories"]) == (1, [])
    assert dry.out.startswith("would import from tidegate (detected; --from overrides) at INTERNAL: 1 created")
    assert dry.out.endswith("1 refused\ncreate  a\n")
    ran = cli("import", path, "--level", "INTERNAL")
    assert ran.code == 1
    counts = "1 created, 0 updated, 0 unchanged, 0 skipped, 1 refused"
    assert ran.out == f"imported from tidegate (detected; --from overrides) at INTERNAL: {counts}\n"
    reason = "classification: is higher than INTERNAL, the level of this import; to import it, use `--level RESTRICTED`"
    assert ran.err == f"refused: line 2: {reason}\n"
    again = cli("import", path, "--level", "INTERNAL", "--json")
    assert again.json == {
        "source": "tidegate",
        "detected": True,
        "level": "INTERNAL",
        "created": 0,
        "updated": 0,
        "unchanged": 1,
        "skipped": 0,
        "refused": 1,
        "dry_run": False,
        "notices": [
            {
                "place": "line 2",
                "reason": reason,
                "refused": True,
            }
        ],
    }
    assert again.err == ""
    assert cli("get", "a", "--level", "INTERNAL", "--json").json["origin"] == "import"


def test_a_file_of_another_kind_is_an_error(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.json"
    path.write_text('{"conversations_memory": "x"}')
    ran = cli("import", str(path), "--from", "mcp")
    assert (ran.code, ran.out, "is not a graph of the MCP memory server" in ran.err) == (2, "", True)


def test_a_dry_run_names_some_keys_to_people_and_all_in_json(cli: Run, tmp_path: Path) -> None:
    keys = [f"k{number}" for number in range(25)]
    path = write(tmp_path / "in.jsonl", *({"key": key, "content": "x"} for key in keys))
    ran = cli("import", path, "--dry-run")
    assert (ran.code, ran.out.splitlines()[-2:]) == (0, ["create  k19", "create  and 5 more; --json lists them all"])
    assert cli("import", path, "--dry-run", "--json").json["creates"] == keys
    assert "creates" not in cli("import", path, "--json").json


def test_a_file_is_moved_with_its_levels_and_no_exit_code_says_otherwise(cli: Run, tmp_path: Path) -> None:
    labels = ("PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED")
    path = write(tmp_path / "in.jsonl", *({"key": each, "content": "x", "classification": each} for each in labels))
    for label in labels:
        ran = cli("import", path, "--level", label, "--exact")
        assert (ran.code, ran.err) == (0, "note: file: 3 memories belong to other levels and are left out\n")


def test_a_strict_import_is_refused_whole(cli: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", {"key": "a", "content": "x"}, {"key": "b"})
    ran = cli("import", path, "--strict", "--json")
    assert (ran.code, ran.error["code"]) == (1, "REFUSED")
    assert ran.error["notices"] == [{"place": "line 2", "reason": "content: must be a string", "refused": True}]
    assert cli("list", "--json").json["memories"] == []
    told = cli("import", path, "--strict")
    assert (told.code, told.out) == (1, "")
    refused, error = told.err.splitlines()
    assert refused == "refused: line 2: content: must be a string"
    assert error.startswith("tidegate: file: 1 of its memories were refused")


def test_the_kind_of_a_file_is_said_and_whether_it_was_detected(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "memories.json"
    path.write_text('{"results": [{"id": "1", "memory": "Likes tea"}], "relations": []}')
    ran = cli("import", str(path))
    assert ran.out.startswith("imported from mem0 (detected; --from overrides) at INTERNAL: 1 created")
    assert cli("import", str(path), "--from", "mem0").out.startswith("imported from mem0 at INTERNAL: 0 created")
    assert cli("import", str(path), "--from", "mem0", "--json").json["detected"] is False


def test_an_import_that_takes_nothing_in_says_so(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "memories.json"
    path.write_text('{"results": [], "relations": []}')
    ran = cli("import", str(path))
    assert (ran.code, ran.err) == (0, "note: file: holds no memories of the kind mem0\n")
    (notice,) = cli("import", str(path), "--json").json["notices"]
    assert notice["reason"] == "holds no memories of the kind mem0"


def test_a_session_gives_the_level_and_is_entered_in_the_audit(cli: Run, tmp_path: Path) -> None:
    session = cli("session", "new", "main", "--level", "CONFIDENTIAL", "--json").json
    path = write(tmp_path / "in.jsonl", {"key": "a", "content": "x"})
    assert cli("import", path, "--session", "main", "--json").json["level"] == "CONFIDENTIAL"
    assert lines(cli("export", "--session", "main").stdout)[0]["level"] == "CONFIDENTIAL"
    entries = lines(cli("audit", "show", "--json").stdout)
    assert [entry["session"] for entry in entries if entry["action"] == "import"] == [session["id"]]
    for words in (["import", path], ["export"]):
        ran = cli(*words, "--session", "main", "--level", "PUBLIC", "--json")
        assert (ran.code, ran.error["argument"]) == (2, "level")
        assert cli(*words, "--session", "unknown", "--json").error["code"] == "REFUSED"


def test_the_kind_can_be_named_in_any_case_and_a_wrong_one_is_refused(cli: Run, tmp_path: Path) -> None:
    path = tmp_path / "memories.txt"
    path.write_text("- Lives in Oslo\n")
    assert cli("import", str(path), "--json").error["argument"] == "file"
    assert cli("import", str(path), "--from", "chatgpt", "--json").error["argument"] == "file"
    path.write_text('[{"text": "Lives in Oslo"}]')
    assert cli("import", str(path), "--json").error["argument"] == "file"
    assert cli("import", str(path), "--from", "ChatGPT", "--json").json["source"] == "chatgpt"
    refused = cli("import", str(path), "--from", "other", "--json")
    assert (refused.code, refused.error["argument"]) == (2, "source")
    assert "'mcp-memory-service'" in refused.error["message"], "a wrong one is told the right ones"


@pytest.mark.parametrize("name", Source)
def test_every_kind_is_taken_under_the_name_that_the_help_shows(cli: Run, tmp_path: Path, name: str) -> None:
    assert name in cli("import", "--help").out
    ran = cli("import", str(tmp_path / "missing"), "--from", name, "--json")
    assert (ran.code, ran.error["argument"]) == (2, "file"), "the kind is taken; the file is what is missing"
    assert cli("import", str(tmp_path / "missing"), "--from", name.upper(), "--json").error["argument"] == "file"


def test_d16_a_source_that_is_not_there_is_exit_2(cli: Run, tmp_path: Path) -> None:
    ran = cli("import", str(tmp_path / "none"))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err == "tidegate: file: does not exist or cannot be read; nothing was changed\n"


def test_progress_is_told_on_standard_error(cli: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.cli.transfer._PROGRESS_STEP", 2)
    path = write(tmp_path / "in.jsonl", *({"key": f"k{number}", "content": "x"} for number in range(5)))
    ran = cli("import", path)
    assert ran.err.splitlines() == ["checked 2", "checked 4", "imported 2", "imported 4"]
    assert cli("import", path, "--json").err == ""


def test_a_name_in_a_notice_cannot_forge_a_line(cli: Run, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a\x1b[2J\nrefused: x.md").write_text("x")
    ran = cli("import", str(notes))
    assert ran.err == "refused: a\\x1b[2J\\nrefused: x.md: key: must not contain control characters, " \
        "line separators or bidirectional controls\n"  # fmt: skip


def test_a_backup_is_restored_into_an_empty_home(cli: Run, tmp_path: Path, other: list[str]) -> None:
    save(cli, "a", "public")
    save(cli, "a", "restricted", "RESTRICTED")
    cli("delete", "a", "--level", "PUBLIC")
    cli("session", "new", "main", "--level", "INTERNAL")
    path = str(tmp_path / "assistant.backup")
    counts = {"agent": "assistant", "versions": 2, "entries": 4, "sessions": 1}
    assert cli("backup", path, "--json").json == counts
    assert cli("backup", path).out == "backed up assistant: 2 versions, 4 audit entries, 1 session\n"
    assert cli("restore-backup", path, "--dry-run", "--json", *other).json == {"dry_run": True, **counts}
    assert not (tmp_path / "other").exists()
    ran = cli("restore-backup", path, "--yes", *other)
    assert (ran.code, ran.out) == (0, "restored assistant: 2 versions, 4 audit entries, 1 session\n")
    for words in (["audit", "show", "--json"], ["history", "a", "--json"], ["export", "--level", "RESTRICTED"]):
        assert lines(cli(*words, *other).stdout)[1:] == lines(cli(*words).stdout)[1:]
    assert cli("audit", "verify", *other).code == 0
    assert cli("save", "b", "x", "--session", "main", *other, "--json").error["code"] == "REFUSED"


def test_lost_files_are_restored_after_the_agent_is_erased(cli: Run, home: Path, tmp_path: Path) -> None:
    save(cli, "a", "secret", "RESTRICTED")
    cli("session", "new", "main", "--level", "INTERNAL")
    path = str(tmp_path / "b")
    cli("backup", path)
    cli("session", "raise", "main", "RESTRICTED")
    shutil.rmtree(home / "agents")
    assert cli("restore-backup", path, "--yes").code == 3
    assert cli("agent", "erase", "assistant", "--yes").code == 0
    assert cli("restore-backup", path, "--yes").code == 0
    assert cli("get", "a", "--level", "RESTRICTED", "--json").json["content"] == "secret"
    assert cli("get", "a", "--session", "main", "--json").error["code"] == "REFUSED"
    assert cli("audit", "verify").code == 0


def test_a_restore_asks_and_without_a_terminal_needs_yes(cli: Run, tmp_path: Path, other: list[str]) -> None:
    save(cli, "a", "x")
    path = str(tmp_path / "b")
    cli("backup", path)
    ran = cli("restore-backup", path, *other, "--json")
    assert (ran.code, ran.error["argument"]) == (2, "yes")
    assert not (tmp_path / "other").exists()


def test_a_restore_of_what_is_no_backup_says_so_before_it_asks(cli: Run, tmp_path: Path, other: list[str]) -> None:
    ran = cli("restore-backup", str(tmp_path / "nowhere"), *other)
    assert (ran.code, ran.err) == (2, "tidegate: file: does not exist or cannot be read; nothing was changed\n")
    (tmp_path / "b").write_text("no backup")
    assert cli("restore-backup", str(tmp_path / "b"), *other).err == (
        "tidegate: file: is not a backup, or is damaged; use another backup\n"
    )
    save(cli, "a", "x")
    cli("backup", str(tmp_path / "b"))
    assert "if it is a backup, use `tidegate restore-backup`" in cli("import", str(tmp_path / "b")).err


def test_a_restore_that_is_only_tried_changes_nothing_even_with_yes(cli: Run, tmp_path: Path, other: list[str]) -> None:
    save(cli, "a", "x")
    path = str(tmp_path / "b")
    cli("backup", path)
    assert cli("restore-backup", path, "--dry-run", "--yes", *other).out.startswith("would restore assistant: ")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("answer", "code"), [(True, 0), (False, 1)])
def test_a_restore_at_a_terminal_does_what_was_answered(
    cli: Run, tmp_path: Path, other: list[str], monkeypatch: pytest.MonkeyPatch, answer: bool, code: int
) -> None:
    save(cli, "a", "x")
    path = str(tmp_path / "b")
    cli("backup", path)
    asked: list[str] = []
    monkeypatch.setattr("click.confirm", lambda text, **_: asked.append(text) or answer)
    monkeypatch.setattr(
        "tidegate.cli.common.sys", SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True), stdout=sys.stdout)
    )
    ran = cli("restore-backup", path, *other)
    assert (ran.code, asked) == (code, ["Restore assistant: 1 version, 1 audit entry, 0 sessions?"])
    assert (tmp_path / "other").exists() is answer


@pytest.mark.parametrize("option", [("--level", "PUBLIC"), ("--session", "main")])
def test_backups_are_of_all_levels(cli: Run, tmp_path: Path, option: tuple[str, str]) -> None:
    for command in ("backup", "restore-backup"):
        ran = cli(command, str(tmp_path / "b"), *option, "--json")
        assert (ran.code, ran.error["argument"]) == (2, option[0].removeprefix("--"))


def test_a_damaged_backup_is_exit_2_and_one_into_a_full_agent_exit_1(
    cli: Run, tmp_path: Path, other: list[str]
) -> None:
    save(cli, "a", "x")
    path = tmp_path / "b"
    cli("backup", str(path))
    save(cli, "b", "y")
    assert cli("restore-backup", str(path), "--yes", "--json").error["code"] == "REFUSED"
    path.write_bytes(path.read_bytes()[:-9])
    ran = cli("restore-backup", str(path), "--yes", *other)
    assert (ran.code, ran.err) == (2, "tidegate: file: is truncated or damaged; use another backup\n")
    assert cli("backup", str(path), "--agent", "nobody").code == 1


def test_d07_an_export_writes_nothing_in_the_home(cli: Run, home: Path) -> None:
    save(cli, "a", "x")
    before = _tree(home)
    assert [line.get("key") for line in lines(cli("export", "--level", "PUBLIC").stdout)] == [None, "a"]
    assert _tree(home) == before


def _tree(home: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(home.rglob("*.db"))}


def test_i13_a_file_is_named_as_it_is(process: Run, home: Path, tmp_path: Path) -> None:
    assert process("--home", str(home), "save", "a", "x", "--level", "PUBLIC").code == 0
    for name in ("file:mem.jsonl?mode=ro", "mem.jsonl?x=1#y", "C:\\Users\\Kim L\\mem.jsonl", "a b.jsonl", "caf\u00e9"):
        assert process("--home", str(home), "export", name, "--level", "PUBLIC", cwd=tmp_path).code == 0
        assert (tmp_path / name).is_file()
        assert process("--home", str(home), "import", name, "--from", "tidegate", cwd=tmp_path).code == 0
        (tmp_path / name).unlink()
    assert {entry.name for entry in tmp_path.iterdir()} == {"home"}


def test_a_reader_that_stops_reading_is_no_failure(home: Path, cli: Run) -> None:
    save(cli, "long", "x" * 500_000)  # more than a pipe holds
    command = [sys.executable, "-m", "tidegate", "--home", str(home), "export", "--level", "PUBLIC"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) in (0, 1)
        assert b"Traceback" not in process.stderr.read()


def test_an_agent_that_never_was_has_an_empty_export(cli: Run, home: Path) -> None:
    assert [
        line["memories"] for line in lines(cli("export", "--agent", "nobody", "--level", "PUBLIC", "--json").stdout)
    ] == [0]
    assert not home.exists()
