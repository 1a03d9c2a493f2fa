"""What a backup may bring in: only what could have been saved and what a store can hold (P17).

Anyone who makes a backup by hand can make its chains hold: this does not prove that the contents were ever saved. So
every field is checked here as the verb that saves it checks it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.errors import StorageError
from tidegate.jobs.job import (
    TIME_LIMIT_SECONDS_MAX,
    Plan,
    Run,
    is_group,
    name_of,
    read_plan,
    read_run,
)
from tidegate.jobs.schedule import check_form
from tidegate.policy.rules import CHILD_DEPTH_MAX, GENERATIONS_MAX
from tidegate.records.fields import unfit
from tidegate.records.limits import Limits
from tidegate.records.record import Record, RecordKind, key_of, number_of, session_of
from tidegate.records.todo import KEY, check_todos, read_todos
from tidegate.records.validation import check_content, check_key, check_tags

_ANY = 2**31
_ROOM_BYTES = 2 * 1024 * 1024  # beside the content: the key, the tags, a run's answer, the names of the fields
_ESCAPED = 8  # how many times longer a text can get as JSON inside JSON
_KEY_ROOM = 512  # a session's id, a number, the words of a group of runs
_YEARS = range(2, 9999)  # in any time zone, with any day more or less


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBounds:
    """The bounds of a backup. incoming: it is to be restored, and may come from anyone.

    number_max: of a version, an entry. place_max: of a message in its conversation, a run in its group.
    """

    limits: Limits
    number_max: int
    place_max: int
    sessions_max: int
    incoming: bool

    @property
    def line_bytes_max(self) -> int:
        """Return the maximum length of a line."""
        return _ESCAPED * self.limits.content_bytes_max + _ROOM_BYTES

    @property
    def marks_max(self) -> int:
        """Return how many bytes of a line may be outside its texts."""
        return 1024 + 8 * self.limits.tags_max


OWN = RestoreBounds(
    limits=Limits(*[_ANY] * len(Limits.__slots__)),
    number_max=2**53 - 1,  # every reader of JSON holds it exactly
    place_max=10**12 - 1,  # all digits of its key
    sessions_max=_ANY,
    incoming=False,
)
"""For a store's own contents: perhaps saved under other limits, and with numbers continued after a restore."""


def bounds_of(limits: Limits, file_bytes: int) -> RestoreBounds:
    """Return the bounds of a backup to restore: the store can count on from any number in it.

    Each session takes at least eight bytes of the file, since its id is random: a small file cannot hold many (P17).
    """
    return RestoreBounds(
        limits=limits, number_max=2**52, place_max=2**38, sessions_max=10_000 + file_bytes // 8, incoming=True
    )


def check_record(record: Record, bounds: RestoreBounds) -> None:
    """Check that a version could have been stored. Raises: InvalidArgument, LimitExceeded."""
    limits = bounds.limits
    check_key(record.nonce, Limits(), "nonce")
    _check_tags(record.tags, limits if record.kind is RecordKind.MEMORY else OWN.limits)
    _CHECKS[record.kind](record, bounds)


def _check_tags(tags: tuple[str, ...], limits: Limits) -> None:
    """Check stored tags. Two of them may compare alike: earlier versions stored such."""
    check_tags(tags, limits)
    _require("tags", tags == tuple(sorted(set(tags))) and all(check_tags([tag], limits) == (tag,) for tag in tags))


def check_parents(parents: Mapping[str, str | None]) -> None:
    """Check that no session is its own ancestor, or nested too deep (P15). Raises: ValueError.

    parents: of each session, by its id. A parent that is not in it is a session that nothing is stored about.
    """
    for session in parents:
        above, depth = parents[session], 0
        while above is not None:
            above, depth = parents.get(above), depth + 1
            if depth > CHILD_DEPTH_MAX:
                raise ValueError


def check_name(name: str, limits: Limits, argument: str) -> str:
    """Return a key or name as it is stored. Raises: InvalidArgument, LimitExceeded."""
    _require(argument, check_key(name, limits, argument) == name)  # P6: no verb would find an unnormalised one
    return name


