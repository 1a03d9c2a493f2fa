"""The parts that all commands share: common options before or after the verb, help with examples, opening the store."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli import output
from tidegate.errors import InvalidArgument, NotFound
from tidegate.policy.levels import Level

if TYPE_CHECKING:
    from tidegate.audit.anchors import Anchor
    from tidegate.owner.owner import Owner
    from tidegate.session import Session
    from tidegate.store import Store


class _Levels(click.Choice[Level]):
    """A level in any letter case. The error for any other word lists the levels in capitals."""

    def normalize_choice(self, choice: object, ctx: click.Context | None) -> str:
        return super().normalize_choice(choice, ctx).upper()


LEVEL = _Levels(Level, case_sensitive=False)
LEVELS = ", ".join(Level.__members__)
DEFAULT_LEVEL = "defaults.level in config.toml, or INTERNAL"
"""The level of new sessions, in the words of the help."""
INCOMPLETE = 3
"""The exit code when removed data may still be in a file."""
_SECTION = "Common options"
_ANCHOR_BYTES_MAX = 16 * 1024 * 1024
_SUMMARY_CHARS_MAX = 1000  # longer than any first sentence

# The meaning of common options for a command, if it differs from the memory verbs. None: the command does not take the
# option, refuses it, and omits it from its help.
Common = Mapping[str, str | None]
AS_USUAL: Common = {}
NO_LEVEL: Common = {"session": None, "level": None}
FOR_NO_AGENT: Common = {"agent": None, **NO_LEVEL}
AT_ALL_LEVELS: Common = {"session": None, "level": f"{LEVELS}. [default: all levels]"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The common options, from any place on the line; the last one wins."""

    home: str | None = None
    agent: str = "assistant"
    session: str | None = None
    level: Level | None = None
    json: bool = False


def options() -> Options:
    """Return the common options of the running command."""
    meta = click.get_current_context().meta
    return Options(**{name: meta[name] for name in Options.__slots__ if name in meta})


@contextmanager
def open_store() -> Iterator[Store]:
    """Yield the store of the chosen home."""
    import tidegate  # the storage engine is loaded when a command needs it, never for --help

    with tidegate.open(options().home) as store:
        yield store


@contextmanager
def open_session(otherwise: Level | None = None) -> Iterator[Session]:
    """Yield the named session at its taint, or an ephemeral one at exactly --level. Its saves have the origin "owner".

    otherwise: the level without --level; None: the default of new sessions.
    """
    from tidegate.records.record import Origin

    chosen = options()
    refuse_both()
    with open_store() as store:
        if chosen.session is not None:
            yield store.resume(chosen.agent, chosen.session, origin=Origin.OWNER)
        else:
            level = otherwise if chosen.level is None else chosen.level
            yield store.session(chosen.agent, level=level, origin=Origin.OWNER)


@contextmanager
def open_at_level(*, required: str = "") -> Iterator[tuple[Store, Level, str]]:
    """Yield the store, the level to act at (--level or the session's taint), and the session's id or "".

    required: why --level or --session must be given; "" for commands with the default level.
    """
    chosen = options()
    if required and chosen.level is None and chosen.session is None:
        raise InvalidArgument(f"level: {required}", argument="level")
    refuse_both()
    with open_store() as store:
        if chosen.session is None:
            yield store, level_or(store.sessions.default_level), ""
        else:
            row = store.sessions.find(chosen.agent, chosen.session)
            yield store, row.taint, row.id


@contextmanager
def open_owner() -> Iterator[Owner]:
    """Yield the owner of the chosen agent."""
    with open_store() as store:
        yield store.owner(options().agent)


def level_or(default: Level) -> Level:
    """Return the chosen level, or the default."""
    given = options().level  # PUBLIC is falsy
    return default if given is None else given


@contextmanager
def missing(what: str, *, at: Callable[[], object], look: str) -> Iterator[None]:
    """Say that something is missing in an owner's words: at which level, and the command to look with.

    A tool says it for a model, and names a tool.
    """
    try:
        yield
    except NotFound as error:
        hint = "" if "visible_at" in error.details else f"; {look}"
        raise NotFound(f"{what} at {at()}{hint}", **error.details) from None


def refuse_both() -> None:
    """Raise InvalidArgument when both --level and --session were given."""
    if None not in (options().session, options().level):
        raise InvalidArgument(
            "level: a session has its own level; give --level or --session, not both", argument="level"
        )


def standard_input(argument: str) -> str:
    """Return all of standard input, read as UTF-8. argument: the one that it replaces. Raises: InvalidArgument."""
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise InvalidArgument(f"{argument}: standard input is not UTF-8", argument=argument) from None


def read_anchor_file(file: str) -> list[Anchor]:
    """Return the anchors in a file. Raises: InvalidArgument, also for an empty file."""
    from tidegate.audit.anchors import read_anchors

    try:
        with Path(file).open("rb") as stream:
            data = stream.read(_ANCHOR_BYTES_MAX + 1)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError):
        raise InvalidArgument("anchor: must be a readable file in UTF-8", argument="anchor") from None
    if len(data) > _ANCHOR_BYTES_MAX:
        raise InvalidArgument("anchor: the file is too large", argument="anchor")
    anchors = list(read_anchors(text))
    if not anchors:
        raise InvalidArgument("anchor: the file is empty", argument="anchor")
    return anchors


