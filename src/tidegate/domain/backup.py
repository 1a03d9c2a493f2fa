"""The lines of a backup: everything of one agent, at every level, in a form that no storage provider owns.

A heading; the sessions; for each level its audit chain and then every version of every record, in order; and an end
that counts them and holds a digest of all the lines before it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tidegate.domain.arguments import check_key
from tidegate.domain.audit import Action, Entry, Event, Place
from tidegate.domain.jsonlines import NotJsonError, read_object
from tidegate.domain.limits import Limits
from tidegate.domain.moment import NotATimeError, read_time, write_time
from tidegate.domain.record import Kind, Origin, Record
from tidegate.domain.restorable import COUNT_MAX, check_parents, check_record
from tidegate.errors import InvalidArgument, LimitExceeded, StorageError
from tidegate.policy.levels import Level, read_label

FORMAT = "tidegate-backup"
VERSION = 2
_UNPLACED = 1  # the version before chains were bound to a compartment


class DamagedBackupError(Exception):
    """A file is not a backup as it was written; the message says what is wrong, and carries nothing of it."""


@dataclass(frozen=True, slots=True)
class Session:
    """A named session, as the control store holds it."""

    id: str
    name: str
    taint: Level
    ceiling: Level
    parent: str | None
    ended: bool


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a record. newest: it is the one under its key; the others were superseded."""

    record: Record
    newest: bool


Part = Session | Level | Entry | Version
"""A level stands before its entries and, after them, its versions."""


@dataclass(slots=True)
class Summary:
    """What a backup holds. heads: the last entry of each level's chain. ids: of the compartments that they are
    bound to; none in a backup of the first version."""

    agent: str = ""
    sessions: int = 0
    entries: int = 0
    versions: int = 0
    heads: dict[Level, Entry | None] = field(default_factory=dict)
    ids: dict[Level, str] = field(default_factory=dict)

    def counts(self) -> dict[str, int]:
        return {"sessions": self.sessions, "entries": self.entries, "versions": self.versions}


def heading(agent: str, at: datetime) -> dict[str, Any]:
    return {"format": FORMAT, "version": VERSION, "agent": agent, "created_at": write_time(at)}


def session_line(session: Session) -> dict[str, Any]:
    fields = {name: getattr(session, name) for name in Session.__slots__}
    return {"session": {**fields, "taint": session.taint.name, "ceiling": session.ceiling.name}}


def level_line(place: Place) -> dict[str, Any]:
    return {"level": place.level.name, "id": place.id}


def entry_line(entry: Entry) -> dict[str, Any]:
    event = {name: getattr(entry.event, name) for name in Event.__slots__}
    fields = {"sequence": entry.sequence, **event, "at": write_time(entry.event.at)}
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
            **{name: time and write_time(time) for name, time in times.items()},
        },
    }


def end_line(counts: Mapping[str, int], seal: Seal) -> dict[str, Any]:
    return {"end": dict(counts), "keyed": seal.keyed, "seal": seal.hexdigest()}


class Seal:
    """A digest of all lines before the end; keyed, where the audit chains are, so that it cannot be made anew."""

    def __init__(self, secret: bytes | None) -> None:
        self.keyed = secret is not None
        self._digest = hashlib.sha256() if secret is None else hmac.new(secret, digestmod=hashlib.sha256)

    def update(self, line: bytes) -> None:
        self._digest.update(line)

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