def _check_memory(record: Record, bounds: RestoreBounds) -> None:
    check_content(record.content, bounds.limits)
    check_name(record.key, bounds.limits, "key")


def _check_todo(record: Record, bounds: RestoreBounds) -> None:
    _require("key", record.key == KEY)
    _require("tags", not record.tags)
    try:
        sent = [{"content": todo.content, "state": todo.state} for todo in read_todos(record.content)]
    except StorageError:
        raise unfit("content", "is not a to-do list") from None
    check_todos(sent, bounds.limits)


def _check_message(record: Record, bounds: RestoreBounds) -> None:
    """Check a message, except its content: the host may write any text."""
    _check_place(record, bounds)
    _require("tags", not record.tags)


def _check_job(record: Record, bounds: RestoreBounds) -> None:
    check_name(record.key, bounds.limits, "key")
    _require("tags", not record.tags)
    try:
        plan = read_plan(record.content)
    except StorageError:
        raise unfit("content", "is not a job") from None
    _require("ceiling", record.level.can_flow_to(plan.ceiling))  # P15
    _check_plan(plan, bounds)


def _check_plan(plan: Plan, bounds: RestoreBounds) -> None:
    check_content(plan.prompt, bounds.limits, "prompt")
    _require("generation", 1 <= plan.generation <= GENERATIONS_MAX)
    _require("time_limit_seconds", 1 <= (plan.time_limit_seconds or 1) <= TIME_LIMIT_SECONDS_MAX)
    if plan.channel is not None:
        check_key(plan.channel, Limits(), "channel")
    if bounds.incoming:
        check_form(plan.schedule, plan.timezone)


def _check_run(record: Record, bounds: RestoreBounds) -> None:
    _check_place(record, bounds)
    try:
        run = read_run(record)
    except StorageError:
        raise unfit("content", "is not a run") from None
    _require("key", is_group(run.group) and run.number >= 1 and run.key == record.key)
    if name_of(run.group):
        check_name(name_of(run.group), bounds.limits, "key")
    _require("tags", run.tags == record.tags)  # runs are found by their tags
    for name in ("attempt", "missed", "attempts"):
        _require(name, 0 <= getattr(run, name) < _ANY)
    _check_texts(run, bounds.limits)
    if bounds.incoming:
        for name in ("due_at", "started_at", "ended_at", "next_attempt_at"):
            at = getattr(run, name)
            _require(name, at is None or at.year in _YEARS)


def _check_texts(run: Run, limits: Limits) -> None:
    if run.event is not None:
        check_content(run.event, limits, "event")
    for name, value in (("event_id", run.event_id), ("channel", run.channel), ("holder", run.holder or None)):
        if value is not None:
            check_key(value, limits if name == "event_id" else Limits(), name)
    ours = {"reason": run.reason, "handing_reason": run.delivery_reason, "delivery_progress": run.delivery_progress}
    for name, text in {"text": run.text, **ours}.items():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise unfit(name, "must not contain lone surrogates") from None


def _check_place(record: Record, bounds: RestoreBounds) -> None:
    """Check a key that ends in a number. It may hold a job's name, written as escapes."""
    group, number = session_of(record.key), record.key[-12:]
    try:
        _require("key", record.key == key_of(group, number_of(record.key)) and number.isascii())
    except ValueError:
        raise unfit("key", "must end in a number") from None
    _require("key", 1 <= number_of(record.key) <= bounds.place_max)
    room = Limits(key_chars_max=3 * bounds.limits.key_chars_max + _KEY_ROOM)
    check_name(record.key, room, "key")


def _require(name: str, condition: bool) -> None:
    if not condition:
        raise unfit(name, "could not have been stored")


_CHECKS: dict[RecordKind, Callable[[Record, RestoreBounds], None]] = {
    RecordKind.MEMORY: _check_memory,
    RecordKind.TODO: _check_todo,
    RecordKind.MESSAGE: _check_message,
    RecordKind.JOB: _check_job,
    RecordKind.RUN: _check_run,
}
