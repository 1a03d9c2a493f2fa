"""Owner commands: history, purge, agents and the index. No tool gives a model any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import output
from tidegate.cli.common import (
    AT_ALL_LEVELS,
    FOR_NO_AGENT,
    INCOMPLETE,
    LEVEL,
    Command,
    Group,
    agreed,
    info,
    open_at_level,
    open_owner,
    open_store,
    options,
    show,
)
from tidegate.policy.levels import Level
from tidegate.records.jsonable import jsonable
from tidegate.records.times import write_timestamp

if TYPE_CHECKING:
    from tidegate.owner.owner import Erased
    from tidegate.records.version import Purged, Relabelled, Version

_KEY = "Exact key of the memory."
_DRY_RUN = "Only show what would change."
_YES = "Do not ask. Required without a terminal."


@click.command(
    cls=Command,
    common=AT_ALL_LEVELS,
    examples=("tidegate history user-name", "tidegate history user-name --level PUBLIC --json"),
)
@click.argument("key", help=_KEY)
def history(key: str) -> int:
    """Show every version of a memory, newest first, deleted ones too.

    JSON: one object per line. Exit code 1 if no version is kept.
    """
    with open_owner() as owner:
        versions = owner.history(key, options().level)
    for version in versions:
        show(jsonable(version), _version_lines(version))
    if not versions:
        info("no version is kept under this key")
    return 0 if versions else 1


@click.command(
    cls=Command, examples=("tidegate restore user-name", "tidegate restore plan --version 2 --level INTERNAL")
)
@click.argument("key", help=_KEY)
@click.option("--version", type=int, metavar="N", help="Version to restore. [default: the deleted or the previous one]")
def restore(key: str, version: int | None) -> None:
    """Restore an earlier version of a memory, at --level or the session's level.

    It is saved as a new version and keeps its origin. A deleted memory becomes visible again.
    """
    with open_at_level() as (store, level, session):
        done = store.owner(options().agent).restore(key, level, version=version, session=session)
    memory = _named(done.key, done.classification)
    if done.status == "unchanged":
        line = f"{memory} already is as in version {done.restored_version}; nothing was changed"
    else:
        line = f"restored {memory} from version {done.restored_version}"
    show({"restored": True, **jsonable(done)}, [line])


@click.command(
    cls=Command,
    common={"session": None, "level": "Level of the original. [default: the highest level at which KEY exists]"},
    examples=(
        "tidegate relabel plan --to RESTRICTED",
        "tidegate relabel plan --to PUBLIC --dry-run",
        "tidegate relabel plan --level INTERNAL --to PUBLIC --yes",
    ),
)
@click.argument("key", help=_KEY)
@click.option("--to", "target", type=LEVEL, metavar="LEVEL", required=True, help="Level of the copy.")
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--yes", is_flag=True, help=_YES)
def relabel(key: str, target: Level, dry_run: bool, yes: bool) -> int:
    """Copy a memory to another level. The original stays.

    Before a copy to a lower level, the command asks: what lower sessions have seen cannot be taken back.
    """
    with open_owner() as owner:
        plan = owner.relabel(key, target, options().level, dry_run=True)
        if dry_run:
            _show_relabelled(plan, dry_run=True)
            return 0
        question = f"Show {output.escape(plan.key)} ({plan.copied_from}) to {target} sessions?"
        if plan.lowers and not yes and not _agreed(question):
            return 1
        _show_relabelled(owner.relabel(key, target, plan.copied_from), dry_run=False)
    return 0


@click.command(
    cls=Command, examples=("tidegate pin user-name", "tidegate pin plan --level CONFIDENTIAL", "tidegate pin --json")
)
@click.argument("key", required=False, help=f"{_KEY} Without it, list the pinned memories.")
def pin(key: str | None) -> None:
    """Pin the memory at --level or the session's level, or list the pinned ones.

    A model's prompt holds a block of memories, and pinned memories come first in it. When a pinned memory is saved
    again, it stays pinned unless the origin of the new version is less trusted. At most 50 memories can be pinned at
    each level. Without KEY, the command lists the pinned memories; JSON: one object per line.
    """
    if key is None:
        _list_pinned()
        return
    with open_at_level() as (store, level, session):
        done = store.owner(options().agent).pin(key, level, session=session)
    already = "" if done.status == "updated" else "; it was pinned already"
    show({"pinned": True, **jsonable(done)}, [f"pinned {_named(done.key, done.classification)}{already}"])


def _list_pinned() -> None:
    with open_at_level() as (store, level, _):
        memories = store.owner(options().agent).pinned(level)
    for each in memories:
        where = f"{each.classification!s:<12}  version {each.version}  {each.origin}"
        show(jsonable(each), [f"{where}  {output.escape(each.key)}"])
    if not memories:
        info(f"no memory is pinned at {level}")


@click.command(cls=Command, examples=("tidegate unpin user-name", "tidegate unpin plan --level CONFIDENTIAL"))
@click.argument("key", help=_KEY)
def unpin(key: str) -> None:
    """Unpin the memory at --level or the session's level."""
    with open_at_level() as (store, level, session):
        done = store.owner(options().agent).unpin(key, level, session=session)
    already = "" if done.status == "updated" else "; it was not pinned"
    show({"unpinned": True, **jsonable(done)}, [f"unpinned {_named(done.key, done.classification)}{already}"])


