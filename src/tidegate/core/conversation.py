"""A conversation: its messages, each a record at the taint of the moment it was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tidegate.core import variants as records
from tidegate.core.gate import Act, Answer, Gate, SessionHandle
from tidegate.core.variants import NewRecord
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.record import Origin, Record, RecordKind, is_of, key_of, least_trusted, number_of
from tidegate.storage.base import View, WritableView

_BATCH = 100


@dataclass(frozen=True, slots=True)
class Message(JsonObject):
    """One message. number: its place, from 1. content: exactly as the host wrote it. level: the taint at that moment.

    origin: where it came from, as the host said when it stored it.
    """

    number: int
    content: str
    level: Level
    origin: Origin


class Conversation:
    """The messages of one session, in order. They survive restarts; a reset or a later purge removes them."""

    def __init__(self, gate: Gate, handle: SessionHandle, origin: Origin) -> None:
        self._gate = gate
        self._handle = handle
        self._origin = origin

    def read(self) -> list[Message]:
        """Return all messages, oldest first. Raises: Refused, StorageError."""
        return self._gate.read(self._handle, "conversation", partial(_read, session=self._handle.id))

    def append(self, contents: Sequence[str], *, origin: Origin | None = None) -> None:
        """Store messages after the existing ones, at the session's live taint.

        origin: where they came from; by default the session's. A session whose origin is from outside stores none as
        more trusted (P18). Raises: Refused, StorageError.
        """
        if origin is None or self._origin.from_outside:
            origin = least_trusted((origin or self._origin, self._origin))
        verb = partial(_append, session=self._handle.id, contents=contents, origin=origin)
        self._gate.write(self._handle, "conversation", verb)


def _read(view: View, session: str) -> Answer[list[Message]]:
    found = list(_messages(view, session))
    return Answer([Message(number_of(each.key), each.content, each.level, each.origin) for each in found], found)


def _append(view: WritableView, act: Act, session: str, contents: Sequence[str], origin: Origin) -> Answer[None]:
    for number, content in enumerate(contents, _last(view, session) + 1):
        records.save(view, act, NewRecord(RecordKind.MESSAGE, key_of(session, number), content, (), origin))
    return Answer(None, ())


def _messages(view: View, session: str) -> Iterator[Record]:
    start = key_of(session, 0)
    for record in records.merged(
        view, RecordKind.MESSAGE, tag=None, after=start, batch=_BATCH, chars_max=records.WHOLE
    ):
        if not is_of(record.key, session):
            return
        yield record


def _last(view: View, session: str) -> int:
    """Return the number of the last message, without reading all. A purge may have removed the first ones."""
    least, most = 0, 1
    while _goes_on(view, session, most):
        least, most = most + 1, 2 * most
    while least < most:
        middle = (least + most) // 2
        least, most = (middle + 1, most) if _goes_on(view, session, middle) else (least, middle)
    return least


def _goes_on(view: View, session: str, number: int) -> bool:
    """Return whether a message follows this one."""
    after = key_of(session, number)
    pages = (each.page(RecordKind.MESSAGE, after=after, tag=None, limit=1, chars_max=0) for each in view.visible)
    return any(is_of(record.key, session) for page in pages for record in page)
