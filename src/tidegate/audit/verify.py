"""Verification: whether an audit chain is intact, reaches its anchors, and accounts for all stored records (P9)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, islice
from typing import NamedTuple, Protocol

from tidegate.audit.anchors import Anchor
from tidegate.audit.chain import GENESIS, PINNED, Action, Entry, Place, commitment_of, is_made_with, is_placed
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.record import Record, RecordKind

_SET_KEY = "Set `audit.key_file` in config.toml again, to the key of this chain."
_GIVE_ANCHOR = (
    "If these entries are yours, save the output of `tidegate audit anchor` now, and give it with --anchor FILE "
    "from then on."
)
_BEFORE_ALL = -(2**62)  # so that an entry inserted before the first is seen
_VERSION = re.compile(r"version ([0-9]{1,18})\b")
_CHANGED = "the entry was changed, or written with another key or in another place"
_NO_KEY = "the entries from here on need a key, but none is configured (or they were changed, or come from elsewhere)"
_NOT_KEYED = "the entry was written without the key, after entries that were written with it"
PROBLEMS_MAX = 100
"""The maximum number of problems reported for one compartment."""


@dataclass(frozen=True, slots=True)
class ChainProblem(JsonObject):
    """A contradiction in or to the chain. sequence: the first entry concerned. key: of the memory concerned.

    advice: what to do, if a setting may be the cause.
    """

    text: str
    sequence: int | None = None
    key: str | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class ChainVerdict(JsonObject):
    """The proof from a chain.

    entries: how many are intact, from the first on. head: the hash of the last of them.
    keyed_from: the first keyed entry, or None.
    anchored_to: the highest anchor reached, or None; beyond it, entries cut from the end and a rewritten unkeyed chain
    go unseen.
    """

    level: Level
    entries: int
    head: str
    keyed_from: int | None
    anchored_to: int | None
    problems: tuple[ChainProblem, ...]

    @property
    def holds(self) -> bool:
        """Return whether no problem was found."""
        return not self.problems


class ChainSource(Protocol):
    """A source of a chain and its records: a compartment, or a backup of one. The entries are read first."""

    @property
    def place(self) -> Place: ...
    def snapshot(self) -> AbstractContextManager[None]: ...
    def entries(self, *, after: int = 0) -> Iterator[Entry]: ...
    def every_version(self) -> Iterator[tuple[Record, bool]]: ...


def verify(
    source: ChainSource, secret: bytes | None, anchors: Sequence[Anchor], *, sealed: bool = False
) -> ChainVerdict:
    """Check the chain of one compartment at one moment, and return the proof.

    anchors: of that compartment. sealed: the source is sealed with the same secret, which vouches for entries that were
    written before there was a secret.
    """
    walk = _Walk(secret, source.place, {})
    for anchor in anchors:
        walk.anchors.setdefault(anchor.sequence, set()).add(anchor.hash)
    with source.snapshot():
        problem = walk.follow(source.entries(after=_BEFORE_ALL))
        rest = chain(walk.unmet_anchors(), _unexplained(source, walk.told))
        problems = [problem] if problem else list(islice(rest, PROBLEMS_MAX))  # bounded, whatever the file holds
        if not sealed:
            problems[:0] = walk.unkeyed()
    return ChainVerdict(
        source.place.level,
        walk.sequence,
        walk.head,
        walk.keyed_from,
        walk.anchored_to,
        tuple(problems[:PROBLEMS_MAX]),
    )


@dataclass(slots=True)
class _Walk:
    """A walk along a chain while it is intact, and the findings on the way."""

    secret: bytes | None
    place: Place
    anchors: dict[int, set[str]]
    last: Entry | None = None
    keyed_from: int | None = None
    placed: bool = False
    plain_to: int = 0
    told: dict[bytes, _Told] = field(default_factory=dict)

    @property
    def sequence(self) -> int:
        return self.last.sequence if self.last else 0

    @property
    def head(self) -> str:
        return self.last.hash if self.last else GENESIS

    @property
    def anchored_to(self) -> int | None:
        return max((each for each in self.anchors if each <= self.sequence), default=None)

    def follow(self, entries: Iterable[Entry]) -> ChainProblem | None:
        """Walk to the end, or to the first flaw."""
        coming = iter(entries)
        try:
            for entry in coming:
                flaw = self._flaw(entry)
                if flaw == _CHANGED and self.secret is None and not any(map(self._is_plain, coming)):
                    return ChainProblem(_NO_KEY, self.sequence + 1, advice=_SET_KEY)
                if flaw:
                    return ChainProblem(flaw, self.sequence + 1)
                self._take(entry)
        except (ValueError, StorageError):  # not even text
            return ChainProblem("the entry was changed", self.sequence + 1)
        return None

    def unmet_anchors(self) -> Iterator[ChainProblem]:
        """Yield a problem if anchors are beyond the end: the rest was cut off."""
        beyond = [sequence for sequence in self.anchors if sequence > self.sequence]
        if beyond:
            text = f"the chain ends here, but was anchored at {max(beyond)}: the entries in between were cut off"
            yield ChainProblem(text, self.sequence + 1)

    def unkeyed(self) -> Iterator[ChainProblem]:
        """Yield a problem if entries after the last anchor are not keyed though there is a key: they may be forged."""
        anchored_to = self.anchored_to or 0
        if self.plain_to > anchored_to:
            text = f"from here up to {self.plain_to} no entry is keyed: whoever can write the file could have made them"
            yield ChainProblem(text, anchored_to + 1, advice=_GIVE_ANCHOR)

    def _flaw(self, entry: Entry) -> str:
        if entry.sequence > self.sequence + 1:
            return "the entry is missing"
        if entry.sequence < self.sequence + 1 or entry.previous != self.head:
            return "the entry does not follow the one before it: one of them was changed, moved or inserted"
        if not self._is_genuine(entry):
            return _NOT_KEYED if self.secret and self._is_plain(entry) else _CHANGED
        if entry.hash not in self.anchors.get(entry.sequence, {entry.hash}):
            return "the entry differs from the anchored one: the chain was rebuilt"
        return ""

    def _is_genuine(self, entry: Entry) -> bool:
        if self._is_made_with(self.secret, entry):
            if self.secret and self.keyed_from is None:
                self.keyed_from = entry.sequence
            return True
        # A chain that began before there was a key is plain up to that point, and never after it.
        plain = self.secret is not None and self.keyed_from is None
        return plain and self._is_made_with(None, entry)

    def _is_made_with(self, secret: bytes | None, entry: Entry) -> bool:
        if self.place.id and is_made_with(secret, entry, self.place):  # only a backup may lack an id
            self.placed = True
            return True
        # A chain that began before entries named their place names none up to that point, and always after it.
        return not self.placed and is_made_with(secret, entry, None)

    def _is_plain(self, entry: Entry) -> bool:
        return is_made_with(None, entry, self.place) or is_made_with(None, entry, None)

    def _take(self, entry: Entry) -> None:
        self.last = entry
        if self.secret and self.keyed_from is None:
            self.plain_to = entry.sequence
        event = entry.event
        if event.commitment:
            expected = _EXPECTED.get(event.action, _Expected.LIVE)
            version = _VERSION.match(event.detail)
            number = int(version[1]) if version else 0  # 0: it names none
            pinned = event.detail.endswith(f" {PINNED}")
            self.told[_short(event.commitment)] = _Told(entry.sequence, number, expected, pinned)


class _Expected(IntEnum):
    """The state of a version according to the last entry about it."""

    LIVE = 0  # or superseded
    HIDDEN = 1
    GONE = 2


class _Told(NamedTuple):
    """The last entry about a version, small enough to keep a million in memory."""

    sequence: int
    number: int
    expected: _Expected
    pinned: bool


_EXPECTED = {Action.DELETE: _Expected.HIDDEN, Action.EXPIRE: _Expected.HIDDEN, Action.PURGE: _Expected.GONE}
_CONTRADICTIONS = {
    (_Expected.LIVE, False): "a version is hidden, but no entry says that it was deleted",
    (_Expected.HIDDEN, True): "a version is live again, but no entry says that it was restored",
    (_Expected.GONE, True): "a purged version is back",
    (_Expected.GONE, False): "a purged version is back",
}

_PINNED = "a memory is pinned, but no entry says so"
_NOT_PINNED = "a memory is no longer pinned, but no entry says so"


def _unexplained(source: ChainSource, told: dict[bytes, _Told]) -> Iterator[ChainProblem]:
    """Yield each change without an entry: every stored version must match the last entry about it."""
    places = _Places()
    try:
        for record, newest in source.every_version():
            yield from places.take(record, newest)
            commitment = _short(commitment_of(record, source.place))
            found = told.get(commitment) if source.place.id or not is_placed(record) else None
            if found is None or found.number != record.version:
                yield ChainProblem(f"version {record.version} was changed or inserted without an entry", key=record.key)
                continue
            del told[commitment]  # each occurs once
            if (found.expected, record.live) in _CONTRADICTIONS:
                yield ChainProblem(_CONTRADICTIONS[found.expected, record.live], found.sequence, record.key)
            elif newest and record.live and record.pinned != found.pinned:
                yield ChainProblem(_NOT_PINNED if found.pinned else _PINNED, found.sequence, record.key)
    except StorageError:
        yield ChainProblem("a record cannot be read: it was damaged or changed")
        return
    yield from places.wrong()
    for each in told.values():
        if each.expected is not _Expected.GONE:
            yield ChainProblem("the version of this entry no longer exists, but was not purged", each.sequence)


@dataclass(slots=True)
class _Places:
    """The newest version under each key, and the latest that it replaced: the newest must be the later one."""

    newest: dict[tuple[RecordKind, str], int] = field(default_factory=dict)
    replaced: dict[tuple[RecordKind, str], int] = field(default_factory=dict)

    def take(self, record: Record, newest: bool) -> Iterator[ChainProblem]:
        name = (record.kind, record.key)
        if not newest:
            self.replaced[name] = max(record.version, self.replaced.get(name, 0))
        elif self.newest.setdefault(name, record.version) != record.version:
            yield ChainProblem("one key has two current versions", key=record.key)

    def wrong(self) -> Iterator[ChainProblem]:
        for name, number in self.replaced.items():
            if self.newest.get(name, 0) <= number:
                yield ChainProblem(f"version {number} is hidden, but no later one replaced it", key=name[1])


def _short(commitment: str) -> bytes:
    """Return half a hash: enough to distinguish versions, and small enough to keep a million in memory."""
    return bytes.fromhex(commitment)[:16] if len(commitment) == 64 else commitment.encode()
