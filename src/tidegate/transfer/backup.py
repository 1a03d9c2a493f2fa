"""Backup: write everything of one agent to one file, exactly, while in use; restore it into an empty agent (P10)."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate import files
from tidegate.audit.chain import Entry, Place
from tidegate.audit.verify import verify
from tidegate.core.witness import spare_name
from tidegate.errors import InvalidArgument, Refused, StorageError
from tidegate.owner.context import OwnerContext, nothing_saved
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import to_line
from tidegate.records.limits import Limits
from tidegate.records.record import Record, RecordKind
from tidegate.search.analysis import analyse
from tidegate.storage.base import CompartmentReader, OwnerCompartment
from tidegate.storage.control import SessionRow
from tidegate.transfer import backup_format
from tidegate.transfer.backup_format import (
    BackedUpSession,
    BackedUpVersion,
    BackupReader,
    BackupSummary,
    DamagedBackupError,
    Part,
    Seal,
)
from tidegate.transfer.restorable import OWN, RestoreBounds, bounds_of

_PACK_LEVEL = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class BackedUp(JsonObject):
    """The counts of a backup or a restore. versions: of all records, superseded and deleted ones too."""

    agent: str
    versions: int
    entries: int
    sessions: int


class Backup:
    """Backup and restore of one agent. For the owner, never for the model."""

    def __init__(self, context: OwnerContext, limits: Limits, progress: Callable[[str, int], object]) -> None:
        self._context = context
        self._limits = limits
        self._provider = context.provider
        self._agent = context.agent
        self._progress = progress

    def write(self, path: Path) -> BackedUp:
        """Write a backup, read it back, and only then give it its name. Each compartment is as of one moment."""
        if not self._provider.has(self._agent):
            raise nothing_saved(self._agent)
        counts = {"sessions": 0, "entries": 0, "versions": 0}
        with (
            files.writing(path, lambda new: self._read_back(new, counts)) as file,
            gzip.GzipFile("", "wb", _PACK_LEVEL, file, mtime=0) as packed,
            self._snapshots() as compartments,
        ):
            write = _Writer(packed, self._provider.audit_secret)
            write(backup_format.heading(self._agent, self._context.clock()))
            self._write_sessions(write, counts)  # after the snapshots: no chain may know a session that is missing
            self._write_levels(write, compartments, counts)
            write.end(counts)
        return BackedUp(agent=self._agent, **counts)

    def restore(self, path: Path, *, dry_run: bool) -> BackedUp:
        """Restore a complete backup into an empty agent, in full or not at all.

        The sessions come last, so an interrupted restore is noticed, and the same command continues it.
        """
        sessions: list[BackedUpSession] = []
        summary = self._inspect(path, self._bounds(path), sessions.append)
        if summary.agent != self._agent:
            raise InvalidArgument(
                "agent: this is a backup of another agent; give that agent with --agent", argument="agent"
            )
        missing = [session for session in sessions if self._is_missing(session)]
        with nullcontext() if dry_run else self._nothing_left_behind():
            # P9: the chains hold only in compartments with these ids.
            if not (dry_run or self._provider.make_with_ids(self._agent, summary.ids)):
                raise _not_empty()
            with self._provider.view(self._agent, Level.RESTRICTED) as view:
                unfinished = [each for each in view.visible if not _is_restored(each, summary.heads[each.level])]
            if not (unfinished or missing):
                raise Refused("agent: already holds this backup; there is nothing to do", rule=PolicyRule.P10)
            if unfinished and not dry_run:
                self._restore_levels(path, summary.heads)
        if not dry_run:
            self._restore_sessions(missing)
        return BackedUp(agent=self._agent, **summary.counts())

    def _write_sessions(self, write: _Writer, counts: dict[str, int]) -> None:
        for row in self._provider.control.sessions(self._agent):
            session = BackedUpSession(row.id, row.name or "", row.taint, row.ceiling, row.parent, row.ended)
            write(backup_format.session_line(session))
            counts["sessions"] += 1

    @contextmanager
    def _snapshots(self) -> Iterator[list[OwnerCompartment]]:
        """Open every compartment, as of one moment in each."""
        with ExitStack() as stack:
            compartments = [
                stack.enter_context(self._provider.owner_compartment(self._agent, level)) for level in Level
            ]
            for compartment in compartments:
                stack.enter_context(compartment.snapshot())
                compartment.last_entry()  # a snapshot begins with the first read in it
            yield compartments

    def _write_levels(self, write: _Writer, compartments: Sequence[OwnerCompartment], counts: dict[str, int]) -> None:
        for compartment in compartments:
            write(backup_format.level_line(compartment.place))
            for entry in compartment.entries():
                write(backup_format.entry_line(entry))
                counts["entries"] += 1
            for version in _versions(compartment):
                write(backup_format.version_line(version.record, newest=version.newest))
                counts["versions"] += 1
                self._progress("written", counts["versions"])

    def _read_back(self, new: Path, counts: Mapping[str, int]) -> None:
        try:
            read = self._inspect(new, OWN, lambda _: None).counts()
        except InvalidArgument as damage:
            raise StorageError(f"{damage.message}; no backup was made; run `tidegate doctor`") from None
        if read != counts:
            raise StorageError("the backup differs from what was written; no backup was made; try again")

    def _inspect(
        self, path: Path, bounds: RestoreBounds, on_session: Callable[[BackedUpSession], object]
    ) -> BackupSummary:
        """Check a backup and return what it holds. on_session: called for each session. Raises: InvalidArgument."""
        reader = self._reader(path, bounds)
        parts = _LevelParts(_checked(reader), on_session, self._progress)
        for level in parts.levels():
            place = Place(reader.summary.agent, level, reader.summary.ids.get(level, ""))
            verdict = verify(_Section(place, parts), self._provider.audit_secret, (), sealed=True)
            if not verdict.holds:  # P9: the digest cannot prove this
                where = f"the audit chain of {level} does not hold"
                raise InvalidArgument(f"file: {where}: {verdict.problems[0].text}", argument="file")
        return reader.summary

    def _bounds(self, path: Path) -> RestoreBounds:
        return bounds_of(self._limits, files.size_of(path))

    def _reader(self, path: Path, bounds: RestoreBounds) -> BackupReader:
        return BackupReader(_unpacked(path, bounds.line_bytes_max), self._provider.audit_secret, bounds)

    def _is_missing(self, session: BackedUpSession) -> bool:
        """Return whether a session must still be restored. Raises: InvalidArgument when it is another agent's (P6)."""
        present = self._provider.control.read(session.id)
        if present is None:
            return True
        if present.agent != self._agent:  # an id proves nothing
            raise InvalidArgument("file: a session in it is another agent's", argument="file")
        # It outlived the files: it stays as it is, unless its taint is lower than in the backup.
        return not present.ended and (session.ended or not session.taint.can_flow_to(present.taint))

    def _restore_sessions(self, sessions: Sequence[BackedUpSession]) -> None:
        """Restore sessions as ended ones (P7, P10): what their clients have read since the backup is unknown."""
        if not sessions:
            return
        control = self._provider.control
        try:
            with control.transaction():
                for session in filter(self._is_missing, sessions):
                    if control.read(session.id) is None:
                        name = spare_name(control, self._agent, session.name)  # its chain knows it, so it must be here
                        levels = (session.taint, session.ceiling)
                        control.insert(SessionRow(session.id, self._agent, name, *levels, session.parent))
                    control.end(session.id)
        except StorageError:
            raise StorageError("everything but the sessions is restored; run the same command again") from None

    @contextmanager
    def _nothing_left_behind(self) -> Iterator[None]:
        """Remove a new agent if its restore fails, unless a part was stored: a later restore continues that."""
        was_there = self._provider.has(self._agent)
        try:
            yield
        except BaseException:
            with suppress(StorageError):
                if not was_there and self._provider.has(self._agent):
                    self._erase_if_empty()
            raise

    def _erase_if_empty(self) -> None:
        """Erase the agent if it is empty. All four compartments are locked, so no save is lost."""
        with ExitStack() as stack:
            for level in Level:
                compartment = stack.enter_context(self._provider.owner_compartment(self._agent, level))
                stack.enter_context(compartment.transaction())
                if compartment.last_entry() is not None:
                    return
            self._provider.erase_unused(self._agent)

    def _restore_levels(self, path: Path, heads: Mapping[Level, Entry | None]) -> None:
        with ExitStack() as stack:
            targets: dict[Level, OwnerCompartment] = {}
            for level in Level:
                compartment = stack.enter_context(self._provider.owner_compartment(self._agent, level))
                stack.enter_context(compartment.transaction(durable=True))
                if not _is_restored(compartment, heads[level]):
                    targets[level] = compartment
            self._fill(path, targets, heads)

    def _fill(self, path: Path, targets: Mapping[Level, OwnerCompartment], heads: Mapping[Level, Entry | None]) -> None:
        reader, target = self._reader(path, self._bounds(path)), None
        for number, part in enumerate(_checked(reader), 1):
            if isinstance(part, Level):
                target = targets.get(part)
            elif target is not None and not isinstance(part, BackedUpSession):
                _import_part(target, part)
            self._progress("restored", number)
        if reader.summary.heads != heads:
            raise InvalidArgument("file: changed while it was read; nothing was restored", argument="file")