class Reader:
    """Reads the lines of a backup, and believes none of them: form, order, counts and digest are checked here, and that
    each part is one that can have been stored. limits: of memories and names.

    Iterate to the end: only then is the last of it checked. That the chains hold, and tell of the versions, is for
    `verify` to say, since whoever changes the file can make a digest without a key anew. Raises: DamagedBackupError.
    """

    def __init__(self, lines: Iterable[bytes], secret: bytes | None, limits: Limits) -> None:
        self.summary = Summary()
        self._limits = limits
        self._parents: dict[str, str | None] = {}
        self._names: set[str] = set()
        self._lines = lines
        self._seal = Seal(secret)
        self._version: object = None
        self._level: Level | None = None
        self._last: Version | None = None

    def __iter__(self) -> Iterator[Part]:
        ended = False
        for number, line in enumerate(self._lines, 1):
            if ended:
                raise DamagedBackupError("something follows its end")
            try:
                value = read_object(line.decode())
                part = self._part(number, value)
            except (InvalidArgument, LimitExceeded) as error:
                raise DamagedBackupError(f"line {number}: {error.message}") from None
            except (NotJsonError, NotATimeError, UnicodeError, KeyError, TypeError, ValueError, StorageError):
                raise DamagedBackupError(f"line {number} is not one of a backup") from None
            ended = "end" in value
            self._seal.update(line)
            if part is not None:
                yield part
        if not ended:
            raise DamagedBackupError("its end is missing")

    def _part(self, number: int, value: dict[str, Any]) -> Part | None:
        if number == 1 or "end" in value:
            (self._begin if number == 1 else self._end)(value)
            return None
        if "level" in value:
            return self._enter(_level(value["level"]), value)
        if "session" in value and self._level is None:
            return self._session(value["session"])
        if self._level is None:
            raise DamagedBackupError("its levels are not in order")
        return self._entry(value["entry"]) if "entry" in value else self._kept(value, self._level)

    def _begin(self, value: Mapping[str, Any]) -> None:
        if value.get("format") != FORMAT:
            raise DamagedBackupError("it is not a backup")
        self._version = value.get("version")
        if self._version not in (_UNPLACED, VERSION):
            raise DamagedBackupError("it was written by a newer version of Tidegate")
        self.summary.agent = _text(value["agent"])

    def _session(self, fields: Mapping[str, Any]) -> Session:
        session = _session(fields, self._limits)
        if session.id in self._parents or session.name in self._names:
            raise DamagedBackupError("a session stands in it twice")
        self._parents[session.id] = session.parent
        self._names.add(session.name)
        self.summary.sessions += 1
        return session

    def _enter(self, level: Level, value: Mapping[str, Any]) -> Level:
        if self._level is None:
            self._check_parents()
        if level != len(self.summary.heads):
            raise DamagedBackupError("its levels are not in order")
        self._level, self._last = level, None
        self.summary.heads[level] = None
        if self._version != _UNPLACED:
            self.summary.ids[level] = check_key(value["id"], Limits(), "id")
        return level

    def _check_parents(self) -> None:
        try:
            check_parents(self._parents)
        except ValueError:
            raise DamagedBackupError("a session in it hangs from itself, or too deep") from None

    def _entry(self, fields: Mapping[str, Any]) -> Entry:
        level = self._level
        if self._last is not None or level is None:
            raise DamagedBackupError(f"the entries of {level} are not in order")
        entry = _entry(fields)
        self.summary.heads[level] = entry
        self.summary.entries += 1
        return entry

    def _kept(self, value: Mapping[str, Any], level: Level) -> Version:
        version = Version(_record(value["record"], self.summary.agent, level), value["newest"] is True)
        check_record(version.record, self._limits)
        if self._last is not None and not _follows(version, self._last):
            raise DamagedBackupError(f"the records of {level} are not in order")
        self._last = version
        self.summary.versions += 1
        return version

    def _end(self, value: Mapping[str, Any]) -> None:
        if len(self.summary.heads) != len(Level) or value["end"] != self.summary.counts():
            raise DamagedBackupError("something of it is missing")
        if value["keyed"] is not self._seal.keyed:
            raise DamagedBackupError("it was made under another audit key, or under none")
        if not hmac.compare_digest(_text(value["seal"]).encode(), self._seal.hexdigest().encode()):
            raise DamagedBackupError("it was changed, or made under another audit key")


def _follows(version: Version, last: Version) -> bool:
    """By kind, key and number, each once; nothing under a key comes after the newest."""
    (key, number), (last_key, last_number) = (
        ((str(each.record.kind), each.record.key), each.record.version) for each in (version, last)
    )
    return key > last_key or (key == last_key and number > last_number and not last.newest)


def _session(fields: Mapping[str, Any], limits: Limits) -> Session:
    parent, taint, ceiling = fields["parent"], _level(fields["taint"]), _level(fields["ceiling"])
    if not taint.can_flow_to(ceiling):
        raise ValueError
    return Session(
        id=check_key(fields["id"], Limits(), "session"),
        name=check_key(fields["name"], limits, "name"),
        taint=taint,
        ceiling=ceiling,
        parent=None if parent is None else check_key(parent, Limits(), "parent"),
        ended=fields["ended"] is not False,
    )


def _entry(fields: Mapping[str, Any]) -> Entry:
    texts = {name: _text(fields[name]) for name in ("session", "detail", "commitment")}
    event = Event(at=read_time(fields["at"]), action=Action(fields["action"]), **texts)
    return Entry(_count(fields["sequence"]), event, _text(fields["previous"]), _text(fields["hash"]))


def _record(fields: Mapping[str, Any], agent: str, level: Level) -> Record:
    deleted_at = fields["deleted_at"]
    return Record(
        kind=Kind(fields["kind"]),
        key=_text(fields["key"]),
        content=_text(fields["content"]),
        tags=tuple(map(_text, _list(fields["tags"]))),
        origin=Origin(fields["origin"]),
        version=_count(fields["version"]),
        nonce=_text(fields["nonce"]),
        created_at=read_time(fields["created_at"]),
        updated_at=read_time(fields["updated_at"]),
        agent=agent,
        level=level,
        deleted_at=None if deleted_at is None else read_time(deleted_at),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # half of a surrogate pair is no text that could be stored
    return value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= COUNT_MAX:
        raise TypeError
    return value


def _level(value: object) -> Level:
    level = read_label(value)
    if level is None:
        raise TypeError
    return level