@click.command(
    cls=Command,
    common=AT_ALL_LEVELS,
    examples=(
        "tidegate purge --older-than 90d --dry-run",
        "tidegate purge --older-than 12h --level PUBLIC --yes",
        "tidegate purge --older-than 0 --yes",
    ),
)
@click.option(
    "--older-than", "age", metavar="AGE", required=True, help="Minimum age: 90d, 12h, 30m, 2w; 0 for any age."
)
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--yes", is_flag=True, help=_YES)
def purge(age: str, dry_run: bool, yes: bool) -> int:
    """Remove deleted memories and superseded versions permanently.

    Also removes conversations that cannot be continued: those of sessions that have ended or were never stored, and
    what an active session said at a lower level, before it rose. The age of a memory counts from its deletion, that of
    a version from the last save of the next version. Afterwards no file holds the removed data. The audit entries stay,
    and still verify.

    If another process is reading the home, a file may still hold some of the data: the command says so and exits with
    3. Run it again. The command needs about as much RAM as a level takes on disk.
    """
    from tidegate.records.times import read_duration

    older_than = read_duration(age, "older-than")
    with open_owner() as owner:
        if not dry_run and not yes:
            count = sum(done.versions for done in owner.purge(older_than, options().level, dry_run=True))
            if not _agreed(f"Remove {output.counted(count, 'version')} permanently?"):
                return 1
        purged = owner.purge(older_than, options().level, dry_run=dry_run, progress=output.warn)
    for done in purged:
        show({**({"dry_run": True} if dry_run else {}), **jsonable(done)}, _purged_lines(done, dry_run=dry_run))
    return 0 if all(done.complete for done in purged) else INCOMPLETE


@click.command(cls=Command, common=AT_ALL_LEVELS, examples=("tidegate reindex", "tidegate reindex --level PUBLIC"))
def reindex() -> None:
    """Rebuild the search index. Servers may keep running.

    Until the rebuild is done, searches report that they are not complete. If it is interrupted, the next command
    continues it.
    """
    with open_owner() as owner:
        count = owner.reindex(options().level, progress=output.warn)
    show({"reindexed": count}, [f"indexed {output.counted(count, 'memory', 'memories')}"])


@click.group(cls=Group, common=FOR_NO_AGENT)
def agent() -> None:
    """List agents, or erase one. These are owner commands."""


@agent.command(name="list", common=FOR_NO_AGENT, examples=("tidegate agent list", "tidegate agent list --json"))
def list_() -> None:
    """List the agents that have stored data. JSON: one object per line."""
    with open_store() as store:
        agents = store.agents()
    for name in agents:
        show({"agent": name}, [name])
    if not agents:
        info("no agents")


@agent.command(
    common=FOR_NO_AGENT,
    examples=("tidegate agent erase assistant --dry-run", "tidegate agent erase assistant --yes"),
)
@click.argument("name", metavar="AGENT", help="Name of the agent.")
@click.option("--dry-run", is_flag=True, help=_DRY_RUN)
@click.option("--yes", is_flag=True, help=_YES)
def erase(name: str, dry_run: bool, yes: bool) -> int:
    """Erase everything saved for AGENT, at every level, with its audit chains, and end its sessions.

    No chain remains to record the erasure, so the command prints where the chains ended: keep that as the record.
    SPINE.md and TRIGGER.md stay. The names of the ended sessions stay too, so that none is used again.
    """
    with open_store() as store:
        plan = store.owner(name).erase(dry_run=True)
        if not dry_run and not yes and not _agreed(f"Erase {name} at every level, permanently?"):
            return 1
        erased = plan if dry_run else store.owner(name).erase()
    _show_erased(erased, dry_run=dry_run)
    return 0


def _agreed(question: str) -> bool:
    """Ask the owner and return whether they agree. If not, say that nothing was changed."""
    yes = agreed(question, unasked="this cannot be undone; without a terminal, give --yes")
    if not yes:
        info("nothing was changed")
    return yes


def _named(key: str, level: Level) -> str:
    return f"{output.escape(key)} at {level}"


def _version_lines(version: Version) -> Iterator[str]:
    when = write_timestamp(version.updated_at)
    origin = f"{version.origin}{'  pinned' if version.pinned else ''}"
    yield f"{version.classification!s:<12}  version {version.version}  {version.state:<10}  {when}  {origin}"
    if version.deleted_at is not None:
        yield f"  {'expired' if version.state == 'expired' else 'deleted'} at {write_timestamp(version.deleted_at)}"
    if version.tags:
        yield f"  tags: {output.tags_line(version.tags)}"
    yield from output.escape_lines(version.content, indent="  ").split("\n")


def _show_relabelled(done: Relabelled, *, dry_run: bool) -> None:
    stored = {name: value for name, value in jsonable(done).items() if value is not None}
    result = {"dry_run" if dry_run else "relabelled": True, **stored}
    verb = "would copy" if dry_run else "copied"
    show(result, [f"{verb} {_named(done.key, done.copied_from)} to {done.classification}; the original stays"])


def _purged_lines(done: Purged, *, dry_run: bool) -> Iterator[str]:
    verb = "would remove" if dry_run else "removed"
    complete = f"including {output.counted(done.memories, 'complete memory', 'complete memories')}"
    yield f"{done.classification!s:<12}  {verb} {output.counted(done.versions, 'version')}, {complete}"
    if not done.complete:
        yield "  not complete: a reader was active or the disk is full; a file may still hold some data; run it again"


def _show_erased(done: Erased, *, dry_run: bool) -> None:
    result: dict[str, Any] = {
        "dry_run" if dry_run else "erased": True,
        "agent": done.agent,
        "levels": done.levels,
        "sessions_ended": done.sessions,
        "heads": done.heads,
    }
    verb = "would erase" if dry_run else "erased"
    levels, sessions = output.counted(len(done.levels), "level"), output.counted(done.sessions, "active session")
    lines = [f"{verb} {done.agent}: {levels}, {sessions}"]
    heads = [f"  {head.level!s:<12}  chain ended at {head.sequence}: {head.hash}" for head in done.heads]
    show(result, lines + heads)
