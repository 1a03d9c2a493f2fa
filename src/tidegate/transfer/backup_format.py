"""The lines of a backup: everything of one agent, at every level, in a form independent of storage providers.

A heading; the sessions; for each level its audit chain and then every version of every record, in order; and an end
that counts them and holds a digest of all the lines before it.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.audit.chain import OWNER, Action, AuditEvent, Entry, Place
from tidegate.errors import InvalidArgument, LimitExceeded
from tidegate.policy.levels import Level
from tidegate.records.fields import Fields, unfit
from tidegate.records.jsonl import NotJsonError, read_flat
from tidegate.records.limits import PINNED_MAX, Limits
from tidegate.records.record import Origin, Record, RecordKind
from tidegate.records.times import write_timestamp
from tidegate.records.validation import check_agent
from tidegate.transfer.restorable import RestoreBounds, check_name, check_parents, check_record

FORMAT = "tidegate-backup"
VERSION = 3
_UNPLACED = 1  # the version before chains were bound to a compartment
_UNPINNED = 2  # the last one in which no memory could be pinned

_HASH, _HASH_OR_NONE = re.compile("[0-9a-f]{64}"), re.compile("([0-9a-f]{64})?")
_ID = re.compile(r"(\w.*)?")  # a mark that a store writes before an id is not part of it
_ACTIONS = frozenset(Action) - {Action.UNKNOWN}
_DETAIL_CHARS_MAX = 4096


class DamagedBackupError(Exception):
    """A file is not an intact backup; the message says what is wrong, without any content of the file."""


@dataclass(frozen=True, slots=True)
class BackedUpSession:
    """A named session, as the control store holds it."""

    id: str
    name: str
    taint: Level
    ceiling: Level
    parent: str | None
    ended: bool


@dataclass(frozen=True, slots=True)
class BackedUpVersion:
    """A version of a record. newest: it is the current one under its key; the others are superseded."""

    record: Record
    newest: bool


Part = BackedUpSession | Level | Entry | BackedUpVersion
"""A level comes before its entries and, after them, its versions."""


@dataclass(slots=True)
class BackupSummary:
    """What a backup holds. heads: the last entry of each level's chain. ids: of the compartments that they are
    bound to; empty in a backup of format version 1."""

    agent: str = ""
    sessions: int = 0
    entries: int = 0
    versions: int = 0
    heads: dict[Level, Entry | None] = field(default_factory=dict)
    ids: dict[Level, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {"sessions": self.sessions, "entries": self.entries, "versions": self.versions}


def heading(agent: str, at: datetime) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "agent": agent, "created_at": write_timestamp(at)}


def session_line(session: BackedUpSession) -> dict[str, Any]:
    fields = {name: getattr(session, name) for name in BackedUpSession.__slots__}
    return {"session": {**fields, "taint": session.taint.name, "ceiling": session.ceiling.name}}


def level_line(place: Place) -> dict[str, Any]:
    return {"level": place.level.name, "id": place.id}


def entry_line(entry: Entry) -> dict[str, Any]:
    event = {name: getattr(entry.event, name) for name in AuditEvent.__slots__}
    fields = {"sequence": entry.sequence, **event, "at": write_timestamp(entry.event.at)}
    return {"entry": {**fields, "previous": entry.previous, "hash": entry.hash}}


def version_line(record: Record, *, newest: bool) -> dict[str, Any]:
    times = {name: getattr(record, name) for name in ("created_at", "updated_at", "deleted_at")}
    return {
        "newest": newest,
        "record": {
            "kind": record.kind,
            "key": record.key,
            "content": record.content,
            "tags": list(record.tags),
            "origin": record.origin,
            "version": record.version,
            "nonce": record.nonce,
            **{name: time and write_timestamp(time) for name, time in times.items()},
            **({"pinned": True} if record.pinned else {}),
        },
    }


def end_line(counts: Mapping[str, int], seal: Seal) -> dict[str, Any]:
    return {"end": dict(counts), "keyed": seal.keyed, "seal": seal.hexdigest()}


class Seal:
    """A digest of all lines before the end; keyed if the audit chains are: then only a key holder can make it."""

    def __init__(self, secret: bytes | None) -> None:
        self.keyed = secret is not None
        self._digest = hashlib.sha256() if secret is None else hmac.new(secret, digestmod=hashlib.sha256)

    def update(self, line: bytes) -> None:
        self._digest.update(line)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class BackupReader:
    """Reads the lines of a backup and trusts none of them: it checks form, order, counts and digest, and that each part
    could have been stored.

    Iterate to the end: the counts and the digest are checked last. `verify` checks that the chains hold and match the
    versions, since anyone who changes the file can compute a digest without a key. Raises: DamagedBackupError.
    """

    def __init__(self, lines: Iterable[bytes], secret: bytes | None, bounds: RestoreBounds) -> None:
        self.summary = BackupSummary()
        self._bounds = bounds
        self._parents: dict[str, str | None] = {}
        self._names: set[str] = set()
        self._lines = lines
        self._seal = Seal(secret)
        self._version: object = None
        self._level: Level | None = None
        self._last: BackedUpVersion | None = None
        self._pinned = 0  # at this level

    def __iter__(self) -> Iterator[Part]:
        ended = False
        for number, line in enumerate(self._lines, 1):
            if ended:
                raise DamagedBackupError("has lines after its end; use another backup")
            try:
                value = Fields("line", read_flat(line.decode(), self._bounds.marks_max))
                part = self._part(number, value)
            except (InvalidArgument, LimitExceeded) as error:
                raise DamagedBackupError(f"line {number}: {error.message}") from None
            except (NotJsonError, UnicodeError):
                raise DamagedBackupError(f"line {number} is not a line of a backup") from None
            ended = value.has("end")
            self._seal.update(line)
            if part is not None:
                yield part
        if not ended:
            raise DamagedBackupError("is truncated; use another backup")

    def _part(self, number: int, value: Fields) -> Part | None:
        if number == 1 or value.has("end"):
            (self._begin if number == 1 else self._end)(value)
            return None
        if value.has("level"):
            return self._enter(value.level("level"), value)
        if value.has("session") and self._level is None:
            return self._session(value.within("session"))
        if self._level is None:
            raise DamagedBackupError("its levels are out of order")
        return self._entry(value.within("entry")) if value.has("entry") else self._kept(value, self._level)

    def _begin(self, value: Fields) -> None:
        if not value.has("format") or value.value("format") != FORMAT:
            raise DamagedBackupError("is not a backup")
        self._version = value.value("version")
        if self._version not in (_UNPLACED, _UNPINNED, VERSION):
            raise DamagedBackupError("was written by a newer version of Tidegate; upgrade to restore it")
        value.time("created_at")
        self.summary.agent = check_agent(value.value("agent"))

    def _session(self, fields: Fields) -> BackedUpSession:
        session = _session(fields, self._bounds.limits)
        if self.summary.sessions >= self._bounds.sessions_max:
            raise DamagedBackupError("has more sessions than its size allows; use another backup")
        if session.id in self._parents or session.name in self._names:
            raise DamagedBackupError("has the same session twice")
        self._parents[session.id] = session.parent
        self._names.add(session.name)
        self.summary.sessions += 1
        return session

    def _enter(self, level: Level, value: Fields) -> Level:
        if self._level is None:
            self._check_parents()
        if level != len(self.summary.heads):
            raise DamagedBackupError("its levels are out of order")
        self._level, self._last, self._pinned = level, None, 0
        self.summary.heads[level] = None
        if self._version != _UNPLACED:
            self.summary.ids[level] = check_name(value.text("id", _ID), Limits(), "id")
        return level

    def _check_parents(self) -> None:
        try:
            check_parents(self._parents)
        except ValueError:
            raise DamagedBackupError("has a session that is its own ancestor, or is nested too deep") from None

    def _entry(self, fields: Fields) -> Entry:
        level = self._level
        if self._last is not None or level is None:
            raise DamagedBackupError(f"the entries of {level} are out of order")
        entry = _entry(fields, self._bounds.number_max)
        self.summary.heads[level] = entry
        self.summary.entries += 1
        return entry

    def _kept(self, value: Fields, level: Level) -> BackedUpVersion:
        record = _record(value.within("record"), self.summary.agent, level, self._bounds.number_max)
        version = BackedUpVersion(record, value.flag("newest"))
        check_record(record, self._bounds)
        if record.pinned:
            self._check_pin(version)
        if self._last is not None and not _follows(version, self._last):
            raise DamagedBackupError(f"the records of {level} are out of order")
        self._last = version
        self.summary.versions += 1
        return version

    def _check_pin(self, version: BackedUpVersion) -> None:
        """Check that the memory could have been pinned (P17). Raises: InvalidArgument."""
        record = version.record
        self._pinned += 1
        live = version.newest and record.live and record.kind is RecordKind.MEMORY
        if not live or self._pinned > PINNED_MAX or self._version in (_UNPLACED, _UNPINNED):
            raise unfit("pinned", "could not have been stored")

    def _end(self, value: Fields) -> None:
        if len(self.summary.heads) != len(Level) or value.value("end") != self.summary.counts():
            raise DamagedBackupError("is incomplete; use another backup")
        if value.value("keyed") is not self._seal.keyed:
            raise DamagedBackupError("was made with another audit key, or without one; check audit.key_file")
        if not hmac.compare_digest(value.text("seal").encode(), self._seal.hexdigest().encode()):
            raise DamagedBackupError("was changed, or was made with another audit key")


def _follows(version: BackedUpVersion, last: BackedUpVersion) -> bool:
    """Return whether two versions are in order: by kind, key and number, each once; none of a key after its newest."""
    (key, number), (last_key, last_number) = (
        ((str(each.record.kind), each.record.key), each.record.version) for each in (version, last)
    )
    return key > last_key or (key == last_key and number > last_number and not last.newest)


def _session(fields: Fields, limits: Limits) -> BackedUpSession:
    parent, taint, ceiling = fields.value("parent"), fields.level("taint"), fields.level("ceiling")
    if not taint.can_flow_to(ceiling):
        raise unfit("ceiling", "is below the taint")
    return BackedUpSession(
        id=check_name(fields.text("id"), Limits(), "id"),
        name=check_name(fields.text("name"), limits, "name"),
        taint=taint,
        ceiling=ceiling,
        parent=None if parent is None else check_name(parent, Limits(), "parent"),
        ended=fields.flag("ended"),
    )


def _entry(fields: Fields, number_max: int) -> Entry:
    session, detail = fields.text("session"), fields.text("detail")  # detail may come from outside: shown escaped
    if len(detail) > _DETAIL_CHARS_MAX:
        raise unfit("detail", "is too long")
    event = AuditEvent(
        at=fields.time("at"),
        session=check_name(session, Limits(), "session") if session != OWNER else OWNER,
        action=Action(fields.word("action", _ACTIONS)),
        detail=detail,
        commitment=fields.text("commitment", _HASH_OR_NONE),
    )
    previous, digest = fields.text("previous", _HASH), fields.text("hash", _HASH)
    return Entry(fields.count("sequence", number_max), event, previous, digest)


def _record(fields: Fields, agent: str, level: Level, number_max: int) -> Record:
    return Record(
        kind=RecordKind(fields.word("kind", tuple(RecordKind))),
        key=fields.text("key"),
        content=fields.text("content"),
        tags=fields.texts("tags"),
        origin=Origin(fields.word("origin", tuple(Origin))),
        version=fields.count("version", number_max),
        nonce=fields.text("nonce"),
        created_at=fields.time("created_at"),
        updated_at=fields.time("updated_at"),
        agent=agent,
        level=level,
        deleted_at=None if fields.value("deleted_at") is None else fields.time("deleted_at"),
        pinned=fields.has("pinned") and fields.flag("pinned"),
    )
