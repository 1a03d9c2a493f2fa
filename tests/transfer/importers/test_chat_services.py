"""What chat services hand out: JSON as in their exports, and the text that they print when asked to."""

from __future__ import annotations

import time

import pytest

from tidegate.transfer.importers.chat_services import (
    has_dates,
    has_headings,
    read_chatgpt,
    read_claude,
    read_entries,
    read_sections,
)
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source

PRINTED = """```
## Instructions
[2024-05-01] - Always answer in metric units.
[unknown] - Never use
  exclamation marks.

**Identity:**
- Name is Kim
* Lives in Oslo
1. Has two cats
A line by itself

A paragraph
of two lines
```
"""


def test_a_printed_list_gives_an_entry_each_with_heading_date_and_line() -> None:
    found = list(read_entries(PRINTED, Source.CHATGPT))
    assert [(each.place, each.content, each.tags, each.updated_at) for each in found] == [
        ("line 3", "Always answer in metric units.", ["Instructions"], "2024-05-01"),
        ("line 4", "Never use\nexclamation marks.", ["Instructions"], None),
        ("line 8", "Name is Kim", ["Identity"], None),
        ("line 9", "Lives in Oslo", ["Identity"], None),
        ("line 10", "Has two cats\nA line by itself", ["Identity"], None),
        ("line 13", "A paragraph\nof two lines", ["Identity"], None),
    ]


def test_keys_of_printed_entries_follow_from_their_text_alone() -> None:
    (one,) = read_entries("- Lives in Oslo", Source.CHATGPT)
    (two,) = read_entries("\n\n[2024-01-01] - Lives in Oslo\n", Source.CHATGPT)
    assert one.key == two.key
    assert str(one.key).startswith("chatgpt-lives-in-oslo-")
    (mark,) = read_entries("!!!", Source.CLAUDE)
    assert str(mark.key).startswith("claude-")


def test_chatgpt_entries_are_objects_or_texts_in_a_list() -> None:
    entry = {"id": "m1", "content": "Lives in Oslo", "enabled": True, "created_at": 1700000000, "updated_at": None}
    expected = RawMemory(place="entry 1", key="chatgpt-m1", content="Lives in Oslo", created_at=1700000000)
    assert list(read_chatgpt([entry])) == [expected]
    assert list(read_chatgpt({"memories": [entry]})) == [expected]
    (text,) = read_chatgpt(["Lives in Oslo"])
    assert isinstance(text, RawMemory)
    assert text.content == "Lives in Oslo"
    assert list(read_chatgpt({"user": "kim"})) == []


def test_a_memory_that_was_switched_off_is_left_out_and_a_wrong_one_refused() -> None:
    off = {"id": "m1", "content": "x", "enabled": False}
    assert list(read_chatgpt([off, 3])) == [
        Rejected("entry 1", "was switched off at the source", refused=False),
        Rejected("entry 2", "is not a memory"),
    ]


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
        Rejected("memory, file 2", "is not a file of a kind that is known"),
        Rejected("memory, file 3", "is not a file of a kind that is known"),
    ]


def test_sections_with_one_heading_have_keys_of_their_own() -> None:
    found = list(read_sections("# h\nx\n" * 4, "k", "memory"))
    assert [each.key for each in found] == ["k-h", "k-h+", "k-h+3", "k-h+4"]


@pytest.mark.parametrize(
    ("line", "heading"),
    [
        ("## Work ##", "Work"),
        ("# C#", "C"),
        ("# C # #", "C #"),
        ("# #", "#"),
        ("#\tWork", "Work"),
        ("  # *Work*  ", "Work"),
        ("####### Work", None),
        ("#", None),
        ("**Work:**", "Work"),
        ("__Work__:", "Work"),
        ("**Work** x", None),
    ],
)
def test_what_is_a_heading(line: str, heading: str | None) -> None:
    (found,) = read_entries(f"{line}\n- x", Source.CHATGPT) if heading else read_entries(line, Source.CHATGPT)
    assert found.tags == ([heading] if heading else [])


@pytest.mark.parametrize(
    "text",
    [
        "# a" + " " * 2**20 + "b",
        "#" * 2**20,
        "# " + "# " * 2**20 + "x",
        "**" + " :" * 2**20,
        "[2024-01-01]" + " " * 2**20,
    ],
)
def test_no_line_takes_longer_than_it_is_long(text: str) -> None:
    start = time.process_time()
    has_headings(text)
    has_dates(text)
    list(read_entries(text, Source.CLAUDE))
    assert time.process_time() - start < 5


def test_many_equal_headings_take_no_longer_than_others() -> None:
    start = time.process_time()
    assert sum(1 for _ in read_sections("# h\nx\n" * 50_000, "k", "memory")) == 50_000
    assert time.process_time() - start < 10


def test_several_accounts_are_told_apart_by_place_and_what_is_none_is_refused() -> None:
    found = list(read_claude([{"conversations_memory": "A"}, {"conversations_memory": None}, 3]))
    assert [each.place for each in found] == ["account 1, line 1", "account 3"]
    assert found[1] == Rejected("account 3", "is not a memory")
    assert [each.key for each in read_claude({"conversations_memory": "A"}) if isinstance(each, RawMemory)] == [
        "claude"
    ]


def test_a_bracket_that_is_no_date_is_part_of_the_memory() -> None:
    (link, task) = read_entries("[a link](http://example.org)\n\n[x] done", Source.CHATGPT)
    assert (link.content, task.content) == ("[a link](http://example.org)", "[x] done")


def test_texts_are_told_apart_by_headings_and_dates() -> None:
    assert has_headings("__Work__\nx")
    assert not has_headings("- x\n#notaheading")
    assert has_dates("- [2024-01-01] x")
    assert not has_dates("x\n[link](http://example.org)\n[x] done\n[note] - y")
    assert list(read_sections("\n\n# Empty\n\n", "k", "memory")) == []
