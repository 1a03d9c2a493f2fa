"""Owner commands for the tools of other MCP servers: list them, check a call against the policy, and trust them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.common import (
    DEFAULT_LEVEL,
    FOR_NO_AGENT,
    Group,
    agreed,
    info,
    level_or,
    open_store,
    options,
    refuse_both,
    show,
)
from tidegate.cli.output import at_most, escape
from tidegate.cli.tool_changes import IN_SHORT, question, short, whole
from tidegate.errors import InvalidArgument, Refused
from tidegate.policy.decisions import Allow, Decision, PolicyRule
from tidegate.policy.levels import Level
from tidegate.policy.rules import decide
from tidegate.policy.servers import Classification, Pin, ServerCall
from tidegate.policy.session_state import SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tidegate.config.servers import Server
    from tidegate.gateway.pins import Definition, Definitions
    from tidegate.gateway.tool_list import ToolList

_UNREACHABLE = "unreachable"
_UNUSABLE = "unusable"
_NAMES_MAX = 10
_CALLER = {
    "agent": "Agent of the session. [default: assistant]",
    "session": "Session of the call.",
    "level": f"Level of the call without --session. [default: {DEFAULT_LEVEL}]",
}


@click.group(cls=Group, common=_CALLER)
def tools() -> None:
    """List, check and trust the tools of the MCP servers in config.toml, [servers.NAME].

    Each tool has a source (the level of what it returns), a sink (the highest level that it may be told) and a state
    (whether you trust its definition).
    """


@tools.command(name="list", common=FOR_NO_AGENT, examples=("tidegate tools list", "tidegate tools list files --json"))
@click.argument("name", required=False, help="Name of one server. [default: all servers]")
def list_(name: str | None) -> int:
    """Ask the servers for their tools. JSON: one object per line.

    Show for each tool its source (the level of what it returns), its sink (the highest level that it may be told) and
    its state (whether you trust its definition).

    Exit code 1 if a server does not answer. Its trusted tools are then shown as unreachable.
    """
    from tidegate.gateway.pins import Pins

    home, servers = _servers()
    chosen = [_the(servers, name)] if name is not None else list(servers.values())
    answered = [_list(server, Pins(home).of(server.name)) for server in chosen]
    if not chosen:
        info("no servers in config.toml")
    return 0 if all(answered) else 1


@tools.command(common=_CALLER, examples=("tidegate tools check files__read_text_file --session main",))
@click.argument("tool", help="Name of the tool, as in `tools list`.")
def check(tool: str) -> int:
    """Explain whether the policy allows a call of TOOL: by which rule, at which levels.

    No call is made and no server is asked: the tools are assumed to be unchanged since you trusted them.
    """
    from tidegate.gateway.catalog import catalog
    from tidegate.gateway.pins import Pins

    home, servers = _servers()
    state = _state()
    pins = Pins(home)
    pin, classification, server = _known(tool, servers, pins)
    decision = decide(ServerCall(state, classification, pin))
    explained = {
        "tool": tool,
        **_explained(decision, server),
        "session": options().session,
        "taint": state.taint,
        "ceiling": state.ceiling,
        **_levels(classification),
        "pin": str(pin),
        "asked": False,
    }
    show(explained, _explanation(explained))
    if pin is not Pin.TRUSTED:
        trusted = list(catalog(servers.values(), pins))
        advice = "`tidegate tools list` asks the servers for theirs"
        info(f"{tool} is not a trusted tool; {advice}{'. Trusted:' if trusted else ''}")
        for line in at_most(trusted, _NAMES_MAX):
            info(f"  {line}")
    return 0 if isinstance(decision, Allow) else 1


@tools.command(
    common=FOR_NO_AGENT, examples=("tidegate tools trust files --dry-run", "tidegate tools trust files --yes")
)
@click.argument("name", help="Name of the server.")
@click.option("--dry-run", is_flag=True, help="Only show what is new or changed.")
@click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
@click.option("--full", is_flag=True, help="Show each new or changed definition whole, as --json does.")
def trust(name: str, dry_run: bool, yes: bool, full: bool) -> int:
    """Show what is new or changed in a server's tools, and trust it.

    In short: of a new tool the first line of its description and its arguments, of a changed one each place that
    differs, before and after. Whatever is cut off is counted. --full shows all.

    A new tool cannot be called until you trust it. If a trusted tool changes, no tool of that server can be called
    until you trust the change.
    """
    from tidegate.gateway.pins import Pins, compare
    from tidegate.store import utc_now

    home, servers = _servers()
    server, pins = _the(servers, name), Pins(home)
    listing, pinned = _look(server), pins.of(name)
    # A pin on a tool that cannot be used now stays: what it comes back with is compared with it.
    kept = {tool: pin for tool, pin in pinned.items() if tool in listing.unusable}
    found = {**listing.definitions, **kept}
    states = compare(pinned, found)
    news = {tool: state for tool, state in states.items() if state is not Pin.TRUSTED}
    for tool, state in news.items():
        for line in (whole if full else short)(tool, state, pinned.get(tool), found.get(tool)):
            info(line)
    if news and not full:
        info(IN_SHORT)
    for tool, why in listing.unusable.items():
        info(f"{_UNUSABLE}: {tool}: {why}")
    unasked = "without a terminal, look with --dry-run first, then give --yes"
    asking = bool(news) and not dry_run
    trusting = asking and (yes or agreed(question(escape(name), news.values()), unasked=unasked))
    if trusting:
        pins.trust(name, found.values(), utc_now())
    usable = {tool: pin for tool, pin in states.items() if tool not in kept}
    changes = [_change(pin, tool, pinned.get(tool), found.get(tool)) for tool, pin in usable.items()]
    changes += [{"tool": tool, "pin": _UNUSABLE, "reason": why} for tool, why in listing.unusable.items()]
    result = {"server": name, "trusted": trusting or not news, "tools": changes}
    outcome = "trusted" if trusting else "nothing was changed" if news else "all tools are as you trusted them"
    show({"dry_run": True, **result} if dry_run else result, [f"{name}: {outcome}"])
    return 0 if result["trusted"] or dry_run else 1


def _list(server: Server, pinned: Definitions) -> bool:
    """Show the tools of one server and return whether it answered."""
    from tidegate.gateway.catalog import catalog_name
    from tidegate.gateway.pins import compare

    states: dict[str, str]
    unusable: dict[str, str] = {}
    why: dict[str, object] = {}  # empty if the server answered
    try:
        listing = _look(server)
        unusable = listing.unusable
        states = {tool: str(pin) for tool, pin in compare(pinned, listing.definitions).items()}
        states.update(dict.fromkeys(unusable, _UNUSABLE))
    except Refused as refused:
        info(refused.message)
        # The server's standard error is for the owner, and goes to no log (P12).
        stderr = {name: lines for name, lines in refused.details.items() if name == "stderr"}
        states, why = dict.fromkeys(pinned, _UNREACHABLE), {"reason": refused.message, **stderr}
    for tool, state in states.items():
        row: dict[str, Any] = {
            "server": server.name,
            "tool": tool,
            "name": catalog_name(server.name, tool),
            **_levels(server.classify(tool)),
            "pin": state,
            **({"reason": unusable[tool]} if tool in unusable else why),
        }
        levels = f"source {row['source'] or '-':<12}  sink {row['sink'] or '-':<12}"
        reason = f" ({unusable[tool]})" if tool in unusable else ""
        show(row, [f"{levels}  {state:<11}  {row['name']}{reason}"])
    if not states:
        row = {"server": server.name, "tool": None, "pin": _UNREACHABLE if why else None, **why}
        show(row, [f"{server.name}: {'no tools are known' if why else 'has no tools'}"])
    return not why


def _look(server: Server) -> ToolList:
    """Return the server's current tools. Raises: Refused, with the reason, if it does not answer."""
    import asyncio

    try:
        from tidegate.gateway.connections import look
    except ModuleNotFoundError:
        raise InvalidArgument(
            "tools: the MCP library is not installed; it comes with tidegate[server]", install="tidegate[server]"
        ) from None
    from tidegate.gateway.diagnostics import CutOffError

    info(f"{server.name}: asking for its tools")
    try:
        return asyncio.run(look(server))
    except CutOffError as error:
        for line in error.lines:
            info(f"{server.name} wrote: {line}")
        lines: dict[str, Any] = {"stderr": error.lines} if error.lines else {}
        raise Refused(f"{server.name}: the server {error.reason}", rule=PolicyRule.P14, **lines) from None


