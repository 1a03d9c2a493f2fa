"""Streamed tool calls, put together from pieces as servers send them.

A server should give each call its own index, name it once, and send its id once. Some give every call the index 0 or
none, repeat name and id in each piece, or invent a new id for each piece. So a piece is judged by all three, and by
whether anything can follow the arguments received so far.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of call `number`, counted from 0. id, name: empty, unless they are new or go on."""

    number: int
    id: str
    name: str
    arguments: str


@dataclass(slots=True)
class _Call:
    number: int
    index: int | None
    id: str
    name: str
    arguments: str = ""

    @property
    def whole(self) -> bool:
        """Return whether the arguments are one JSON object, which nothing can continue."""
        if not self.arguments.rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False


class CallPieces:
    """The calls of one response. known: the names of the tools."""

    def __init__(self, known: Collection[str]) -> None:
        self._known = known
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def place(self, index: int | None, call_id: str, name: str, arguments: str) -> Piece | None:
        """Return the piece with the number of its call; None for a call that was already received whole."""
        call = self._find(index, call_id, name)
        if call is None or self._begins_another(call, call_id, name, arguments):
            call = self._begin(index, call_id, name)
            first = Piece(call.number, call_id, name, arguments)
            call.arguments = arguments
            return first
        if call_id and call_id == call.id and arguments.strip() and arguments == call.arguments and call.whole:
            return None
        new_id = call_id if not call.id else ""
        new_name = name if not call.name or (name != call.name and self._continues(call, name)) else ""
        call.id, call.name, call.arguments = call.id or call_id, call.name + new_name, call.arguments + arguments
        if new_id:
            self._by_id[new_id] = call
        return Piece(call.number, new_id, new_name, arguments)

    def _find(self, index: int | None, call_id: str, name: str) -> _Call | None:
        """Return the call that a piece seems to belong to."""
        at_index = self._by_index.get(index) if index is not None else None
        same_id = self._by_id.get(call_id) if call_id else None
        if same_id is None:
            return at_index if index is not None else self._calls[-1] if self._calls else None
        if index is None or index == same_id.index or same_id.index is None:
            return same_id
        # Another index under a known id: the index counts, unless it only counts the pieces.
        return at_index if at_index is not None or (name and same_id.whole) else same_id

    def _begins_another(self, call: _Call, call_id: str, name: str, arguments: str) -> bool:
        """Return whether a piece cannot belong to the call at its place."""
        if call_id and call.id and call_id != call.id:
            # A new id alone may be invented for each piece.
            return bool(name) or (call.whole and bool(arguments.strip()))
        if not name or not call.name:
            return False
        if name != call.name:
            return not self._continues(call, name)
        return call.whole and bool(arguments.strip()) and not (call_id and arguments == call.arguments)

    def _continues(self, call: _Call, name: str) -> bool:
        """Return whether a name goes on with the beginning of a tool's name."""
        return not call.arguments and any(known.startswith(call.name + name) for known in self._known)

    def _begin(self, index: int | None, call_id: str, name: str) -> _Call:
        call = _Call(len(self._calls), index, call_id, name)
        self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        return call
