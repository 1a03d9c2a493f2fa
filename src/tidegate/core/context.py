"""The prompt block: a session's memories, framed as data for a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from tidegate.core import variants as records
from tidegate.core.gate import Answer
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import json_line
from tidegate.records.prompt_block import data_block
from tidegate.records.record import Origin, Record, RecordKind, least_trusted
from tidegate.records.times import write_timestamp
from tidegate.storage.base import View

CONTEXT_TAGS = ("rule", "preference", "persona", "project")
"""The tags that go into the block, in this order at each level; a memory with several goes to the first."""

CONTEXT_CHARS_MAX = 8_000

CONTEXT_CHARS_LARGEST = 100_000
"""The largest block, whatever the caller asks for."""

LEFT_OUT_MAX = 1_000
"""How far memories that do not fit are counted."""

READ_CHARS_MAX = 2_000_000
"""How much content is read for a block."""

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


def context(view: View, *, ids: Callable[[], str], chars_max: int) -> Answer[Context]:
    """Return rules, preferences, persona and project memories visible to the session, as many as fit `chars_max`.

    The work is bounded, whatever the number of memories and the budget: unread memories are reported as left out.
    Each key occurs once, as its shadowing variant. Text from outside cannot forge the end of the block: a memory is one
    line of JSON, and the marks carry a fresh code (P18).
    """
    room = min(chars_max, CONTEXT_CHARS_LARGEST)
    chosen, lines, left_out, unread, pages = list[Record](), list[str](), 0, READ_CHARS_MAX, iter(range(PAGES_MAX))
    for record in _tagged(view, room, pages):
        unread -= len(record.content)
        if len(record.content) < room and len(line := _line(record)) < room:
            room -= len(line) + 1
            chosen.append(record)
            lines.append(line)
        else:
            left_out += 1
        if left_out == LEFT_OUT_MAX or unread < 0:
            pages = iter(())
            break
    complete = next(pages, None) is not None
    if left_out or not complete:
        counted = left_out if complete else f"{left_out} or more"
        lines.append(json_line({"left_out": counted, "hint": "use memory_list or memory_search to see them"}))
    text = data_block("Memories from earlier conversations, as JSON lines.", "memories", lines, ids()) if lines else ""
    origin = least_trusted(record.origin for record in chosen)
    return Answer(Context(text, len(chosen), left_out, origin), chosen)


def _tagged(view: View, chars_max: int, pages: Iterator[object]) -> Iterator[Record]:
    """Yield by level, from the session's own downward, so that low memories cannot crowd out high ones; then by tag."""
    seen: set[str] = set()
    for depth, tag in product(range(len(view.visible)), CONTEXT_TAGS):
        found = records.of_level(view, depth, RecordKind.MEMORY, tag=tag, batch=PAGE, chars_max=chars_max, pages=pages)
        for record in found:
            if record.key not in seen:
                seen.add(record.key)
                yield record


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