class _LevelParts:
    """The parts of a backup, level by level."""

    def __init__(
        self,
        parts: Iterator[Part],
        on_session: Callable[[BackedUpSession], object],
        progress: Callable[[str, int], object],
    ) -> None:
        self._parts = parts
        self._on_session = on_session
        self._progress = progress
        self._number = 0
        self._next = self._take()

    def levels(self) -> Iterator[Level]:
        """Yield each level before its parts. Unread parts of the level before are skipped."""
        while self._next is not None:
            part, self._next = self._next, self._take()
            if isinstance(part, BackedUpSession):
                self._on_session(part)
            if isinstance(part, Level):
                yield part

    def entries(self) -> Iterator[Entry]:
        """Yield the entries that come next."""
        while isinstance(self._next, Entry):
            part, self._next = self._next, self._take()
            yield part

    def versions(self) -> Iterator[tuple[Record, bool]]:
        """Yield the versions that come next."""
        while isinstance(self._next, BackedUpVersion):
            part, self._next = self._next, self._take()
            yield part.record, part.newest

    def _take(self) -> Part | None:
        self._number += 1
        self._progress("checked", self._number)
        return next(self._parts, None)


class _Section:
    """One level of a backup, as `verify` reads it: the entries once, then the versions once."""

    def __init__(self, place: Place, parts: _LevelParts) -> None:
        self.place = place
        self._parts = parts

    def snapshot(self) -> AbstractContextManager[None]:
        return nullcontext()

    def entries(self, *, after: int = 0) -> Iterator[Entry]:
        return self._parts.entries()

    def every_version(self) -> Iterator[tuple[Record, bool]]:
        return self._parts.versions()


