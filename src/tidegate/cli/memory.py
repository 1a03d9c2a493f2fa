"""The memory verbs. Each calls the tool of its name once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import click

from tidegate.cli import output
from tidegate.cli.common import Command, info, missing, open_session, options, show, standard_input
from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.search.analysis import analyse_query
from tidegate.tools import results

_KEY = "Exact key of the memory."


def _filled(_: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Refuse a filter that is empty, as of a variable that is not set: for a tool it would be no filter at all."""
    if value is not None and not value.strip():
        raise InvalidArgument(f"{option.name}: must not be empty; omit it to see all", argument=option.name)
    return value


@click.command(
    cls=Command,
    examples=(
        'tidegate save user-name "Ada Lovelace" --tag persona',
        "tidegate save notes - < notes.txt",
        'tidegate save plan "We launch in May" --level CONFIDENTIAL',
    ),
)
@click.argument("key", help="Short, stable name.")
@click.argument("content", required=False, help="Text to save; read from standard input if omitted or -.")
@click.option("--tag", "tag", multiple=True, metavar="TAG", help="Tag to filter by; may be repeated.")
@click.option("--tags", metavar="TAG,TAG", help="Several tags, separated by commas.")
def save(key: str, content: str | None, tag: tuple[str, ...], tags: str | None) -> None:
    """Save CONTENT under KEY.

    A memory that exists under KEY at the same level is replaced; its earlier versions are kept. Standard input must be
    UTF-8 and is saved unchanged, including the final newline.
    """
    if content is None and sys.stdin.isatty():
        raise InvalidArgument("content: is required; give it after KEY, or - for standard input", argument="content")
    text = standard_input("content") if content in (None, "-") else content
    _call("memory_save", output.saved, key=key, content=text, tags=[*tag, *(tags or "").split(",")])


@click.command(cls=Command, examples=("tidegate get user-name", "tidegate get user-name --json"))
@click.argument("key", help=_KEY)
def get(key: str) -> int:
    """Show one memory in full. Exit code 1 if it does not exist."""
    result, level = _call("memory_get", lambda result: output.found(result) if result["found"] else (), key=key)
    if not result["found"]:
        info(f"no memory under this key{_seen(level)}")
    return 0 if result["found"] else 1


@click.command(
    cls=Command,
    examples=(
        'tidegate search "what is the user called?"',
        "tidegate search launch -n 3 --level CONFIDENTIAL",
        "tidegate search launch --tag project --since 2030-05-01",
        "tidegate search launhc --explain",
    ),
)
@click.argument("query", help="Plain words in any order and language; there is no query syntax.")
@click.option("-n", "--max-results", type=int, metavar="N", help="Maximum number of results, 1 to 100. [default: 10]")
@click.option("--tag", metavar="TAG", callback=_filled, help="Only memories with this tag, in any letter case.")
@click.option(
    "--since", metavar="TIME", callback=_filled, help="Only memories last saved from this day or time, ISO 8601, UTC."
)
@click.option(
    "--until", metavar="TIME", callback=_filled, help="Only memories last saved up to this day or time, inclusive."
)
@click.option("--explain", is_flag=True, help="Show the search terms and the parts of each score.")
def search(query: str, max_results: int | None, *, explain: bool, **filters: str | None) -> None:
    """Find memories, best match first. Exit code 0 even without a match."""
    if explain:
        with open_session() as session:
            explanation = session.memory.explain(query, max_results=max_results, **filters)
        show(results.explained(query, explanation), output.explained(explanation))
        return
    arguments = {"query": query, "max_results": max_results, **filters}
    result, level = _call("memory_search", lambda result: _short(result["results"]), **arguments)
    if not analyse_query(query):
        info("no match: the query holds no word; `tidegate list` shows every memory")
    elif not result["results"]:
        info(f"no match{' with these filters' if any(filters.values()) else ''}{_seen(level)}")
    if not result["complete"]:
        info("the search ended early: there may be more matches")


@click.command(name="list", cls=Command, examples=("tidegate list", "tidegate list --tag persona --limit 10"))
@click.option("--tag", metavar="TAG", callback=_filled, help="Only memories with this tag, in any letter case.")
@click.option("-n", "--limit", type=int, metavar="N", help="Maximum number of memories, 1 to 200. [default: 50]")
@click.option("--cursor", metavar="CURSOR", help="Continue where the previous page ended.")
def list_(tag: str | None, limit: int | None, cursor: str | None) -> None:
    """List memories in the order of their keys, page by page."""
    result, level = _call("memory_list", lambda result: _short(result["memories"]), tag=tag, limit=limit, cursor=cursor)
    if not result["memories"]:
        info(f"no memory{'' if tag is None else ' with this tag'}{_seen(level)}")
    if result["next_cursor"] is not None:
        info(f"there is more: add --cursor {result['next_cursor']}")


@click.command(cls=Command, examples=("tidegate delete user-name",))
@click.argument("key", help=_KEY)
def delete(key: str) -> None:
    """Delete one memory at the session's own level.

    A memory under the same key at a lower level then becomes visible again.
    """
    look = "find the key with `tidegate search`"
    with open_session() as session, missing(output.NO_MEMORY, at=lambda: session.taint, look=look):
        result = session.call_tool("memory_delete", {"key": key})
    show(result, output.deleted(result))


def _seen(level: Level) -> str:
    """Return where the command looked, and how to look further. It depends on where it looked alone (P5)."""
    if options().session is not None:
        return " is visible to this session"
    if level is Level.RESTRICTED:
        return ""
    return f" is visible at {level}; --level {Level.RESTRICTED} sees every level"


def _call(
    tool: str, lines: Callable[[dict[str, Any]], Iterable[str]], **arguments: object
) -> tuple[dict[str, Any], Level]:
    """Show the result of a tool; return it, and the level of the session in which it ran."""
    with open_session() as session:
        result, level = session.call_tool(tool, arguments), session.taint
    show(result, lines(result))
    return result, level


def _short(memories: list[dict[str, Any]]) -> Iterable[str]:
    return (line for memory in memories for line in output.short(memory))
