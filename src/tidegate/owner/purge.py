"""Purge: permanently remove what was deleted or superseded long enough ago. The audit keeps its entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from tidegate.core.conversation_purge import Clearing
from tidegate.core.maintenance import sweep
from tidegate.core.variants import every
from tidegate.core.version_purge import remove
from tidegate.jobs.retention import find_orphans, purge_orphans, versions_of
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.record import RecordKind, session_of
from tidegate.records.version import Purged
from tidegate.storage.base import OwnerCompartment, VersionId

STEP = 500
"""Versions removed in one transaction: no session waits long, and an interruption loses nothing."""

Progress = Callable[[str], object]


def purge(
    context: OwnerContext, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
) -> Iterator[Purged]:
    """Remove versions deleted, expired or superseded at least that long ago; yield the removals, level by level.

    dry_run: remove nothing, yield what would be removed.
    Also remove equally old conversations that no session continues at that level: those of ended or raised sessions,
    and of ephemeral sessions, which end with their process, even by a kill. An ephemeral session that still runs
    forgets what it said there that long ago. Also remove the ended runs of jobs that no longer exist.
    Remains of earlier changes in the files are overwritten, even if there is nothing to remove.
    """
    with context.provider.freeing():
        for each in context.levels(level):
            yield _purge_level(context, each, older_than, dry_run=dry_run, progress=progress)


def _purge_level(
    context: OwnerContext, level: Level, older_than: timedelta, *, dry_run: bool, progress: Progress
) -> Purged:
    now = context.clock()
    before = _cutoff(now, older_than)
    with context.owner_compartment(level) as compartment:
        while not dry_run and context.expiry and sweep(compartment, context.expiry, now):
            continue
        dead = {*compartment.purgeable(before), *_expired(context, compartment, min(before, now))}
        memories = sum(_is_newest(compartment, version) for version in dead)
        orphans = find_orphans(context.provider, compartment, before)
        purgeable = sorted({*dead, *versions_of(compartment, orphans)})
        conversations = _left_behind(context, compartment, before)
        if not dry_run:
            purge_orphans(compartment, now, orphans)
            _remove_all(context, compartment, purgeable, progress)
            clearing = Clearing(context.provider, context.clock)
            for session in conversations:
                clearing.forget(compartment, session)
    complete = dry_run or context.provider.compact(context.agent, level)
    return Purged(level, memories, len(purgeable) + conversations.total(), complete)


def _cutoff(now: datetime, older_than: timedelta) -> datetime:
    """Return the latest time that is old enough. Age 0: any time, even one that a wrong clock put in the future."""
    if not older_than:
        return datetime.max.replace(tzinfo=UTC)
    try:
        return now - older_than
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _expired(context: OwnerContext, compartment: OwnerCompartment, before: datetime) -> Iterator[VersionId]:
    """Yield all versions of memories that expired by then but are not deleted yet, as in a dry run."""
    for record in every(compartment, RecordKind.MEMORY, batch=STEP, chars_max=0) if context.expiry else ():
        if not context.expiry.seen_at(record, before).live:
            versions = compartment.versions(RecordKind.MEMORY, record.key)
            yield from (VersionId(each.kind, each.key, each.version) for each in versions)


def _left_behind(context: OwnerContext, compartment: OwnerCompartment, before: datetime) -> Counter[str]:
    """Count the messages of each session silent since then, except named sessions active at this level.

    It ignores whether a raised session is active: removals at this level would depend on it (P5).
    """
    rows = context.provider.control.sessions(context.agent)
    living = {row.id for row in rows if row.taint is compartment.level and not row.ended}
    left, silent_since = Counter[str](), dict[str, datetime]()
    for record in every(compartment, RecordKind.MESSAGE, batch=STEP, chars_max=0):
        session = session_of(record.key)
        left[session] += 1
        silent_since[session] = max(record.updated_at, silent_since.get(session, record.updated_at))
    for session, since in silent_since.items():
        if session in living or since > before:
            del left[session]
    return left


def _is_newest(compartment: OwnerCompartment, version: VersionId) -> bool:
    """Return whether this is the last version of its record, so that the record goes with it."""
    newest = compartment.read(version.kind, version.key, chars_max=0)
    return newest is not None and newest.version == version.version


def _remove_all(
    context: OwnerContext, compartment: OwnerCompartment, purgeable: Sequence[VersionId], progress: Progress
) -> None:
    rest = iter(purgeable)
    done = 0
    while step := list(islice(rest, STEP)):
        act = context.act()
        with compartment.transaction(durable=True):
            for version in step:
                remove(compartment, act.at, act.session, version)  # never a live one: a dead version stays dead
        done += len(step)
        progress(f"{compartment.level}: {done} of {len(purgeable)} versions removed")
