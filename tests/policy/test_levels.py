"""The lattice of levels, and what names a level: all of it, exhaustively."""

from __future__ import annotations

import itertools

import pytest

from tidegate.policy.events import LEVEL_ARGUMENTS, split_level_arguments
from tidegate.policy.levels import Level, read_label

PAIRS = list(itertools.product(Level, repeat=2))
TRIPLES = list(itertools.product(Level, repeat=3))


def test_there_are_four_levels_in_this_order() -> None:
    assert [level.name for level in Level] == ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]
    assert [str(level) for level in Level] == [level.name for level in Level]


def test_flow_is_a_total_order() -> None:
    assert all(level.can_flow_to(level) for level in Level)
    for a, b in PAIRS:
        assert a.can_flow_to(b) or b.can_flow_to(a)
        assert (a.can_flow_to(b) and b.can_flow_to(a)) == (a is b)
    for a, b, c in TRIPLES:
        assert not (a.can_flow_to(b) and b.can_flow_to(c)) or a.can_flow_to(c)


def test_max_is_the_least_upper_bound_and_min_the_greatest_lower() -> None:
    for a, b, c in TRIPLES:
        assert (a.can_flow_to(c) and b.can_flow_to(c)) == max(a, b).can_flow_to(c)
        assert (c.can_flow_to(a) and c.can_flow_to(b)) == c.can_flow_to(min(a, b))


def test_join_and_meet_obey_the_lattice_laws() -> None:
    for a, b, c in TRIPLES:
        for first, second in ((max, min), (min, max)):
            assert first(a, a) is a
            assert first(a, b) is first(b, a)
            assert first(a, first(b, c)) is first(first(a, b), c)
            assert first(a, second(a, b)) is a
            assert first(a, second(b, c)) is second(first(a, b), first(a, c))


def test_public_flows_everywhere_and_only_restricted_reads_everything() -> None:
    assert [all(level.can_flow_to(target) for target in Level) for level in Level] == [True, False, False, False]
    assert [all(source.can_flow_to(level) for source in Level) for level in Level] == [False, False, False, True]


def test_a_label_is_read_only_when_it_is_exactly_a_name() -> None:
    assert [read_label(level.name) for level in Level] == list(Level)


@pytest.mark.parametrize(
    "label",
    [
        None,
        "",
        "public",
        "Public",
        " PUBLIC",
        "PUBLIC ",
        "PUBLIC\0",
        "SECRET",
        "0",
        0,
        3,
        True,
        b"PUBLIC",
        Level.PUBLIC,
        ["PUBLIC"],
    ],
)
def test_any_other_label_is_no_level(label: object) -> None:
    assert read_label(label) is None


def test_level_arguments_are_taken_out_and_named() -> None:
    sent: dict[str, object] = dict.fromkeys(LEVEL_ARGUMENTS, "PUBLIC") | {"key": "k", "Level": "x", "levels": 1}
    kept, attempted = split_level_arguments(sent)
    assert kept == {"key": "k", "Level": "x", "levels": 1}
    assert attempted == ("classification", "level", "security_level", "sensitivity", "taint")


def test_arguments_without_a_level_come_back_as_they_were() -> None:
    assert split_level_arguments({"key": "k", "tags": None}) == ({"key": "k", "tags": None}, ())
    assert split_level_arguments({}) == ({}, ())
