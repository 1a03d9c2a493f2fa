"""Memories out and in, backup and restore: the owner's acts. A model has no tool for any of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import output
from tidegate.cli.common import (
    NO_LEVEL,
    Command,
    agreed,
    info,
    open_at_level,
    open_store,
    options,
    show,
)
from tidegate.records.jsonable import jsonable
from tidegate.transfer.importers.raw_memory import Source

if TYPE_CHECKING:
    from tidegate.transfer.backup import BackedUp
    from tidegate.transfer.importing import Imported, Notice
    from tidegate.transfer.transfer import Transfer

_PROGRESS_STEP = 10_000
_KEYS_MAX = 20  # named by a dry run, to people, of each kind
_KIND = click.Choice(Source, case_sensitive=False)


@click.command(
    cls=Command,
    examples=(
        "tidegate export memories.jsonl --level CONFIDENTIAL",
        "tidegate export --level INTERNAL >> all.jsonl",
    ),
)
@click.argument("file", required=False, help="Where to; without it, or with -, standard output.")
def export(file: str | None) -> None:
    """Write all memories that --level (or the session) may see, as JSON Lines.

    The first line says the level. Each memory has its own; what lies higher is not in the file. A FILE is readable for
    its owner alone, and replaced only when the new one is whole.
    """
    with open_at_level() as (store, level, _):
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
@click.option("--from", "source", type=_KIND, metavar="KIND", help=f"{', '.join(Source)}.")
@click.option("--source-agent", metavar="AGENT", help="Whose memories to take, where the file holds several agents'.")
@click.option("--exact", is_flag=True, help="Leave out what is labelled with another level than that of the import.")
@click.option("--overwrite", is_flag=True, help="Also replace memories that were saved later here.")
@click.option("--restore-deleted", is_flag=True, help="Also bring back memories that were deleted here.")
@click.option("--strict", is_flag=True, help="Import nothing when any memory is refused.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
def import_(file: str, source: Source | None, source_agent: str | None, **rules: bool) -> int:
    """Take memories in from FILE, all at --level (or the session's), in one transaction.

    What FILE is, is told from what is in it, or by --from. Each memory is marked as imported. One that is labelled
    higher is refused, by its line; the others are imported, and the exit code is 1. Importing again changes nothing.
    """
    from tidegate.transfer.importing import Rules

    notices: list[Notice] = []

    def hear(notice: Notice) -> None:
        info(f"{'refused' if notice.refused else 'note'}: {notice.place}: {notice.reason}")
        if options().json:
            notices.append(notice)

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
@click.argument("file", help="Where to. What is there is replaced when the new backup has been read back.")
def backup(file: str) -> None:
    """Write everything of the agent to one FILE: all levels, versions, deletions, audit chains, sessions.

    It can be done while servers run. The FILE holds RESTRICTED memories in plain text: keep it as you keep those.
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
@click.option("--dry-run", is_flag=True, help="Only check the backup, and whether it could be restored.")
@click.option("--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
def restore_backup(file: str, dry_run: bool, yes: bool) -> int:
    """Restore a backup into an agent that is empty: all of it, or nothing.

    Levels, versions, deletions and audit chains are as they were. Sessions come back as ended ones, since what their
    clients have read since then is not known: start new ones, under new names.
    """
    with _at_no_level() as transfer:
        if dry_run or not yes:
            plan = transfer.restore_backup(file, dry_run=True, progress=_progress)
            if dry_run:
                _show_restored(plan, dry_run=True)
                return 0
            if not agreed(f"Restore {_counted(plan)}?", unasked="without a terminal a restore needs --yes"):
                info("nothing was changed")
                return 1
        _show_restored(transfer.restore_backup(file, progress=_progress), dry_run=False)
    return 0


def _show_restored(done: BackedUp, *, dry_run: bool) -> None:
    result = jsonable(done)
    show({"dry_run": True, **result} if dry_run else result, [f"{_would(dry_run, 'restored')} {_counted(done)}"])


@contextmanager
def _at_no_level() -> Iterator[Transfer]:
    """Yield the agent's transfer, for what concerns all its levels."""
    with open_store() as store:
        yield store.transfer(options().agent)


def _progress(what: str, done: int) -> None:
    if done % _PROGRESS_STEP == 0:
        info(f"{what} {done}")


def _import_lines(done: Imported) -> Iterable[str]:
    counts = f"{done.created} created, {done.updated} updated, {done.unchanged} unchanged, {done.skipped} skipped"
    yield f"{_would(done.dry_run, 'imported')} from {done.source} at {done.level}: {counts}, {done.refused} refused"
    for verb, keys in (("create", done.creates), ("update", done.updates)):
        yield from (f"{verb}  {output.escape(key)}" for key in keys[:_KEYS_MAX])
        if len(keys) > _KEYS_MAX:
            yield f"{verb}  and {len(keys) - _KEYS_MAX} more; --json names them all"


def _counted(done: BackedUp) -> str:
    versions, sessions = output.counted(done.versions, "version"), output.counted(done.sessions, "session")
    return f"{done.agent}: {versions}, {output.counted(done.entries, 'audit entry', 'audit entries')}, {sessions}"


def _would(dry_run: bool, done: str) -> str:
    return f"would be {done}:" if dry_run else done
