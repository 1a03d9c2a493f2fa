"""A conversation: its messages, each a record at the taint at which it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidegate.core import records
from tidegate.core.gate import Act, Answer, Gate, Seat
from tidegate.core.records import Item
from tidegate.domain.message import is_of, key_of, number_of
from tidegate.domain.record import Kind, Origin, Record
from tidegate.policy.levels import Level
from tidegate.storage.base import View, WritableView

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Message:
    """One message. number: its place, from 1. content: exactly what the host wrote. level: the taint at that moment.

    origin: where it came from, as the host said when it stored it.
    """

    number: int
    content: str
    level: Level
    origin: Origin


class Conversation:
    """The messages of one session, in order. They outlast restarts; a reset clears them, or a later purge."""

    def __init__(self, gate: Gate, seat: Seat) -> None:
        self._gate = gate
        self._seat = seat

    def read(self) -> list[Message]:
        """All messages, oldest first. Raises: Refused, StorageError."""
        return self._gate.read(self._seat, "conversation", partial(_read, session=self._seat.id))

    def append(self, contents: Sequence[str], *, origin: Origin = Origin.AGENT) -> None:
        """Store messages after those there are, at the session's live taint. Raises: Refused, StorageError."""
        verb = partial(_append, session=self._seat.id, contents=contents, origin=origin)
        self._gate.write(self._seat, "conversation", verb)


def _read(view: View, session: str) -> Answer[list[Message]]:
    found = list(_messages(view, session))
    return Answer([Message(number_of(each.key), each.content, each.level, each.origin) for each in found], found)


def _append(view: WritableView, act: Act, session: str, contents: Sequence[str], origin: Origin) -> Answer[None]:
    for number, content in enumerate(contents, _last(view, session) + 1):
        records.save(view, act, Item(Kind.MESSAGE, key_of(session, number), content, (), origin))
    return Answer(None, ())


def _messages(view: View, session: str) -> Iterator[Record]:
    start = key_of(session, 0)
    for record in records.merged(view, Kind.MESSAGE, tag=None, after=start, batch=_BATCH, chars_max=records.WHOLE):
        if not is_of(record.key, session):
            return
        yield record


def _last(view: View, session: str) -> int:
    """The number of the last message. There are no gaps, so it need not go through all of them."""
    above = 1
    while _is_there(view, session, above):
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if _is_there(view, session, middle) else (below, middle)
    return below


def _is_there(view: View, session: str, number: int) -> bool:
    return any(each.has_live(Kind.MESSAGE, key_of(session, number)) for each in view.visible)
