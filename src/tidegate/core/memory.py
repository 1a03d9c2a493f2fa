"""The five verbs, as functions of a view: no level, no store, no session can be named here."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from tidegate.core.gate import Act, Answer
from tidegate.domain import rank
from tidegate.domain.audit import Action, Event, commit
from tidegate.domain.cursor import read_cursor, write_cursor
from tidegate.domain.excerpt import LOOK_AHEAD, AnswerSize, excerpt
from tidegate.domain.memory import Deleted, Hit, Hits, Memory, Page, Saved, Status
from tidegate.domain.record import Draft, Kind, Origin, Record
from tidegate.domain.text import Columns, Query
from tidegate.errors import NotFound
from tidegate.policy.levels import Level
from tidegate.storage.base import BudgetSpentError, Candidate, Reading, View, WritableView


@dataclass(frozen=True, slots=True)
class Item:
    """What to save, checked and analysed. It has no level: that is the view's (P2)."""

    key: str
    content: str
    tags: tuple[str, ...]
    origin: Origin
    columns: Columns


def save(view: WritableView, act: Act, items: Sequence[Item]) -> Answer[list[Saved]]:
    """Each item at the view's own level: created, updated, or unchanged when content and tags are the same."""
    return Answer([_save(view, act, item) for item in items], ())


def get(view: View, key: str) -> Answer[Memory | None]:
    """The highest visible variant, whole, with a word when a lower one is newer."""
    variants = _variants(view.visible, key)
    if not variants:
        return Answer(None, ())
    shown, newest = variants[0], max(variants, key=lambda record: record.updated_at)
    newer = newest.level if newest.updated_at > shown.updated_at else None
    return Answer(_memory(shown, newer_below=newer), variants)


def search(view: View, query: Query, *, echoed: str, max_results: int) -> Answer[Hits]:
    """Visible memories that match, best first: shadowed first, then matched, ranked and limited (P5)."""
    with ExitStack() as moment:
        for compartment in view.visible:
            moment.enter_context(compartment.snapshot())
        scored, complete = _scored(view, query)
        size, hits, records = AnswerSize(echoed=echoed), list[Hit](), list[Record]()
        for each in rank.best_first(scored)[:max_results]:
            record = view.visible[each.depth].read(Kind.MEMORY, each.key, chars_max=LOOK_AHEAD)
            if record is None or not size.takes(hit := _hit(record, each.score)):
                return Answer(Hits(tuple(hits), complete=False), records)
            hits.append(hit)
            records.append(record)
    return Answer(Hits(tuple(hits), complete), records)


def page(view: View, *, tag: str | None, limit: int, cursor: str | None) -> Answer[Page]:
    """Memories in key order after the cursor, at most `limit`, each key once. Raises: InvalidArgument (cursor)."""
    own = view.visible[0]
    after = read_cursor(cursor, own.agent, own.level, tag)
    size, memories, records = AnswerSize(), list[Memory](), list[Record]()
    for record in _merged(view, tag=tag, after=after, batch=limit + 1):
        memory = _memory(record, short=True)
        fits = size.takes(memory)
        if len(memories) == limit or (memories and not fits):
            following = write_cursor(memories[-1].key, own.agent, own.level, tag)
            return Answer(Page(tuple(memories), following), records)
        memories.append(memory)
        records.append(record)
    return Answer(Page(tuple(memories), None), records)


def delete(view: WritableView, act: Act, key: str) -> Answer[Deleted]:
    """Hides the memory at the view's own level. Raises: NotFound, saying where else the key is visible."""
    own = view.own.read(Kind.MEMORY, key)
    lower = _variants(view.visible[1:], key)
    if own is None or not own.live:
        where = {"visible_at": lower[0].level.name} if lower else {}
        raise NotFound("key: nothing is saved under it at this session's level", argument="key", **where)
    view.own.bury(Kind.MEMORY, key, act.at)
    view.own.append(_event(act, Action.DELETE, own))
    return Answer(Deleted(key, own.level, lower[0].level if lower else None), [own, *lower[:1]])


def _save(view: WritableView, act: Act, item: Item) -> Saved:
    before = view.own.read(Kind.MEMORY, item.key)
    if before is not None and before.live and (before.content, before.tags) == (item.content, item.tags):
        view.own.touch(Kind.MEMORY, item.key, max(act.at, before.updated_at))
        view.own.append(_event(act, Action.SAVE, before, Status.UNCHANGED))
        return Saved(item.key, view.own.level, before.version, Status.UNCHANGED)
    draft, status = _next_version(item, before, act)
    view.own.put(draft, item.columns)
    view.own.append(_event(act, Action.SAVE, draft, status))
    return Saved(item.key, view.own.level, draft.version, status)


