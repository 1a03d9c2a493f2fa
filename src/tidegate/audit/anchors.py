"""Anchors: the heads of audit chains at one moment, kept out of reach of anyone who could forge a chain."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level, read_label
from tidegate.records.json_object import JsonObject
from tidegate.records.times import NotATimeError, read_timestamp

_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Anchor(JsonObject):
    """The last entry of a chain at that moment: the chain must keep it. sequence 0: the chain was empty."""

    agent: str
    level: Level
    sequence: int
    hash: str
    at: datetime


def read_anchors(text: str) -> Iterator[Anchor]:
    """Read the anchors of a file, one JSON object a line. Raises: InvalidArgument, which names the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            yield _anchor(line, number)


def _anchor(line: str, number: int) -> Anchor:
    try:
        found = json.loads(line)
        level, sequence, digest = read_label(found["level"]), found["sequence"], found["hash"]
        at = read_timestamp(found["at"])
    except (ValueError, KeyError, TypeError, RecursionError, NotATimeError):
        raise _not_an_anchor(number) from None
    counts = isinstance(sequence, int) and not isinstance(sequence, bool) and sequence >= 0
    if level is None or not counts or not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise _not_an_anchor(number)
    return Anchor(str(found.get("agent")), level, sequence, digest, at)


def _not_an_anchor(number: int) -> InvalidArgument:
    return InvalidArgument(f"anchor, line {number}: is not a line from `tidegate audit anchor`", argument="anchor")
