"""Owner commands for sessions. No tool gives a model any of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.common import INCOMPLETE, LEVEL, NO_LEVEL, Group, agreed, info, level_or, open_store, options, show
from tidegate.cli.output import REMAINS, escape, warn
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level

if TYPE_CHECKING:
    from tidegate.core.sessions import Sessions
    from tidegate.storage.control import SessionRow

_NAME = "Name of the session."
_BY_OPTION = "The same as the argument NAME."
_UNASKED = "a reset is permanent; without a terminal, give --yes"
_OF_ONE = {"session": _BY_OPTION, "level": None}


@click.group(
    cls=Group,
    common={"session": "Name of the session, for show, new, reset and renew.", "level": "Level, for list and new."},
)
def session() -> None:
    """Create, raise and end sessions. These are owner commands."""


@session.command(
    name="list",
    common={"session": None, "level": "Only sessions at or below this level. [default: all levels]"},
    examples=("tidegate session list", "tidegate session list --level INTERNAL --json"),
)
def list_() -> None:
    """List the agent's sessions, ended ones too. JSON: one object per line."""
    top = level_or(Level.RESTRICTED)
    with open_store() as store:
        rows = [row for row in store.sessions.list(options().agent) if row.taint.can_flow_to(top)]
    for row in sorted(rows, key=lambda row: _natural(row.name or row.id)):
        _show(row)
    if not rows:
        info("no sessions")


@session.command(name="show", common=_OF_ONE, examples=("tidegate session show main",))
@click.argument("name", required=False, help=_NAME)
def show_(name: str | None) -> None:
    """Show one session: its taint, its ceiling, and whether it is active."""
    with _sessions() as sessions:
        _show(_any(sessions, _the(name)))


@session.command(
    common={"session": _BY_OPTION},
    examples=(
        "tidegate session new main --level INTERNAL",
        "tidegate session new --level PUBLIC --ceiling CONFIDENTIAL",
    ),
)
@click.argument("name", required=False, help="A name that was never used before. [default: a random one]")
@click.option("--ceiling", type=LEVEL, metavar="LEVEL", help="Highest level of the taint. [default: RESTRICTED]")
def new(name: str | None, ceiling: Level | None) -> None:
    """Create a session at --level."""
    from tidegate.store import fresh_id

    chosen = _the(name, otherwise=fresh_id())
    with open_store() as store:
        _show(store.sessions.new(options().agent, chosen, options().level, ceiling))


@session.command(name="raise", common=NO_LEVEL, examples=("tidegate session raise main CONFIDENTIAL",))
@click.argument("name", help=_NAME)
@click.argument("target", type=LEVEL, metavar="LEVEL", help="New taint; no effect if the taint is already higher.")
def raise_(name: str, target: Level) -> None:
    """Raise a session's taint to LEVEL permanently. A running server notices at its next call."""
    with _sessions() as sessions:
        row = sessions.find(options().agent, name)
        sessions.raise_taint(row.id, target, reason="by the owner")
        _show(sessions.living(row.id))
    if target.can_flow_to(row.taint):
        info("nothing was changed: a taint only rises")


@session.command(common=NO_LEVEL, examples=("tidegate session ceiling main CONFIDENTIAL",))
@click.argument("name", help=_NAME)
@click.argument("target", type=LEVEL, metavar="LEVEL", help="Highest level of the taint.")
def ceiling(name: str, target: Level) -> None:
    """Set how high a session may rise. The ceiling cannot be below the taint."""
    with _sessions() as sessions:
        row = sessions.named(options().agent, name)
        sessions.set_ceiling(row.id, target)
        _show(sessions.living(row.id))


