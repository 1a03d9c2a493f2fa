"""The command line: the root command, and the exit codes and error lines of all commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from tidegate.cli import output
from tidegate.cli.common import CommandSpec, LazyGroup
from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError, TidegateError

_EXIT_CODES: dict[type[TidegateError], int] = {
    InvalidArgument: 2,
    LimitExceeded: 2,
    NotFound: 1,
    Refused: 1,
    StorageError: 3,
}
_INTERRUPTED = 130  # as shells report it


# In the order of `tidegate --help`, which loads none of these modules.
COMMANDS = {
    "save": CommandSpec("memory:save", "Save a memory under a key."),
    "get": CommandSpec("memory:get", "Show one memory in full."),
    "search": CommandSpec("memory:search", "Find memories, best match first."),
    "list": CommandSpec("memory:list_", "List memories, page by page."),
    "delete": CommandSpec("memory:delete", "Delete one memory."),
    "session": CommandSpec("session:session", "Create, raise and end sessions."),
    "history": CommandSpec("owner:history", "Show every version of a memory."),
    "restore": CommandSpec("owner:restore", "Restore an earlier version of a memory."),
    "relabel": CommandSpec("owner:relabel", "Copy a memory to another level."),
    "pin": CommandSpec("owner:pin", "Pin a memory, so that a model sees it first."),
    "unpin": CommandSpec("owner:unpin", "Unpin a memory."),
    "purge": CommandSpec("owner:purge", "Remove deleted memories and old versions permanently."),
    "export": CommandSpec("transfer:export", "Export memories to a file."),
    "import": CommandSpec("transfer:import_", "Import memories from a file, all at one level."),
    "backup": CommandSpec("transfer:backup", "Back up an agent to one file."),
    "restore-backup": CommandSpec("transfer:restore_backup", "Restore a backup into an empty agent."),
    "audit": CommandSpec("audit:audit", "Show, verify and anchor the audit chains."),
    "agent": CommandSpec("owner:agent", "List agents, or erase one."),
    "reindex": CommandSpec("owner:reindex", "Rebuild the search index."),
    "doctor": CommandSpec("doctor:doctor", "Check the home for problems."),
    "tools": CommandSpec("tools:tools", "List, check and trust the tools of other MCP servers."),
    "chat": CommandSpec("chat:chat", "Talk with the agent."),
    "todo": CommandSpec("todo:todo", "Show the agent's to-do list."),
    "run": CommandSpec("run:run", "Wake the agents for their jobs and triggers."),
    "cron": CommandSpec("cron:cron", "Schedule jobs and show their runs."),
    "mcp": CommandSpec("servers:mcp", "Serve the memory tools to an MCP client."),
    "gateway": CommandSpec("servers:gateway", "Serve the memory tools and those of other MCP servers."),
    "demo": CommandSpec("servers:demo", "Show how Tidegate works, with a real server and client."),
}

_ALIASES = {
    "add": "save",
    "set": "save",
    "show": "get",
    "find": "search",
    "ls": "list",
    "rm": "delete",
    "remove": "delete",
    "forget": "delete",
    "undelete": "restore",
    "verify": "audit verify",
}


@click.group(
    name="tidegate",
    cls=LazyGroup,
    specs=COMMANDS,
    aliases=_ALIASES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tidegate", message="tidegate %(version)s")
def root() -> None:
    """Persistent memory for AI agents. It cannot leak downward.

    A level says how sensitive a memory is: PUBLIC < INTERNAL < CONFIDENTIAL < RESTRICTED. A session is a
    conversation. Its taint is its current level. It sees memories at its taint and below.

    Without --session, a command uses a temporary session at --level. What it saves is kept; the session itself is not
    stored. The common options go before or after the command.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return 0, 1 (not found, refused, problem found), 2 (bad argument, limit) or 3 (storage)."""
    output.speak_utf8()
    # Read as UTF-8, whatever the locale is.
    given = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv[1:]]
    words = given if arguments is None else list(arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has left, after the command finished its work
        output.discard(sys.stdout)
        return 1
    except OSError:
        output.discard(sys.stdout)
        failed = "cannot read standard input or write standard output: it is closed, full, or failed"
        output.warn(f"tidegate: {failed}; what was changed stays changed")
        return 3
    return code


def _run(words: list[str]) -> int:
    try:
        return root.main(words, prog_name="tidegate", standalone_mode=False) or 0
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as usage:
        for line in usage.format_message().split("\n"):
            output.warn(line)
        return 2
    except click.UsageError as usage:
        return _fail(_misuse(usage), words)
    except TidegateError as error:
        return _fail(error, words)
    except OSError as error:
        if error.filename is None:  # of a stream; all else names its file
            raise
        from tidegate.files import reason_of

        reason = reason_of(error, "a file cannot be used; check the permissions of the home")
        return _fail(StorageError(f"{reason}; the command was not completed"), words)
    except Exception as error:  # a traceback would show content and paths (P12)
        if os.environ.get("TIDEGATE_DEBUG"):
            raise
        failure = f"unexpected failure ({type(error).__name__}); set TIDEGATE_DEBUG=1 to see where"
        return _fail(StorageError(failure), words)


def _misuse(usage: click.UsageError) -> InvalidArgument:
    """Return click's usage error as one of ours, with the help to read."""
    path = usage.ctx.command_path if usage.ctx else "tidegate"
    named = {"argument": usage.param.name} if isinstance(usage, click.BadParameter) and usage.param else {}
    said = " ".join(usage.format_message().split())  # click writes each choice on its own line
    return InvalidArgument(f"{said.rstrip('.')} (see: {path} --help)", **named)


def _fail(error: TidegateError, words: Sequence[str]) -> int:
    """Show the error and return its exit code. Parsing may have failed, so look for --json among the words."""
    before_dashes = words[: words.index("--")] if "--" in words else words
    if "--json" in before_dashes:
        output.emit(output.to_json({"error": error.to_dict()}))
    else:
        level = error.details.get("visible_at")  # of a visible variant that the command did not act on
        elsewhere = "" if level is None else f"{output.elsewhere(error)}; use --level {level}"
        output.warn(f"tidegate: {error.message}{elsewhere}{_installed_by(error)}")
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def _installed_by(error: TidegateError) -> str:
    """Return how to install what is missing, in this very environment."""
    if "install" not in error.details:
        return ""
    from tidegate.cli.installing import install_command

    return f": {install_command(str(error.details['install']))}"
