"""Records of any kind in a view: save, look up, list, hide. Memories, to-dos and all others pass the same gate."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

from tidegate.audit.chain import Action, AuditEvent, Place, nonce_of, version_event
from tidegate.core.gate import Act
from tidegate.records.memory import Saved, Status
from tidegate.records.record import Draft, Origin, Record, RecordKind, keeps_pin
from tidegate.search.analysis import Columns
from tidegate.storage.base import Candidate, CompartmentReader, View, WritableView

WHOLE = 1 << 30
"""Characters: more than any content has, even under other limits."""

FoundT = TypeVar("FoundT", Record, Candidate)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A checked record to save, analysed if it is a memory. It has no level: the view's own counts (P2)."""

    kind: RecordKind
    key: str
    content: str
    tags: tuple[str, ...]
    origin: Origin
    columns: Columns | None = None


def save(view: WritableView, act: Act, item: NewRecord, action: Action = Action.SAVE) -> Saved:
    """Save at the view's own level: created, updated, or unchanged when content and tags are the same."""
    before = view.own.read(item.kind, item.key)
    if before is not None and before.live and (before.content, before.tags) == (item.content, item.tags):
        view.own.touch(item.kind, item.key, max(act.at, before.updated_at))
        view.own.append(event_of(view.own.place, act, action, before, Status.UNCHANGED))
        return Saved(item.key, view.own.level, before.version, Status.UNCHANGED)
    draft, status = _next_version(item, before, act)
    view.own.put(draft, item.columns)
    view.own.append(event_of(view.own.place, act, action, draft, status))
    return Saved(item.key, view.own.level, draft.version, status)


def hide(view: WritableView, act: Act, record: Record) -> None:
    """Hide a live record of the view's own level; it stays for the audit."""
    view.own.soft_delete(record.kind, record.key, act.at)
    view.own.append(event_of(view.own.place, act, Action.DELETE, record))


def variants(visible: Sequence[CompartmentReader], kind: RecordKind, key: str) -> list[Record]:
    """Return the live variants of a key, highest first: the first shadows the others."""
    return [
        record
        for compartment in visible
        if (record := compartment.read(kind, key)) is not None and record.deleted_at is None
    ]


def every(
    compartment: CompartmentReader,
    kind: RecordKind,
    *,
    batch: int,
    chars_max: int,
    tag: str | None = None,
    after: str = "",
) -> Iterator[Record]:
    """Yield live records of one compartment in key order, read `batch` at a time, contents cut to `chars_max`."""
    return chain.from_iterable(_batches(compartment, kind, tag, after, batch, chars_max))


def shadowed(view: View, depth: int, kind: RecordKind, keys: Collection[str]) -> set[str]:
    """Return the keys that have a live variant above, in the compartments of the view."""
    return {key for upper in view.visible[:depth] for key in upper.live(kind, keys)}


def merged(
    view: View, kind: RecordKind, *, tag: str | None, after: str, batch: int, chars_max: int
) -> Iterator[Record]:
    """Yield live records in key order, each key once, at its highest variant, contents cut to `chars_max`."""
    streams = [_stream(view, depth, kind, tag, after, batch, chars_max) for depth in range(len(view.visible))]
    last: str | None = None
    for key, _, record in heapq.merge(*streams):
        if key != last:
            yield record
        last = key


def of_level(
    view: View,
    depth: int,
    kind: RecordKind,
    *,
    tag: str,
    batch: int,
    chars_max: int,
    after: str = "",
) -> Iterator[Record]:
    """Yield live records of one compartment of the view that carry a tag, in key order, without shadowed ones."""
    for records in _batches(view.visible[depth], kind, tag, after, batch, chars_max):
        yield from unshadowed(view, depth, kind, records)


def latest_memories(
    view: View, depth: int, tag: str, *, batch: int, chars_max: int, pages: Iterator[object]
) -> Iterator[Record]:
    """Yield live memories of one compartment of the view that carry a tag, last saved first, without shadowed ones.

    pages: each batch takes one; without one left, reading stops.
    """
    after: Record | None = None
    for _ in pages:
        records = view.visible[depth].latest(tag, after=after, limit=batch, chars_max=chars_max)
        yield from unshadowed(view, depth, RecordKind.MEMORY, records)
        if len(records) < batch:
            return
        after = records[-1]


def unshadowed(view: View, depth: int, kind: RecordKind, found: Sequence[FoundT]) -> list[FoundT]:
    """Return those of one compartment of the view that have no live variant above."""
    hidden = shadowed(view, depth, kind, [each.key for each in found])
    return [each for each in found if each.key not in hidden]


def event_of(place: Place, act: Act, action: Action, version: Draft, status: str = "") -> AuditEvent:
    """Return the audit event of a change to one version: it commits to the content without revealing it (P9)."""
    return version_event(place, act.at, act.session, action, version, status)


def _next_version(item: NewRecord, before: Record | None, act: Act) -> tuple[Draft, Status]:
    """Count versions on across a deletion; the creation time restarts, and no time goes backwards."""
    replaces = before is not None and before.live
    draft = Draft(
        kind=item.kind,
        key=item.key,
        content=item.content,
        tags=item.tags,
        origin=item.origin,
        version=before.version + 1 if before else 1,
        nonce=nonce_of(act.ids()),
        created_at=before.created_at if before and replaces else act.at,
        updated_at=max(act.at, before.updated_at) if before and replaces else act.at,
        pinned=keeps_pin(before, item.origin),
    )
    return draft, Status.UPDATED if replaces else Status.CREATED


def _stream(
    view: View, depth: int, kind: RecordKind, tag: str | None, after: str, batch: int, chars_max: int
) -> Iterator[tuple[str, int, Record]]:
    """Return a stream for `merged`. Without a tag every variant is in a stream: the one above comes just before."""
    if tag is None:
        records = every(view.visible[depth], kind, after=after, batch=batch, chars_max=chars_max)
    else:
        records = of_level(view, depth, kind, tag=tag, after=after, batch=batch, chars_max=chars_max)
    return ((record.key, depth, record) for record in records)


def _batches(
    compartment: CompartmentReader,
    kind: RecordKind,
    tag: str | None,
    after: str,
    batch: int,
    chars_max: int,
) -> Iterator[list[Record]]:
    while True:
        records = compartment.page(kind, after=after, tag=tag, limit=batch, chars_max=chars_max)
        yield records
        if len(records) < batch:
            return
        after = records[-1].key
