"""Operations as values, and traces of them.

A trace is a list of `Step`s. A step keeps its index when others are taken away, and clock and ids depend on nothing
else, so an operation is the same operation in every world.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tidegate.policy.levels import Level

Frozen: TypeAlias = str | int | float | bool | tuple[object, ...] | None
"""Arguments of a tool in a form that can be hashed; tuples become lists on the way in."""


@dataclass(frozen=True, slots=True)
class Seat:
    """A session of the trace: an agent and a label. `named` seats are named sessions, others ephemeral."""

    agent: str
    label: str
    named: bool = True

    def __str__(self) -> str:
        return f"{self.agent}/{self.label}" + ("" if self.named else "*")


DEFAULT = Level.INTERNAL
"""Where a new session without a level and a parent starts."""


@dataclass(frozen=True, slots=True)
class Open:
    """Open or resume. level: None as by a host that names none. parent: another seat of the agent."""

    seat: Seat
    level: Level | None = Level.PUBLIC
    ceiling: Level | None = None
    parent: Seat | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    """A new handle on a named session, by name alone."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Save:
    seat: Seat
    key: str
    content: str
    tags: tuple[str, ...] = ()
    tool: bool = True
    outside: bool = False
    """Whether the session has read something from outside, so that what it saves is trusted less."""


@dataclass(frozen=True, slots=True)
class SaveMany:
    seat: Seat
    items: tuple[tuple[str, str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Get:
    seat: Seat
    key: str
    tool: bool = True


@dataclass(frozen=True, slots=True)
class Search:
    seat: Seat
    query: str
    max_results: int = 10
    tool: bool = True
    tag: str | None = None
    since: str | None = None
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Pages:
    """List from the start to the end, `limit` at a time."""

    seat: Seat
    tag: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Page:
    """One page; the world keeps its cursor under the index of this step."""

    seat: Seat
    tag: str | None = None
    limit: int = 1


@dataclass(frozen=True, slots=True)
class More:
    """Another page with the cursor that step `of` left, whosever it was; without one, with a made-up cursor."""

    seat: Seat
    of: int
    tag: str | None = None
    limit: int = 1


@dataclass(frozen=True, slots=True)
class Delete:
    seat: Seat
    key: str
    tool: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as a compromised model would send it. error: the code and argument that must answer it."""

    seat: Seat
    tool: str
    arguments: tuple[tuple[str, Frozen], ...]
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """The prompt block of what is remembered, with a message at hand or without."""

    seat: Seat
    query: str = ""


@dataclass(frozen=True, slots=True)
class Pin:
    """The owner pins a memory at the session's level."""

    seat: Seat
    key: str


@dataclass(frozen=True, slots=True)
class Unpin:
    """The owner unpins a memory at the session's level."""

    seat: Seat
    key: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Replace the to-do list."""

    seat: Seat
    todos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Planned:
    """Read the to-do list."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Say:
    """The host stores a message of the conversation."""

    seat: Seat
    content: str


@dataclass(frozen=True, slots=True)
class Said:
    """The host reads the conversation."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Schedule:
    """Make a job for one time, so many seconds after the beginning of the trace."""

    seat: Seat
    name: str
    seconds: int
    prompt: str


@dataclass(frozen=True, slots=True)
class Scheduled:
    """List the jobs, and the runs of one of them."""

    seat: Seat
    name: str


@dataclass(frozen=True, slots=True)
class Unschedule:
    """Delete a job."""

    seat: Seat
    name: str


@dataclass(frozen=True, slots=True)
class Wake:
    """The worker of the seat's agent at a level does what is due. rises: how high its runs rise, if they do."""

    seat: Seat
    level: Level
    rises: Level | None


@dataclass(frozen=True, slots=True)
class Raise:
    seat: Seat
    level: Level


@dataclass(frozen=True, slots=True)
class Ceiling:
    seat: Seat
    level: Level


@dataclass(frozen=True, slots=True)
class Reset:
    seat: Seat


@dataclass(frozen=True, slots=True)
class Renew:
    """The owner ends the session of a name, and what starts afterwards may make a new one of it."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class End:
    """The session ends; a child's taint joins its parent's."""

    seat: Seat


@dataclass(frozen=True, slots=True)
class Restart:
    """Every process stops, and starts again on the same home. Handles are taken up anew, by name."""


@dataclass(frozen=True, slots=True)
class Erase:
    """The owner erases all of an agent; its sessions end."""

    agent: str


@dataclass(frozen=True, slots=True)
class Purge:
    """The owner purges one level of an agent, of whatever is dead, however young."""

    agent: str
    level: Level


@dataclass(frozen=True, slots=True)
class Lose:
    """Every process stops, the file of one level is gone if that level was ever used, and all start again."""

    agent: str
    level: Level


Memory: TypeAlias = Save | SaveMany | Get | Search | Pages | Page | More | Delete | Call
Other: TypeAlias = Context | Pin | Unpin | Plan | Planned | Say | Said
Verb: TypeAlias = Memory | Other
Act: TypeAlias = Open | Resume | Raise | Ceiling | Reset | Renew | End
Job: TypeAlias = Schedule | Scheduled | Unschedule | Wake
Owned: TypeAlias = Erase | Purge | Lose
Op: TypeAlias = Verb | Act | Restart | Job | Owned


@dataclass(frozen=True, slots=True)
class Step:
    """An operation at its place in the trace."""

    index: int
    op: Op


Trace: TypeAlias = tuple[Step, ...]


def trace(ops: Iterable[Op]) -> Trace:
    """The operations, numbered from 0."""
    return tuple(Step(index, op) for index, op in enumerate(ops))


def show(steps: Trace) -> str:
    """A trace as a failure prints it: one line a step, in Python that `trace` takes back."""
    return "\n".join(f"  {step.index:3} {step.op!r}" for step in steps)


def brief(op: Op) -> str:
    """An operation in a few words, for the name of a test."""
    fields = [str(getattr(op, name)) for name in op.__slots__ if name in ("seat", "agent", "key", "level")]
    return "-".join([type(op).__name__.lower(), *fields]).replace("/", "-")
