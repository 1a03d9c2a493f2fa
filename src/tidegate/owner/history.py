"""History: every version of a memory, at every level; to live again, or at another level."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.audit.chain import Action
from tidegate.core import variants as records
from tidegate.core.variants import NewRecord
from tidegate.errors import InvalidArgument, NotFound
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.memory import Saved
from tidegate.records.record import Record, RecordKind
from tidegate.records.version import Relabelled, Restored, Version, VersionState
from tidegate.search.analysis import analyse


def history(door: OwnerContext, key: str, level: Level | None) -> list[Version]:
    """Every version kept under a key, newest first; at that level, or at all of them."""
    found: list[Version] = []
    for each in door.levels(level):
        with door.owner_compartment(each) as owner_compartment:
            found += _versions(door, owner_compartment.versions(RecordKind.MEMORY, key))
    return sorted(
        found, key=lambda version: (version.updated_at, version.classification, version.version), reverse=True
    )


def restore(door: OwnerContext, key: str, level: Level, version: int | None, session: str) -> Restored:
    """An earlier version, saved again at its own level; by default what was deleted, else what the newest replaced.

    Its origin stays what it was: who restores a text has not written it (P18). Raises: NotFound, Refused (session).
    """
    (level,) = door.levels(level)
    act = door.act(session)
    with door.owner_compartment(level) as owner_compartment, door.writing(owner_compartment, act, "restore") as view:
        seen = [door.expiry.seen_at(record, act.at) for record in owner_compartment.versions(RecordKind.MEMORY, key)]
        chosen = _chosen(seen, version)
        saved = records.save(view, act, _item(chosen), Action.RESTORE)
    return Restored(key, level, saved.version, saved.status, chosen.version)


def relabel(door: OwnerContext, key: str, to: Level, level: Level | None, *, dry_run: bool) -> Relabelled:
    """A copy at another level, of the highest live variant or the one at `level`; the original stays (P3).

    Both chains tell of it, the lower one without naming the higher level. Raises: NotFound, InvalidArgument.
    """
    source = _highest_live(door, key, level, to)
    if dry_run:
        return Relabelled(key, source.level, to)
    act = door.act()
    # P9: the source's entry first. A power cut in between leaves an entry too many, never a copy without one.
    with door.owner_compartment(source.level) as owner_compartment, owner_compartment.transaction(durable=True):
        current = owner_compartment.read(RecordKind.MEMORY, key)
        if current != source:
            raise NotFound("key: was changed at the same time; look again", argument="key")
        where = f"to {to}" if to.can_flow_to(source.level) else "upward"
        owner_compartment.append(records.event_of(owner_compartment.place, act, Action.RELABEL, source, where))
    saved = _save_copy(door, source, to)
    return Relabelled(key, source.level, to, saved.version, saved.status)


def _save_copy(door: OwnerContext, source: Record, to: Level) -> Saved:
    act = door.act()
    with door.owner_compartment(to) as owner_compartment, door.writing(owner_compartment, act, "relabel") as view:
        return records.save(view, act, _item(source), Action.RELABEL)


def _highest_live(door: OwnerContext, key: str, level: Level | None, to: Level) -> Record:
    now = door.clock()
    for each in door.levels(level):
        with door.owner_compartment(each) as owner_compartment:
            record = owner_compartment.read(RecordKind.MEMORY, key)
        if record is not None and door.expiry.seen_at(record, now).live:
            if each is to:
                raise InvalidArgument(
                    "to: the memory is at that level already; name another, or with --level a variant below",
                    argument="to",
                )
            return record
    raise NotFound("key: nothing is saved under it there", argument="key")


def _chosen(versions: Sequence[Record], wanted: int | None) -> Record:
    if wanted is not None:
        for record in versions:
            if record.version == wanted:
                return record
        raise NotFound("version: is not kept at this level; see `tidegate history`", argument="version")
    if not versions:
        raise NotFound("key: no version of it is kept at this level", argument="key")
    earlier = versions[1:] if versions[0].live else versions
    if not earlier:
        raise NotFound("key: it lives, and no earlier version is kept at this level", argument="key")
    return earlier[0]


def _item(record: Record) -> NewRecord:
    columns = analyse(record.key, record.tags, record.content)
    return NewRecord(record.kind, record.key, record.content, record.tags, record.origin, columns)


def _versions(door: OwnerContext, newest_first: Sequence[Record]) -> list[Version]:
    now = door.clock()
    return [_version(door.expiry.seen_at(each, now), each, newest=not at) for at, each in enumerate(newest_first)]


def _version(seen: Record, stored: Record, *, newest: bool) -> Version:
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
    )


def _state(seen: Record, stored: Record, *, newest: bool) -> VersionState:
    if not stored.live:
        return VersionState.DELETED
    if not newest:
        return VersionState.SUPERSEDED
    return VersionState.LIVE if seen.live else VersionState.EXPIRED
