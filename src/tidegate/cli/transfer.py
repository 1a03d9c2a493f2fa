"""Owner commands: export, import, backup and restore. No tool gives a model any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import output
from tidegate.cli.common import (
    LEVELS,
    NO_LEVEL,
    Command,
    agreed,
    info,
    open_at_level,
    open_store,
    options,
    show,
)
from tidegate.errors import Refused
from tidegate.records.jsonable import jsonable
from tidegate.transfer.importers.raw_memory import Source

if TYPE_CHECKING:
    from tidegate.transfer.backup import BackedUp
    from tidegate.transfer.importing import Imported, Notice
    from tidegate.transfer.transfer import Transfer

_PROGRESS_STEP = 10_000
_KEYS_MAX = 20  # of each kind, that a dry run shows to people
_WRITE_THE_LEVEL = (
    "is required, because an export leaves Tidegate; give --level PUBLIC for what others may read, or a higher level "
    "that the receiver may read"
)


class _Kinds(click.Choice[Source]):
    """A kind of file under the name that the help shows. Click's own version takes the names of the enum's members."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return super().normalize_choice(str(choice), ctx)


_KIND = _Kinds(Source, case_sensitive=False)


@click.command(
    cls=Command,
    common={"level": f"Highest level in the export: {LEVELS}. Required without --session."},
    examples=(
        "tidegate export memories.jsonl --level CONFIDENTIAL",
        "tidegate export --level INTERNAL >> all.jsonl",
    ),
)
@click.argument("file", required=False, help="File to write. [default: standard output, also for -]")
def export(file: str | None) -> None:
    """Export all memories that --level or the session may see, as JSON Lines.

    There is no default level, because an export leaves Tidegate. The first line names its level. Each memory has its
    own level; higher memories are not in the file. FILE is readable by its owner only. An existing FILE is replaced
    once the new one is complete.
    """
    with open_at_level(required=_WRITE_THE_LEVEL) as (store, level, _):
        transfer = store.transfer(options().agent)
        if file is None or file == "-":
            done = transfer.export(level, output.emit)
        else:
            done = transfer.export_to(file, level)
            show({"exported": done.memories, "level": done.level}, ())
    info(f"exported {output.counted(done.memories, 'memory', 'memories')} at {done.level}")


