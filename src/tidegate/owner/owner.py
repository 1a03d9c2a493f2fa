"""The owner's acts on one agent: history, purge, audit, the index, erasure. Commands, never tools."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import timedelta

from tidegate.audit.anchors import Anchor
from tidegate.audit.chain import GENESIS, OWNER
from tidegate.audit.verify import ChainVerdict, verify
from tidegate.core.maintenance import rebuild_index
from tidegate.core.witness import lost
from tidegate.errors import InvalidArgument, NotFound, StorageError
from tidegate.owner.audit_query import AuditFilter, AuditLine, find_audit_lines
from tidegate.owner.context import OwnerContext
from tidegate.owner.history import history, relabel, restore
from tidegate.owner.purge import Progress, purge
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.limits import Limits
from tidegate.records.validation import check_key, check_level
from tidegate.records.version import Purged, Relabelled, Restored, Version
from tidegate.storage.control import SessionRow


@dataclass(frozen=True, slots=True)
class Erased(JsonObject):
    """An agent that is erased, or would be.

    levels: of which there were files. sessions: how many living ones ended.
    heads: where its audit chains ended, if they could be read; they went with the rest.
    """

    agent: str
    levels: tuple[Level, ...]
    sessions: int
    heads: tuple[Anchor, ...]


def _quietly(_: str) -> None:
    """Progress that nobody follows."""


class Owner:
    """What the owner of an agent's memory can do with it, at every level. Level arguments: None means all levels."""

    def __init__(self, door: OwnerContext, limits: Limits) -> None:
        self._door = door
        self._limits = limits

    # Memories

    def history(self, key: str, level: Level | None = None) -> list[Version]:
        """Every version kept under a key, newest first. Raises: NotFound (agent), InvalidArgument, StorageError."""
        return history(self._door, check_key(key, self._limits), level)

    def restore(self, key: str, level: Level, *, version: int | None = None, session: str = OWNER) -> Restored:
        """An earlier version, saved again as a new one at its level; by default what was deleted, or last replaced.

        session: the id of the session it is done in, if any; it must stand at that level. Raises: NotFound, Refused
        (session unknown, ended or elsewhere), InvalidArgument, StorageError.
        """
        return restore(self._door, check_key(key, self._limits), level, version, session)

    def relabel(self, key: str, to: Level, level: Level | None = None, *, dry_run: bool = False) -> Relabelled:
        """A copy at another level, of the highest live variant or the one at `level`. The original stays (P3).

        Raises: NotFound, InvalidArgument, StorageError.
        """
        return relabel(self._door, check_key(key, self._limits), check_level(to, "to"), level, dry_run=dry_run)

    def purge(
        self,
        older_than: timedelta,
        level: Level | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = _quietly,
    ) -> list[Purged]:
        """Really removes what was deleted or superseded at least so long ago; zero means whenever.

        With it go the conversations of sessions that have ended or were never stored, if they are as old.
        dry_run: only say what would go. progress: told from time to time.
        Raises: NotFound (agent), InvalidArgument, StorageError.
        """
        if not isinstance(older_than, timedelta):
            raise InvalidArgument("older_than: must be a timedelta", argument="older_than")
        if older_than < timedelta():
            raise InvalidArgument("older_than: must not be below 0", argument="older_than")
        return list(purge(self._door, older_than, level, dry_run=dry_run, progress=progress))

    # Sessions

    def lost(self) -> list[SessionRow]:
        """Sessions that the audit knows and the control store does not, as after an older copy of it was put back.

        Until they are ended, no session of this agent gets a new name. Their names are lost: their ids stand for them.
        Raises: StorageError.
        """
        return lost(self._door.provider, self._door.agent)

    def end_lost(self) -> bool:
        """End them for ever, as a reset does; what it returns, too. Raises: StorageError; then it can be run again."""
        control, complete = self._door.provider.control, True
        for row in self.lost():
            with control.transaction():
                control.insert(row)
            complete = (row.ended or self._door.sessions.reset(row.id)) and complete
        return complete

    # Audit

    def find_audit_lines(self, wanted: AuditFilter | None = None) -> Iterator[AuditLine]:
        """Audit entries of all levels, oldest first. Raises: NotFound (agent), StorageError."""
        return find_audit_lines(self._door, wanted or AuditFilter())

    def anchor(self, level: Level | None = None) -> list[Anchor]:
        """Where each chain ends now, to be kept elsewhere. Raises: NotFound (agent), StorageError."""
        return [self._head(each) for each in self._door.levels(level)]

    def verify(self, level: Level | None = None, *, anchors: Collection[Anchor] = ()) -> list[ChainVerdict]:
        """What each chain proves. Raises: NotFound (agent), InvalidArgument (no anchor of it), StorageError."""
        own: defaultdict[Level, list[Anchor]] = defaultdict(list)
        for anchor in anchors:
            if anchor.agent == self._door.agent:  # P6
                own[anchor.level].append(anchor)
        if anchors and not own:
            raise InvalidArgument("anchor: holds no anchor of this agent", argument="anchor")
        return [self._verdict(each, own[each]) for each in self._door.levels(level)]

    # The whole

    def reindex(self, level: Level | None = None, *, progress: Progress = _quietly) -> int:
        """Make the search index anew from what is saved, in steps; how many memories. Searches go on meanwhile.

        Until it is done they say that they are not complete. Interrupted, the first calls of the next process that has
        a session at that level, or the next reindex, go on. Raises: NotFound (agent), StorageError.
        """
        return sum(self._reindex(each, progress) for each in self._door.levels(level))

    def erase(self, *, dry_run: bool = False) -> Erased:
        """End all sessions of the agent and remove all that was saved for it, audit chains included.

        No chain is left to enter it in: keep `heads` if it must be shown later. SPINE.md and TRIGGER.md stay.
        Raises: NotFound, StorageError (busy: run it again).
        """
        with self._door.provider.freeing():
            return self._erase(dry_run=dry_run)

    def _erase(self, *, dry_run: bool) -> Erased:
        agent, heads = self._door.agent, self._heads()
        levels = self._door.provider.erase(agent, dry_run=True)
        ended = self._door.sessions.living_of(agent)
        if not (levels or ended):
            raise NotFound("agent: nothing was ever saved for it", argument="agent")
        if not dry_run:
            self._door.sessions.end_life(agent)  # first: nobody holds a taint over what is gone (P7)
            levels = self._door.provider.erase(agent, dry_run=False)
        return Erased(agent, tuple(levels), ended, heads)

    def _heads(self) -> tuple[Anchor, ...]:
        try:
            return tuple(self.anchor())
        except (NotFound, StorageError):
            return ()  # half erased, or damaged: that must not keep it from being erased

    def _head(self, level: Level) -> Anchor:
        with self._door.owner_compartment(level) as owner_compartment:
            last = owner_compartment.last_entry()
        digest, sequence = (last.hash, last.sequence) if last else (GENESIS, 0)
        return Anchor(self._door.agent, level, sequence, digest, self._door.clock())

    def _verdict(self, level: Level, anchors: list[Anchor]) -> ChainVerdict:
        with self._door.owner_compartment(level) as owner_compartment:
            return verify(owner_compartment, self._door.provider.audit_secret, anchors)

    def _reindex(self, level: Level, progress: Progress) -> int:
        with self._door.owner_compartment(level) as owner_compartment:
            return rebuild_index(owner_compartment, self._door.clock(), progress)
