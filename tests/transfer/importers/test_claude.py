"""Claude: the memories of its data export, one a section."""

from __future__ import annotations

import pytest
from tests.yardstick.growth import grows_linearly

from tidegate.transfer.importers.claude import read_claude, read_sections
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected


def test_each_section_of_claudes_summary_is_a_memory_named_after_its_heading() -> None:
    account = {
        "conversations_memory": "Likes tea.\n\n**Work context**\n\nKim builds boats.\nIn Oslo.\n\n# Work context\nMore",
        "project_memories": {"p-1": "Plan the trip.", "p-2": None},
        "account_uuid": "a",
        "memory_files": [{"path": "/notes/a.md", "content": "A"}, {"path": 3}, "b"],
    }
    found = list(read_claude([account]))
    assert [(each.place, each.key, each.content) for each in found if isinstance(each, RawMemory)] == [
        ("memory, line 1", "claude", "Likes tea."),
        ("memory, line 3", "claude-work-context", "Kim builds boats.\nIn Oslo."),
        ("memory, line 8", "claude-work-context+", "More"),
        ("memory, project p-1, line 1", "claude-project-p-1", "Plan the trip."),
        ("memory, file 1", "claude-file-/notes/a.md", "A"),
    ]
    assert [each for each in found if isinstance(each, Rejected)] == [
        Rejected("memory, project p-2", "is not a text"),
        Rejected("memory, file 2", "is not a known kind of file"),
        Rejected("memory, file 3", "is not a known kind of file"),
    ]


def test_sections_with_one_heading_have_keys_of_their_own() -> None:
    found = list(read_sections("# h\nx\n" * 4, "k", "memory"))
    assert [each.key for each in found] == ["k-h", "k-h+", "k-h+3", "k-h+4"]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("## Work ##", "work"),
        ("# C#", "c"),
        ("# #", ""),
        ("#\tWork", "work"),
        ("  # *Work*  ", "work"),
        ("####### Work", None),
        ("#", None),
        ("#notaheading", None),
        ("**Work:**", "work"),
        ("__Work__:", "work"),
        ("**Work** x", None),
    ],
)
def test_what_is_a_heading(line: str, heading: str | None) -> None:
    (found,) = read_sections(f"{line}\nx", "k", "memory")
    key, content = ("k", f"{line}\nx") if heading is None else (f"k-{heading}".strip("-"), "x")
    assert (found.key, found.content) == (key, content)


def test_fences_around_a_text_are_left_out_and_empty_sections_are_no_memories() -> None:
    assert [each.content for each in read_sections("```\n# a\nx\n```", "k", "memory")] == ["x"]
    assert list(read_sections("\n\n# Empty\n\n", "k", "memory")) == []


@pytest.mark.parametrize("line", ["# a{}b", "{}", "# {}x", "**{}"])
@pytest.mark.parametrize("filler", [" ", "#", "# ", " :"])
def test_no_line_takes_longer_than_it_is_long(line: str, filler: str) -> None:
    def work(size: int) -> None:
        list(read_sections(line.replace("{}", filler * (size // len(filler))), "k", "memory"))

    assert grows_linearly(work, 2**20)


def test_many_equal_headings_take_no_longer_than_others() -> None:
    def work(size: int) -> None:
        assert sum(1 for _ in read_sections("# h\nx\n" * size, "k", "memory")) == size

    assert grows_linearly(work, 50_000)


def test_several_accounts_are_told_apart_by_place_and_what_is_none_is_refused() -> None:
    found = list(read_claude([{"conversations_memory": "A"}, {"conversations_memory": None}, 3]))
    assert [each.place for each in found] == ["account 1, line 1", "account 3"]
    assert found[1] == Rejected("account 3", "is not a memory")
    assert [each.key for each in read_claude({"conversations_memory": "A"}) if isinstance(each, RawMemory)] == [
        "claude"
    ]


@pytest.mark.parametrize(
    ("name", "odd"), [("conversations_memory", {"a": 1}), ("project_memories", ["x"]), ("memory_files", "x")]
)
def test_a_part_in_an_unknown_form_is_refused_and_not_passed_over(name: str, odd: object) -> None:
    account = {"conversations_memory": "**A**\nx", name: odd}
    assert Rejected("memory", f"`{name}` is not of a known form") in list(read_claude(account))


def test_an_account_without_memories_is_refused_beside_others() -> None:
    found = list(read_claude([{"conversations_memory": "x"}, {"uuid": "u"}]))
    assert found[1:] == [Rejected("account 2", "has no memories of a known form")]
