"""The command line: the root command, and what every command's end has in common."""

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


# In the order in which `tidegate --help` lists them. It loads none of their modules.
COMMANDS = {
    "save": CommandSpec("memory:save", "Remember something under a key."),
    "get": CommandSpec("memory:get", "Show one memory, whole."),
    "search": CommandSpec("memory:search", "Find memories, best match first."),
    "list": CommandSpec("memory:list_", "Go through the memories, page by page."),
    "delete": CommandSpec("memory:delete", "Forget one memory."),
    "session": CommandSpec("session:session", "Make, raise and end sessions."),
    "history": CommandSpec("owner:history", "Show every version of a memory."),
    "restore": CommandSpec("owner:restore", "Save an earlier version again."),
    "relabel": CommandSpec("owner:relabel", "Copy a memory to another level."),
    "purge": CommandSpec("owner:purge", "Really remove what was deleted or replaced."),
    "export": CommandSpec("transfer:export", "Write the memories of a level to a file."),
    "import": CommandSpec("transfer:import_", "Take memories in from a file, all at one level."),
    "backup": CommandSpec("transfer:backup", "Write everything of an agent to one file."),
    "restore-backup": CommandSpec("transfer:restore_backup", "Restore a backup into an agent that is empty."),
    "audit": CommandSpec("audit:audit", "Show, verify and anchor the audit chains."),
    "agent": CommandSpec("owner:agent", "List agents, or erase one."),
    "reindex": CommandSpec("owner:reindex", "Make the search index anew."),
    "doctor": CommandSpec("doctor:doctor", "Look for what can be wrong with the home."),
    "tools": CommandSpec("tools:tools", "List, check and trust the tools of foreign servers."),
    "chat": CommandSpec("chat:chat", "Talk with the agent, which remembers."),
    "todo": CommandSpec("todo:todo", "Show the agent's to-do list."),
    "run": CommandSpec("run:run", "Wake the agents: their jobs and their triggers."),
    "cron": CommandSpec("cron:cron", "Schedule jobs, and see what became of them."),
    "mcp": CommandSpec("servers:mcp", "Serve the memory tools to an MCP client."),
    "demo": CommandSpec("servers:demo", "Show what this is, with a real server and client."),
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
    """Persistent memory for AI agents that cannot leak downward.

    Without --session a command acts in a session of its own, at exactly --level, about which nothing is stored.
    The common options go before or after the command.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Return 0, 1 (not found, refused, found wrong), 2 (bad argument, limit) or 3 (storage)."""
    output.speak_utf8()
    # UTF-8 whatever the locale says.
    given = [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv[1:]]
    words = given if arguments is None else list(arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has left; the command has done its work
        _discard_output()
        return 1
    except OSError:
        _discard_output()
        output.warn("tidegate: standard input cannot be read, or standard output not written")
        return 3
    return code


def _run(words: list[str]) -> int:
    try:
        return root.main(words, prog_name="tidegate", standalone_mode=False) or 0
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as usage:
        sys.stderr.write(usage.format_message() + "\n")
        return 2
    except click.UsageError as usage:
        return _fail(_misuse(usage), words)
    except TidegateError as error:
        return _fail(error, words)
    except OSError:
        raise
    except Exception as error:  # a traceback would show content and paths (P12)
        if os.environ.get("TIDEGATE_DEBUG"):
            raise
        return _fail(StorageError(f"unexpected failure ({type(error).__name__}): TIDEGATE_DEBUG=1 shows where"), words)


def _misuse(usage: click.UsageError) -> InvalidArgument:
    """Return the parser's complaint as an error like any other, with where to read on."""
    path = usage.ctx.command_path if usage.ctx else "tidegate"
    named = {"argument": usage.param.name} if isinstance(usage, click.BadParameter) and usage.param else {}
    said = " ".join(usage.format_message().split())  # what there is to choose from comes one a line
    return InvalidArgument(f"{said.rstrip('.')} (see: {path} --help)", **named)


def _fail(error: TidegateError, words: Sequence[str]) -> int:
    """Show the error, and return its exit code. The line may not have been understood, so look for --json in it."""
    before_dashes = words[: words.index("--")] if "--" in words else words
    if "--json" in before_dashes:
        output.emit(output.to_json({"error": error.to_dict()}))
    else:
        level = error.details.get("visible_at")  # of a variant that the session sees, and the command did not act on
        elsewhere = "" if level is None else f"{output.elsewhere(error)}, and --level {level} acts there"
        output.warn(f"tidegate: {error.message}{elsewhere}")
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def _discard_output() -> None:
    """Let the interpreter's own flush at exit go nowhere, instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