@click.command(
    name="import",
    cls=Command,
    examples=(
        "tidegate import memories.jsonl --level CONFIDENTIAL",
        "tidegate import memory.jsonl --from mcp --level INTERNAL --dry-run",
        "tidegate import notes/ --level INTERNAL",
    ),
)
@click.argument("file", help="A file, or a folder of notes.")
@click.option("--from", "source", type=_KIND, metavar="KIND", help=f"{', '.join(Source)}. [default: detected]")
@click.option("--source-agent", metavar="AGENT", help="Agent in the file, if the file holds several.")
@click.option("--exact", is_flag=True, help="Skip memories labelled with a level other than the import's.")
@click.option("--overwrite", is_flag=True, help="Also replace memories that were saved later here.")
@click.option("--restore-deleted", is_flag=True, help="Also restore memories that were deleted here.")
@click.option("--strict", is_flag=True, help="Import nothing if any memory is refused; the refused are listed.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
def import_(file: str, source: Source | None, source_agent: str | None, **rules: bool) -> int:
    """Import memories from FILE, all at --level or the session's level, in one transaction.

    The kind of FILE is detected from all of its content and shown, unless --from names it. Each memory is marked as
    imported. A memory that FILE marks with a level above the import's is refused, and its place is shown; the others
    are imported, and the exit code is 1. An empty note is skipped, and a time that cannot be read is left out; both are
    shown. Importing the same file again changes nothing.
    """
    from tidegate.transfer.importing import Rules

    notices: list[Notice] = []

    def hear(notice: Notice) -> None:
        info(f"{'refused' if notice.refused else 'note'}: {notice.place}: {notice.reason}")
        if options().json:
            notices.append(notice)

    try:
        with open_at_level() as (store, level, session):
            done = store.transfer(options().agent).import_from(
                file,
                level,
                session=session,
                source=source,
                source_agent=source_agent,
                rules=Rules(**rules),
                notice=hear,
                progress=_progress,
            )
    except Refused as error:
        if notices:  # of --strict, with --json; people have read them already
            error.details["notices"] = notices
        raise
    result: dict[str, Any] = {**jsonable(done), "notices": notices}
    if not done.dry_run:
        del result["creates"], result["updates"]
    show(result, _import_lines(done))
    return 1 if done.refused else 0


@click.command(
    cls=Command,
    common=NO_LEVEL,
    examples=("tidegate backup assistant.backup", "tidegate backup a.backup --agent a"),
)
@click.argument("file", help="File to write. An existing one is replaced once the new backup is checked.")
def backup(file: str) -> None:
    """Back up the agent to one FILE: all levels, versions, deletions, audit chains and sessions.

    Servers may keep running. FILE holds RESTRICTED memories in plain text: protect it like those memories.
    """
    with _at_no_level() as transfer:
        done = transfer.backup(file, progress=_progress)
    show(jsonable(done), [f"backed up {_counted(done)}"])


@click.command(
    name="restore-backup",
    cls=Command,
    common=NO_LEVEL,
    examples=("tidegate restore-backup assistant.backup --dry-run", "tidegate restore-backup assistant.backup --yes"),
)
@click.argument("file", help="A backup of this agent.")
@click.option("--dry-run", is_flag=True, help="Only check the backup, and whether it can be restored.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
def restore_backup(file: str, dry_run: bool, yes: bool) -> int:
    """Restore a backup into an empty agent: everything or nothing.

    Levels, versions, deletions and audit chains are restored exactly. Sessions are restored as ended, because Tidegate
    does not know what their clients have read since the backup. Start new sessions under new names.
    """
    with _at_no_level() as transfer:
        if dry_run or not yes:
            plan = transfer.restore_backup(file, dry_run=True, progress=_progress)
            if dry_run:
                _show_restored(plan, dry_run=True)
                return 0
            if not agreed(f"Restore {_counted(plan)}?", unasked="without a terminal, give --yes"):
                info("nothing was changed")
                return 1
        _show_restored(transfer.restore_backup(file, progress=_progress), dry_run=False)
    return 0


def _show_restored(done: BackedUp, *, dry_run: bool) -> None:
    result = jsonable(done)
    show({"dry_run": True, **result} if dry_run else result, [f"{_would(dry_run, 'restore')} {_counted(done)}"])


@contextmanager
def _at_no_level() -> Iterator[Transfer]:
    """Yield the agent's transfer, for commands on all its levels."""
    with open_store() as store:
        yield store.transfer(options().agent)


def _progress(what: str, done: int) -> None:
    if done % _PROGRESS_STEP == 0:
        info(f"{what} {done}")


def _import_lines(done: Imported) -> Iterable[str]:
    counts = f"{done.created} created, {done.updated} updated, {done.unchanged} unchanged, {done.skipped} skipped"
    detected = " (detected; --from overrides)" if done.detected else ""
    did = f"{_would(done.dry_run, 'import')} from {done.source}{detected} at {done.level}"
    yield f"{did}: {counts}, {done.refused} refused"
    for verb, keys in (("create", done.creates), ("update", done.updates)):
        yield from (f"{verb}  {output.escape(key)}" for key in keys[:_KEYS_MAX])
        if len(keys) > _KEYS_MAX:
            yield f"{verb}  and {len(keys) - _KEYS_MAX} more; --json lists them all"


def _counted(done: BackedUp) -> str:
    versions, sessions = output.counted(done.versions, "version"), output.counted(done.sessions, "session")
    return f"{done.agent}: {versions}, {output.counted(done.entries, 'audit entry', 'audit entries')}, {sessions}"


def _would(dry_run: bool, verb: str) -> str:
    return f"would {verb}" if dry_run else f"{verb.removesuffix('e')}ed"
