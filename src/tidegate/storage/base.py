"""What every provider gives: compartments, views of them, and the control store.

A compartment is all the state of one agent at one level. A view is what the gate hands out for one call: the
session's own compartment, and those below it, open for reading. Nothing above is in it, so no code that holds a
view can name it (P5).
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate.audit.chain import Action, AuditEvent, Entry, Place
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.expiry import NONE_BYGONE, Bygone
from tidegate.records.record import Draft, Record, RecordKind
from tidegate.search.analysis import Columns
from tidegate.search.ranking import UNCOUNTED, Match, Statistics
from tidegate.storage.control import ControlStore


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live memory that holds terms asked for: what it takes to shadow, score and order it."""

    key: str
    updated_at: datetime
    match: Match = UNCOUNTED


class CompartmentReader(ABC):
    """One compartment, open for reading. Rows whose label is not the compartment's own do not exist here (P17)."""

    agent: str
    level: Level
    id: str
    """Which one it is of those that ever stood there; "" of one that nothing was ever written to."""

    @property
    def place(self) -> Place:
        """Return the place that its chain is bound to (P9)."""
        return Place(self.agent, self.level, self.id)

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read as of one moment in all the reads inside."""

    @abstractmethod
    def read(self, kind: RecordKind, key: str, *, chars_max: int | None = None) -> Record | None:
        """Return a key's newest version, live or deleted; its content cut to `chars_max` code points, if given."""

    @abstractmethod
    def live(self, kind: RecordKind, keys: Collection[str]) -> set[str]:
        """Return those of the keys that have a live record, as shadowing needs them."""

    @abstractmethod
    def page(
        self, kind: RecordKind, *, after: str, tag: str | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        """Return live records after the key `after`, in code-point order, at most `limit`, contents cut to `chars_max`.

        tag: only those that carry exactly this tag. bygone: none of these, however many they are.
        """

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return the number and lengths of all live memories, as indexed."""

    @abstractmethod
    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        """Return how many live memories hold each term, counted up to `ranking.FREQUENCY_MAX`; absent: none."""

    @abstractmethod
    def vocabulary(self, first: str, below: str, *, limit: int) -> list[str]:
        """Return words of live memories from `first` on, before `below`, in code-point order, at most `limit`."""

    @abstractmethod
    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        """Yield live memories that hold any of the terms, roughly best first, with how often each term occurs where.

        Raises BudgetSpentError when the provider's bound on the work of one search is reached.
        """

    @abstractmethod
    def newest(self, groups: Sequence[Sequence[str]]) -> Iterator[Candidate]:
        """Yield live memories that hold a term of each group, uncounted; those whose key is newest here come first.

        Raises: as `candidates`.
        """

    @abstractmethod
    def index_whole(self) -> bool:
        """Return whether the index holds every live memory, as this version of the text analysis makes it."""

    @abstractmethod
    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Return the audit chain from the entry that follows sequence number `after`."""

    @abstractmethod
    def last_entry(self) -> Entry | None:
        """Return the head of the audit chain."""


class Compartment(CompartmentReader):
    """One compartment, open for writing."""

    @abstractmethod
    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Do all the writes inside, or none of them. Exclude other processes and threads.

        durable: once it returns, the writes survive power loss, whatever the provider's setting.
        """

    @abstractmethod
    def put(self, draft: Draft, columns: Columns | None) -> None:
        """Store a new version and make it the live one; index it under `columns` (memories only)."""

    @abstractmethod
    def touch(self, kind: RecordKind, key: str, updated_at: datetime) -> None:
        """Note that the live record was saved again as it was."""

    @abstractmethod
    def soft_delete(self, kind: RecordKind, key: str, deleted_at: datetime) -> None:
        """Hide the live record: it leaves the index, and stays for the audit."""

    @abstractmethod
    def append(self, event: AuditEvent) -> None:
        """Enter an event as the next of the audit chain."""


@dataclass(frozen=True, slots=True, order=True)
class VersionId:
    """Which version of which record, within a compartment."""

    kind: RecordKind
    key: str
    version: int


class OwnerCompartment(Compartment):
    """One compartment for its owner's acts and for maintenance: every version, purging, a new index.

    Never part of a view: no verb, and so no model, can reach it.
    """

    @abstractmethod
    def versions(self, kind: RecordKind, key: str) -> list[Record]:
        """Return every version kept under a key, newest first."""

    @abstractmethod
    def every_version(self) -> Iterator[tuple[Record, bool]]:
        """Yield every version of every record of each kind, and whether it is the newest under its key, in no order."""

    @abstractmethod
    def purgeable(self, before: datetime) -> list[VersionId]:
        """Return the versions that were deleted or superseded at or before a time. They never live again.

        A version counts as superseded when the one after it was last saved.
        """

    @abstractmethod
    def purge_version(self, version: VersionId) -> Record | None:
        """Remove a deleted or superseded version for good, and return it; None when there is no such version."""

    @abstractmethod
    def import_entry(self, entry: Entry) -> None:
        """Take in an entry of a backup as it is: its place and its hash are those that it had."""

    @abstractmethod
    def import_version(self, record: Record, columns: Columns | None, *, newest: bool) -> None:
        """Take in a version of a backup as it is, live, deleted or superseded. newest: it is the one under its key.

        columns: to index it under; of live memories only.
        """

    @abstractmethod
    def oldest(self, *, tag: str | None, limit: int) -> list[Record]:
        """Return live memories by the time of their last save, oldest first; with `tag`, those that carry it."""

    @abstractmethod
    def clear_index(self) -> None:
        """Start a new, empty index for this version of the text analysis; it is whole after `mark_index_complete`."""

    @abstractmethod
    def index_started(self) -> bool:
        """Return whether the index was started with this version of the text analysis; it may not be whole."""

    @abstractmethod
    def unindexed(self, *, after: str, limit: int) -> list[Record]:
        """Return live memories that the index does not hold, with keys after `after`, by key."""

    @abstractmethod
    def index(self, record: Record, columns: Columns) -> None:
        """Put a live memory into the index, unless it changed meanwhile or is already there."""

    @abstractmethod
    def mark_index_complete(self) -> None:
        """Declare the index whole."""


def fresh_id() -> str:
    """Return a random string that cannot be guessed: 128 bits in hexadecimal."""
    return secrets.token_hex(16)


def not_its_own() -> StorageError:
    """Return the error for a compartment that does not belong in its place."""
    return StorageError("a file of this agent is not its own; run `tidegate doctor`")


def lost() -> StorageError:
    """Return the error for an agent some of whose compartments are missing."""
    return StorageError("the files of this agent are missing; run `tidegate doctor`")


class BudgetSpentError(Exception):
    """A search reached the bound on its work. Never leaves core."""


@dataclass(frozen=True, slots=True)
class View:
    """The compartments of one agent that can flow to one taint. visible: the session's own first, then downward."""

    visible: tuple[CompartmentReader, ...]

    def snapshot(self) -> AbstractContextManager[object]:
        """Read as of one moment in each compartment in all the reads inside."""
        with ExitStack() as moment:
            for compartment in reversed(self.visible):  # the order of all locks: the lowest first
                moment.enter_context(compartment.snapshot())
            return moment.pop_all()


@dataclass(frozen=True, slots=True)
class WritableView(View):
    """A view for the verbs that write. own: the session's compartment, the first of `visible`."""

    own: Compartment


class Witness(ABC):
    """One audit chain, as far as the reference monitor asks it where sessions stood before it opens one (P4).

    Never part of a view, and nothing else of its file can be read here: no verb, and so no model, learns of it (P5).
    """

    level: Level

    @abstractmethod
    def state_actions(self, session: str) -> Set[Action]:
        """Return those of the actions in `STATE_ACTIONS` that were entered for a session."""

    @abstractmethod
    def opened(self) -> Iterator[tuple[str, int]]:
        """Yield the sessions that were opened at this level, the latest first, each with its entry's number."""

    @abstractmethod
    def heard(self, session: str, *, after: int) -> bool:
        """Return whether anything was entered for a session after a sequence number."""


class Views(ABC):
    """What the gate takes its views from."""

    @abstractmethod
    def view(self, agent: str, taint: Level) -> AbstractContextManager[View]:
        """Open the compartments that can flow to `taint` for reading; those of an agent without any are empty."""

    @abstractmethod
    def writable_view(self, agent: str, taint: Level) -> AbstractContextManager[WritableView]:
        """Open the same view with the compartment at `taint` writable; an agent without compartments gets all four."""


class StorageProvider(Views):
    """Where everything is kept: compartments behind views, and the control store."""

    control: ControlStore
    audit_secret: bytes | None
    """What the audit chains are keyed with (P9)."""

    @abstractmethod
    def witnesses(self, agent: str) -> AbstractContextManager[Sequence[Witness]]:
        """Open the chains of an agent, for the opening of sessions alone: all four, or none without compartments.

        Raises: StorageError, always in the same words, when one cannot be read.
        """

    @abstractmethod
    def make_with_ids(self, agent: str, ids: Mapping[Level, str]) -> bool:
        """Make an agent's compartments under the ids of a backup, to which its chains are bound (P9).

        Those that are there and were never used are made anew. False, and nothing is changed, when one that was used
        has another id. Raises: StorageError; then it can be run again.
        """

    @abstractmethod
    def owner_compartment(self, agent: str, level: Level) -> AbstractContextManager[OwnerCompartment]:
        """Open one compartment of an agent that has compartments, for its owner's acts and for maintenance."""

    def freeing(self) -> AbstractContextManager[None]:
        """Let the work inside use the disk space kept in reserve, because it frees more."""
        return nullcontext()

    @abstractmethod
    def compact(self, agent: str, level: Level) -> bool:
        """Leave nothing of purged text in any file. False when readers were in the way: run it again."""

    @abstractmethod
    def erase(self, agent: str, *, dry_run: bool) -> list[Level]:
        """Remove all compartments of an agent, in whatever state they are, and say of which levels there were any.

        What has them open fails from then on. Raises: StorageError when others are in the way; run it again.
        """

    def owns_path(self, _path: Path) -> bool:
        """Return whether a path leads, under any name, to a file or folder of the provider's own."""
        return False

    @abstractmethod
    def erase_unused(self, agent: str) -> None:
        """Remove the compartments of an agent, of whom nothing was ever stored.

        The caller is in a transaction of each, and knows that it is empty. Raises: StorageError.
        """

    @abstractmethod
    def has(self, agent: str) -> bool:
        """Return whether this agent has compartments. Nothing is asked about others (P6). Raises: StorageError."""

    @abstractmethod
    def agents(self) -> list[str]:
        """Return the agents that have compartments, in order."""

    @abstractmethod
    def close(self) -> None:
        """Give back every file and connection. What was acknowledged stays."""
