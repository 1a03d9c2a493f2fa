"""Tidying: of a job's runs the newest are kept, each as it ended. All else of them is really removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from tidegate.domain.audit import OWNER, Action, version_event
from tidegate.domain.job import OPEN, UNDELIVERED
from tidegate.domain.record import Kind, Record
from tidegate.policy.levels import Level
from tidegate.storage.base import Archive, StorageProvider, VersionId

RUNS_KEPT = 50
"""Of each job, besides what is open or not yet delivered."""

_BATCH = 200


class Tidying:
    """Removes old runs of one compartment, each removal entered in its audit chain."""

    def __init__(self, provider: StorageProvider, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self._clock = clock

    def tidy(self, agent: str, level: Level) -> int:
        """How many versions were removed. Raises: StorageError."""
        if agent not in self._provider.agents():
            return 0
        with self._provider.archive(agent, level) as archive:
            old = set(_old(archive))
            gone = 0
            for record in list(_runs(archive)):
                gone += self._remove(archive, record, whole=record.key in old)
        return gone

    def _remove(self, archive: Archive, record: Record, *, whole: bool) -> int:
        """In one transaction: the versions that were replaced, or all of them."""
        if not _doomed(archive, record.key, whole=whole):
            return 0
        with archive.transaction():
            now, doomed = self._clock(), _doomed(archive, record.key, whole=whole)  # again: others tidy as well
            if whole:
                archive.bury(Kind.RUN, record.key, now)  # only what is dead can be removed
            for version in doomed:
                archive.remove(VersionId(Kind.RUN, record.key, version.version))
                archive.append(version_event(now, OWNER, Action.PURGE, version))
        return len(doomed)


def _doomed(archive: Archive, key: str, *, whole: bool) -> list[Record]:
    versions = archive.versions(Kind.RUN, key)
    return versions if whole else versions[1:]


def _runs(archive: Archive) -> Iterator[Record]:
    after = ""
    while True:
        batch = archive.page(Kind.RUN, after=after, tag=None, limit=_BATCH, chars_max=0)
        yield from (record for record in batch if OPEN not in record.tags)
        if len(batch) < _BATCH:
            return
        after = batch[-1].key


def _old(archive: Archive) -> Iterator[str]:
    groups: dict[str, list[str]] = {}
    for record in _runs(archive):
        if UNDELIVERED not in record.tags:
            groups.setdefault(record.key.rpartition("/")[0], []).append(record.key)
    for keys in groups.values():
        yield from keys[:-RUNS_KEPT]
