"""A session as the host uses it: its memory, its tools, its taint."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from tidegate.core import memory, search
from tidegate.core.context import CONTEXT_CHARS_MAX, Context, context
from tidegate.core.conversation import Conversation
from tidegate.core.gate import Gate, SessionHandle
from tidegate.core.search import SearchFilter
from tidegate.core.sessions import Sessions
from tidegate.core.similar import with_similar
from tidegate.core.todos import SessionTodos
from tidegate.core.variants import NewRecord
from tidegate.errors import InvalidArgument, TidegateError
from tidegate.policy.events import LEVEL_ARGUMENTS, split_level_arguments
from tidegate.policy.levels import Level
from tidegate.records.limits import PAGE_DEFAULT, PAGE_MAX, RESULTS_DEFAULT, RESULTS_MAX, Limits
from tidegate.records.memory import Deleted, Explanation, Hits, Memory, Page, Saved, SavedWithSimilar
from tidegate.records.record import Origin, RecordKind, least_trusted
from tidegate.records.tags import fold_tag
from tidegate.records.times import read_bound
from tidegate.records.validation import (
    check_arguments,
    check_beginning,
    check_content,
    check_item,
    check_key,
    check_number,
    check_query,
    check_tag,
    check_tags,
)
from tidegate.search.analysis import Query, analyse, analyse_query
from tidegate.search.nearness import telling_words
from tidegate.storage.control import SessionRow

if TYPE_CHECKING:
    from tidegate.jobs.runs import SessionRuns
    from tidegate.jobs.session_jobs import SessionJobs


class SessionMemory:
    """The five verbs of one session. All pass the gate."""

    def __init__(self, gate: Gate, handle: SessionHandle, limits: Limits, origin: Origin) -> None:
        self._gate = gate
        self._handle = handle
        self._limits = limits
        self._origin = origin

    def save(self, key: str, content: str, tags: Iterable[str] | str | None = None) -> Saved:
        """Save a memory at the session's live taint, and return what was stored: created, updated or unchanged.

        key: 1 to 256 code points, kept in NFC. content: up to 1 MiB of UTF-8, kept exactly. tags: up to 64.
        Raises: InvalidArgument, LimitExceeded, Refused, StorageError; then nothing was stored.
        """
        return self.save_many([(key, content, tags)])[0]

    def save_with_similar(self, key: str, content: str, tags: Iterable[str] | str | None = None) -> SavedWithSimilar:
        """Save a memory like `save`, and name up to three visible keys with nearly the same content, nearest first.

        No key is named if the session was raised or ended meanwhile. Raises: as `save`.
        """
        item = self._item(key, content, tags)
        verb, words = partial(memory.save_one, item=item), telling_words(item.key, item.content)
        return self._gate.write(self._handle, "memory_save", verb, then=partial(with_similar, words=words))

    def save_many(self, items: Iterable[tuple[str, str, Iterable[str] | str | None]]) -> list[Saved]:
        """Save all items in one transaction, or none, and return what was stored, in order. Raises: as `save`."""
        checked = [self._item(*check_item(item)) for item in items]
        return self._gate.write(self._handle, "memory_save", partial(memory.save, items=checked))

    def get(self, key: str) -> Memory | None:
        """Return the highest visible variant in full; None alike if it is hidden, was deleted or was never saved.

        Raises: InvalidArgument, LimitExceeded, Refused, StorageError.
        """
        key = check_key(key, self._limits)
        return self._gate.read(self._handle, "memory_get", partial(memory.get, key=key))

    def search(
        self,
        query: str,
        *,
        max_results: int | None = RESULTS_DEFAULT,
        tag: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
    ) -> Hits:
        """Return the visible memories that match, best first, and whether the search was complete.

        query: plain words in any language; nothing in it is syntax. Empty or wordless: no hits.
        max_results: 1 to 100, counted after shadowing. Contents are excerpts of up to 500 code points.
        tag: only memories whose visible variant carries it. since, until: only those last saved from then, or up to
        then, inclusive: ISO 8601, UTC without a zone; a day as `until` is all of that day.
        Scores: BM25 plus gains from the texts of the best hits, comparable only within one call; only visible memories
        affect them (P5).
        Raises: InvalidArgument, LimitExceeded, Refused, StorageError.
        """
        asked, most, wanted = self._asked(query, max_results, tag, since, until)
        verb = partial(search.search, query=asked, echoed=query, max_results=most, wanted=wanted)
        return self._gate.read(self._handle, "memory_search", verb)

    def explain(
        self,
        query: str,
        *,
        max_results: int | None = RESULTS_DEFAULT,
        tag: str | None = None,
        since: datetime | date | str | None = None,
        until: datetime | date | str | None = None,
    ) -> Explanation:
        """Return the hits of `search`, the terms of the query, and the parts of each score. Raises: as `search`."""
        asked, most, wanted = self._asked(query, max_results, tag, since, until)
        verb = partial(search.explain, query=asked, max_results=most, wanted=wanted)
        return self._gate.read(self._handle, "memory_search", verb)

    def list(self, tag: str | None = None) -> Listing:
        """Return all visible memories by key; with `tag`, those whose visible variant carries it. See `Listing`."""
        return Listing(self._gate, self._handle, check_tag(tag, self._limits))

    def delete(self, key: str) -> Deleted:
        """Hide the memory at the session's own level; return it, and the level of a lower variant that shows again.

        Raises: NotFound (with `visible_at` if a lower variant is visible), InvalidArgument, LimitExceeded,
        Refused, StorageError.
        """
        key = check_key(key, self._limits)
        return self._gate.write(self._handle, "memory_delete", partial(memory.delete, key=key))

    def _asked(
        self, query: str, max_results: int | None, tag: str | None, since: object, until: object
    ) -> tuple[Query, int, SearchFilter]:
        """Check what is asked for, and return the query, the number of results, and the filter."""
        query = check_query(query, self._limits)
        most = check_number("max_results", max_results, default=RESULTS_DEFAULT, most=RESULTS_MAX)
        first, last = read_bound(since, "since"), read_bound(until, "until", end=True)
        if first is not None and last is not None and last < first:
            raise InvalidArgument("until: must not be before since", argument="until")
        checked = check_tag(tag, self._limits)
        wanted = SearchFilter(None if checked is None else fold_tag(checked), first, last)
        return analyse_query(query), most, wanted

    def _item(self, key: object, content: object, tags: object = None) -> NewRecord:
        key, content = check_key(key, self._limits), check_content(content, self._limits)
        checked = check_tags(tags, self._limits)
        # Analysed here, before the transaction, so that no lock is held during it.
        return NewRecord(RecordKind.MEMORY, key, content, checked, self._origin, analyse(key, checked, content))


class Listing:
    """Memories in key order: iterate over all, or read them page by page."""

    def __init__(self, gate: Gate, handle: SessionHandle, tag: str | None) -> None:
        self._gate = gate
        self._handle = handle
        self._tag = tag

    def page(self, limit: int | None = PAGE_DEFAULT, cursor: str | None = None) -> Page:
        """Return at most `limit` (1 to 200) memories after `cursor`, contents as excerpts of up to 500 code points.

        cursor: `next_cursor` of the previous page; valid for this agent, taint and tag only.
        Raises: InvalidArgument, Refused, StorageError.
        """
        most = check_number("limit", limit, default=PAGE_DEFAULT, most=PAGE_MAX)
        verb = partial(memory.page, tag=self._tag, limit=most, cursor=cursor)
        return self._gate.read(self._handle, "memory_list", verb)

    def __iter__(self) -> Iterator[Memory]:
        """Yield every memory, read page by page. Raises: as `page`, and if the taint rises in between."""
        page = self.page(PAGE_MAX)
        yield from page.memories
        while page.next_cursor is not None:
            page = self.page(PAGE_MAX, page.next_cursor)
            yield from page.memories


class CallableTool(Protocol):
    """The part of a tool that `call_tool` needs; the surfaces show the rest."""

    @property
    def read_only(self) -> bool:
        """Return whether the tool changes nothing: then it may run before its session is looked up."""

    def run(self, session: Session, arguments: Mapping[str, object]) -> dict[str, object]:
        """Return the result in the tool's output schema. Raises: the errors of `tidegate.errors`."""


