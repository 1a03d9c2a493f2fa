"""The command line: the root command, and what every command's end has in common."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.surfaces import cli_memory, cli_owner, cli_transfer, output
from tidegate.surfaces.cli_audit import audit
from tidegate.surfaces.cli_common import Group, options
from tidegate.surfaces.cli_doctor import doctor
from tidegate.surfaces.cli_session import session
from tidegate.surfaces.cli_tools import tools

_EXIT_CODES: dict[type[TidegateError], int] = {
    InvalidArgument: 2,
    LimitExceeded: 2,
    NotFound: 1,
    Refused: 1,
    StorageError: 3,
}
_INTERRUPTED = 130  # as shells report it


@click.group(name="tidegate", cls=Group)
@click.version_option(package_name="tidegate", message="tidegate %(version)s")
def root() -> None:
    """Persistent memory for AI agents that cannot leak downward.

    Without --session a command acts in a session of its own, at exactly --level, about which nothing is stored.
    The common options go before or after the command.
    """


for command in (*cli_memory.COMMANDS, session, *cli_owner.COMMANDS, audit, doctor, *cli_transfer.COMMANDS, tools):
    root.add_command(command)


@root.command(examples=("tidegate mcp --agent assistant --session main --level INTERNAL",))
def mcp() -> int:
    """Serve the memory tools to an MCP client over standard input and output.

    With --session its taint survives restarts: it is the stored one or --level, whichever is higher. While it runs,
    `tidegate session raise` and `reset` act on it from outside.
    """
    from tidegate.surfaces.mcp import serve

    chosen = options()
    return serve(chosen.home, chosen.agent, chosen.session, chosen.level or Level.PUBLIC)


@root.command(examples=("tidegate demo",))
def demo() -> int:
    """Show what this is: a real server and a real client, on a home that is thrown away."""
    from tidegate.surfaces.demo import run

    return run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code: 0, 1 (not found, refused), 2 (bad argument, limit), 3 (storage)."""
    output.speak_utf8()
    words = _words() if arguments is None else list(arguments)
    try:
        code = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads on: what was done is done
        _discard_output()
        return 1
    except OSError:
        _discard_output()
        output.note("tidegate: standard input cannot be read, or standard output not written")
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
    """The parser's complaint as an error like any other, with where to read on."""
    path = usage.ctx.command_path if usage.ctx else "tidegate"
    named = {"argument": usage.param.name} if isinstance(usage, click.BadParameter) and usage.param else {}
    return InvalidArgument(f"{usage.format_message().rstrip('.')} (see: {path} --help)", **named)


def _fail(error: TidegateError, words: Sequence[str]) -> int:
    """Show the error, and give its exit code. The line may not have been understood, so --json is looked for in it."""
    before_dashes = words[: words.index("--")] if "--" in words else words
    if "--json" in before_dashes:
        output.write(output.to_json({"error": error.to_dict()}))
    else:
        output.note(f"tidegate: {error.message}")
    return next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))


def _words() -> list[str]:
    """The command line as UTF-8, whatever the locale says it is."""
    return [os.fsencode(word).decode("utf-8", "surrogateescape") for word in sys.argv[1:]]


def _discard_output() -> None:
    """Let the interpreter's own flush at exit go nowhere, instead of failing again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
