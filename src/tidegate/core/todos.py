"""An agent's to-do list: one record, gated, shadowed and audited like a memory."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.core import variants as records
from tidegate.core.gate import Answer, Gate, SessionHandle
from tidegate.core.variants import NewRecord
from tidegate.records.limits import Limits
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.records.todo import KEY, Todo, check_todos, read_todos, write_todos
from tidegate.storage.base import View


class SessionTodos:
    """The to-do list as one session sees it: the highest visible variant."""

    def __init__(self, gate: Gate, handle: SessionHandle, limits: Limits, origin: Origin) -> None:
        self._gate = gate
        self._handle = handle
        self._limits = limits
        self._origin = origin

    def read(self) -> tuple[Todo, ...]:
        """Return the list, in order; empty if none was written. Raises: Refused, StorageError."""
        return self.read_with_origin()[0]

    def read_with_origin(self) -> tuple[tuple[Todo, ...], Origin | None]:
        """Return the list as `read` does, and its origin (P18); None without a list. Raises: as `read`."""
        return self._gate.read(self._handle, "todo_read", _read)

    def write(self, todos: Sequence[Todo | dict[str, object]]) -> tuple[Todo, ...]:
        """Store the list at the session's live taint, and return it; it replaces the visible one.

        Raises: InvalidArgument, LimitExceeded, Refused, StorageError; then nothing was stored.
        """
        checked = check_todos(todos, self._limits)
        item = NewRecord(RecordKind.TODO, KEY, write_todos(checked), (), self._origin)
        self._gate.write(
            self._handle, "todo_write", lambda view, act: Answer(records.save(view, act, item), list[Record]())
        )
        return checked


def _read(view: View) -> Answer[tuple[tuple[Todo, ...], Origin | None]]:
    found = records.variants(view.visible, RecordKind.TODO, KEY)
    return Answer((read_todos(found[0].content), found[0].origin) if found else ((), None), found)
