"""Purge: what was deleted or superseded long enough ago is really removed. The audit keeps its entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from tidegate.core.conversation_purge import Clearing
from tidegate.core.maintenance import sweep
from tidegate.core.variants import every
from tidegate.core.version_purge import remove
from tidegate.jobs.retention import find_orphans, purge_orphans, versions_of
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.message_keys import session_of
from tidegate.records.record import RecordKind
from tidegate.records.version import Purged
from tidegate.storage.base import OwnerCompartment, VersionId

STEP = 500
"""Versions removed in one transaction, so that no session waits long, and nothing is lost when it is interrupted."""

Progress = Callable[[str], object]


def purge(
    door: OwnerContext, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
) -> Iterator[Purged]:
    """What was removed, or would be, level by level: versions deleted, expired or superseded at least so long ago.

    With them go conversations that nobody goes on with at that level: of sessions that ended, that have risen above it,
    and of ephemeral ones, which end with their process, also by a kill. One that still runs forgets what it said there
    so long ago.
    And with them goes what ended runs have left of jobs that are no more.
    What the files still held of earlier changes is overwritten as well, also where nothing was left to remove.
    """
    with door.provider.freeing():
        yield from _purge(door, older_than, level, dry_run=dry_run, progress=progress)


def _purge(
    door: OwnerContext, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
) -> Iterator[Purged]:
    for each in door.levels(level):
        now = door.clock()
        before = _moment(now, older_than)
        with door.owner_compartment(each) as owner_compartment:
            if not dry_run:
                _sweep_all(door, owner_compartment, now)
            buried = {*owner_compartment.purgeable(before), *_expired(door, owner_compartment, min(before, now))}
            memories = sum(_is_newest(owner_compartment, version) for version in buried)
            orphans = find_orphans(door.provider, owner_compartment, before)
            purgeable = sorted({*buried, *versions_of(owner_compartment, orphans)})
            left = _left_behind(door, owner_compartment, before)
            if not dry_run:
                purge_orphans(owner_compartment, now, orphans)
                _remove_all(door, owner_compartment, purgeable, progress)
                _forget_all(door, owner_compartment, left)
        complete = dry_run or door.provider.compact(door.agent, each)
        yield Purged(each, memories, len(purgeable) + left.total(), complete)


def _moment(now: datetime, older_than: timedelta) -> datetime:
    """The latest time that is old enough. No age at all: any time, also one that a wrong clock put in the future."""
    if not older_than:
        return datetime.max.replace(tzinfo=UTC)
    try:
        return now - older_than
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _sweep_all(door: OwnerContext, owner_compartment: OwnerCompartment, now: datetime) -> None:
    while door.expiry and sweep(owner_compartment, door.expiry, now):
        pass


def _expired(door: OwnerContext, owner_compartment: OwnerCompartment, before: datetime) -> Iterator[VersionId]:
    """All versions of what expired by then and is not put away yet, as a dry run finds it."""
    for record in every(owner_compartment, RecordKind.MEMORY, batch=STEP, chars_max=0) if door.expiry else ():
        if not door.expiry.seen_at(record, before).live:
            versions = owner_compartment.versions(RecordKind.MEMORY, record.key)
            yield from (VersionId(each.kind, each.key, each.version) for each in versions)


def _left_behind(door: OwnerContext, owner_compartment: OwnerCompartment, before: datetime) -> Counter[str]:
    """How many messages there are of each session that is no named one living at this level, and was silent since.

    Whether one that has risen lives is not asked: what goes at this level would depend on it (P5).
    """
    rows = door.provider.control.sessions(door.agent)
    living = {row.id for row in rows if row.taint is owner_compartment.level and not row.ended}
    left, silent_since = Counter[str](), dict[str, datetime]()
    for record in every(owner_compartment, RecordKind.MESSAGE, batch=STEP, chars_max=0):
        session = session_of(record.key)
        left[session] += 1
        silent_since[session] = max(record.updated_at, silent_since.get(session, record.updated_at))
    for session, since in silent_since.items():
        if session in living or since > before:
            del left[session]
    return left


def _forget_all(door: OwnerContext, owner_compartment: OwnerCompartment, left: Collection[str]) -> None:
    clearing = Clearing(door.provider, door.clock)
    for session in left:
        clearing.forget(owner_compartment, session)


def _is_newest(owner_compartment: OwnerCompartment, version: VersionId) -> bool:
    """Whether with this version its whole record goes."""
    newest = owner_compartment.read(version.kind, version.key, chars_max=0)
    return newest is not None and newest.version == version.version


def _remove_all(
    door: OwnerContext, owner_compartment: OwnerCompartment, purgeable: Sequence[VersionId], progress: Progress
) -> None:
    rest = iter(purgeable)
    done = 0
    while step := list(islice(rest, STEP)):
        act = door.act()
        with owner_compartment.transaction(durable=True):
            for version in step:
                remove(owner_compartment, act.at, act.session, version)  # never one that lives: what is dead stays so
        done += len(step)
        progress(f"{owner_compartment.level}: {done} of {len(purgeable)} versions removed")
