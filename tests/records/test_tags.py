"""Tags are compared without case and form, and kept as they were written."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.records.limits import Limits
from tidegate.records.record import RecordKind
from tidegate.records.tags import distinct_tags, fold_tag, found_under
from tidegate.records.validation import check_tags

ALIKE = [
    ("work", "Work", "WORK", " work "),
    ("straße", "STRASSE", "Strasse"),
    ("ｗｏｒｋ", "work"),
    ("ﬁnance", "Finance", "FINANCE"),
    ("café", "cafe\u0301", "CAFÉ"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος", "σίσυφοσ"),
    ("①", "1"),
    ("a\u00a0b", "a b"),
]


@pytest.mark.parametrize("tags", ALIKE, ids=lambda tags: tags[0])
def test_tags_that_differ_in_case_or_form_alone_are_one(tags: tuple[str, ...]) -> None:
    assert len(set(map(fold_tag, tags))) == 1
    assert distinct_tags(tags) == (tags[0],)
    assert distinct_tags(reversed(tags)) == (tags[-1],)


@pytest.mark.parametrize(("one", "other"), [("work", "works"), ("cafe", "café"), ("a b", "ab"), ("1", "2")])
def test_other_tags_stay_apart(one: str, other: str) -> None:
    assert fold_tag(one) != fold_tag(other)


@given(st.text(max_size=20))
def test_folding_again_changes_nothing(tag: str) -> None:
    assert fold_tag(fold_tag(tag)) == fold_tag(tag)
    assert fold_tag(unicodedata.normalize("NFD", tag)) == fold_tag(tag)


def test_only_memories_compare_folded() -> None:
    assert found_under(RecordKind.MEMORY, ["Work", "work"]) == {"work"}
    assert found_under(RecordKind.RUN, ["event:A", "event:a"]) == {"event:A", "event:a"}


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (["Work", "work", "WORK"], ("Work",)),
        (["work", "Work"], ("work",)),
        ("work, Home ,,HOME", ("Home", "work")),
        ("a,b", ("a", "b")),
        (["a,b", "c"], ("a,b", "c")),
        ('["a,b", "A,B"]', ("a,b",)),
        (("a, b",), ("a, b",)),
        ('["a", "b"', ('"b"', '["a"')),
        (",", ()),
    ],
)
def test_of_alike_tags_the_first_stays_and_a_comma_separates_in_one_string_only(
    sent: object, kept: tuple[str, ...]
) -> None:
    assert check_tags(sent, Limits()) == kept