def _servers() -> tuple[Path, Mapping[str, Server]]:
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings

    home = find_home(options().home)
    return home, read_settings(home).servers


def _the(servers: Mapping[str, Server], name: str) -> Server:
    if name not in servers:
        raise InvalidArgument(
            "name: config.toml has no server of this name; add it, or choose another", argument="name"
        )
    return servers[name]


def _state() -> SessionState:
    """Return the state of the calling session. This resumes no session and makes no audit entry."""
    refuse_both()
    name = options().session
    with open_store() as store:
        if name is None:
            return SessionState(level_or(store.sessions.default_level), Level.RESTRICTED)
        rows = [row for row in store.sessions.list(options().agent) if row.name == name]
        return (rows[0] if rows else store.sessions.find(options().agent, name)).state


def _known(tool: str, servers: Mapping[str, Server], pins: Any) -> tuple[Pin, Classification | None, str]:
    """Return the pin, classification and server of a tool that are known without asking the server."""
    from tidegate.gateway.catalog import catalog

    if (entry := catalog(servers.values(), pins).get(tool)) is not None:
        return Pin.TRUSTED, entry.classification, entry.server.name
    name, _, rest = tool.partition("__")
    if name in servers:
        return Pin.NEW, servers[name].classify(rest), name
    return Pin.UNKNOWN, None, ""


