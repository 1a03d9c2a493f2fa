"""Retention: keep the newest runs of each job, each in its last version. Permanently remove all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

from tidegate.audit.chain import OWNER
from tidegate.core.variants import every
from tidegate.core.version_purge import remove
from tidegate.jobs.job import OPEN, UNDELIVERED, began_at, is_known_group, name_of
from tidegate.policy.levels import Level
from tidegate.records.record import Record, RecordKind, session_of
from tidegate.storage.base import OwnerCompartment, StorageProvider, VersionId

RUNS_KEPT = 50
"""How many runs of each job are kept, in addition to the open and the undelivered ones."""

EVENTS_KEPT = 1_000
"""How many ids of events of each job are kept, so that a late repetition does not run again."""

_BATCH = 200


def purge_old_runs(provider: StorageProvider, clock: Callable[[], datetime], agent: str, level: Level) -> int:
    """Permanently remove old runs of one compartment, each with its entry, and return the number of versions.

    Raises: StorageError.
    """
    if not provider.has(agent):
        return 0
    with provider.owner_compartment(agent, level) as owner_compartment:
        old = set(_old(owner_compartment))
        return sum(
            _purge(owner_compartment, clock(), record, whole=record.key in old)
            for record in list(_ended(owner_compartment))
        )


def _purge(owner_compartment: OwnerCompartment, now: datetime, record: Record, *, whole: bool) -> int:
    """Remove the replaced versions, or all of them, in one transaction; return their number."""
    if not _purgeable(owner_compartment, record.key, whole=whole):
        return 0
    with owner_compartment.transaction():
        purgeable = _purgeable(owner_compartment, record.key, whole=whole)  # again: other processes purge too
        if purgeable and whole:
            owner_compartment.soft_delete(RecordKind.RUN, record.key, now)  # only deleted versions can be removed
        return sum(remove(owner_compartment, now, OWNER, version) for version in purgeable)


def _purgeable(owner_compartment: OwnerCompartment, key: str, *, whole: bool) -> list[VersionId]:
    versions = owner_compartment.versions(RecordKind.RUN, key)
    return [VersionId(RecordKind.RUN, key, each.version) for each in (versions if whole else versions[1:])]


def _ended(owner_compartment: OwnerCompartment) -> Iterator[Record]:
    found = every(owner_compartment, RecordKind.RUN, batch=_BATCH, chars_max=0)
    return (record for record in found if OPEN not in record.tags)


def _old(owner_compartment: OwnerCompartment) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for record in _ended(owner_compartment):
        if UNDELIVERED not in record.tags:
            groups.setdefault(session_of(record.key), []).append(record.key)
    for group, keys in groups.items():
        yield from keys[: -(EVENTS_KEPT if is_known_group(group) else RUNS_KEPT)]


# Runs of deleted jobs


def find_orphans(provider: StorageProvider, owner_compartment: OwnerCompartment, before: datetime) -> list[Record]:
    """Return runs that ended by `before`, and ids of events, of deleted jobs; none of the trigger's."""
    ended = [
        record
        for record in _ended(owner_compartment)
        if record.updated_at <= before and name_of(session_of(record.key))
    ]
    levels = {record.key: began_at(session_of(record.key), owner_compartment.level) for record in ended}
    jobs = dict[Level, set[str]]()
    for level in set(levels.values()):
        with provider.owner_compartment(owner_compartment.agent, level) as begun_in:
            jobs[level] = {record.key for record in every(begun_in, RecordKind.JOB, batch=_BATCH, chars_max=0)}
    return [record for record in ended if name_of(session_of(record.key)) not in jobs[levels[record.key]]]


def purge_orphans(owner_compartment: OwnerCompartment, now: datetime, orphans: Iterable[Record]) -> int:
    """Permanently remove these runs, each with its entry, and return the number of versions."""
    return sum(_purge(owner_compartment, now, record, whole=True) for record in orphans)


def versions_of(owner_compartment: OwnerCompartment, orphans: Iterable[Record]) -> list[VersionId]:
    """Return all versions of these runs."""
    return [version for record in orphans for version in _purgeable(owner_compartment, record.key, whole=True)]
