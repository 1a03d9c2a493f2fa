"""An import: check every memory of a source, then save all at one level in one transaction, or none.

The source is read twice, so that only keys are held in memory: first to check it in full, without a lock, then to
write. The sources are in `importers/`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum

from tidegate.audit.chain import Action, nonce_of
from tidegate.core.expiry import ExpiringReader
from tidegate.core.variants import event_of
from tidegate.errors import InvalidArgument, Refused, TidegateError
from tidegate.owner.context import OwnerContext
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records.json_object import JsonObject
from tidegate.records.limits import Limits
from tidegate.records.record import Draft, Origin, Record, RecordKind, keeps_pin
from tidegate.records.times import NotATimeError, read_timestamp
from tidegate.records.validation import check_content, check_key, check_tags
from tidegate.search.analysis import analyse
from tidegate.storage.base import Compartment, CompartmentReader
from tidegate.transfer.importers.labels import named_level
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected, Source
from tidegate.transfer.importers.registry import OpenedSource

_ZERO_WIDTH = "\ufeff\u200b\u2060"
_NO_TIMES = ("", "null", "none", "~")
_LEVELS = " or ".join(", ".join(Level.__members__).rsplit(", ", 1))
_LABEL_SHIFT = 48  # the level above these bits, the place in the file below: of two lines for a key the higher wins


@dataclass(frozen=True, slots=True)
class Notice(JsonObject):
    """A message to the owner about one memory of the source. refused: not imported, because of a fault or its label."""

    place: str
    reason: str
    refused: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The owner's choices.

    exact: leave out memories labelled with another level. overwrite: also replace memories that were saved later here.
    restore_deleted: also restore memories deleted here. strict: import nothing if anything is refused.
    """

    exact: bool = False
    overwrite: bool = False
    restore_deleted: bool = False
    strict: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported(JsonObject):
    """What an import did, or would do. Each memory of the source counts once.

    detected: whether the kind of source was detected, not named by the owner.
    creates, updates: the keys of a dry run, in the order of the source; empty after an import.
    """

    source: Source
    detected: bool
    level: Level
    created: int
    updated: int
    unchanged: int
    skipped: int
    refused: int
    dry_run: bool
    creates: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()


