"""A world: a real store, a clock and ids that depend only on a step's index, and a record of all that can be seen."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.waking import Lane, wake

from tidegate.audit.chain import Entry, Place
from tidegate.errors import NotFound, Refused, StorageError, TidegateError
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records.memory import Page
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.records.times import write_timestamp
from tidegate.search.ranking import Statistics
from tidegate.session import Session
from tidegate.storage.base import CompartmentReader
from tidegate.storage.control import SessionRow
from tidegate.store import Store
from tidegate.tools import TOOLS, results
from tidegate.tools.jobs import shown

Answer: TypeAlias = dict[str, Any]
EPOCH = datetime(2030, 1, 1, tzinfo=UTC)
NO_CURSOR = "bm8gY3Vyc29y"


def time_of(index: int) -> datetime:
    """Two steps share a second, so that ties in time happen."""
    return EPOCH + timedelta(seconds=index // 2)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one step showed.

    answer: the result or {"error": code, "message": …}, in the words of the tools.
    raw: the same as Python gave it, with every field there is.
    standing: where the session stands afterwards; None when there is none.
    """

    answer: Answer
    raw: object
    state: SessionRow | None


class World:
    """Runs steps against one provider."""

    def __init__(self, backend: Backend, *, agents: Collection[str] = (), audit_reads: bool = False) -> None:
        self.backend = backend
        self._audit_reads = audit_reads
        self._index = 0
        self._ids = 0
        self._ids_above = Counter[int]()
        self._lane = Lane(self._next_id, self._next_id_above)
        self._cursors: dict[int, str | None] = {}
        self.handles: dict[t.Seat, Session] = {}
        self.session_ids: dict[t.Seat, str] = {}
        self.names_before: dict[str, str] = {}
        """By which name a session was asked for before the name was renewed, by its id."""
        backend.erase(agents)
        self.store = self._open()

    def run(self, steps: t.Trace) -> dict[int, Outcome]:
        """The outcome of each step, by index."""
        return {step.index: self.step(step) for step in steps}

    def step(self, step: t.Step) -> Outcome:
        """Run one operation at its own time, with its own ids."""
        self._index, self._ids, self._ids_above = step.index, 0, Counter()
        raw: object = None
        try:
            answer, raw = self._act(step)
        except TidegateError as error:
            answer = {"error": error.code, "message": str(error), **error.details}
        ownerless = isinstance(step.op, t.Restart | t.Owned)
        return Outcome(answer, raw, None if ownerless else self.row(step.op.seat))

    def row(self, seat: t.Seat) -> SessionRow | None:
        """The session of a seat as the store has it now."""
        session = self.session_ids.get(seat)
        found = self.store.sessions.read(session) if session else None
        return found and _of_any_life(found)

    def close(self) -> None:
        """Close the store; the home stays."""
        self.store.close()

    # What lies in the store

    @contextmanager
    def compartment(self, agent: str, level: Level) -> Iterator[CompartmentReader]:
        """One compartment, from below the gate."""
        with self.store._provider.view(agent, level) as view:
            yield view.visible[0]

    def rows(self, agent: str) -> list[SessionRow]:
        """The named sessions of an agent."""
        return [_of_any_life(row) for row in self.store.sessions.list(agent)]

    def _open(self) -> Store:
        return Store(
            self.backend.provider(),
            toolset=TOOLS,
            clock=self._clock,
            ids=self._lane,
            audit_reads=self._audit_reads,
        )

    def _clock(self) -> datetime:
        return time_of(self._index)

    def _next_id(self) -> str:
        self._ids += 1
        return f"{self._index:05}-{self._ids}"

    def _next_id_above(self, rise: int) -> str:
        self._ids_above[rise] += 1
        return f"{self._index:05}-above-{rise}-{self._ids_above[rise]}"

    # The operations

    def _act(self, step: t.Step) -> tuple[Answer, object]:
        match step.op:
            case t.Restart():
                return self._restart()
            case t.Erase() | t.Purge() | t.Lose() as op:
                return self._owned(op), None
            case t.Wake(seat, level, rises):
                return {"runs": wake(self.store, self._clock, self._lane, seat.agent, level, rises)}, None
            case t.Schedule() | t.Scheduled() | t.Unschedule() as op:
                return self._job(op, self._handle(op.seat))
            case t.Open() as op:
                return self._open_session(op)
            case t.Resume(seat):
                self._take(seat, self.store.resume(seat.agent, seat.label))
                return {"taint": self.handles[seat].taint.name}, None
            case t.Raise(seat, level):
                return {"taint": self._handle(seat).raise_taint(level, reason="read it").name}, None
            case t.Ceiling(seat, level):
                self.store.sessions.set_ceiling(self._handle(seat).id, level)
                return {}, None
            case t.Reset(seat):
                self.store.sessions.reset(self._handle(seat).id)
                return {}, None
            case t.Renew(seat):
                before = self.store.sessions.id_of(seat.agent, seat.label)
                self.store.sessions.renew(seat.agent, seat.label)
                self.names_before[str(before)] = seat.label
                self.handles.pop(seat, None)  # from now on it is asked for by its name again
                self.session_ids.pop(seat, None)
                return {}, None
            case t.End(seat):
                self._handle(seat).end()
                return {}, None
            case op:
                return self._verb(step.index, op, self._handle(op.seat))

    def _owned(self, op: t.Owned) -> Answer:
        match op:
            case t.Erase(agent):
                erased = self.store.owner(agent).erase()
                return {"levels": erased.levels, "sessions": erased.sessions}
            case t.Purge(agent, level):
                return {"purged": self.store.owner(agent).purge(timedelta(), level)}
            case t.Lose(agent, level):
                used = self._is_used(agent, level)
                self.store.close()
                if used:
                    self.backend.lose(agent, level)
                self._restart()
                return {}

    def _is_used(self, agent: str, level: Level) -> bool:
        try:
            with self.store._provider.owner_compartment(agent, level) as owner_compartment:
                return owner_compartment.last_entry() is not None
        except (StorageError, KeyError):
            return False

    def _job(self, op: t.Schedule | t.Scheduled | t.Unschedule, session: Session) -> tuple[Answer, object]:
        match op:
            case t.Schedule():
                at = (EPOCH + timedelta(seconds=op.seconds)).isoformat()
                return shown(session.jobs.create(op.name, at, op.prompt)), None
            case t.Unschedule():
                return shown(session.jobs.delete(op.name)), None
            case t.Scheduled():
                return {"jobs": [shown(job) for job in session.jobs.list()]}, session.jobs.history(op.name)

    def _verb(self, index: int, op: t.Verb, session: Session) -> tuple[Answer, object]:
        if isinstance(op, t.Save) and op.outside:
            session = session.marking(Origin.TOOL)
        memory = session.memory
        match op:
            case t.Call():
                return session.call_tool(op.tool, {name: thawed(value) for name, value in op.arguments}), None
            case t.Save(tool=True):
                tags = {"tags": list(op.tags)} if op.tags else {}
                return session.call_tool("memory_save", {"key": op.key, "content": op.content, **tags}), None
            case t.Save():
                saved = memory.save(op.key, op.content, op.tags)
                return results.saved(saved), asdict(saved)
            case t.SaveMany():
                all_saved = memory.save_many(op.items)
                return {"saved": [results.saved(each) for each in all_saved]}, None
            case t.Get(tool=True):
                return session.call_tool("memory_get", {"key": op.key}), None
            case t.Get():
                found = memory.get(op.key)
                return results.found(unicodedata.normalize("NFC", op.key), found), found and asdict(found)
            case t.Search(tool=True):
                return session.call_tool(*tool_call(op, {})), None
            case t.Search():
                hits = memory.search(op.query, max_results=op.max_results, **filters(op))
                return results.searched(op.query, hits), asdict(hits)
            case t.Delete(tool=True):
                return session.call_tool("memory_delete", {"key": op.key}), None
            case t.Delete():
                deleted = memory.delete(op.key)
                return results.deleted(deleted), asdict(deleted)
            case t.Pages():
                return self._pages(session, op)
            case t.Page():
                return self._page(index, session, op.tag, op.limit, None)
            case t.More():
                return self._page(index, session, op.tag, op.limit, self._cursors.get(op.of) or NO_CURSOR)
            case _:
                return self._other(op, session)

    def _other(self, op: t.Other, session: Session) -> tuple[Answer, object]:
        match op:
            case t.Context():
                block = session.context(query=op.query)
                keys = [json.loads(line)["key"] for line in block.text.split("\n") if line.startswith('{"key"')]
                return {"keys": keys, "included": block.included, "left_out": block.left_out}, block.text
            case t.Pin() | t.Unpin():
                return self._pin(op, session), None
            case t.Plan():
                todos = session.todos.write([{"content": content} for content in op.todos])
                return {"todos": [each.content for each in todos]}, todos
            case t.Planned():
                todos = session.todos.read()
                return {"todos": [each.content for each in todos]}, todos
            case t.Say():
                session.conversation.append([op.content])
                return {}, None
            case t.Said():
                said = session.conversation.read()
                return {"messages": [{"content": each.content, "level": each.level.name} for each in said]}, said

    def _pin(self, op: t.Pin | t.Unpin, session: Session) -> Answer:
        owner = self.store.owner(session.agent)
        change = owner.pin if isinstance(op, t.Pin) else owner.unpin
        try:
            return plain(asdict(change(op.key, session.taint, session=session.id)))
        except NotFound:
            return {"error": "NOT_FOUND"}  # the owner, who sees every level, is told more

    def _pages(self, session: Session, op: t.Pages) -> tuple[Answer, object]:
        listing, cursor, pages = session.memory.list(op.tag), None, list[Page]()
        while not pages or cursor is not None:
            pages.append(listing.page(op.limit, cursor))
            cursor = pages[-1].next_cursor
        memories = [memory for page in pages for memory in results.listed(page)["memories"]]
        return {"memories": memories}, [asdict(page) for page in pages]

    def _page(
        self, index: int, session: Session, tag: str | None, limit: int, cursor: str | None
    ) -> tuple[Answer, object]:
        arguments = {"tag": tag, "limit": limit, "cursor": cursor}
        result: Answer = session.call_tool("memory_list", arguments)
        self._cursors[index] = result["next_cursor"]
        return {"memories": result["memories"], "more": result["next_cursor"] is not None}, result

    def _open_session(self, op: t.Open) -> tuple[Answer, object]:
        parent = self._handle(op.parent) if op.parent else None
        name = op.seat.label if op.seat.named else None
        self._take(op.seat, self.store.session(op.seat.agent, name, op.level, ceiling=op.ceiling, parent=parent))
        return {"taint": self.handles[op.seat].taint.name}, self.session_ids[op.seat]

    def _restart(self) -> tuple[Answer, object]:
        self.store.close()
        self.reopen()
        return {}, None

    def reopen(self) -> None:
        """Open the store again after `close`. What nothing is stored about is forgotten."""
        self.handles.clear()
        self.session_ids = {seat: session for seat, session in self.session_ids.items() if seat.named}
        self.store = self._open()

    def _take(self, seat: t.Seat, session: Session) -> None:
        self.handles[seat] = session
        self.session_ids[seat] = session.id

    def _handle(self, seat: t.Seat) -> Session:
        """The session as its host holds it; after a restart by its name. An ephemeral one cannot be found again."""
        if seat not in self.handles:
            if not seat.named:
                raise Refused("unknown session", rule=PolicyRule.P13)
            self._take(seat, self.store.resume(seat.agent, seat.label))
        return self.handles[seat]


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a compartment holds, as far as the contract lets one look."""

    records: list[Record]
    others: list[Record]
    statistics: Statistics
    entries: list[Entry]
    place: Place = field(compare=False)  # nobody is shown it


def _of_any_life(row: SessionRow) -> SessionRow:
    """Without the number of its agent's life, which no session is shown: what it tells apart has ended."""
    return replace(row, life=0)


