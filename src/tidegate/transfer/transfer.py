"""Transfer: export, import, back up and restore an agent's memories, as its owner (P10)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tidegate import files
from tidegate.audit.chain import OWNER
from tidegate.owner.context import OwnerContext
from tidegate.policy.levels import Level
from tidegate.records.limits import Limits
from tidegate.records.validation import check_level
from tidegate.transfer.backup import BackedUp, Backup
from tidegate.transfer.export import Exported, write_export
from tidegate.transfer.importers.raw_memory import Source
from tidegate.transfer.importers.registry import open_source
from tidegate.transfer.importing import Import, Imported, Notice, Rules


def _ignore(*_: object) -> None:
    """Ignore notices and progress."""


class Transfer:
    """Export and import of one agent's memories. For the owner, never for the model."""

    def __init__(self, context: OwnerContext, limits: Limits, *, audit_reads: bool) -> None:
        self._context = context
        self._limits = limits
        self._audit_reads = audit_reads

    def export(self, level: Level, write: Callable[[str], object]) -> Exported:
        """Write every live memory that `level` may see, each variant with its own label, as JSON Lines.

        write: called with one line at a time, without its line end; the first is a heading with the level. The memories
        do not change. Each compartment is read as of one moment. Raises: StorageError.
        """
        return write_export(self._context, check_level(level), write, audit_reads=self._audit_reads)

    def export_to(self, path: str | Path, level: Level) -> Exported:
        """Write the export to a file that only its owner can read, and that gets its name only when it is complete.

        Raises: InvalidArgument when the path is not that of a file; StorageError.
        """
        with files.writing(self._context.outside(path)) as file:
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
        notice: Callable[[Notice], object] = _ignore,
        progress: Callable[[str, int], object] = _ignore,
    ) -> Imported:
        """Import the memories of a file or a folder at exactly `level`, in one transaction, or none.

        source: the kind of source; None to detect it. source_agent: the agent to import from, if there are several.
        session: the id of the acting session, if any; it must be at `level` at the end.
        notice: called for each memory that is not imported, with the reason. progress: called with the numbers
        checked and imported.
        Raises: InvalidArgument (the file, its kind), LimitExceeded, Refused (strict, session), StorageError.
        """
        check_level(level)
        opened = open_source(path, source, source_agent)
        return Import(
            opened,
            level,
            self._context,
            self._limits,
            rules or Rules(),
            session=session,
            notice=notice,
            progress=progress,
        ).run()

    def backup(self, path: str | Path, *, progress: Callable[[str, int], object] = _ignore) -> BackedUp:
        """Write everything of the agent, at every level, to one file that only its owner can read.

        The file has the level of the highest memory in it (P11). It is read back before it gets its name.
        Raises: InvalidArgument (path), NotFound (nothing is saved for the agent), StorageError.
        """
        return Backup(self._context, self._limits, progress).write(self._context.outside(path))

    def restore_backup(
        self, path: str | Path, *, dry_run: bool = False, progress: Callable[[str, int], object] = _ignore
    ) -> BackedUp:
        """Restore a backup: levels, versions, deletions and chains as they were; sessions as ended ones.

        dry_run: only check the backup and the agent. Raises: InvalidArgument (the file: missing, damaged, another
        agent's), Refused (the agent is not empty), StorageError; then nothing was changed.
        """
        return Backup(self._context, self._limits, progress).restore(files.named(path), dry_run=dry_run)