class ImportOutcome(StrEnum):
    """The outcome for a memory that was not refused. The owner sees the texts of skipped ones."""

    CREATE = "created"
    UPDATE = "updated"
    UNCHANGED = "unchanged"
    OUTRANKED = "another line for the same key takes precedence"
    NEWER_HERE = "the memory here was saved later; it is kept"
    DELETED_HERE = "it was deleted here; it stays deleted"
    EXPIRED = "it is older than `expiry` in config.toml allows; it is left out"

    @property
    def is_skip(self) -> bool:
        return self not in (ImportOutcome.CREATE, ImportOutcome.UPDATE, ImportOutcome.UNCHANGED)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A checked memory that may be imported."""

    place: str
    key: str
    content: str
    tags: tuple[str, ...]
    label: Level
    created_at: datetime
    updated_at: datetime


@dataclass(slots=True)
class _Survey:
    """What the first reading found. winners: for each key, the rank of the line that is imported.

    elsewhere: how many `exact` leaves out. fingerprint: of all that may be imported.
    """

    winners: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    refused: int = 0
    skipped: int = 0
    elsewhere: int = 0
    fingerprint: bytes = b""


class Import:
    """One import into one compartment."""

    def __init__(
        self,
        opened: OpenedSource,
        level: Level,
        context: OwnerContext,
        limits: Limits,
        rules: Rules,
        *,
        session: str,
        notice: Callable[[Notice], object],
        progress: Callable[[str, int], object],
    ) -> None:
        self._opened = opened
        self._level = level
        self._context = context
        self._act = context.act(session)
        self._limits = limits
        self._rules = rules
        self._notice = notice
        self._progress = progress
        self._written_at = _past(opened.modified_at, self._act.at)
        self._bygone = context.expiry.bygone(level, self._act.at)
        self._would: dict[ImportOutcome, list[str]] = {ImportOutcome.CREATE: [], ImportOutcome.UPDATE: []}

    def run(self) -> Imported:
        """Survey, then write; a dry run only reports. Raises: InvalidArgument, Refused, StorageError."""
        survey = self._survey()
        if survey.refused and self._rules.strict:
            raise Refused(
                f"file: {survey.refused} of its memories were refused; nothing was imported; fix them, or "
                "import without --strict",
                rule=PolicyRule.P10,
            )
        if survey.elsewhere:
            self._notice(Notice("file", _left_out(survey.elsewhere), refused=False))
        if not (survey.rows or survey.refused or survey.skipped or survey.elsewhere):
            self._notice(Notice("file", f"holds no memories of the kind {self._opened.source}", refused=False))
        provider, agent, level = self._context.provider, self._context.agent, self._level
        if self._rules.dry_run or not survey.rows:
            with provider.view(agent, level) as view:
                outcomes = self._apply(survey, view.visible[0], None)
        else:
            with provider.writable_view(agent, level) as writable:
                own = writable.own
                with self._context.transaction(own, self._act, "import"):
                    outcomes = self._apply(survey, own, own)
        return Imported(
            source=self._opened.source,
            detected=self._opened.detected,
            level=self._level,
            created=outcomes[ImportOutcome.CREATE],
            updated=outcomes[ImportOutcome.UPDATE],
            unchanged=outcomes[ImportOutcome.UNCHANGED],
            skipped=survey.skipped
            + survey.elsewhere
            + sum(count for outcome, count in outcomes.items() if outcome.is_skip),
            refused=survey.refused,
            dry_run=self._rules.dry_run,
            creates=tuple(self._would[ImportOutcome.CREATE]),
            updates=tuple(self._would[ImportOutcome.UPDATE]),
        )

    def _survey(self) -> _Survey:
        survey, digest = _Survey(), hashlib.sha256()
        for found in self._read(self._notice):
            if found is None:
                survey.elsewhere += 1
            elif isinstance(found, Notice):
                survey.refused += found.refused
                survey.skipped += not found.refused
                self._notice(found)
            else:
                rank = _rank(found, survey.rows)
                survey.winners[found.key] = max(survey.winners.get(found.key, 0), rank)
                survey.rows += 1
                digest.update(repr(found).encode())
                self._progress("checked", survey.rows)
        survey.fingerprint = digest.digest()
        return survey

    def _apply(self, survey: _Survey, before: CompartmentReader, own: Compartment | None) -> dict[ImportOutcome, int]:
        """Read the source again and save the winners; return the number of memories for each outcome.

        own: where to save; None for a dry run.
        """
        outcomes, digest = dict.fromkeys(ImportOutcome, 0), hashlib.sha256()
        before = ExpiringReader(before, self._context.expiry, self._act.at)
        candidates = (found for found in self._read(_ignore) if isinstance(found, _Candidate))
        for place, memory in enumerate(candidates):
            digest.update(repr(memory).encode())
            wins = survey.winners.get(memory.key) == _rank(memory, place)
            present = before.read(RecordKind.MEMORY, memory.key) if wins else None
            outcome = self._outcome(memory, present) if wins else ImportOutcome.OUTRANKED
            outcomes[outcome] += 1
            if outcome.is_skip:
                self._notice(Notice(memory.place, str(outcome), refused=False))
            elif own is not None and outcome in self._would:
                self._write(own, memory, present, outcome)
            elif self._rules.dry_run and outcome in self._would:
                self._would[outcome].append(memory.key)
            self._progress("imported", place + 1)
        if digest.digest() != survey.fingerprint:
            raise InvalidArgument("file: changed while it was read; nothing was imported", argument="file")
        return outcomes

    def _outcome(self, memory: _Candidate, present: Record | None) -> ImportOutcome:
        change = self._change(memory, present)
        expired = change in self._would and self._bygone.reaches(memory.tags, _saved_at(memory, present))
        return ImportOutcome.EXPIRED if expired else change  # never created, and then not there

    def _change(self, memory: _Candidate, present: Record | None) -> ImportOutcome:
        if present is None:
            return ImportOutcome.CREATE
        if not present.live:  # P8: deleted memories come back only if the owner says so
            return ImportOutcome.CREATE if self._rules.restore_deleted else ImportOutcome.DELETED_HERE
        if (present.content, present.tags) == (memory.content, memory.tags):
            return ImportOutcome.UNCHANGED
        later_here = present.updated_at > memory.updated_at
        return ImportOutcome.NEWER_HERE if later_here and not self._rules.overwrite else ImportOutcome.UPDATE

    def _write(self, own: Compartment, memory: _Candidate, present: Record | None, outcome: ImportOutcome) -> None:
        """Save a memory at the compartment's own level, marked as imported (P10), and its audit entry (P9)."""
        live = present if present is not None and present.live else None
        draft = Draft(
            kind=RecordKind.MEMORY,
            key=memory.key,
            content=memory.content,
            tags=memory.tags,
            origin=Origin.IMPORT,
            version=present.version + 1 if present else 1,
            nonce=nonce_of(self._act.ids()),
            created_at=live.created_at if live else memory.created_at,
            updated_at=_saved_at(memory, present),
            pinned=keeps_pin(live, Origin.IMPORT),
        )
        own.put(draft, analyse(draft.key, draft.tags, draft.content))
        own.append(event_of(own.place, self._act, Action.IMPORT, draft, outcome))

    def _read(self, on_note: Callable[[Notice], object]) -> Iterator[_Candidate | Notice | None]:
        """Yield each memory that may be imported, a notice for one that may not, None for one that `exact` leaves out.

        on_note: called for what was corrected in a memory.
        """
        for found in self._opened.read():
            if isinstance(found, Rejected):
                yield Notice(found.place, found.reason, found.refused)
                continue
            if self._is_empty(found):
                yield Notice(found.place, "is empty", refused=False)
                continue
            try:
                label = _label(found.label, self._level)
                if self._rules.exact and label is not self._level:
                    yield None
                    continue
                if not label.can_flow_to(self._level):  # P10: nothing comes in below its label
                    higher = f"is higher than {self._level}, the level of this import"
                    raise Refused(f"classification: {higher}; to import it, use `--level {label}`", rule=PolicyRule.P10)
                memory = self._checked(found, label, on_note)
            except TidegateError as error:
                yield Notice(found.place, error.message, refused=True)
            else:
                yield memory

    def _is_empty(self, found: RawMemory) -> bool:
        """Return whether another program kept an empty text. Tidegate itself keeps none: that is a fault."""
        if self._opened.source is Source.TIDEGATE or not isinstance(found.content, str):
            return False
        return all(char.isspace() or char in _ZERO_WIDTH for char in found.content)

    def _checked(self, found: RawMemory, label: Level, on_note: Callable[[Notice], object]) -> _Candidate:
        key, content = check_key(found.key, self._limits), check_content(found.content, self._limits)
        tags = check_tags(found.tags, self._limits)
        updated_at, created_at = self._times(found, on_note)
        return _Candidate(found.place, key, content, tags, label, created_at, updated_at)

    def _times(self, found: RawMemory, on_note: Callable[[Notice], object]) -> tuple[datetime, datetime]:
        """Return its last and first save times: the source's, else when the source was written; never in the future."""
        created_at = self._time(found.place, "created_at", found.created_at, on_note)
        updated_at = self._time(found.place, "updated_at", found.updated_at, on_note)
        if any(time is not None and time > self._act.at for time in (created_at, updated_at)):
            # Not the present, or each import would override the memory saved here.
            on_note(Notice(found.place, "its time is in the future; the time of the file is used", refused=False))
        own_file = None if found.written_at is None else _past(found.written_at, self._act.at)
        written_at = own_file or self._written_at
        saved_at = updated_at or own_file or created_at or written_at
        updated_at = saved_at if saved_at <= self._act.at else written_at
        return updated_at, min(created_at or updated_at, updated_at)

    def _time(self, place: str, name: str, value: object, on_note: Callable[[Notice], object]) -> datetime | None:
        """Return a time of the source; None if it has none, or one that cannot be read, which is said."""
        if value is None or (isinstance(value, str) and value.strip().lower() in _NO_TIMES):
            return None
        try:
            return read_timestamp(value)
        except NotATimeError as error:
            on_note(Notice(place, f"{name}: {error}; the time is left out", refused=False))
            return None


