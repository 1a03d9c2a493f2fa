"""Owner commands on one agent: history, purge, audit, the index, erasure. Never tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from tidegate.audit.anchors import Anchor
from tidegate.audit.chain import GENESIS, OWNER
from tidegate.audit.verify import ChainVerdict, verify
from tidegate.core.maintenance import rebuild_index
from tidegate.core.witness import end_lost, lost
from tidegate.errors import InvalidArgument, NotFound, StorageError
from tidegate.owner.audit_query import AuditFilter, AuditLine, find_audit_lines
from tidegate.owner.context import OwnerContext, nothing_saved
from tidegate.owner.history import history, relabel, restore
from tidegate.owner.pinning import pinned_memories, set_pinned
from tidegate.owner.purge import Progress, purge
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.limits import Limits
from tidegate.records.validation import check_key, check_level
from tidegate.records.version import Pinned, Purged, Relabelled, Restored, Version
from tidegate.storage.control import SessionRow


@dataclass(frozen=True, slots=True)
class Erased(JsonObject):
    """An agent that was erased, or would be.

    levels: those that had files. sessions: how many active ones ended.
    heads: where its audit chains ended, if they could be read; the chains are erased too.
    """

    agent: str
    levels: tuple[Level, ...]
    sessions: int
    heads: tuple[Anchor, ...]


def _ignore(_: str) -> None:
    """Ignore progress."""


class Owner:
    """The owner commands on an agent's memory, at every level. Level arguments: None means all levels."""

    def __init__(self, context: OwnerContext, limits: Limits) -> None:
        self._context = context
        self._limits = limits

    # Memories

    def history(self, key: str, level: Level | None = None) -> list[Version]:
        """Return every version kept of a key, newest first. Raises: NotFound (agent), InvalidArgument, StorageError."""
        return history(self._context, check_key(key, self._limits), level)

    def restore(self, key: str, level: Level, *, version: int | None = None, session: str = OWNER) -> Restored:
        """Save an earlier version again as a new one at its level; by default the deleted or last replaced one.

        session: the id of the acting session, if any; it must be at that level. Raises: NotFound, Refused (session
        unknown, ended or at another level), InvalidArgument, StorageError.
        """
        return restore(self._context, check_key(key, self._limits), level, version, session)

    def relabel(self, key: str, to: Level, level: Level | None = None, *, dry_run: bool = False) -> Relabelled:
        """Save a copy of the highest live variant, or the one at `level`, at another level. The original stays (P3).

        Raises: NotFound, InvalidArgument, StorageError.
        """
        return relabel(self._context, check_key(key, self._limits), check_level(to, "to"), level, dry_run=dry_run)

    def pin(self, key: str, level: Level, *, session: str = OWNER) -> Pinned:
        """Pin the live memory at exactly this level: the context shows it before others. At most 50 at each level.

        A later version stays pinned unless its origin is less trusted. session: as for `restore`.
        Raises: NotFound, LimitExceeded, InvalidArgument, Refused (session), StorageError.
        """
        return set_pinned(self._context, check_key(key, self._limits), level, session, pinned=True)

    def unpin(self, key: str, level: Level, *, session: str = OWNER) -> Pinned:
        """Unpin the live memory at exactly this level. Raises: NotFound, InvalidArgument, Refused, StorageError."""
        return set_pinned(self._context, check_key(key, self._limits), level, session, pinned=False)

    def pinned(self, level: Level | None = None) -> list[Version]:
        """Return the pinned memories, highest level first. Raises: InvalidArgument, StorageError."""
        return pinned_memories(self._context, level)

    def purge(
        self,
        older_than: timedelta,
        level: Level | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = _ignore,
    ) -> list[Purged]:
        """Permanently remove what was deleted or superseded at least that long ago; zero means at any time.

        Also remove equally old conversations whose sessions have ended or were never stored.
        dry_run: only report what would be removed. progress: called from time to time.
        Raises: NotFound (agent), InvalidArgument, StorageError.
        """
        if not isinstance(older_than, timedelta):
            raise InvalidArgument("older_than: must be a timedelta", argument="older_than")
        if older_than < timedelta():
            raise InvalidArgument("older_than: must be 0 or more", argument="older_than")
        return list(purge(self._context, older_than, level, dry_run=dry_run, progress=progress))

    # Sessions

    def lost(self) -> list[SessionRow]:
        """Return sessions that the audit knows and the control store does not, as after restoring an older copy.

        Until they are ended, no session under a new name can be opened for this agent. Their names are lost; each
        uses its id.
        Raises: StorageError.
        """
        return lost(self._context.provider, self._context.agent)

    def end_lost(self) -> bool:
        """End the lost sessions permanently, and return whether nothing of them remains in any file.

        Raises: StorageError; then it can be run again.
        """
        complete = True
        for row in self.lost():
            complete = end_lost(self._context.provider, self._context.audit_log, row) and complete
        return complete

    # Audit

    def find_audit_lines(self, wanted: AuditFilter | None = None) -> Iterator[AuditLine]:
        """Yield audit entries of all levels, oldest first. Raises: NotFound (agent), StorageError."""
        return find_audit_lines(self._context, wanted or AuditFilter())

    def anchor(self, level: Level | None = None) -> list[Anchor]:
        """Return the present end of each chain, to keep elsewhere. Raises: NotFound (agent), StorageError."""
        return [self._head(each) for each in self._context.levels(level)]

    def verify(self, level: Level | None = None, *, anchors: Collection[Anchor] = ()) -> list[ChainVerdict]:
        """Return what each chain proves. Raises: NotFound (agent), InvalidArgument (anchors), StorageError."""
        own: defaultdict[Level, list[Anchor]] = defaultdict(list)
        for anchor in anchors:
            if anchor.agent == self._context.agent:  # P6
                own[anchor.level].append(anchor)
        if anchors and not own:
            raise InvalidArgument("anchor: has no anchor of this agent; choose another file", argument="anchor")
        verdicts = []
        for each in self._context.levels(level):
            with self._context.owner_compartment(each) as compartment:
                verdicts.append(verify(compartment, self._context.provider.audit_secret, own[each]))
        return verdicts

    # Everything

    def reindex(self, level: Level | None = None, *, progress: Progress = _ignore) -> int:
        """Rebuild the search index from the memories, in steps, and return their number.

        Searches keep working, and say that they are incomplete until it is done. After an interruption, the first
        calls of the next process with a session at that level, or the next reindex, continue it.
        Raises: NotFound (agent), StorageError.
        """
        memories = 0
        for each in self._context.levels(level):
            with self._context.owner_compartment(each) as compartment:
                memories += rebuild_index(compartment, self._context.clock(), progress)
        return memories

    def erase(self, *, dry_run: bool = False) -> Erased:
        """End all sessions of the agent and remove everything saved for it, audit chains included.

        No chain remains to record this: keep `heads` as the record. SPINE.md and TRIGGER.md stay.
        Raises: NotFound, StorageError (busy: run it again).
        """
        with self._context.provider.freeing():
            return self._erase(dry_run=dry_run)

    def _erase(self, *, dry_run: bool) -> Erased:
        agent, heads = self._context.agent, self._heads()
        levels = self._context.provider.erase(agent, dry_run=True)
        ended = self._context.sessions.living_of(agent)
        if not (levels or ended):
            raise nothing_saved(agent, "its name")
        if not dry_run:
            self._context.sessions.end_life(agent)  # first: no session keeps a taint over erased memories (P7)
            levels = self._context.provider.erase(agent, dry_run=False)
        return Erased(agent, tuple(levels), ended, heads)

    def _heads(self) -> tuple[Anchor, ...]:
        try:
            return tuple(self.anchor())
        except (NotFound, StorageError):
            return ()  # half erased, or damaged: this must not stop the erasure

    def _head(self, level: Level) -> Anchor:
        with self._context.owner_compartment(level) as compartment:
            last = compartment.last_entry()
        digest, sequence = (last.hash, last.sequence) if last else (GENESIS, 0)
        return Anchor(self._context.agent, level, sequence, digest, self._context.clock())
