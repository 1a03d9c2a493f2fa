"""Purge: really removing what was deleted or superseded long enough ago. The audit keeps its entries."""

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
"""Versions removed in one transaction, so that no session waits long, and nothing is lost when it is interrupted."""

Progress = Callable[[str], object]


def purge(
    context: OwnerContext, older_than: timedelta, level: Level | None, *, dry_run: bool, progress: Progress
) -> Iterator[Purged]:
    """Remove versions deleted, expired or superseded at least so long ago; yield what was removed, level by level.

    dry_run: remove nothing, yield what would be removed.
    Conversations that nobody continues at that level go too: of sessions that ended or have risen above it, and of
    ephemeral ones, which end with their process, also by a kill. One that still runs forgets what it said there so
    long ago. So do the ended runs of jobs that no longer exist.
    What the files still hold of earlier changes is overwritten as well, even where nothing is left to remove.
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
    """Return the latest time that is old enough. No age at all: any time, even one that a wrong clock put ahead."""
    if not older_than:
        return datetime.max.replace(tzinfo=UTC)
    try:
        return now - older_than
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _expired(context: OwnerContext, compartment: OwnerCompartment, before: datetime) -> Iterator[VersionId]:
    """Yield all versions of memories that expired by then and are not deleted yet, as a dry run finds them."""
    for record in every(compartment, RecordKind.MEMORY, batch=STEP, chars_max=0) if context.expiry else ():
        if not context.expiry.seen_at(record, before).live:
            versions = compartment.versions(RecordKind.MEMORY, record.key)
            yield from (VersionId(each.kind, each.key, each.version) for each in versions)


def _left_behind(context: OwnerContext, compartment: OwnerCompartment, before: datetime) -> Counter[str]:
    """Count the messages of each session that was silent since then and is not a named one living at this level.

    Whether a session that has risen lives is not asked: what goes at this level would depend on it (P5).
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