def _rank(memory: _Candidate, place: int) -> int:
    """Return which of several lines for one key wins: the higher label, then the later place in the source."""
    return memory.label << _LABEL_SHIFT | place


def _label(label: object, level: Level) -> Level:
    """Return the level that a memory claims, or the import's own. Raises: InvalidArgument."""
    if label is None:
        return level
    claimed = named_level(label)
    if claimed is None:
        raise InvalidArgument(f"classification: must be {_LEVELS}", argument="classification")
    return claimed


def _saved_at(memory: _Candidate, present: Record | None) -> datetime:
    """Return the time of its save: no time runs backwards."""
    if present is None:
        return memory.updated_at
    return max(memory.updated_at, present.updated_at, present.deleted_at or present.updated_at)


def _past(written_at: float | None, now: datetime) -> datetime:
    """Return when a file was written, never in the future; now if that is unknown or no time."""
    if written_at is None:
        return now
    try:
        return min(datetime.fromtimestamp(written_at, UTC), now)
    except (OverflowError, ValueError, OSError):
        return now


def _left_out(count: int) -> str:
    which, left = ("memory belongs", "is") if count == 1 else ("memories belong", "are")
    return f"{count} {which} to other levels and {left} left out"


def _ignore(notice: Notice) -> None:
    """Drop a notice that the first reading has reported."""
