"""The interface of every provider: compartments, views of them, and the control store.

A compartment is all the state of one agent at one level. The gate gives out a view for one call: the session's own
compartment, and those below it, open for reading. A view contains nothing above, so no code that holds a view can name
it (P5).
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
    """A live memory that matches a search, with the data to shadow, score and order it."""

    key: str
    updated_at: datetime
    match: Match = UNCOUNTED


class CompartmentReader(ABC):
    """One compartment, open for reading. Rows whose label is not the compartment's own do not exist here (P17)."""

    agent: str
    level: Level
    id: str
    """Random, made with the compartment: a later one in the same place has another. "" before anything is written."""

    @property
    def place(self) -> Place:
        """Return the place that the chain is bound to (P9)."""
        return Place(self.agent, self.level, self.id)

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Let all the reads inside see one moment."""

    @abstractmethod
    def read(self, kind: RecordKind, key: str, *, chars_max: int | None = None) -> Record | None:
        """Return a key's newest version, live or deleted; its content cut to `chars_max` code points, if given."""

    @abstractmethod
    def read_several(self, kind: RecordKind, keys: Collection[str], *, chars_max: int) -> dict[str, Record]:
        """Return what `read` returns for each key, by key, without the keys for which that is None."""

    @abstractmethod
    def live(self, kind: RecordKind, keys: Collection[str]) -> set[str]:
        """Return the keys that have a live record, for shadowing."""

    @abstractmethod
    def page(
        self, kind: RecordKind, *, after: str, tag: str | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        """Return live records after the key `after`, in code-point order, at most `limit`, contents cut to `chars_max`.

        tag: only those with this tag; memories compare it folded. bygone: skip these, however many.
        """

    @abstractmethod
    def latest(
        self, tag: str, *, after: Record | None, limit: int, chars_max: int, bygone: Bygone = NONE_BYGONE
    ) -> list[Record]:
        """Return live memories with exactly this tag, last saved first, then by key, at most `limit`, contents cut.

        after: the last one of the page before. bygone: skip these, however many.
        """

    @abstractmethod
    def pinned(self, *, chars_max: int) -> list[Record]:
        """Return the live memories that are pinned, last saved first, then by key; contents cut to `chars_max`."""

    @abstractmethod
    def statistics(self) -> Statistics:
        """Return the number and lengths of all live memories, as indexed."""

    @abstractmethod
    def frequencies(self, terms: Collection[str]) -> Mapping[str, int]:
        """Return how many live memories hold each term, counted up to `ranking.FREQUENCY_MAX`; missing: none."""

    @abstractmethod
    def vocabulary(self, first: str, below: str, *, limit: int) -> list[str]:
        """Return words of live memories from `first` to before `below`, in code-point order, at most `limit`."""

    @abstractmethod
    def candidates(self, terms: Sequence[str]) -> Iterator[Candidate]:
        """Yield live memories that hold any of the terms, roughly best first, with the counts of each term by field.

        Raises: BudgetSpentError when a search reaches the provider's bound on its work.
        """

    @abstractmethod
    def newest(self, groups: Sequence[Sequence[str]]) -> Iterator[Candidate]:
        """Yield live memories that hold a term of each group, uncounted, newest keys first.

        Raises: as `candidates`.
        """

    @abstractmethod
    def holders(self, terms: Sequence[str], *, limit: int) -> list[str]:
        """Return the keys of live memories that hold any of the terms, at most `limit`, in no order."""

    @abstractmethod
    def index_whole(self) -> bool:
        """Return whether the index holds every live memory by this version of the text analysis."""

    @abstractmethod
    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        """Return the audit chain after sequence number `after`."""

    @abstractmethod
    def last_entry(self) -> Entry | None:
        """Return the head of the audit chain."""


class Compartment(CompartmentReader):
    """One compartment, open for writing."""

    @abstractmethod
    def transaction(self, *, durable: bool = False) -> AbstractContextManager[None]:
        """Make all the writes inside, or none. Exclude other processes and threads.

        durable: on return the writes survive power loss, for any setting of the provider.
        """

    @abstractmethod
    def put(self, draft: Draft, columns: Columns | None) -> None:
        """Store a new version and make it the live one; index it under `columns` (memories only)."""

    @abstractmethod
    def touch(self, kind: RecordKind, key: str, updated_at: datetime) -> None:
        """Note that the live record was saved again unchanged."""

    @abstractmethod
    def soft_delete(self, kind: RecordKind, key: str, deleted_at: datetime) -> None:
        """Hide the live record: it leaves the index, and stays for the audit."""

    @abstractmethod
    def append(self, event: AuditEvent) -> None:
        """Enter an event as the next entry of the audit chain."""


@dataclass(frozen=True, slots=True, order=True)
class VersionId:
    """Which version of which record, within a compartment."""

    kind: RecordKind
    key: str
    version: int


class OwnerCompartment(Compartment):
    """One compartment for owner commands and for maintenance: every version, purging, a new index.

    Never part of a view: no verb, and so no model, can reach it.
    """

    @abstractmethod
    def versions(self, kind: RecordKind, key: str) -> list[Record]:
        """Return every version kept under a key, newest first."""

    @abstractmethod
    def every_version(self) -> Iterator[tuple[Record, bool]]:
        """Yield every version of every record, and whether it is the newest under its key, in no order."""

    @abstractmethod
    def purgeable(self, before: datetime) -> list[VersionId]:
        """Return the versions that were deleted or superseded at or before a time. They never become live again.

        A version counts as superseded when the one after it was last saved.
        """

    @abstractmethod
    def purge_version(self, version: VersionId) -> Record | None:
        """Permanently remove a deleted or superseded version, and return it; None if it does not exist."""

    @abstractmethod
    def import_entry(self, entry: Entry) -> None:
        """Import an entry of a backup unchanged, with its place and hash."""

    @abstractmethod
    def import_version(self, record: Record, columns: Columns | None, *, newest: bool) -> None:
        """Import a version of a backup unchanged: live, deleted or superseded. newest: the current one of its key.

        columns: for the index; live memories only.
        """

    @abstractmethod
    def set_pinned(self, key: str, *, pinned: bool) -> None:
        """Pin a live memory, or unpin it. Only here: a session's compartment has no way to."""

    @abstractmethod
    def oldest(self, *, tag: str | None, limit: int) -> list[Record]:
        """Return live memories by their last save, oldest first; with `tag`, only those that have it."""

    @abstractmethod
    def clear_index(self) -> None:
        """Start a new, empty index for this version of the text analysis; `mark_index_complete` completes it."""

    @abstractmethod
    def index_started(self) -> bool:
        """Return whether the index was started with this version of the text analysis; it may be incomplete."""

    @abstractmethod
    def unindexed(self, *, after: str, limit: int) -> list[Record]:
        """Return live memories missing from the index, with keys after `after`, by key."""

    @abstractmethod
    def index(self, record: Record, columns: Columns) -> None:
        """Add a live memory to the index, unless it has changed or is already there."""

    @abstractmethod
    def mark_index_complete(self) -> None:
        """Mark the index as complete."""


def fresh_id() -> str:
    """Return an unguessable random string: 128 bits in hexadecimal."""
    return secrets.token_hex(16)


def not_its_own() -> StorageError:
    """Return the error for a compartment in another's place."""
    return StorageError("a file of this agent belongs elsewhere; run `tidegate doctor`")


def lost() -> StorageError:
    """Return the error for an agent with missing compartments."""
    return StorageError("the files of this agent are missing; run `tidegate doctor`")


class BudgetSpentError(Exception):
    """A search reached the bound on its work. It never leaves core."""


@dataclass(frozen=True, slots=True)
class View:
    """The compartments of one agent that can flow to one taint. visible: the session's own first, then downward."""

    visible: tuple[CompartmentReader, ...]

    def snapshot(self) -> AbstractContextManager[object]:
        """Let all the reads inside see one moment in each compartment."""
        with ExitStack() as moment:
            for compartment in reversed(self.visible):  # the lock order everywhere: lowest first
                moment.enter_context(compartment.snapshot())
            return moment.pop_all()


@dataclass(frozen=True, slots=True)
class WritableView(View):
    """A view for the verbs that write. own: the session's compartment, the first of `visible`."""

    own: Compartment


class Witness(ABC):
    """One audit chain, for the reference monitor to ask what a session's level was before it opens one (P4).

    Never part of a view, and it can read nothing else in its file: no verb, and so no model, learns of it (P5).
    """

    level: Level

    @abstractmethod
    def state_actions(self, session: str) -> Set[Action]:
        """Return the actions in `STATE_ACTIONS` that were entered for a session."""

    @abstractmethod
    def opened(self) -> Iterator[tuple[str, int]]:
        """Yield the sessions opened at this level, latest first, each with the sequence number of its entry."""

    @abstractmethod
    def heard(self, session: str, *, after: int) -> bool:
        """Return whether anything was entered for a session after a sequence number."""


class Views(ABC):
    """The gate's source of views."""

    @abstractmethod
    def view(self, agent: str, taint: Level) -> AbstractContextManager[View]:
        """Open the compartments that can flow to `taint` for reading; an agent without any gets empty ones."""

    @abstractmethod
    def writable_view(self, agent: str, taint: Level) -> AbstractContextManager[WritableView]:
        """Open the same view with the compartment at `taint` writable; an agent without compartments gets all four."""


class StorageProvider(Views):
    """The store of everything: compartments behind views, and the control store."""

    control: ControlStore
    audit_secret: bytes | None
    """The key of the audit chains (P9)."""

    @abstractmethod
    def witnesses(self, agent: str) -> AbstractContextManager[Sequence[Witness]]:
        """Open the chains of an agent, only to open sessions: all four, or none if it has no compartments.

        Raises: StorageError, always in the same words, when one cannot be read.
        """

    @abstractmethod
    def make_with_ids(self, agent: str, ids: Mapping[Level, str]) -> bool:
        """Make an agent's compartments under the ids of a backup, to which its chains are bound (P9).

        Unused existing ones are replaced. Return False and change nothing if a used one has another id.
        Raises: StorageError; then it can be run again.
        """

    @abstractmethod
    def owner_compartment(self, agent: str, level: Level) -> AbstractContextManager[OwnerCompartment]:
        """Open one compartment of an agent that has compartments, for owner commands and for maintenance."""

    def freeing(self) -> AbstractContextManager[None]:
        """Let the work inside use the reserved disk space, because it frees more."""
        return nullcontext()

    @abstractmethod
    def compact(self, agent: str, level: Level) -> bool:
        """Remove every trace of purged text from the files. False if readers were in the way: run it again."""

    @abstractmethod
    def erase(self, agent: str, *, dry_run: bool) -> list[Level]:
        """Remove all compartments of an agent, in any state, and return their levels.

        Whoever has them open fails from then on. Raises: StorageError when others are in the way; run it again.
        """

    def owns_path(self, _path: Path) -> bool:
        """Return whether a path leads, under any name, to a file or folder of the provider."""
        return False

    @abstractmethod
    def erase_unused(self, agent: str) -> None:
        """Remove the compartments of an agent that nothing was ever stored for.

        The caller is in a transaction of each, and knows that it is empty. Raises: StorageError.
        """

    @abstractmethod
    def has(self, agent: str) -> bool:
        """Return whether this agent has compartments. It asks nothing about others (P6). Raises: StorageError."""

    @abstractmethod
    def agents(self) -> list[str]:
        """Return the agents that have compartments, in order."""

    @abstractmethod
    def close(self) -> None:
        """Close every file and connection. Acknowledged writes stay."""
