"""Notes: the name is the key, plain front matter gives tags and times, nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.transfer.importers.labels import UNREADABLE
from tidegate.transfer.importers.markdown import Note, _other_file, read_note
from tidegate.transfer.importers.raw_memory import RawMemory


def note(text: str, name: str = "projects/plan.md") -> RawMemory:
    found = read_note(Note(name, text, 1_700_000_000.0))
    assert isinstance(found, RawMemory)
    return found


def test_a_plain_note_is_its_text_under_its_path() -> None:
    assert note("# Plan\n\nSail in May.\n") == RawMemory(
        place="projects/plan.md",
        key="projects/plan",
        content="# Plan\n\nSail in May.\n",
        tags=[],
        written_at=1_700_000_000.0,
    )
    assert note("x", "A.Markdown").key == "A"
    assert note("x", "a.txt").key == "a.txt"


@pytest.mark.parametrize(
    ("lines", "tags"),
    [
        ("tags: [boat, 'two words', \"q\"]", ["boat", "two words", "q"]),
        ("tags: boat, sea", ["boat", "sea"]),
        ("tags: [boat, '#sea']", ["boat", "sea"]),
        ("tags:\n  - boat\n  - 'sea'", ["boat", "sea"]),
        ("Tag: boat", ["boat"]),
        ("tags:", []),
    ],
)
def test_front_matter_gives_tags_in_each_of_the_usual_forms(lines: str, tags: list[str]) -> None:
    found = note(f"---\n{lines}\n---\n\nSail in May.\n")
    assert found.tags == tags
    assert found.content == "Sail in May.\n"


def test_front_matter_gives_times_and_a_label() -> None:
    found = note("---\r\ncreated: 2024-01-02\r\nmodified: 2024-01-03\r\nclassification: RESTRICTED\r\n---\r\nx")
    assert (found.created_at, found.updated_at, found.label) == ("2024-01-02", "2024-01-03", "RESTRICTED")
    assert found.content == "x"


def test_a_label_that_is_there_and_empty_is_one_all_the_same() -> None:
    assert note("---\nclassification:\n---\nx").label == UNREADABLE
    assert note("x").label is None


def test_p10_an_observation_of_basic_memory_is_a_label_in_any_note() -> None:
    assert note("# Plan\n\n- [Classification] RESTRICTED, until May #x (draft)\n").label == "RESTRICTED"
    assert note("- [ ] classification: RESTRICTED").label is None


def test_front_matter_with_other_fields_stays_in_the_content() -> None:
    text = "---\ntags: [a]\naliases: [b]\n# remark\n---\nx"
    found = note(text)
    assert (found.tags, found.content) == (["a"], text)


@pytest.mark.parametrize("line", ["created: {{date}}", "tags: {{tag}}", "tags: [{{tag}}, a]"])
def test_front_matter_with_an_unfilled_template_stays_in_the_content(line: str) -> None:
    text = f"---\n{line}\n---\nx"
    assert note(text).content == text
    assert note("---\ntags: a\n---\n{{x}}").content == "{{x}}"


@pytest.mark.parametrize(
    ("front", "tags"),
    [
        ("tags:\n- a\n-  b ", ["a", "b"]),
        ("tags : [a, 'b']", ["a", "b"]),
        ("tags:a", []),
        ("tags:\n-", []),
        ("a b: c", []),
    ],
)
def test_what_is_a_field_and_what_is_an_item_of_its_list(front: str, tags: list[str]) -> None:
    assert note(f"---\n{front}\n---\nx").tags == tags


def test_a_note_of_front_matter_alone_keeps_it() -> None:
    assert note("---\ntags: a\n---\n").content == "---\ntags: a\n---\n"


def test_i09_a_mark_of_byte_order_is_dropped_at_the_beginning_alone() -> None:
    assert note("\ufeffa\ufeffb").content == "a\ufeffb"
    assert note("\ufeff---\ntags: a\n---\nx").content == "x"


@pytest.mark.parametrize("label", ["restricted", "Restricted", "rESTRICTED"])
@pytest.mark.parametrize("key", ["classification", "Classification", "level", "Sensitivity"])
def test_p10_a_label_counts_in_any_letter_case(key: str, label: str) -> None:
    fields = (f"---\n{key}: {label}\n---\nx", f'+++\n{key} = "{label}"\n+++\nx', f'{{"{key}": "{label}"}}\nx')
    for text in (*fields, f"- [{key}] {label}"):
        assert note(text).label == "RESTRICTED"


def test_an_unknown_word_under_classification_is_a_label_that_names_no_level() -> None:
    assert note("---\nclassification: secret\n---\nx").label == UNREADABLE


def test_a_folder_that_cannot_be_read_is_no_advice(tmp_path: Path) -> None:
    assert _other_file(tmp_path / "gone") == ""