def _explained(decision: Decision, server: str) -> dict[str, Any]:
    if isinstance(decision, Allow):
        reason = "the taint is not above the sink, and after the call it will not be above the ceiling"
        return {"allowed": True, "rule": "P4", "reason": reason, "taint_after": str(decision.level)}
    reason = decision.hint.replace("tools trust`", f"tools trust {server}`")
    return {"allowed": False, "rule": decision.rule, "reason": reason, "taint_after": None}


def _explanation(explained: Mapping[str, Any]) -> Iterator[str]:
    verdict = f"allowed, and raises the taint to {explained['taint_after']}" if explained["allowed"] else "refused"
    if explained["pin"] == str(Pin.UNKNOWN):
        verdict = "no such tool: refused"
    yield f"{verdict} ({explained['rule']}): {explained['reason']}"
    pinned = f"definition {explained['pin']}"
    if explained["pin"] == str(Pin.TRUSTED):
        pinned += " (the server was not asked)"
    yield f"  taint {explained['taint']}, ceiling {explained['ceiling']}"
    yield f"  source {explained['source'] or 'none'}, sink {explained['sink'] or 'none'}, {pinned}"


def _levels(classification: Classification | None) -> dict[str, str | None]:
    if classification is None:
        return {"source": None, "sink": None}
    return {"source": str(classification.source), "sink": str(classification.sink)}


def _change(pin: Pin, tool: str, before: Definition | None, after: Definition | None) -> dict[str, Any]:
    """Return a tool's pin for programs, with both definitions unless it is trusted."""
    if pin is Pin.TRUSTED:
        return {"tool": tool, "pin": str(pin)}
    return {"tool": tool, "pin": str(pin), "before": before and before.to_dict(), "after": after and after.to_dict()}
