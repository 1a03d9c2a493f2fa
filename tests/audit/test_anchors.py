"""Anchors: what is printed is what is read back, and nothing else is taken for one."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from tidegate.audit.anchors import Anchor, read_anchors
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level

ANCHORS = [Anchor("a", level, 7, "ab" * 32, datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)) for level in Level]
GOOD = ANCHORS[0].to_dict()


def test_anchors_are_read_back_as_they_were_also_from_a_file_that_grew() -> None:
    lines = [json.dumps(anchor.to_dict()) for anchor in ANCHORS]
    assert list(read_anchors("\n".join(lines) + "\n\n" + "\r\n".join(lines))) == ANCHORS * 2


@pytest.mark.parametrize(
    "line",
    [
        "no json",
        "[]",
        "7",
        "null",
        "{}",
        "[" * 100_000,
        *(
            json.dumps({**GOOD, **change})
            for change in (
                {"level": "SECRET"},
                {"level": None},
                {"sequence": -1},
                {"sequence": True},
                {"sequence": "7"},
                {"sequence": 7.0},
                {"hash": "AB" * 32},
                {"hash": "ab"},
                {"hash": None},
                {"at": "yesterday"},
            )
        ),
        *(json.dumps({key: value for key, value in GOOD.items() if key != lost}) for lost in ("level", "hash", "at")),
    ],
)
def test_what_is_no_anchor_is_refused_by_its_line(line: str) -> None:
    with pytest.raises(InvalidArgument, match=r"^anchor, line 2: "):
        list(read_anchors(json.dumps(GOOD) + "\n" + line))


def test_an_empty_text_holds_no_anchor() -> None:
    assert list(read_anchors("")) == []
