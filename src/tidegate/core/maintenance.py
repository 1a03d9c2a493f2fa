"""Maintenance at the start of a call, in the compartment of that call alone (P2).

It rebuilds the index after an upgrade changed the text analysis, and deletes expired memories. Both work in bounded
steps, so that no call waits for all of them; each step is complete, so that a kill in between costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime, timedelta

from tidegate.audit.chain import OWNER, Action, AuditEvent, version_event
from tidegate.core.expiry import ExpiringCompartment, ExpiringReader
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.record import Record
from tidegate.search.analysis import analyse
from tidegate.storage.base import CompartmentReader, OwnerCompartment, StorageProvider, View, Views, WritableView

INDEX_STEP = 1_000
"""Memories indexed in one step: some tenths of a second."""

SWEEP_STEP = 200
"""Expired memories deleted in one step."""

SWEEP_INTERVAL = timedelta(minutes=1)
"""How often a process looks for expired memories to delete. They are hidden as soon as they expire."""

KNOWN_MAX = 4_096
"""How many compartments a process remembers as completely indexed: some megabytes."""


class MaintainedViews(Views):
    """The views that the gate hands out: maintained, and without expired memories."""

    def __init__(self, provider: StorageProvider, expiry: Expiry, clock: Callable[[], datetime]) -> None:
        self._provider = provider
        self._expiry = expiry
        self._expires = bool(expiry)
        self._clock = clock
        self._indexed: dict[tuple[str, Level], str | None] = {}
        self._swept: dict[tuple[str, Level], datetime] = {}

    def view(self, agent: str, taint: Level) -> AbstractContextManager[View]:
        after = self._indexed.get((agent, taint), "")
        if after is not None:
            with suppress(StorageError):  # a read-only home can still be read; searches say that they are incomplete
                self._tend_index(agent, taint, after)
        return self._expiring_view(agent, taint) if self._expires else self._provider.view(agent, taint)

    @contextmanager
    def _expiring_view(self, agent: str, taint: Level) -> Iterator[View]:
        with self._provider.view(agent, taint) as view:
            yield View(self._expiring(view.visible))

    @contextmanager
    def writable_view(self, agent: str, taint: Level) -> Iterator[WritableView]:
        after = self._indexed.get((agent, taint), "")
        if after is not None:
            self._tend_index(agent, taint, after)
        if self._expires:
            self._sweep(agent, taint)
        with self._provider.writable_view(agent, taint) as view:
            if not self._expires:
                yield view
            else:
                own = ExpiringCompartment(view.own, self._expiry, self._clock())
                yield WritableView((own, *self._expiring(view.visible[1:])), own)

    def _expiring(self, visible: tuple[CompartmentReader, ...]) -> tuple[CompartmentReader, ...]:
        now = self._clock()
        return tuple(ExpiringReader(each, self._expiry, now) for each in visible)

    def _tend_index(self, agent: str, taint: Level, after: str) -> None:
        """Take one step towards a complete index, and remember where the next one starts."""
        with self._provider.view(agent, taint) as view:
            whole = view.visible[0].index_whole()
        following = None
        if not whole:
            with self._provider.owner_compartment(agent, taint) as owner_compartment:
                following = index_step(owner_compartment, after)
        if len(self._indexed) >= KNOWN_MAX:
            self._indexed.clear()  # check them again: callers may name any number of agents that do not exist
        self._indexed[agent, taint] = following

    def _sweep(self, agent: str, taint: Level) -> None:
        now = self._clock()
        if self._swept.get((agent, taint), now) > now or not self._provider.has(agent):
            return
        with self._provider.owner_compartment(agent, taint) as owner_compartment:
            if not sweep(owner_compartment, self._expiry, now):
                self._swept[agent, taint] = now + SWEEP_INTERVAL


def index_step(owner_compartment: OwnerCompartment, after: str = "") -> str | None:
    """Index some missing memories, by key; return the key to continue after, or None once the index is complete.

    An index of another analysis is rebuilt.
    """
    if not owner_compartment.index_started():
        with owner_compartment.transaction():
            if not owner_compartment.index_started():  # another process may have been first
                owner_compartment.clear_index()
    lacking = owner_compartment.unindexed(after=after, limit=INDEX_STEP)
    analysed = [(record, analyse(record.key, record.tags, record.content)) for record in lacking]
    with owner_compartment.transaction():
        for record, columns in analysed:
            owner_compartment.index(record, columns)
        if len(lacking) == INDEX_STEP:
            return lacking[-1].key
        if owner_compartment.unindexed(after="", limit=1):  # rebuilding has started in between
            return ""
        owner_compartment.mark_index_complete()
    return None


def rebuild_index(owner_compartment: OwnerCompartment, now: datetime, progress: Callable[[str], object]) -> int:
    """Rebuild the index in steps, for the owner; return the number of memories. After an interruption it continues."""
    with owner_compartment.transaction():
        owner_compartment.clear_index()
    after = index_step(owner_compartment)
    while after is not None:
        progress(f"{owner_compartment.level}: {owner_compartment.statistics().documents} memories indexed")
        after = index_step(owner_compartment, after)
    documents = owner_compartment.statistics().documents
    with owner_compartment.transaction():
        owner_compartment.append(AuditEvent(now, OWNER, Action.REINDEX, f"{documents} memories"))
    return documents


def sweep(owner_compartment: OwnerCompartment, expiry: Expiry, now: datetime) -> int:
    """Delete some expired memories, as of when they expired, each with its entry; return how many."""
    with owner_compartment.transaction():
        expired = _expired(owner_compartment, expiry, now)
        for record, expired_at in expired:
            owner_compartment.soft_delete(record.kind, record.key, expired_at)
            owner_compartment.append(version_event(owner_compartment.place, now, OWNER, Action.EXPIRE, record))
    return len(expired)


def _expired(owner_compartment: OwnerCompartment, expiry: Expiry, now: datetime) -> list[tuple[Record, datetime]]:
    """Return for each rule the memories with the oldest last save: all others expire later by that rule."""
    found: dict[str, tuple[Record, datetime]] = {}
    for tag in (*expiry.folded, *([None] if owner_compartment.level in expiry.levels else [])):
        for record in owner_compartment.oldest(tag=tag, limit=SWEEP_STEP):
            expires_at = expiry.expires_at(record)
            if expires_at is not None and expires_at <= now:
                found[record.key] = (record, expires_at)
    return list(found.values())