@session.command(
    common=_OF_ONE,
    examples=(
        "tidegate session reset main --dry-run",
        "tidegate session reset main --yes",
        "tidegate session reset --lost --dry-run",
    ),
)
@click.argument("name", required=False, help=_NAME)
@click.option("--lost", is_flag=True, help="All sessions that control.db has lost, instead of NAME.")
@click.option("--dry-run", is_flag=True, help="Only show which session would end.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
def reset(name: str | None, lost: bool, dry_run: bool, yes: bool) -> int:
    """End a session and its child sessions permanently. Its memories stay. Its name is blocked until you renew it.

    The messages of the conversation are removed from the files. If another process is reading the home, a file may
    still hold some of them: the command says so and exits with 3, and a purge removes them.

    --lost ends the sessions that the audit knows but control.db does not, for example after an older control.db was put
    back. Their names are lost too, and can be used again. Do not give such a name to a client that continues its old
    conversation.
    """
    if lost:
        return _reset_lost(name, dry_run=dry_run, yes=yes)
    with _sessions() as sessions:
        row = sessions.named(options().agent, _the(name))
        if dry_run:
            _show(row, dry_run=True)
            return 0
        question = f"End session {escape(row.name or '')} (taint {row.taint}) permanently?"
        if not (yes or agreed(question, unasked=_UNASKED)):
            info("nothing was changed")
            return 1
        complete = sessions.reset(row.id)
        _show(_any(sessions, row.name or ""))
    if not complete:
        warn(REMAINS)
    return 0 if complete else INCOMPLETE


@session.command(
    common=_OF_ONE, examples=("tidegate session renew main --dry-run", "tidegate session renew main --yes")
)
@click.argument("name", required=False, help=_NAME)
@click.option("--dry-run", is_flag=True, help="Only show which session would end.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
def renew(name: str | None, dry_run: bool, yes: bool) -> int:
    """End a session as `reset` does, and free its name for a new session.

    First start a new conversation in the client that uses the name. Then renew the name, and restart the client's
    server: a server that is still running keeps answering `session ended`. Never renew the name of a conversation that
    continues: the new session would start at a lower level than what the conversation has read.

    You can also renew a session that has ended. `session list` shows the old session by its ID.
    """
    with _sessions() as sessions:
        row = _any(sessions, _the(name))
        if dry_run:
            _show(row, dry_run=True)
            return 0
        question = (
            f"End session {escape(row.name or '')} (taint {row.taint}) permanently? "
            "Agree only if the conversation that will use its name is a new one."
        )
        if not (yes or agreed(question, unasked="a renewal is permanent; without a terminal, give --yes")):
            info("nothing was changed")
            return 1
        complete = sessions.renew(row.agent, row.name or "")
        _show(sessions.read(row.id) or row)
    if not complete:
        warn(REMAINS)
    return 0 if complete else INCOMPLETE


def _reset_lost(name: str | None, *, dry_run: bool, yes: bool) -> int:
    if name is not None or options().session is not None:
        raise InvalidArgument("name: cannot be combined with --lost", argument="name")
    with open_store() as store:
        owner = store.owner(options().agent)
        rows = owner.lost()
        for row in rows:
            _show(row, dry_run=True)
        if not rows:
            info("no lost sessions")
        if not rows or dry_run:
            return 0
        question = f"End {len(rows)} lost sessions permanently?"
        if not (yes or agreed(question, unasked=_UNASKED)):
            info("nothing was changed")
            return 1
        complete = owner.end_lost()
    if not complete:
        warn(REMAINS)
    return 0 if complete else INCOMPLETE


@contextmanager
def _sessions() -> Iterator[Sessions]:
    with open_store() as store:
        yield store.sessions


def _the(name: str | None, *, otherwise: str | None = None) -> str:
    """Return the name given as the argument or by --session."""
    by_option = options().session
    if None not in (name, by_option) and name != by_option:
        raise InvalidArgument("name: differs from --session; give only one of them", argument="name")
    for chosen in (name, by_option, otherwise):
        if chosen is not None:
            return chosen
    raise InvalidArgument("name: is required; give NAME or --session", argument="name")


def _natural(name: str) -> tuple[list[tuple[int, str]], str]:
    """Return the sort key of a name that puts chat-2 before chat-10: the shorter number is smaller."""
    parts = ((part, part.lstrip("0")) for part in re.split("([0-9]+)", name))  # text and number in turn
    return [(len(digits), digits) if at % 2 else (0, part) for at, (part, digits) in enumerate(parts)], name


def _any(sessions: Sessions, name: str) -> SessionRow:
    """Return the session of this name, active or ended."""
    rows = [row for row in sessions.list(options().agent) if row.name == name]
    return rows[0] if rows else sessions.find(options().agent, name)


def _show(row: SessionRow, *, dry_run: bool = False) -> None:
    result: dict[str, Any] = {
        "id": row.id,
        "agent": row.agent,
        "name": row.name,
        "taint": row.taint,
        "ceiling": row.ceiling,
        "parent": row.parent,
        "ended": row.ended,
    }
    state = "ended" if row.ended else "would end" if dry_run else "active"
    # The name comes last, so that it cannot forge anything after it.
    line = f"taint {row.taint!s:<12}  ceiling {row.ceiling!s:<12}  {state:<9}  {escape(row.name or row.id)}"
    show({"dry_run": True, **result} if dry_run else result, [line])
