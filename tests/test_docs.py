"""The documents are true: their commands are understood, and the tests, files and pages that they name exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.conftest import Run
from tests.yardstick import leaks_owner, leaks_pins, leaks_sessions, leaks_storage, leaks_verbs
from tests.yardstick.leaks import LEAKS

from tidegate.cli.main import root
from tidegate.search import analysis as text
from tidegate.search import ranking as rank
from tidegate.search import reranking as rerank
from tidegate.search import spelling

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_COMMAND = re.compile(r"`(tidegate [^`\n]+)`|^\$ (tidegate [^\n]+)$", re.MULTILINE)
_STANDS_FOR = {"LEVEL": "PUBLIC", "AGE": "90d", "COMMAND": "save", "[FILE]": "FILE"}
_NAMED = re.compile(r"`((?:\w+/)*\w+\.py)`|`(test_\w+)`")
_LINK = re.compile(r"\]\((?!http)([^)#]+)[^)]*\)")


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def commands() -> Iterator[str]:
    """Each command that is quoted, in a sentence or in an example, without what the shell does with it."""
    for each in PAGES:
        for in_words, in_example in _COMMAND.findall(each.read_text(encoding="utf-8")):
            yield re.split(r" [|<>] ", in_words or in_example)[0]


def understand(line: str) -> None:
    """Raises: click.UsageError. A command may be named without its arguments."""
    words = [_STANDS_FOR.get(word, word) for word in shlex.split(line)[1:]]
    try:
        context = root.make_context("tidegate", words)
        while isinstance(group := context.command, click.Group):
            name, command, rest = group.resolve_command(context, [*context._protected_args, *context.args])
            assert command is not None
            context = command.make_context(name, rest, parent=context)
    except (click.MissingParameter, click.exceptions.NoArgsIsHelpError, click.exceptions.Exit):
        return


def named(text: str) -> Iterator[tuple[str, str]]:
    """Each test that is named, with the file named before it; the name is empty where only a file is."""
    file = ""
    for path, test in _NAMED.findall(text):
        file = path or file
        yield file, test


def exists(file: str, test: str) -> bool:
    if not test:
        return (ROOT / "tests" / file).is_file() or (ROOT / "src" / "tidegate" / file).is_file()
    source = (ROOT / "tests" / file).read_text(encoding="utf-8")
    return re.search(rf"^ *(async )?def {test}\(", source, re.MULTILINE) is not None


@pytest.mark.parametrize("line", sorted(set(commands())))
def test_every_command_that_is_quoted_is_understood(line: str) -> None:
    understand(line)


@pytest.mark.parametrize("line", ["tidegate forget k", "tidegate save k c --colour red", "tidegate session lower main"])
def test_a_command_that_is_none_would_be_noticed(line: str) -> None:
    with pytest.raises(click.UsageError):
        understand(line)


@pytest.mark.parametrize("name", ["security.md", "reported-failures.md", "search.md"])
def test_every_test_and_file_that_is_named_exists(name: str) -> None:
    found = list(named(page(name)))
    assert found
    assert [each for each in found if not exists(*each)] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    links = _LINK.findall(path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_index_lists_every_page_and_readme_and_contributing_lead_to_it() -> None:
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert {*pages, "decisions"} == set(re.findall(r"^\| \[[^]]+\]\(([\w./-]+)\)", page("README.md"), re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md"):
        assert "](docs/README.md)" in (ROOT / name).read_text(encoding="utf-8")


def test_security_says_of_each_property_where_it_is_enforced_and_tested() -> None:
    sections = re.split(r"^### ", page("security.md").partition("\n## What is trusted")[0], flags=re.MULTILINE)[1:]
    assert [section.partition(":")[0] for section in sections] == [f"P{number}" for number in range(1, 19)]
    for section in sections:
        code, tests = section.partition("*Code:*")[2].split("*Tests:*")
        assert ".py`" in code
        assert "`test_" in tests


def test_the_counts_of_seeded_leaks_are_those_of_the_catalogue() -> None:
    told = sum(not (leak.by_model or leak.by_put_back) for leak in LEAKS)
    assert {leaks_owner, leaks_pins, leaks_sessions, leaks_storage, leaks_verbs}
    assert f"{len(LEAKS)} faults" in page("security.md")
    assert f"{told} of them by" in page("security.md")


def test_each_reported_failure_is_looked_for_by_tests_that_carry_its_id() -> None:
    rows = re.findall(r"^\| ([A-Z]\d\d) \| .+? \| (.+) \|$", page("reported-failures.md"), re.MULTILINE)
    assert len(rows) == len(dict(rows)) > 80
    for case, tests in rows:
        names = re.findall(r"`(test_\w+)`", tests)
        assert names, case
        assert all(f"_{case.lower()}_" in name for name in names), case


def test_the_example_of_search_prints_what_the_page_says(cli: Run) -> None:
    [block] = re.findall(r"^```console\n(.*?)^```$", page("search.md"), re.MULTILINE | re.DOTALL)
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        ran = cli(*shlex.split(command)[1:])
        assert (ran.code, ran.out + ran.err) == (0, output), command


def test_the_numbers_of_the_page_on_search_are_those_of_the_code() -> None:
    words = " ".join(page("search.md").lower().split())
    for number, said in (
        (text.INDEXED_CHARS_MAX, "the first {:,} characters"),
        (text.QUERY_WORDS_MAX, "first {} different words"),
        (text.QUERY_CHARS_MAX, "{:,} characters"),
        (rank.FREQUENCY_MAX, "{:,} memories"),
        (rank.CANDIDATES_MAX, "{} candidates"),
        (rerank.RERANKED_MAX, "best {} candidates"),
        (rerank.TEXT_CHARS_MAX, "first {:,} characters of each"),
        (spelling.VOCABULARY_MAX, "{:,} words"),
    ):
        assert said.format(number) in words


def test_the_table_of_where_to_go_names_paths_that_exist() -> None:
    table = page("architecture.md").partition("## To change something")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and "`" in line]
    paths = re.findall(r"`([\w./]+)`", "\n".join(row.rpartition(" | ")[2] for row in rows))
    assert len(rows) >= 25
    assert [path for path in paths if not (ROOT / "src" / "tidegate" / path).exists()] == []
