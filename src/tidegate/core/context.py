"""The prompt block: a session's memories, framed as data for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from tidegate.core import variants as records
from tidegate.core.gate import Answer
from tidegate.core.search import best_variants
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin, Record, RecordKind, least_trusted
from tidegate.records.tags import found_under
from tidegate.records.times import write_timestamp
from tidegate.search.analysis import Query
from tidegate.storage.base import View

CONTEXT_TAGS = ("rule", "preference", "persona", "project")
"""The tags that go into the block, in this order at each level; a memory with several goes to the first.

Pinned memories without any of them come last."""

CONTEXT_CHARS_MAX = 8_000

CONTEXT_CHARS_LARGEST = 100_000
"""The largest block, whatever the caller asks for."""

LEFT_OUT_MAX = 1_000
"""How far memories that do not fit are counted."""

READ_CHARS_MAX = 2_000_000
"""How much content is read for a block."""

MATCHES_MAX = 50
"""How many of the best matches of a message can get a place before others."""

_FRAME_CHARS_MIN = 125
"""A line of the block is longer than this without its key, content and tags."""

PAGES_MAX = 80
PAGE = 50
"""Pages and memories a page that are read for a block, also if most are shadowed: enough to fill it."""


@dataclass(frozen=True, slots=True)
class Context(JsonObject):
    """text: the block, or "" without memories. included, left_out: numbers of memories, each key counted once.

    left_out: of the memories read, up to LEFT_OUT_MAX; the block says if there may be more.
    origin: of the least trusted memory in the block (P18).
    """

    text: str
    included: int
    left_out: int
    origin: Origin = Origin.AGENT


def context(view: View, *, query: Query, ids: Callable[[], str], chars_max: int) -> Answer[Context]:
    """Return rules, preferences, persona and project memories visible to the session, as many as fit `chars_max`.

    query: the words of the message at hand. In each group, the pinned memories come first, then those that match the
    query, then the last saved. The pinned ones of a level get room before its others.
    The work is bounded, whatever the number of memories and the budget: unread memories are reported as left out.
    Each key occurs once, as its shadowing variant. Text from outside cannot forge the end of the block: a memory is one
    line of JSON, and the marks carry a fresh code (P18).
    """
    block, pages = _Block(min(chars_max, CONTEXT_CHARS_LARGEST), READ_CHARS_MAX), iter(range(PAGES_MAX))
    matches = best_variants(view, query, most=MATCHES_MAX) if query else Answer(list[tuple[int, str]](), ())
    for place, record in _offered(view, matches.value, block.room, pages):
        if not block.take(place, record):
            pages = iter(())
            break
    chosen, lines = block.in_order()
    complete = next(pages, None) is not None
    if block.left_out or not complete:
        counted = block.left_out if complete else f"{block.left_out} or more"
        lines.append(json_line({"left_out": counted, "hint": "use memory_list or memory_search to see them"}))
    text = data_block("Memories from earlier conversations, as JSON lines.", "memories", lines, ids()) if lines else ""
    origin = least_trusted(record.origin for record in chosen)
    return Answer(Context(text, len(chosen), block.left_out, origin), [*chosen, *matches.records])


@dataclass(slots=True)
class _Block:
    """A block that fills up. room: the characters left. unread: how much more content may be read, in characters."""

    room: int
    unread: int
    left_out: int = 0
    chosen: list[tuple[_Place, Record, str]] = field(default_factory=list)

    def take(self, place: _Place, record: Record) -> bool:
        """Take a memory in if it fits, and return whether to go on."""
        self.unread -= len(record.content)
        fits = _FRAME_CHARS_MIN + len(record.key) + len(record.content) < self.room  # else no line is made
        if fits and len(line := _line(record)) < self.room:
            self.room -= len(line) + 1
            self.chosen.append((place, record, line))
        else:
            self.left_out += 1
        return self.left_out < LEFT_OUT_MAX and self.unread >= 0

    def in_order(self) -> tuple[list[Record], list[str]]:
        """Return the memories taken in, and their lines, by place."""
        self.chosen.sort(key=lambda each: each[0])
        return [record for _, record, _ in self.chosen], [line for _, _, line in self.chosen]


class _Rank(IntEnum):
    """Why a memory has its place in its group."""

    PINNED = 0
    MATCHING = 1
    LATEST = 2


_Place = tuple[int, int, _Rank]
"""How far down the view, the group there, and the rank in the group; memories of one place stay as they come."""


def _offered(
    view: View, matches: Sequence[tuple[int, str]], chars_max: int, pages: Iterator[object]
) -> Iterator[tuple[_Place, Record]]:
    """Yield each key once, in the order in which memories get room.

    By level, from the session's own downward, so that low memories cannot crowd out high ones; there the pinned first.
    """
    seen: set[str] = set()
    for depth in range(len(view.visible)):
        for place, record in _offered_at(view, depth, matches, chars_max, pages):
            if record.key not in seen:
                seen.add(record.key)
                yield place, record


def _offered_at(
    view: View, depth: int, matches: Sequence[tuple[int, str]], chars_max: int, pages: Iterator[object]
) -> Iterator[tuple[_Place, Record]]:
    pinned = view.visible[depth].pinned(chars_max=chars_max)
    for record in records.unshadowed(view, depth, RecordKind.MEMORY, pinned):
        yield (depth, _group(record), _Rank.PINNED), record
    matching = _matching(view, depth, matches, chars_max)
    for group, tag in enumerate(CONTEXT_TAGS):
        yield from (((depth, group, _Rank.MATCHING), record) for record in matching if _group(record) == group)
        for record in records.latest_memories(view, depth, tag, batch=PAGE, chars_max=chars_max, pages=pages):
            yield (depth, group, _Rank.LATEST), record


def _matching(view: View, depth: int, matches: Sequence[tuple[int, str]], chars_max: int) -> list[Record]:
    """Return the matches of one level that are still live, in their order."""
    keys = [key for at, key in matches if at == depth]
    found = view.visible[depth].read_several(RecordKind.MEMORY, keys, chars_max=chars_max) if keys else {}
    return [found[key] for key in keys if key in found and found[key].live]


def _group(record: Record) -> int:
    """Return the number of the first tag of `CONTEXT_TAGS` that a memory has; without any, the number after them."""
    found_by = found_under(record.kind, record.tags)
    groups = (group for group, tag in enumerate(CONTEXT_TAGS) if tag in found_by)
    return next(groups, len(CONTEXT_TAGS))


def _line(record: Record) -> str:
    fields = {
        "key": record.key,
        "content": record.content,
        "tags": record.tags,
        "classification": record.level.name,
        "origin": record.origin,
        "updated_at": write_timestamp(record.updated_at),
    }
    return json_line(fields)
