"""The audit chain: each entry hashes the one before, and commits to contents without revealing them (P9)."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.record import Draft

GENESIS = "0" * 64

# JSON makes the boundaries between fields unambiguous; ASCII keeps it free of encoding questions.
_write_json = json.JSONEncoder(separators=(",", ":")).encode

_WHOLE = "2."
"""The prefix of nonces whose commitments also cover kind, number and origin. Older nonces are hexadecimal digits."""
_PLACED = "3."
"""The prefix of nonces whose commitments cover all that, and the place."""

PINNED = "pinned"
"""The last word of an entry about a pinned version."""

OWNER = ""
"""The session of an event outside any session: an owner command, or maintenance."""


class Action(StrEnum):
    """The kind of event that an entry records."""

    SAVE = "save"
    DELETE = "delete"
    RAISE = "raise"
    REFUSE = "refuse"
    ATTEMPT = "attempt"  # a model sent an argument that tries to choose a level
    OPEN = "open"
    CEILING = "ceiling"
    RESET = "reset"
    RENEW = "renew"  # a session that has ended gave its name to a later one
    READ = "read"
    CALL = "call"  # a foreign server's tool
    RESTORE = "restore"
    RELABEL = "relabel"
    PIN = "pin"
    UNPIN = "unpin"
    IMPORT = "import"
    EXPIRE = "expire"
    PURGE = "purge"  # one version permanently removed: only the commitment to its text remains
    REINDEX = "reindex"
    UNKNOWN = "unknown"  # any other stored word; never written

    @classmethod
    def _missing_(cls, value: object) -> Action:
        return cls.UNKNOWN  # the changed word has broken the chain there, and `verify` must be able to say so


STATE_ACTIONS = frozenset({Action.OPEN, Action.RAISE, Action.CALL, Action.RESET})
"""The actions that show a session's state: the first three, that it was at the chain's level; the last, its end."""


@dataclass(frozen=True, slots=True)
class Place:
    """The compartment of a chain: its agent, its level, and which of all compartments that ever had these.

    id: random; a compartment gets it when it is created, and no other ever has it.
    """

    agent: str
    level: Level
    id: str

    @property
    def fields(self) -> list[object]:
        """Return the values that hashes and commitments cover."""
        return [self.agent, self.level.name, self.id]


@dataclass(frozen=True, slots=True)
class AuditEvent(JsonObject):
    """An event, before it has a place in a chain.

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
class Entry(JsonObject):
    """An event in its chain: `sequence` counts from 1, `hash` covers all other fields and the chain's place."""

    sequence: int
    event: AuditEvent
    previous: str
    hash: str


def nonce_of(random: str) -> str:
    """Return the nonce of a new version.

    It names what the commitment covers, and is itself part of the commitment, so that cannot be reduced.
    """
    return _PLACED + random


def is_placed(version: Draft) -> bool:
    """Return whether the version's commitment covers the place."""
    return version.nonce.startswith(_PLACED)


def commitment_of(version: Draft, place: Place) -> str:
    """Return the commitment to a version, except its times, and to its place (P9).

    Once nonce and text are gone, it reveals nothing.
    """
    fields: list[object] = [version.nonce, version.key, version.content, list(version.tags)]
    if version.nonce.startswith((_WHOLE, _PLACED)):
        fields += [version.kind, version.version, version.origin]
    if is_placed(version):
        fields += place.fields
    return _digest(fields, None)


def version_event(
    place: Place, at: datetime, session: str, action: Action, version: Draft, status: str = ""
) -> AuditEvent:
    """Return the event about one version in a place. session: as in `AuditEvent`. status: goes into the detail.

    The detail ends in PINNED if the version is pinned: the last entry about a live version says whether it is (P9).
    """
    detail = " ".join(filter(None, (f"version {version.version}", status, PINNED if version.pinned else "")))
    return AuditEvent(at, session, action, detail, commitment_of(version, place))


def chain(event: AuditEvent, last: Entry | None, place: Place | None, secret: bytes | None = None) -> Entry:
    """Return the entry that follows `last` in the chain of a place; keyed (HMAC) when there is a secret.

    place: None: the older form without a place, which is no longer written.
    """
    sequence = last.sequence + 1 if last else 1
    previous = last.hash if last else GENESIS
    return Entry(sequence, event, previous, _hash(sequence, event, previous, place, secret))


class Pen:
    """Makes the entries of one chain, each after the last. secret: the key; None without one."""

    def __init__(self, place: Place, secret: bytes | None) -> None:
        self._place = place
        self._secret = secret
        self._own = ""  # the hash of the last entry it made

    def write(self, event: AuditEvent, last: Entry | None) -> Entry:
        """Return the next entry. Raises: StorageError when the chain is written with another key.

        Otherwise one save while the key is not configured would break the chain permanently (P9).
        """
        if last is not None and last.hash != self._own:  # another writer's; its own need no second check
            _require_same_key(last, self._place, self._secret)
        entry = chain(event, last, self._place, self._secret)
        self._own = entry.hash
        return entry


def is_made_with(secret: bytes | None, entry: Entry, place: Place | None) -> bool:
    """Return whether this key and place give the entry's hash. None: no key, or no place."""
    found = _hash(entry.sequence, entry.event, entry.previous, place, secret)
    return hmac.compare_digest(entry.hash.encode(), found.encode())


def _require_same_key(last: Entry, place: Place, secret: bytes | None) -> None:
    keys = {secret, None} if secret else {None}  # a key may be added, but never removed
    if any(is_made_with(key, last, where) for key in keys for where in (place, None)):
        return
    # This looks the same as an entry that was changed, or that comes from another place.
    if secret:
        raise StorageError("audit.key_file: this chain uses another key; set that key, or run `tidegate doctor`")
    raise StorageError("audit.key_file: is not set, but this chain is keyed; set it again, or run `tidegate doctor`")


def _hash(sequence: int, event: AuditEvent, previous: str, place: Place | None, secret: bytes | None) -> str:
    at = event.at.astimezone(UTC).isoformat()  # the same as when read back, in whichever zone the clock gave it
    fields = [sequence, at, event.session, event.action, event.detail, event.commitment, previous]
    return _digest([*fields, *(place.fields if place else ())], secret)


def _digest(fields: list[object], secret: bytes | None) -> str:
    data = _write_json(fields).encode("ascii")
    return (hmac.new(secret, data, hashlib.sha256) if secret else hashlib.sha256(data)).hexdigest()
