"""History: list every version of a memory at every level, restore one, or copy one to another level."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.audit.chain import Action
from tidegate.core import variants
from tidegate.core.variants import NewRecord
from tidegate.errors import InvalidArgument, NotFound
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.record import Record, RecordKind
from tidegate.records.version import Relabelled, Restored, Version, VersionState
from tidegate.search.analysis import analyse


def history(context: OwnerContext, key: str, level: Level | None) -> list[Version]:
    """Return every version kept under a key, newest first; at one level, or at all."""
    found: list[Version] = []
    for each in context.levels(level):
        with context.owner_compartment(each) as compartment:
            newest_first, now = compartment.versions(RecordKind.MEMORY, key), context.clock()
        seen = [context.expiry.seen_at(each, now) for each in newest_first]
        found += [version_of(*both, newest=not at) for at, both in enumerate(zip(seen, newest_first, strict=True))]
    return sorted(
        found, key=lambda version: (version.updated_at, version.classification, version.version), reverse=True
    )


def restore(context: OwnerContext, key: str, level: Level, version: int | None, session: str) -> Restored:
    """Save an earlier version again, at its own level; by default the deleted one, else the one before the newest.

    It keeps its origin: restoring a text is not writing it (P18). Raises: NotFound, Refused (session).
    """
    (level,) = context.levels(level)
    act = context.act(session)
    with (
        context.owner_compartment(level) as compartment,
        context.writing(compartment, act, "restore") as view,
    ):
        seen = [context.expiry.seen_at(record, act.at) for record in compartment.versions(RecordKind.MEMORY, key)]
        chosen = _chosen(seen, version)
        saved = variants.save(view, act, _item(chosen), Action.RESTORE)
    return Restored(key, level, saved.version, saved.status, chosen.version)


def relabel(context: OwnerContext, key: str, to: Level, level: Level | None, *, dry_run: bool) -> Relabelled:
    """Save a copy of the highest live variant, or the one at `level`, at another level; the original stays (P3).

    Both chains record it, the lower one without naming the higher level. Raises: NotFound, InvalidArgument.
    """
    source = _highest_live(context, key, level, to)
    if dry_run:
        return Relabelled(key, source.level, to)
    act = context.act()
    # P9: the source's entry first. A power cut in between leaves an extra entry, never a copy without one.
    with context.owner_compartment(source.level) as compartment, compartment.transaction(durable=True):
        current = compartment.read(RecordKind.MEMORY, key)
        if current != source:
            raise NotFound("key: the memory was changed meanwhile; run the command again", argument="key")
        where = f"to {to}" if to.can_flow_to(source.level) else "upward"
        compartment.append(variants.event_of(compartment.place, act, Action.RELABEL, source, where))
    act = context.act()
    with context.owner_compartment(to) as compartment, context.writing(compartment, act, "relabel") as view:
        saved = variants.save(view, act, _item(source), Action.RELABEL)
    return Relabelled(key, source.level, to, saved.version, saved.status)


def _highest_live(context: OwnerContext, key: str, level: Level | None, to: Level) -> Record:
    now = context.clock()
    for each in context.levels(level):
        with context.owner_compartment(each) as compartment:
            record = compartment.read(RecordKind.MEMORY, key)
        if record is not None and context.expiry.seen_at(record, now).live:
            if each is to:
                raise InvalidArgument(
                    "to: the memory is already at that level; choose another level, or name the variant to copy "
                    "with --level",
                    argument="to",
                )
            return record
    raise NotFound("key: no live memory has this key; see `tidegate history`", argument="key")


def _chosen(versions: Sequence[Record], wanted: int | None) -> Record:
    if wanted is not None:
        for record in versions:
            if record.version == wanted:
                return record
        raise NotFound("version: is not kept at this level; see `tidegate history`", argument="version")
    if not versions:
        raise NotFound("key: has no version at this level; see `tidegate history`", argument="key")
    earlier = versions[1:] if versions[0].live else versions
    if not earlier:
        raise NotFound("key: is live and has no earlier version at this level", argument="key")
    return earlier[0]


def _item(record: Record) -> NewRecord:
    columns = analyse(record.key, record.tags, record.content)
    return NewRecord(record.kind, record.key, record.content, record.tags, record.origin, columns)


def version_of(seen: Record, stored: Record, *, newest: bool) -> Version:
    """Return a version of a memory. seen: as it is now, which may be expired."""
    deleted_at = seen.deleted_at if newest else stored.deleted_at
    return Version(
        key=seen.key,
        classification=seen.level,
        version=seen.version,
        state=_state(seen, stored, newest=newest),
        content=seen.content,
        tags=seen.tags,
        origin=seen.origin,
        created_at=seen.created_at,
        updated_at=seen.updated_at,
        deleted_at=deleted_at,
        pinned=seen.pinned,
    )


def _state(seen: Record, stored: Record, *, newest: bool) -> VersionState:
    if not stored.live:
        return VersionState.DELETED
    if not newest:
        return VersionState.SUPERSEDED
    return VersionState.LIVE if seen.live else VersionState.EXPIRED
