"""The audit chain: entries that each hash over the one before, and commit to contents without revealing them (P9)."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from tidegate.domain.record import Draft
from tidegate.errors import StorageError

GENESIS = "0" * 64

# JSON makes the boundaries between fields unambiguous; ASCII keeps it free of encoding questions.
_write_json = json.JSONEncoder(separators=(",", ":")).encode

_WHOLE = "2."
"""How nonces begin whose commitments cover kind, number and origin as well. Those before it were hexadecimal digits."""

OWNER = ""
"""Stands in an event where a session would: for an act of the owner, or of the upkeep, outside any."""


class Action(StrEnum):
    """What an entry records."""

    SAVE = "save"
    DELETE = "delete"
    RAISE = "raise"
    REFUSE = "refuse"
    ATTEMPT = "attempt"  # a model sent an argument that tries to choose a level
    OPEN = "open"
    CEILING = "ceiling"
    RESET = "reset"
    READ = "read"
    CALL = "call"  # of a foreign server's tool
    RESTORE = "restore"
    RELABEL = "relabel"
    IMPORT = "import"
    EXPIRE = "expire"
    PURGE = "purge"  # one version really removed: of its text, the commitment is what remains
    REINDEX = "reindex"
    UNKNOWN = "unknown"  # stands for a stored word that is none of these; never written

    @classmethod
    def _missing_(cls, value: object) -> Action:
        return cls.UNKNOWN  # whoever changed the word has broken the chain there, and `verify` must be able to say so


STANDINGS = frozenset({Action.OPEN, Action.RAISE, Action.CALL, Action.RESET})
"""What says where a session stood: the first three, that it stood at the chain's level; the last, that it ended."""


@dataclass(frozen=True, slots=True)
class Event:
    """What happened, before it has a place in a chain.

    session: the session's id, or OWNER.
    detail: names only (a rule, levels, argument names, a status); never a key, content, tag or query (P12).
    commitment: to the version concerned, or "".
    """

    at: datetime
    session: str
    action: Action
    detail: str = ""
    commitment: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """An event in its place: `sequence` counts from 1 in each compartment, `hash` covers all else and `previous`."""

    sequence: int
    event: Event
    previous: str
    hash: str


def nonce_of(random: str) -> str:
    """The nonce of a new version. It says what the commitment covers, and lies in it: nobody can make that less."""
    return _WHOLE + random


def commitment_of(version: Draft) -> str:
    """The commitment to all of a version but its times; it reveals nothing once nonce and text are gone."""
    fields: list[object] = [version.nonce, version.key, version.content, list(version.tags)]
    if version.nonce.startswith(_WHOLE):
        fields += [version.kind, version.version, version.origin]
    return _digest(fields, None)


def version_event(at: datetime, session: str, action: Action, version: Draft, status: str = "") -> Event:
    """What happened to one version. session, status: as in `Event`; status is a part of the detail."""
    return Event(at, session, action, f"version {version.version} {status}".rstrip(), commitment_of(version))


def chain(event: Event, last: Entry | None, secret: bytes | None = None) -> Entry:
    """The entry that follows `last`; keyed (HMAC) when there is a secret."""
    sequence = last.sequence + 1 if last else 1
    previous = last.hash if last else GENESIS
    return Entry(sequence, event, previous, _hash(sequence, event, previous, secret))


class Pen:
    """Makes the entries of one chain, each after the last. secret: the key; None without one."""

    def __init__(self, secret: bytes | None) -> None:
        self._secret = secret
        self._own = ""  # the hash of what it made last

    def write(self, event: Event, last: Entry | None) -> Entry:
        """The entry that follows. Raises: StorageError when the chain is kept with a key that this is not.

        Without that, one save while the key is not configured would break the chain for good (P9).
        """
        if last is not None and last.hash != self._own:  # another's: its own need no second look
            _require_same_key(last, self._secret)
        entry = chain(event, last, self._secret)
        self._own = entry.hash
        return entry


def is_made_with(secret: bytes | None, entry: Entry) -> bool:
    """Whether an entry's hash is the one that this key gives; None: the one that is made without a key."""
    found = _hash(entry.sequence, entry.event, entry.previous, secret)
    return hmac.compare_digest(entry.hash.encode(), found.encode())


def _require_same_key(last: Entry, secret: bytes | None) -> None:
    if is_made_with(secret, last) or (secret and is_made_with(None, last)):  # a key may be added, and never taken away
        return
    # Nothing tells it from an entry that was changed.
    if secret:
        raise StorageError("audit.key_file: this chain is kept with another key: set that; or run `tidegate doctor`")
    raise StorageError("this chain is keyed, and audit.key_file is not set: set it again; or run `tidegate doctor`")


def _hash(sequence: int, event: Event, previous: str, secret: bytes | None) -> str:
    at = event.at.astimezone(UTC).isoformat()  # as it is read back, in whatever zone the clock gave it
    fields = [sequence, at, event.session, event.action, event.detail, event.commitment, previous]
    return _digest(fields, secret)


def _digest(fields: list[object], secret: bytes | None) -> str:
    data = _write_json(fields).encode("ascii")
    return (hmac.new(secret, data, hashlib.sha256) if secret else hashlib.sha256(data)).hexdigest()
