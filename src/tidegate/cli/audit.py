"""Owner commands that show, verify and anchor the audit chains."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from tidegate.audit.chain import Action
from tidegate.cli import output
from tidegate.cli.common import AT_ALL_LEVELS, Group, info, open_owner, open_store, options, read_anchor_file, show
from tidegate.errors import StorageError
from tidegate.records.record import RecordKind
from tidegate.records.times import read_bound, write_timestamp

if TYPE_CHECKING:
    from tidegate.audit.verify import ChainVerdict
    from tidegate.owner.audit_query import AuditLine
    from tidegate.store import Store

_ACTIONS = click.Choice([action.value for action in Action if action is not Action.UNKNOWN])
_COMMON = {**AT_ALL_LEVELS, "session": "Only entries of this session, by its name or ID."}
_OWNER = "owner"
_LAST_MAX = 100_000  # all of them are in memory at once
_WHAT_IT_PROVES = """\
What this proves: up to the last anchor, no entry was changed, removed or moved. Verifying cannot notice that entries
after the anchor were cut off, so keep anchors somewhere that users who can write to the home cannot write. Anyone who
can read the key can forge a chain; without a key, anyone can. A key kept under the same user does not protect from that
user."""
_OF_NO_SESSION = " of a session with this name; a renewed session is listed by its ID: `tidegate session list`"


@click.group(cls=Group, common=_COMMON)
def audit() -> None:
    """Show, verify and anchor the audit chains. These are owner commands."""


@audit.command(
    name="show",
    common=_COMMON,
    examples=(
        "tidegate audit show --action refuse --since 2026-01-01",
        "tidegate audit show --session main --level INTERNAL --json",
        "tidegate audit show --last 20",
    ),
)
@click.option(
    "--action", "actions", multiple=True, type=_ACTIONS, metavar="ACTION", help=f"{', '.join(_ACTIONS.choices)}."
)
@click.option("--since", metavar="TIME", help="Earliest day or time, ISO 8601. Without a zone it is UTC.")
@click.option("--until", metavar="TIME", help="Latest day or time, ISO 8601, inclusive. Without a zone it is UTC.")
@click.option("--last", type=click.IntRange(1, _LAST_MAX), metavar="N", help="Only the newest N entries.")
def show_(actions: tuple[str, ...], since: str | None, until: str | None, last: int | None) -> None:
    """Show audit entries, oldest first, one per line.

    A session is shown by its name, if it has one; JSON also has its ID. The chain itself holds no keys: an entry's key,
    and its kind if it is not a memory, are shown while that version is kept.
    """
    from tidegate.owner.audit_query import AuditFilter

    with open_store() as store:
        names, named = _names(store), options().session
        wanted = AuditFilter(
            level=options().level,
            # --session names a session by its name or its ID.
            sessions=None if named is None else {named, *(id_ for id_, name in names.items() if name == named)},
            actions=[Action(action) for action in actions] or None,
            since=read_bound(since, "since"),
            until=read_bound(until, "until", end=True),
        )
        line, lines = None, store.owner(options().agent).find_audit_lines(wanted)
        for line in lines if last is None else deque(lines, last):
            name = names.get(line.entry.event.session)
            show(_line(line, name), [_text(line, name)])
    if line is None:
        unknown = named is not None and named not in names and named not in names.values()
        info(f"no entries{_OF_NO_SESSION if unknown else ''}")


@audit.command(common=AT_ALL_LEVELS, examples=("tidegate audit verify", "tidegate audit verify --anchor anchors.jsonl"))
@click.option("--anchor", "file", metavar="FILE", help="One or more outputs of `audit anchor`, concatenated.")
def verify(file: str | None) -> int:
    """Check that each chain is intact, contains its anchors, and covers everything that is stored.

    JSON: one object per level. Exit code 1 if anything is wrong; the first wrong entry is named.
    """
    anchors = () if file is None else read_anchor_file(file)
    with open_owner() as owner:
        verdicts = owner.verify(options().level, anchors=anchors)
    for verdict in verdicts:
        show(_verdict(verdict), _verdict_lines(verdict))
    for line in _WHAT_IT_PROVES.splitlines():
        info(line)
    return 0 if all(verdict.holds for verdict in verdicts) else 1


@audit.command(common=AT_ALL_LEVELS, examples=("tidegate audit anchor >> anchors.jsonl",))
def anchor() -> None:
    """Print where each chain ends now, as JSON, one object per level.

    Keep the output somewhere that users who can write to the home cannot write.
    """
    with open_owner() as owner:
        for head in owner.anchor(options().level):
            output.emit(output.to_json(head))


def _names(store: Store) -> Mapping[str, str]:
    """Return the sessions' names by ID. If they cannot be read, the chains are shown without them."""
    try:
        return {row.id: row.name or row.id for row in store.sessions.list(options().agent)}
    except StorageError as failure:
        if options().session is not None:
            raise
        info(f"{failure.message}; sessions are shown by their IDs")
        return {}


def _line(line: AuditLine, name: str | None) -> dict[str, Any]:
    event = line.entry.event
    return {
        "level": line.level,
        "sequence": line.entry.sequence,
        "at": event.at,
        "session": event.session,
        "session_name": name,
        "action": event.action,
        "detail": event.detail,
        "kind": line.kind,
        "key": line.key,
        "commitment": event.commitment,
        "hash": line.entry.hash,
    }


def _text(line: AuditLine, name: str | None) -> str:
    event = line.entry.event
    place = f"{write_timestamp(event.at)}  {line.level!s:<12}  {line.entry.sequence:>6}"
    who = output.escape(event.session) or _OWNER
    if name is not None:
        who = output.word(name) if name != _OWNER else output.to_json(name)
    # Text from others comes last, so that it cannot forge anything after it.
    about = f"  {output.escape(line.key)}" if line.key is not None else ""
    kind = "" if line.kind in (None, RecordKind.MEMORY) else f"{line.kind} "
    return f"{place}  {who:<32}  {event.action:<8}  {kind}{output.escape(event.detail)}{about}"


def _verdict(verdict: ChainVerdict) -> dict[str, Any]:
    return {
        "level": verdict.level,
        "holds": verdict.holds,
        "entries": verdict.entries,
        "head": verdict.head,
        "keyed_from": verdict.keyed_from,
        "anchored_to": verdict.anchored_to,
        "problems": [
            {"sequence": each.sequence, "text": each.text, "key": each.key, "advice": each.advice or None}
            for each in verdict.problems
        ],
    }


def _verdict_lines(verdict: ChainVerdict) -> Iterator[str]:
    state = "holds" if verdict.holds else "BROKEN"
    anchored = "no anchor" if verdict.anchored_to is None else f"proven up to {verdict.anchored_to}"
    keyed = "no key" if verdict.keyed_from is None else f"keyed from {verdict.keyed_from}"
    entries = output.counted(verdict.entries, "entry", "entries")
    yield f"{verdict.level!s:<12}  {state:<6}  {entries}, {anchored}, {keyed}"
    for problem in verdict.problems:
        where = "" if problem.sequence is None else f"entry {problem.sequence}: "
        about = "" if problem.key is None else f": {output.escape(problem.key)}"
        yield f"  {where}{problem.text}{about}"
        if problem.advice:
            yield f"    {problem.advice}"