def agreed(question: str, *, unasked: str) -> bool:
    """Ask the owner at the terminal and return whether they agree. unasked: the error without a terminal."""
    if not sys.stdin.isatty():
        raise InvalidArgument(unasked, argument="yes")
    return click.confirm(question, err=True)


def show(result: Mapping[str, Any], lines: Iterable[str]) -> None:
    """Write a result to standard output: the exact JSON with --json, else lines for people."""
    for line in [output.to_json(result)] if options().json else lines:
        output.emit(line)


def info(text: str) -> None:
    """Write a line for people to standard error, once the results are out. With --json, write nothing."""
    if not options().json:
        sys.stdout.flush()  # if this fails, the line would not be true
        output.warn(text)


class Command(click.Command):
    """A command with the common options and with examples in its help."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), common: Common = AS_USUAL, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.examples = examples
        self.params += _common_options(common)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the common ones, then the examples."""
        _format_options(self, ctx, formatter)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{'':>{formatter.current_indent}}{example}\n")


class Group(click.Group):
    """Commands under one noun, with the common options."""

    command_class = Command

    def __init__(self, *args: Any, common: Common = AS_USUAL, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _common_options(common)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each name with the complete first sentence of its help. Click's own version cuts it."""
        with formatter.section("Commands"):
            rows = [(name, each.get_short_help_str(_SUMMARY_CHARS_MAX)) for name, each in self.commands.items()]
            formatter.write_dl(rows)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the group's commands, then the options."""
        self.format_commands(ctx, formatter)
        _format_options(self, ctx, formatter)


@dataclass(frozen=True, slots=True)
class CommandSpec:
    """A command that is not loaded yet. path: `module:name`. summary: the line in the list of commands."""

    path: str
    summary: str


class LazyGroup(Group):
    """A group that loads a command only when it is called. It lists the commands without loading them.

    aliases: other names that people type, each with the right one.
    """

    def __init__(self, *args: Any, specs: Mapping[str, CommandSpec], aliases: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.specs = specs
        self.aliases = aliases

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which they were given."""
        return list(self.specs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, loaded from its module; None for an unknown name."""
        spec = self.specs.get(cmd_name)
        if spec is None:
            return None
        module, _, name = spec.path.partition(":")
        found: click.Command = getattr(import_module(f"tidegate.cli.{module}"), name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the named command. Raises: NoSuchCommand, with similar names."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:  # click searches the loaded commands only
            meant = self.aliases.get(unknown.command_name)
            if meant is not None:
                said = f"{unknown.message} Did you mean {meant!r}?"
                raise click.NoSuchCommand(unknown.command_name, said, ctx=ctx) from None
            raise click.NoSuchCommand(unknown.command_name, possibilities=self.specs, ctx=ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each name with its summary."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, spec.summary) for name, spec in self.specs.items()])


def _common_options(common: Common) -> list[click.Parameter]:
    def option(name: str, usual: str, **settings: Any) -> click.Option:
        meaning = common.get(name, usual)
        return click.Option(
            [f"--{name}"],
            expose_value=False,
            callback=_remember if meaning is not None else _refuse,
            help=meaning or usual,
            hidden=meaning is None,
            is_eager=meaning is None,  # refused before click misses an argument
            **settings,
        )

    return [
        option("home", "Home folder. [default: $TIDEGATE_HOME or user data folder]", metavar="PATH"),
        option("agent", "Name of the agent. [default: assistant]", metavar="AGENT"),
        option("session", "Act in this session, at its taint.", metavar="NAME"),
        option("level", f"{LEVELS}. [default: {DEFAULT_LEVEL}]", type=LEVEL, metavar="LEVEL"),
        option("json", "Print the result as JSON.", is_flag=True),
    ]


def _remember(ctx: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None and value is not False and param.name is not None:
        ctx.meta[param.name] = value


def _refuse(ctx: click.Context, param: click.Parameter, value: object) -> None:
    """Raise InvalidArgument for a common option that would have no effect, before the command's name or after it.

    A group leaves that to its commands, so that each still shows its help.
    """
    _remember(ctx, param, value)
    if param.name in ctx.meta and not isinstance(ctx.command, click.Group):
        raise InvalidArgument(f"{param.name}: this command does not take --{param.name}", argument=param.name)


def _format_options(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    common = [param for param in command.params if param.name in Options.__slots__ and not param.expose_value]
    own = [param for param in command.get_params(ctx) if param not in common and isinstance(param, click.Option)]
    for title, params in (("Options", own), (_SECTION, common)):
        records = [record for param in params if (record := param.get_help_record(ctx))]
        if records:
            with formatter.section(title):
                formatter.write_dl(records)