def _next_version(item: Item, before: Record | None, act: Act) -> tuple[Draft, Status]:
    """Versions count on over a deletion; the time of creation starts anew, and no time runs backwards."""
    replaces = before is not None and before.live
    draft = Draft(
        kind=Kind.MEMORY,
        key=item.key,
        content=item.content,
        tags=item.tags,
        origin=item.origin,
        version=before.version + 1 if before else 1,
        nonce=act.ids(),
        created_at=before.created_at if before and replaces else act.at,
        updated_at=max(act.at, before.updated_at) if before and replaces else act.at,
    )
    return draft, Status.UPDATED if replaces else Status.CREATED


def _event(act: Act, action: Action, version: Draft, status: str = "") -> Event:
    commitment = commit(version.nonce, version.key, version.content, version.tags)
    return Event(act.at, act.session, action, f"version {version.version} {status}".rstrip(), commitment)


def _variants(visible: Sequence[Reading], key: str) -> list[Record]:
    """The live variants of a key, highest first: the first shadows the others."""
    found = (compartment.read(Kind.MEMORY, key) for compartment in visible)
    return [record for record in found if record is not None and record.live]


def _shadowed(view: View, depth: int, key: str) -> bool:
    """Whether a live variant stands above, among the compartments of the view."""
    return any(upper.has_live(Kind.MEMORY, key) for upper in view.visible[:depth])


def _merged(view: View, *, tag: str | None, after: str, batch: int) -> Iterator[Record]:
    """Live records of all levels in key order, each key once, at its highest variant."""
    streams = [_stream(each, depth, tag, after, batch) for depth, each in enumerate(view.visible)]
    last: str | None = None
    for key, depth, record in heapq.merge(*streams, key=lambda item: item[:2]):
        # Without a tag every variant passes here, so the one above came just before.
        if key != last and (tag is None or not _shadowed(view, depth, key)):
            yield record
        last = key


def _stream(
    compartment: Reading, depth: int, tag: str | None, after: str, batch: int
) -> Iterator[tuple[str, int, Record]]:
    while True:
        records = compartment.page(Kind.MEMORY, after=after, tag=tag, limit=batch, chars_max=LOOK_AHEAD)
        for record in records:
            yield record.key, depth, record
        if len(records) < batch:
            return
        after = records[-1].key


@dataclass(frozen=True, slots=True)
class _Scored:
    """A candidate with its score, and how deep in the view it lies."""

    score: float
    updated_at: datetime
    key: str
    depth: int


def _scored(view: View, query: Query) -> tuple[list[_Scored], bool]:
    """Unshadowed candidates with their scores, and whether all compartments were searched to the end."""
    statistics = sum((compartment.statistics() for compartment in view.visible), rank.Statistics())
    frequencies: Counter[str] = Counter()
    for compartment in view.visible:
        frequencies.update(compartment.frequencies(query.terms))
    probe = rank.select_terms(query, frequencies, statistics)
    scored: list[_Scored] = []
    complete = True
    for depth, compartment in enumerate(view.visible if probe else ()):
        try:
            for each in _unshadowed(view, depth, compartment.candidates(probe)):
                score = rank.score(query, each.match, frequencies, statistics)
                scored.append(_Scored(score, each.updated_at, each.key, depth))
        except BudgetSpentError:
            complete = False
    return scored, complete


def _unshadowed(view: View, depth: int, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """The first candidates that nothing above shadows: shadow first, then limit (P5)."""
    return islice((each for each in candidates if not _shadowed(view, depth, each.key)), rank.CANDIDATES_MAX)


def _memory(record: Record, *, short: bool = False, newer_below: Level | None = None) -> Memory:
    content, truncated = excerpt(record.content) if short else (record.content, False)
    return Memory(
        key=record.key,
        content=content,
        classification=record.level,
        tags=record.tags,
        version=record.version,
        origin=record.origin,
        created_at=record.created_at,
        updated_at=record.updated_at,
        truncated=truncated,
        newer_below=newer_below,
    )


def _hit(record: Record, score: float) -> Hit:
    content, truncated = excerpt(record.content)
    return Hit(
        key=record.key,
        content=content,
        classification=record.level,
        tags=record.tags,
        version=record.version,
        origin=record.origin,
        created_at=record.created_at,
        updated_at=record.updated_at,
        truncated=truncated,
        score=score,
    )