def contents(compartment: CompartmentReader) -> Contents:
    """What a compartment holds now: live records in full, statistics, the audit chain."""
    of = {kind: compartment.page(kind, after="", tag=None, limit=10_000, chars_max=10_000) for kind in RecordKind}
    memories = of.pop(RecordKind.MEMORY)
    others = [record for records in of.values() for record in records]
    return Contents(memories, others, compartment.statistics(), list(compartment.entries()), compartment.place)


def filters(op: t.Search) -> dict[str, str]:
    """The filters of a search, as arguments."""
    given = {"tag": op.tag, "since": op.since, "until": op.until}
    return {name: value for name, value in given.items() if value is not None}


def tool_call(op: t.Verb, cursors: dict[int, str | None]) -> tuple[str, dict[str, object]]:
    """The tool that does it, and its arguments."""
    match op:
        case t.Call():
            return op.tool, {name: thawed(value) for name, value in op.arguments}
        case t.Save():
            return "memory_save", {"key": op.key, "content": op.content, "tags": list(op.tags)}
        case t.Get():
            return "memory_get", {"key": op.key}
        case t.Search():
            return "memory_search", {"query": op.query, "max_results": op.max_results, **filters(op)}
        case t.Delete():
            return "memory_delete", {"key": op.key}
        case t.Pages() | t.Page():
            return "memory_list", {"tag": op.tag, "limit": op.limit}
        case t.More():
            return "memory_list", {"tag": op.tag, "limit": op.limit, "cursor": cursors.get(op.of) or NO_CURSOR}
        case t.Plan():
            return "todo_write", {"todos": [{"content": content} for content in op.todos]}
        case t.Planned():
            return "todo_read", {}
        case _:
            raise TypeError(op)


def thawed(value: t.Frozen) -> object:
    """Tuples as the lists that JSON would have sent."""
    return [thawed(item) for item in value] if isinstance(value, tuple) else value  # type: ignore[arg-type]


def plain(value: object) -> object:
    """The model's answer in the words of the tools: levels by name, times as text."""
    match value:
        case Level():
            return value.name
        case datetime():
            return write_timestamp(value)
        case Mapping():
            return {name: plain(item) for name, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value
