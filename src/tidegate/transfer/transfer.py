"""Transfer: an agent's memories out of the store and into it, by its owner (P10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tidegate import files
from tidegate.audit.chain import OWNER, Action, AuditEvent
from tidegate.core.expiry import ExpiringReader
from tidegate.core.variants import WHOLE, every
from tidegate.errors import Refused
from tidegate.owner.context import OwnerContext
from tidegate.policy.decisions import Deny
from tidegate.policy.events import PostToolResponse
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.policy.session_state import SessionState
from tidegate.records.json_object import JsonObject
from tidegate.records.jsonl import to_line
from tidegate.records.limits import Limits
from tidegate.records.record import Record, RecordKind
from tidegate.records.validation import check_level
from tidegate.storage.base import CompartmentReader
from tidegate.transfer.backup import BackedUp, Backup
from tidegate.transfer.export import exported, heading
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importers.registry import open_source
from tidegate.transfer.importing import Import, Imported, Notice, Rules

_BATCH = 32  # records read at once: at the most so many of the longest contents are in memory


@dataclass(frozen=True, slots=True)
class Exported(JsonObject):
    """What an export holds: every live variant at or below `level`."""

    level: Level
    memories: int


def _unheard(*_: object) -> None:
    """Whoever does not ask is not told."""


class Transfer:
    """Export and import of one agent's memories. For the owner, never for the model."""

    def __init__(self, door: OwnerContext, limits: Limits, *, audit_reads: bool) -> None:
        self._door = door
        self._limits = limits
        self._audit_reads = audit_reads

    def export(self, level: Level, write: Callable[[str], object]) -> Exported:
        """Every live memory that `level` may see, each variant with its own label, as JSON Lines; nothing is written.

        write: is given one line at a time, without its line end. The first says what follows, and at which level.
        As of one moment in each compartment. Raises: StorageError.
        """
        check_level(level)
        now = self._door.clock()
        if self._audit_reads:
            self._note_reading(now, level)
        with self._door.provider.view(self._door.agent, level) as view, view.snapshot():
            lowest_first = [ExpiringReader(each, self._door.expiry, now) for each in reversed(view.visible)]
            count = sum(1 for compartment in lowest_first for _ in _live(compartment, 1))
            write(to_line(heading(self._door.agent, level, count, now)))
            for compartment in lowest_first:
                for record in _live(compartment, WHOLE):
                    self._check(record, level)
                    write(to_line(exported(record)))
        return Exported(level, count)

    def export_to(self, path: str | Path, level: Level) -> Exported:
        """The same, in a file that is readable for its owner alone, and there only when it is whole.

        Raises: InvalidArgument when the path is not that of a file; StorageError.
        """
        with files.writing(self._door.outside(path)) as file:
            return self.export(level, lambda line: file.write(line.encode() + b"\n"))

    def import_from(
        self,
        path: str | Path,
        level: Level,
        *,
        source: Source | None = None,
        source_agent: str | None = None,
        rules: Rules | None = None,
        session: str = OWNER,
        notice: Callable[[Notice], object] = _unheard,
        progress: Callable[[str, int], object] = _unheard,
    ) -> Imported:
        """What was taken in, at exactly `level`, from a file or a folder: in one transaction, or nothing.

        source: what it is; None to find out. source_agent: whose memories to take where there are several agents'.
        session: the id of the session it is done in, if any; it must stand at `level` when all is written.
        notice: is told of each memory that is not taken in, and why. progress: of how many were checked, imported.
        Raises: InvalidArgument (the file, its kind), LimitExceeded, Refused (strict, session), StorageError.
        """
        check_level(level)
        opened = open_source(path, source, source_agent)
        return Import(
            opened,
            level,
            self._door,
            self._limits,
            rules or Rules(),
            session=session,
            notice=notice,
            progress=progress,
        ).run()

    def backup(self, path: str | Path, *, progress: Callable[[str, int], object] = _unheard) -> BackedUp:
        """Everything of the agent, at every level, in one file that is readable for its owner alone.

        It has the level of the highest thing in it (P11). It was read back before it took its name.
        Raises: InvalidArgument (path), NotFound (nothing is kept for the agent), StorageError.
        """
        return Backup(self._door, self._limits, progress).write(self._door.outside(path))

    def restore_backup(
        self, path: str | Path, *, dry_run: bool = False, progress: Callable[[str, int], object] = _unheard
    ) -> BackedUp:
        """What was restored: levels, versions, deletions and chains as they were; sessions as ended ones.

        dry_run: only check the backup and the agent. Raises: InvalidArgument (the file: not there, damaged, another
        agent's), Refused (the agent is not empty), StorageError; then nothing was changed.
        """
        return Backup(self._door, self._limits, progress).restore(files.named(path), dry_run=dry_run)

    def _check(self, record: Record, level: Level) -> None:
        """P1, once more, for each record that leaves. Raises: Refused."""
        state = SessionState(level, Level.RESTRICTED)
        decision = decide(PostToolResponse(state, self._door.agent, [(record.agent, record.level)]))
        if isinstance(decision, Deny):
            raise Refused(decision.hint, rule=decision.rule)

    def _note_reading(self, now: datetime, level: Level) -> None:
        with self._door.provider.writable_view(self._door.agent, level) as view, view.own.transaction():
            view.own.append(AuditEvent(now, OWNER, Action.READ, "export"))


def _live(compartment: CompartmentReader, chars_max: int) -> Iterator[Record]:
    """The live memories of a compartment, in the order of their keys."""
    return every(compartment, RecordKind.MEMORY, batch=_BATCH, chars_max=chars_max)