def _is_restored(compartment: CompartmentReader, head: Entry | None) -> bool:
    """Return whether a compartment holds its part of the backup, as after an interrupted restore.

    False for an empty one. Raises: Refused when it holds anything else.
    """
    present = compartment.last_entry()
    if present not in (None, head):
        raise _not_empty()
    return present == head


def _not_empty() -> Refused:
    reason = "agent: is not empty; erase it first with `tidegate agent erase`, or restore into another home"
    return Refused(reason, rule=PolicyRule.P10)


def _import_part(compartment: OwnerCompartment, part: Entry | BackedUpVersion) -> None:
    """Import one part: entries and versions as they were; the index is rebuilt from the text (P11)."""
    if isinstance(part, Entry):
        compartment.import_entry(part)
        return
    record = part.record
    indexed = part.newest and record.live and record.kind is RecordKind.MEMORY
    columns = analyse(record.key, record.tags, record.content) if indexed else None
    compartment.import_version(record, columns, newest=part.newest)


def _versions(compartment: OwnerCompartment) -> Iterator[BackedUpVersion]:
    """Yield every version, by kind, key and number."""
    for kind, key in sorted({(record.kind, record.key) for record, _ in compartment.every_version()}):
        newest = compartment.read(kind, key, chars_max=0)
        for record in reversed(compartment.versions(kind, key)):
            yield BackedUpVersion(record, newest is not None and record.version == newest.version)


class _Writer:
    """Writes lines, and computes their seal."""

    def __init__(self, file: gzip.GzipFile, secret: bytes | None) -> None:
        self._file = file
        self._seal = Seal(secret)

    def __call__(self, value: dict[str, Any]) -> None:
        line = to_line(value).encode() + b"\n"
        self._seal.update(line)
        self._file.write(line)

    def end(self, counts: Mapping[str, int]) -> None:
        """Write the last line."""
        self(backup_format.end_line(counts, self._seal))


def _unpacked(path: Path, line_bytes_max: int) -> Iterator[bytes]:
    """Yield the lines, one at a time: a small file can unpack to any size (P17)."""
    with files.reading(path) as file, gzip.GzipFile("", "rb", fileobj=file) as unpacked:
        try:
            while line := unpacked.readline(line_bytes_max + 1):
                if len(line) > line_bytes_max:
                    raise DamagedBackupError(f"a line is longer than {line_bytes_max} bytes")
                yield line
        except EOFError:
            raise DamagedBackupError("is truncated or damaged; use another backup") from None
        except (gzip.BadGzipFile, zlib.error):
            raise DamagedBackupError("is not a backup, or is damaged; use another backup") from None


def _checked(reader: BackupReader) -> Iterator[Part]:
    try:
        yield from reader
    except DamagedBackupError as damage:
        raise InvalidArgument(f"file: {damage}", argument="file") from None