class Session:
    """One conversation of one agent. Each call looks up the session's state: no state kept here decides anything."""

    def __init__(
        self,
        row: SessionRow,
        gate: Gate,
        sessions: Sessions,
        toolset: Mapping[str, CallableTool],
        limits: Limits,
        origin: Origin,
        ids: Callable[[], str],
        *,
        generation: int = 0,
    ) -> None:
        self.id = row.id
        self.agent = row.agent
        self.name = row.name
        self._handle = SessionHandle(row.id, row)
        self.memory = SessionMemory(gate, self._handle, limits, origin)
        self.todos = SessionTodos(gate, self._handle, limits, origin)
        self.conversation = Conversation(gate, self._handle, origin)
        self.limits = limits
        self._gate = gate
        self._ids = ids
        self._sessions = sessions
        self._toolset = toolset
        self._origin = origin
        self._generation = generation

    def __repr__(self) -> str:
        """Return its agent, name and current taint, without an audit entry. Never raises."""
        try:
            row = self._sessions.read(self.id)
            state = "ended" if row is None or row.ended else f"taint={row.taint}"
        except TidegateError:  # for example, the store is closed
            state = "unreadable"
        return f"<Session agent={self.agent!r} name={self.name!r} {state}>"

    @property
    def jobs(self) -> SessionJobs:
        """Return the jobs that the session sees and creates."""
        from tidegate.jobs.session_jobs import SessionJobs  # most sessions do not need them

        return SessionJobs(self._gate, self._handle, self.limits, self._origin, self._generation)

    @property
    def runs(self) -> SessionRuns:
        """Return the runs of jobs at the session's own level, for the worker that runs them. Never for a model."""
        from tidegate.jobs.runs import SessionRuns

        return SessionRuns(self._gate, self._handle)

    @property
    def taint(self) -> Level:
        """Return the highest level of anything that the session has read so far. Raises: Refused when it has ended."""
        return self._sessions.living(self.id).taint

    @property
    def ceiling(self) -> Level:
        """Return the current upper limit of the taint. Raises: Refused when the session has ended."""
        return self._sessions.living(self.id).ceiling

    def marking(self, origin: Origin) -> Session:
        """Return the same session, which marks its saves with another origin, never with a more trusted one (P18)."""
        origin = least_trusted((origin, self._origin))
        if origin is self._origin:
            return self
        row = self._sessions.living(self.id)
        toolset, generation = self._toolset, self._generation
        return Session(row, self._gate, self._sessions, toolset, self.limits, origin, self._ids, generation=generation)

    def check_output(self, clearance: Level | None, *, channel: str) -> None:
        """Check that the session's output may go to a channel now. Call it before every part of an answer (PRE_OUTPUT).

        clearance: the highest level that the channel may show; None: nothing. channel: its name.
        Raises: Refused (ended, clearance).
        """
        self._gate.flow.check_output(self.id, channel, clearance)

    def call_tool(self, name: str, arguments: Mapping[str, object] | None = None) -> dict[str, object]:
        """Run a tool that the model called, and return its result: one JSON object.

        arguments: as the model sent them. Those that try to choose a level are removed and audited (P2).
        Raises: InvalidArgument, LimitExceeded, NotFound, Refused, StorageError.
        """
        if name in self._toolset and self._toolset[name].read_only:
            return self._gate.run_reading(self._handle, name, partial(self._run_tool, name, arguments))
        self._gate.admit(self._handle, name, self._toolset)
        return self._run_tool(name, arguments)

    def _run_tool(self, name: str, arguments: Mapping[str, object] | None) -> dict[str, object]:
        kept = check_arguments(arguments)
        if not LEVEL_ARGUMENTS.isdisjoint(kept):
            kept, attempted = split_level_arguments(kept)
            self._gate.note_attempt(self._handle, name, attempted)
        return self._toolset[name].run(self, kept)

    def context(self, *, query: str = "", chars_max: int = CONTEXT_CHARS_MAX) -> Context:
        """Return the session's memories as a block for a prompt: rules, preferences, persona, then projects.

        In each group pinned memories come first, then those that match the query, then the last saved.
        query: the message at hand; its first 4,096 code points count. chars_max: the budget of the memories in the
        block, at most 100,000. The block is data (P18): it goes into a user message, never into the system prompt.
        Raises: InvalidArgument, Refused, StorageError.
        """
        asked = analyse_query(check_beginning(query, self.limits))
        verb = partial(context, query=asked, ids=self._ids, chars_max=chars_max)
        return self._gate.read(self._handle, "context", verb)

    def raise_taint(self, level: Level, *, reason: str = "") -> Level:
        """Raise the taint to at least `level`, durably, and return it. For the host, never for the model.

        reason: for the audit, at the new level. Raises: Refused (ended, ceiling); then nothing changed.
        """
        return self._sessions.raise_taint(self.id, level, reason=reason)

    def end(self) -> None:
        """End the session; a child's taint joins its parent's (P15). Raises: Refused (ended, parent's ceiling)."""
        self._sessions.join(self.id)
