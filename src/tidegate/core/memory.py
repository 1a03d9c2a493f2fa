"""Save, get, list and delete as functions of a view: they cannot name a level, a store or a session."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from tidegate.core import variants as records
from tidegate.core.gate import Act, Answer
from tidegate.core.variants import NewRecord
from tidegate.errors import NotFound
from tidegate.policy.levels import Level
from tidegate.records.cursor import read_cursor, write_cursor
from tidegate.records.excerpt import LOOK_AHEAD, AnswerSize, excerpt
from tidegate.records.memory import Deleted, Memory, Page, Saved, SavedWithSimilar
from tidegate.records.record import Record, RecordKind
from tidegate.records.tags import fold_tag
from tidegate.storage.base import View, WritableView

_UPDATED_AT = attrgetter("updated_at")


def save(view: WritableView, act: Act, items: Sequence[NewRecord]) -> Answer[list[Saved]]:
    """Save each item at the view's own level: created, updated, or unchanged when content and tags are the same."""
    return Answer([records.save(view, act, item) for item in items], ())


def save_one(view: WritableView, act: Act, item: NewRecord) -> Answer[SavedWithSimilar]:
    """Save one item in the same way; `similar.with_similar` adds the similar keys."""
    saved = records.save(view, act, item)
    return Answer(SavedWithSimilar(saved.key, saved.classification, saved.version, saved.status), ())


def get(view: View, key: str) -> Answer[Memory | None]:
    """Return the highest visible variant in full, with a note if a lower one is newer."""
    variants = records.variants(view.visible, RecordKind.MEMORY, key)
    if not variants:
        return Answer(None, ())
    shown, newest = variants[0], max(variants, key=_UPDATED_AT)
    newer = newest.level if newest.updated_at > shown.updated_at else None
    return Answer(_memory(shown, newer_below=newer), variants)


def page(view: View, *, tag: str | None, limit: int, cursor: str | None) -> Answer[Page]:
    """Return at most `limit` memories in key order after the cursor, each key once. Raises: InvalidArgument."""
    own, tag = view.visible[0], None if tag is None else fold_tag(tag)
    after = read_cursor(cursor, own.agent, own.level, tag)
    size, memories, drawn_on = AnswerSize(), list[Memory](), list[Record]()
    batch = limit // len(view.visible) + 2  # from each level; most pages need no second batch
    for record in records.merged(view, RecordKind.MEMORY, tag=tag, after=after, batch=batch, chars_max=LOOK_AHEAD):
        memory = _memory(record, short=True)
        fits = size.takes(memory)
        if len(memories) == limit or (memories and not fits):
            following = write_cursor(memories[-1].key, own.agent, own.level, tag)
            return Answer(Page(tuple(memories), following), drawn_on)
        memories.append(memory)
        drawn_on.append(record)
    return Answer(Page(tuple(memories), None), drawn_on)


def delete(view: WritableView, act: Act, key: str) -> Answer[Deleted]:
    """Hide the memory at the view's own level. Raises: NotFound, which says where else the key is visible."""
    own = view.own.read(RecordKind.MEMORY, key)
    lower = records.variants(view.visible[1:], RecordKind.MEMORY, key)
    if own is None or not own.live:
        where = {"visible_at": lower[0].level.name} if lower else {}
        hint = "" if lower else "; find the key with memory_search"
        raise NotFound(f"key: no memory has this key at this session's level{hint}", argument="key", **where)
    records.hide(view, act, own)
    return Answer(Deleted(key, own.level, lower[0].level if lower else None), [own, *lower[:1]])


def _memory(record: Record, *, short: bool = False, newer_below: Level | None = None) -> Memory:
    content, truncated = excerpt(record.content) if short else (record.content, False)
    # Field by field, as for a hit and a version: each is typed, and nothing more of a record gets out.
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
