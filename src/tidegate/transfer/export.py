"""An export: a heading with its level, then one memory per line, each with its own label.

`importers/tidegate_export.py` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidegate.audit.chain import OWNER, Action, AuditEvent
from tidegate.core.expiry import ExpiringReader
from tidegate.core.variants import WHOLE, every
from tidegate.errors import refused
from tidegate.owner.context import OwnerContext
from tidegate.policy.decisions import Deny
from tidegate.policy.events import PostToolResponse
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.policy.session_state import SessionState
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import to_line
from tidegate.records.record import Record, RecordKind
from tidegate.records.times import write_timestamp
from tidegate.storage.base import CompartmentReader

FORMAT = "tidegate-export"
VERSION = 1
_BATCH = 32  # records read at once: this many of the longest contents may be in memory


@dataclass(frozen=True, slots=True)
class Exported(JsonObject):
    """What an export holds: every live variant at or below `level`."""

    level: Level
    memories: int


def write_export(context: OwnerContext, level: Level, write: Callable[[str], object], *, audit_reads: bool) -> Exported:
    """Write every live memory that `level` may see, lower levels first, then in the order of the keys.

    write: called with one line at a time, without its line end. audit_reads: enter the export in the audit.
    Each compartment is read as of one moment. Raises: StorageError.
    """
    now = context.clock()
    if audit_reads:
        with context.provider.writable_view(context.agent, level) as writable, writable.own.transaction():
            writable.own.append(AuditEvent(now, OWNER, Action.READ, "export"))
    with context.provider.view(context.agent, level) as view, view.snapshot():
        lowest_first = [ExpiringReader(each, context.expiry, now) for each in reversed(view.visible)]
        count = sum(1 for compartment in lowest_first for _ in _live(compartment, 1))
        write(to_line(_heading(context.agent, level, count, now)))
        for compartment in lowest_first:
            for record in _live(compartment, WHOLE):
                _check(context.agent, record, level)
                write(to_line(_line(record)))
    return Exported(level, count)


def _heading(agent: str, level: Level, memories: int, at: datetime) -> dict[str, Any]:
    """Return the first line of an export."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": agent,
        "level": level.name,
        "memories": memories,
        "exported_at": write_timestamp(at),
    }


def _line(record: Record) -> dict[str, Any]:
    """Return the line of one memory."""
    return {
        "key": record.key,
        "content": record.content,
        "tags": list(record.tags),
        "classification": record.level.name,
        "origin": record.origin,
        "version": record.version,
        "created_at": write_timestamp(record.created_at),
        "updated_at": write_timestamp(record.updated_at),
    }


def _live(compartment: CompartmentReader, chars_max: int) -> Iterator[Record]:
    """Yield the live memories of a compartment, in the order of their keys."""
    return every(compartment, RecordKind.MEMORY, batch=_BATCH, chars_max=chars_max)


def _check(agent: str, record: Record, level: Level) -> None:
    """Check P1 again for each record that leaves. Raises: Refused."""
    state = SessionState(level, Level.RESTRICTED)
    decision = decide(PostToolResponse(state, agent, [(record.agent, record.level)]))
    if isinstance(decision, Deny):
        raise refused(decision)
