"""Pinning: the owner's mark on memories that the context always shows first. No tool sets or clears it."""

from __future__ import annotations

from dataclasses import replace

from tidegate.audit.chain import Action
from tidegate.core import variants
from tidegate.errors import LimitExceeded, NotFound
from tidegate.owner.context import OwnerContext
from tidegate.owner.history import version_of
from tidegate.policy.levels import Level
from tidegate.records.limits import PINNED_MAX
from tidegate.records.memory import Status
from tidegate.records.record import RecordKind
from tidegate.records.version import Pinned, Version
from tidegate.storage.base import WritableView


def set_pinned(context: OwnerContext, key: str, level: Level, session: str, *, pinned: bool) -> Pinned:
    """Pin the live memory at exactly this level, or unpin it; nothing changes if it already is so.

    Raises: NotFound, LimitExceeded (pinned memories at this level), Refused (session).
    """
    (level,) = context.levels(level)
    act, action = context.act(session), Action.PIN if pinned else Action.UNPIN
    with (
        context.owner_compartment(level) as compartment,
        context.writing(compartment, act, action) as view,
    ):
        record = view.own.read(RecordKind.MEMORY, key)
        if record is None or not record.live:
            raise NotFound("key: no live memory has this key at this level; see `tidegate history`", argument="key")
        if record.pinned is pinned:
            return Pinned(key, level, record.version, Status.UNCHANGED)
        if pinned:
            _require_room(view)
        compartment.set_pinned(key, pinned=pinned)
        marked = replace(record, pinned=pinned)
        compartment.append(variants.event_of(compartment.place, act, action, marked))
    return Pinned(key, level, record.version, Status.UPDATED)


def pinned_memories(context: OwnerContext, level: Level | None) -> list[Version]:
    """Return the pinned memories of one level, or of all, highest first; at each level the last saved first."""
    if not context.provider.has(context.agent):
        return []
    now, found = context.clock(), list[Version]()
    for each in context.levels(level):
        with context.owner_compartment(each) as compartment:
            records = compartment.pinned(chars_max=variants.WHOLE)
        live = [record for record in records if context.expiry.seen_at(record, now).live]
        found += [version_of(record, record, newest=True) for record in live]
    return found


def _require_room(view: WritableView) -> None:
    """Raise LimitExceeded if the compartment has no room for another pin. It counts that compartment alone (P5)."""
    count = len(view.own.pinned(chars_max=0))
    if count >= PINNED_MAX:
        raise LimitExceeded(
            f"key: {count} memories are pinned at {view.own.level}, which is the limit; unpin one first with "
            "`tidegate unpin` (`tidegate pin` without a key lists them)",
            argument="key",
            limit=PINNED_MAX,
            actual=count + 1,
        )
