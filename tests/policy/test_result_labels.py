"""Labels of results: what a claim counts for, in every form, and what we say ourselves."""

from __future__ import annotations

import itertools

import pytest

from tidegate.policy.levels import Level
from tidegate.policy.result_labels import claimed_level, result_label

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level

CLAIMS: list[tuple[object, Level]] = [
    # Nothing is said
    (None, PUBLIC),
    ({}, PUBLIC),
    ({"classification": "RESTRICTED", "level": "RESTRICTED"}, PUBLIC),  # nobody's label
    ({"ifc": None, "sensitiveHint": None, "privateHint": None, "com.tidegate/level": None}, PUBLIC),
    ({"ifc": {}}, PUBLIC),
    ({"ifc": {"integrity": "untrusted"}}, PUBLIC),
    ({"ifc": {"integrity": "nonsense"}}, PUBLIC),
    ({"ifc": {"confidentiality": None}}, PUBLIC),
    # GitHub's server and FIDES: a word
    ({"ifc": {"integrity": "trusted", "confidentiality": "public"}}, PUBLIC),
    ({"ifc": {"integrity": "untrusted", "confidentiality": "private"}}, INTERNAL),
    ({"ifc": {"confidentiality": "Private"}}, INTERNAL),
    ({"security_label": {"confidentiality": "private"}}, INTERNAL),
    # Earlier: a list of readers
    ({"ifc": {"confidentiality": ["public"]}}, PUBLIC),
    ({"ifc": {"confidentiality": ["ada"]}}, INTERNAL),
    ({"ifc": {"confidentiality": ["ada", "public"]}}, INTERNAL),
    ({"ifc": {"confidentiality": ["private"]}}, INTERNAL),
    ({"security_label": {"confidentiality": ["ada", "bo"]}}, INTERNAL),
    # The draft's hints
    ({"privateHint": True}, INTERNAL),
    ({"privateHint": False}, PUBLIC),
    ({"sensitiveHint": "low"}, INTERNAL),
    ({"sensitiveHint": "medium"}, CONFIDENTIAL),
    ({"sensitiveHint": "high"}, RESTRICTED),
    ({"sensitiveHint": "Medium"}, CONFIDENTIAL),
    ({"sensitiveHint": False}, PUBLIC),
    # Our own, from a Tidegate behind this one
    *(({"com.tidegate/level": str(level)}, level) for level in Level),
    # P17: not understood
    ("private", RESTRICTED),
    ([], RESTRICTED),
    (0, RESTRICTED),
    ({"ifc": "public"}, RESTRICTED),
    ({"ifc": ["public"]}, RESTRICTED),
    ({"ifc": False}, RESTRICTED),
    ({"ifc": {"confidentiality": "user_identity"}}, RESTRICTED),
    ({"ifc": {"confidentiality": ""}}, RESTRICTED),
    ({"ifc": {"confidentiality": " public"}}, RESTRICTED),
    ({"ifc": {"confidentiality": False}}, RESTRICTED),
    ({"ifc": {"confidentiality": 0}}, RESTRICTED),
    ({"ifc": {"confidentiality": {}}}, RESTRICTED),
    ({"ifc": {"confidentiality": []}}, RESTRICTED),
    ({"ifc": {"confidentiality": ["ada", 5]}}, RESTRICTED),
    ({"ifc": {"confidentiality": [["public"]]}}, RESTRICTED),
    ({"security_label": "public"}, RESTRICTED),
    ({"sensitiveHint": "none"}, RESTRICTED),
    ({"sensitiveHint": True}, RESTRICTED),
    ({"sensitiveHint": 0}, RESTRICTED),
    ({"privateHint": "false"}, RESTRICTED),
    ({"privateHint": 0}, RESTRICTED),
    ({"privateHint": 1}, RESTRICTED),
    ({"com.tidegate/level": "public"}, RESTRICTED),
    ({"com.tidegate/level": 0}, RESTRICTED),
]


@pytest.mark.parametrize(("said", "level"), CLAIMS, ids=repr)
def test_a_label_counts_for_its_level_and_for_the_highest_if_it_is_not_understood(said: object, level: Level) -> None:
    assert claimed_level([said]) is level


def test_of_all_that_is_said_the_highest_counts_in_any_order() -> None:
    assert claimed_level([]) is PUBLIC
    for (one, lower), (other, upper) in itertools.product(CLAIMS, repeat=2):
        assert claimed_level([one, other]) is max(lower, upper)


def test_of_all_labels_in_one_place_the_highest_counts() -> None:
    said = {"ifc": {"confidentiality": "public"}, "privateHint": False, "sensitiveHint": "medium"}
    assert claimed_level([said]) is CONFIDENTIAL
    assert claimed_level([{**said, "com.tidegate/level": "RESTRICTED"}]) is RESTRICTED


@pytest.mark.parametrize(("level", "confidentiality"), list(zip(Level, ["public", *["private"] * 3], strict=True)))
@pytest.mark.parametrize(("trusted", "integrity"), [(True, "trusted"), (False, "untrusted")])
def test_our_own_label_is_in_the_form_of_others(
    level: Level, confidentiality: str, trusted: bool, integrity: str
) -> None:
    assert result_label(level, trusted=trusted) == {
        "com.tidegate/level": level.name,
        "ifc": {"integrity": integrity, "confidentiality": confidentiality},
    }


@pytest.mark.parametrize("level", Level)
def test_what_we_say_we_understand(level: Level) -> None:
    assert claimed_level([result_label(level, trusted=True)]) is level
