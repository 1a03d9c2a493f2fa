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
from tidegate.jobs.retention import forget, orphaned, versions_of
from tidegate.owner.context import Door
from tidegate.policy.levels import Level
from tidegate.records.message_keys import session_of
from tidegate.records.record import Kind
from tidegate.records.version import Purged
from tidegate.storage.base import Archive, VersionId

STEP = 500
"""Versions removed in one transaction, so that no session waits long, and nothing is lost when it is interrupted."""

Progress = Callable[[str], object]


def purge(
    door: Door, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
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
    door: Door, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
) -> Iterator[Purged]:
    for each in door.levels(level):
        now = door.clock()
        before = _moment(now, older_than)
        with door.archive(each) as archive:
            if not dry_run:
                _sweep_all(door, archive, now)
            buried = {*archive.dead(before), *_expired(door, archive, min(before, now))}
            memories = sum(_is_newest(archive, version) for version in buried)
            orphans = orphaned(door.provider, archive, before)
            dead = sorted({*buried, *versions_of(archive, orphans)})
            left = _left_behind(door, archive, before)
            if not dry_run:
                forget(archive, now, orphans)
                _remove_all(door, archive, dead, progress)
                _forget_all(door, archive, left)
        complete = dry_run or door.provider.compact(door.agent, each)
        yield Purged(each, memories, len(dead) + left.total(), complete)


def _moment(now: datetime, older_than: timedelta) -> datetime:
    """The latest time that is old enough. No age at all: any time, also one that a wrong clock put in the future."""
    if not older_than:
        return datetime.max.replace(tzinfo=UTC)
    try:
        return now - older_than
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _sweep_all(door: Door, archive: Archive, now: datetime) -> None:
    while door.expiry and sweep(archive, door.expiry, now):
        pass


def _expired(door: Door, archive: Archive, before: datetime) -> Iterator[VersionId]:
    """All versions of what expired by then and is not put away yet, as a dry run finds it."""
    for record in every(archive, Kind.MEMORY, batch=STEP, chars_max=0) if door.expiry else ():
        if not door.expiry.seen_at(record, before).live:
            versions = archive.versions(Kind.MEMORY, record.key)
            yield from (VersionId(each.kind, each.key, each.version) for each in versions)


def _left_behind(door: Door, archive: Archive, before: datetime) -> Counter[str]:
    """How many messages there are of each session that is no named one living at this level, and was silent since.

    Whether one that has risen lives is not asked: what goes at this level would depend on it (P5).
    """
    rows = door.provider.control.sessions(door.agent)
    living = {row.id for row in rows if row.taint is archive.level and not row.ended}
    left, silent_since = Counter[str](), dict[str, datetime]()
    for record in every(archive, Kind.MESSAGE, batch=STEP, chars_max=0):
        session = session_of(record.key)
        left[session] += 1
        silent_since[session] = max(record.updated_at, silent_since.get(session, record.updated_at))
    for session, since in silent_since.items():
        if session in living or since > before:
            del left[session]
    return left


def _forget_all(door: Door, archive: Archive, left: Collection[str]) -> None:
    clearing = Clearing(door.provider, door.clock)
    for session in left:
        clearing.forget(archive, session)


def _is_newest(archive: Archive, version: VersionId) -> bool:
    """Whether with this version its whole record goes."""
    newest = archive.read(version.kind, version.key, chars_max=0)
    return newest is not None and newest.version == version.version


def _remove_all(door: Door, archive: Archive, dead: Sequence[VersionId], progress: Progress) -> None:
    rest = iter(dead)
    done = 0
    while step := list(islice(rest, STEP)):
        act = door.act()
        with archive.transaction(durable=True):
            for version in step:
                remove(archive, act.at, act.session, version)  # never one that lives: what is dead stays so
        done += len(step)
        progress(f"{archive.level}: {done} of {len(dead)} versions removed")
