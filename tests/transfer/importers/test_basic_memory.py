"""basic-memory: notes with title, type and permalink, with observations and relations in their text."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.transfer.importers.basic_memory import read_note, reader
from tidegate.transfer.importers.labels import UNREADABLE
from tidegate.transfer.importers.markdown import Note
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import SourceFile

BODY = """# Green Tea

How the kitchen makes it.

## Observations
- [method] Steep for two minutes #brewing #time (kim's way)
- [preference] Loose leaves

## Relations
- relates_to [[Water]]
- part_of [[Breakfast]] (on Sundays)
"""
HEAD = """---
title: Green Tea
type: recipe
permalink: drinks/green-tea
tags:
- tea
- kitchen
created: 2024-05-01T10:00:00Z
modified: '2024-05-02'
---

"""


def note(text: str) -> RawMemory:
    found = read_note(Note("drinks/Green Tea.md", text, 1_700_000_000.0))
    assert isinstance(found, RawMemory)
    return found


def test_a_note_is_its_text_under_its_permalink() -> None:
    assert note(HEAD + BODY) == RawMemory(
        place="drinks/Green Tea.md",
        key="drinks/green-tea",
        content=BODY,
        tags=["tea", "kitchen", "recipe"],
        created_at="2024-05-01T10:00:00Z",
        updated_at="2024-05-02",
        written_at=1_700_000_000.0,
    )
    assert note("\ufeff" + HEAD + BODY).content == BODY


def test_the_usual_type_is_no_tag() -> None:
    assert note((HEAD + BODY).replace("recipe", "note")).tags == ["tea", "kitchen"]
    assert note("---\ntags: 5\ntype: a\n---\nx").tags == ["5", "a"]
    odd = note("---\ntype: [a]\npermalink: {}\n---\nx")
    assert (odd.key, odd.tags) == ("drinks/Green Tea", [])


def test_a_title_that_is_not_in_the_text_and_other_fields_stay_in_the_content() -> None:
    untold = (HEAD + BODY).replace("# Green Tea", "# Tea")
    assert note(untold).content == untold
    more = (HEAD + BODY).replace("type:", "status: draft\ntype:")
    assert note(more).content == more


def test_a_note_that_is_not_named_yet_is_read_as_any_other() -> None:
    assert (note(BODY).key, note(BODY).content) == ("drinks/Green Tea", BODY)


@pytest.mark.parametrize(
    ("line", "label"),
    [
        ("- [classification] RESTRICTED", "RESTRICTED"),
        ("- [Classification] restricted #secret (until May)", "RESTRICTED"),
        ("  * [security level] internal", "INTERNAL"),
        ("1. [level] CONFIDENTIAL until May, then INTERNAL", "CONFIDENTIAL"),
        ("[classification] RESTRICTED", "RESTRICTED"),
        ("- [classification] secret", UNREADABLE),
        ("- [classification] whales are mammals #biology", None),
        ("- [level] two out of five", None),
        ("- [method] RESTRICTED", None),
        ("- [x] classification", None),
    ],
)
def test_p10_a_label_in_an_observation_counts(line: str, label: object) -> None:
    assert note(f"{HEAD}{BODY}{line}\n").label == label


def test_p10_the_higher_of_the_labels_counts() -> None:
    text = HEAD.replace("type:", "classification: INTERNAL\ntype:") + BODY
    assert note(text).label == "INTERNAL"
    assert note(f"{text}- [classification] CONFIDENTIAL\n").label == "CONFIDENTIAL"


def test_a_note_that_cannot_be_read_is_refused() -> None:
    found = read_note(Note("n.md", "---\ntitle: [\ntype: x\n---\n", 0.0))
    assert found == Rejected("n.md", "its front matter is not readable YAML (line 2)")


def test_a_folder_and_one_note_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(HEAD + BODY)
    (tmp_path / "b.md").write_text("B")
    (tmp_path / "c.md").write_bytes(b"\xff")
    keys = [each.key if isinstance(each, RawMemory) else each for each in reader(SourceFile(tmp_path, None))()]
    assert keys == ["drinks/green-tea", "b", Rejected("c.md", "is neither UTF-8 nor UTF-16")]
    (found,) = reader(SourceFile(tmp_path / "a.md", None))()
    assert isinstance(found, RawMemory)
