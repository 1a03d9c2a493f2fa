"""What a backup may bring in: nothing that could not have been saved, and nothing that a store could not hold (P17).

Whoever makes a backup by hand can make its chains fit, so that they hold proves nothing of what they tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.domain.arguments import check_content, check_key, check_tags
from tidegate.domain.job import read_plan, read_run
from tidegate.domain.limits import Limits
from tidegate.domain.message import key_of, number_of, session_of
from tidegate.domain.record import Kind, Record
from tidegate.domain.todo import read_todos
from tidegate.policy.rules import CHILD_DEPTH_MAX

ANY_LENGTH = Limits(*[2**31] * len(Limits.__slots__))
"""For what a store holds already: it may have been saved under other limits."""

COUNT_MAX = 2**53 - 1
"""The highest number of a version or an entry: every reader of JSON holds it exactly, and a file the next one, too."""

_KEY_ROOM = 512  # a session's id, a number, the words of a group of runs


def check_record(record: Record, limits: Limits) -> None:
    """Nothing, when a version is one that can have been stored.

    Raises: InvalidArgument, LimitExceeded, which name the field; StorageError, TypeError, ValueError, KeyError.
    """
    trimmed = {tag.strip() for tag in record.tags} - {""}
    if list(record.tags) != sorted(trimmed):  # as `Draft` promises
        raise ValueError
    if record.kind is Kind.MEMORY:
        check_content(record.content, limits)
        check_key(record.key, limits)
        check_tags(record.tags, limits)
        return
    _check_form(record, replace(limits, key_chars_max=3 * limits.key_chars_max + _KEY_ROOM))


def _check_form(record: Record, limits: Limits) -> None:
    """What is no memory has a form of its own, by which it is read. Its key may hold a name, written as escapes."""
    check_key(record.key, limits)
    if record.kind is Kind.TODO:
        read_todos(record.content)
    elif record.kind is Kind.JOB:
        read_plan(record.content)
    else:
        if record.kind is Kind.RUN:
            read_run(record)
        if record.key != key_of(session_of(record.key), number_of(record.key)):
            raise ValueError


def check_parents(parents: Mapping[str, str | None]) -> None:
    """Nothing, when no session hangs from itself, or deeper than any is opened (P15). Raises: ValueError.

    parents: of each session by its id. A parent that is not among them was one of which nothing is stored.
    """
    for session in parents:
        above, depth = parents[session], 0
        while above is not None:
            above, depth = parents.get(above), depth + 1
            if depth > CHILD_DEPTH_MAX:
                raise ValueError
