"""Owner commands for jobs: create them, list them, and show their runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from tidegate.cli.common import LEVEL, Group, info, missing, open_session, open_store, options, show, standard_input
from tidegate.cli.output import escape, escape_lines
from tidegate.errors import InvalidArgument, NotFound
from tidegate.jobs.schedule import read_zone
from tidegate.policy.levels import Level
from tidegate.records.times import read_duration

if TYPE_CHECKING:
    from tidegate.jobs.job import Job, Run
    from tidegate.session import Session

_NAME = "Name of the job."
_PROMPT_CHARS_MAX = 100
_LOOKING = {"session": "Only jobs that this session sees.", "level": "Up to this level. [default: all levels]"}


@click.group(cls=Group)
def cron() -> None:
    """Schedule jobs and show their runs. No job runs until `tidegate run` is running."""


@cron.command(
    examples=(
        'tidegate cron add digest "30 7 * * 1-5" "Sum up what is new." --timezone Europe/Berlin',
        'tidegate cron add dentist 2030-05-01T09:00 "Remind me of the dentist." --timezone Europe/Berlin',
        'tidegate cron add audit @weekly "Look for stale plans." --level CONFIDENTIAL --channel diary',
    )
)
@click.argument("name", help=_NAME)
@click.argument("schedule", help="Five cron fields, a name such as @daily, or a single time.")
@click.argument("prompt", help="Text for the agent; - reads standard input.")
@click.option("--timezone", metavar="ZONE", default="UTC", show_default=True, help="Time zone of the schedule.")
@click.option("--channel", metavar="NAME", help="Channel for the results. [default: run.channel in config.toml]")
@click.option("--ceiling", type=LEVEL, metavar="LEVEL", help="Ceiling of its sessions. [default: RESTRICTED]")
@click.option(
    "--time-limit", metavar="DURATION", help="Maximum time of a run, such as 10m. [default: run.time_limit_minutes]"
)
def add(
    name: str,
    schedule: str,
    prompt: str,
    timezone: str,
    channel: str | None,
    ceiling: Level | None,
    time_limit: str | None,
) -> None:
    """Schedule a job at --level or the session's level. It replaces a job of the same name at that level."""
    seconds = None if time_limit is None else int(read_duration(time_limit, "time_limit").total_seconds()) or 1
    text = standard_input("prompt") if prompt == "-" else prompt
    with open_session() as session:
        job = session.jobs.create(
            name,
            schedule,
            text,
            timezone=timezone,
            ceiling=ceiling,
            channel=_checked(channel),
            time_limit_seconds=seconds,
        )
    show(_shown(job), [_line(job)])


@cron.command(name="list", common=_LOOKING, examples=("tidegate cron list", "tidegate cron list --level PUBLIC --json"))
def list_() -> None:
    """List the jobs, each with the reason if its last result was not delivered. JSON: one object per line."""
    with open_session(Level.RESTRICTED) as session:
        jobs = session.jobs.list()
        runs = [_undelivered(session, job) for job in jobs]
    for job, run in zip(jobs, runs, strict=True):
        prompt = job.plan.prompt
        begun = prompt if len(prompt) <= _PROMPT_CHARS_MAX else f"{prompt[:_PROMPT_CHARS_MAX]}…"
        kept = {} if run is None else {"undelivered": {"run": run.number, "reason": run.delivery_reason}}
        lines = [] if run is None else [f"  run {run.number}: {_delivery(run)}"]
        show({**_shown(job), **kept}, [_line(job), f"  {escape(begun)}", *lines])
    if not jobs:
        info("no jobs")


@cron.command(name="show", common=_LOOKING, examples=("tidegate cron show digest",))
@click.argument("name", help=_NAME)
def show_(name: str) -> None:
    """Show a job in full. If several jobs have the name, show the highest."""
    with open_session(Level.RESTRICTED) as session:
        job = _find(session, name)
    show({**_shown(job), "prompt": job.plan.prompt}, _whole(job))


@cron.command(examples=("tidegate cron remove digest", "tidegate cron remove audit --level CONFIDENTIAL"))
@click.argument("name", help=_NAME)
def remove(name: str) -> None:
    """Delete a job at --level or the session's level. Its history stays."""
    with open_session() as session, _missing(session):
        result = session.call_tool("cron_delete", {"name": name})
    show(result, [f"deleted {escape(name)} at {result['classification']}"])


@cron.command(
    common=_LOOKING,
    examples=("tidegate cron history digest", "tidegate cron history --limit 5 --json", "tidegate cron history"),
)
@click.argument("name", required=False, help="Name of the job. [default: the runs of the trigger]")
@click.option("--limit", metavar="N", type=int, default=20, show_default=True, help="Maximum number of runs, 1 to 200.")
def history(name: str | None, limit: int) -> None:
    """Show the runs of a job with their results and deliveries, of a deleted one too. JSON: one object per line.

    The latest is first, by its start or, if it has not started, by its due time.
    """
    with open_session(Level.RESTRICTED) as session:
        runs = session.jobs.history(name, limit=limit)
        if name is not None and not runs:
            _find(session, name)
    for run, level in runs:
        show(_run(run, level), _told(run, level))
    if not runs:
        info("no runs")


@cron.command(
    name="run-now",
    examples=(
        "tidegate cron run-now digest",
        "tidegate cron run-now",
        'tidegate cron run-now inbox --event - --id "$DELIVERY_ID" < request.json',
    ),
)
@click.argument("name", required=False, help="Name of the job. [default: the trigger]")
@click.option("--event", metavar="TEXT", help="Event text, given as data from outside; - reads standard input.")
@click.option("--id", "event_id", metavar="ID", help="ID of the event; the same ID never runs twice.")
def run_now(name: str | None, event: str | None, event_id: str | None) -> None:
    """Queue an extra run of a job at --level or the session's level, or of the trigger.

    `tidegate run` starts it as soon as it is free. The trigger runs at trigger.level in config.toml.
    """
    text = standard_input("event") if event == "-" else event
    with open_session() if name is not None else _at_trigger() as session, _missing(session):
        run = session.jobs.post(name, text, event_id=event_id)
        level = session.taint
    show(
        _run(run, level),
        [f"queued as run {run.number} at {level}" if run.open else f"run {run.number} already has this event"],
    )


def _missing(session: Session) -> AbstractContextManager[None]:
    look = "`tidegate cron list` lists the jobs"
    return missing("name: no job has this name", at=lambda: session.taint, look=look)


@contextmanager
def _at_trigger() -> Iterator[Session]:
    """Yield a session at the trigger's level. Raises: NotFound without a TRIGGER.md."""
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings
    from tidegate.worker.task import has_trigger

    chosen = options()
    if chosen.session is not None or chosen.level is not None:
        reason = "the trigger runs at trigger.level in config.toml; omit --level and --session"
        raise InvalidArgument(f"level: {reason}", argument="level")
    home = find_home(chosen.home)
    if not has_trigger(home, chosen.agent):
        raise NotFound("name: this agent has no TRIGGER.md; write one, or name a job", argument="name")
    with open_store() as store:
        yield store.session(chosen.agent, level=read_settings(home).trigger.level)


def _checked(channel: str | None) -> str | None:
    """Return the channel, if it is configured. Raises: NotFound."""
    if channel is None:
        return None
    from tidegate.config.home import find_home
    from tidegate.config.reader import read_settings

    if channel not in read_settings(find_home(options().home)).channels:
        raise NotFound(
            "channel: config.toml has no channel of this name; add it, or choose another", argument="channel"
        )
    return channel


def _find(session: Session, name: str) -> Job:
    found = [job for job in session.jobs.list() if job.name == name]
    if not found:
        raise NotFound("name: no job has this name", argument="name")
    return found[0]


def _shown(job: Job) -> dict[str, Any]:
    from tidegate.tools.jobs import shown

    plan = job.plan
    more = {"ceiling": plan.ceiling, "channel": plan.channel, "time_limit_seconds": plan.time_limit_seconds}
    return {**shown(job), **more}


def _line(job: Job) -> str:
    # The name comes last, so that it cannot forge anything after it.
    schedule = f"{escape(job.plan.schedule)} {escape(job.plan.timezone)}"
    return f"{job.level!s:<12}  next {_time(job.next_run_at, job.plan.timezone)}  {schedule}  {escape(job.name)}"


def _whole(job: Job) -> Iterator[str]:
    yield _line(job)
    plan = job.plan
    limit = "as configured" if plan.time_limit_seconds is None else f"{plan.time_limit_seconds} s"
    channel = escape(plan.channel or "as configured")
    yield f"  from {job.origin}, ceiling {plan.ceiling}, time limit {limit}, channel {channel}"
    yield from escape_lines(plan.prompt, indent="  ").split("\n")


def _run(run: Run, level: Level) -> dict[str, Any]:
    return {
        "number": run.number,
        "classification": level,
        "due_at": run.due_at,
        "state": run.state,
        "attempt": run.attempt,
        "missed": run.missed,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "reason": run.reason,
        "text": run.text,
        "channel": run.channel,
        "delivery": run.delivery,
        "delivery_reason": run.delivery_reason,
        "delivery_attempts": run.attempts,
    }


def _told(run: Run, level: Level) -> Iterator[str]:
    times = f"due {_time(run.due_at)}, started {_time(run.started_at)}, ended {_time(run.ended_at)}"
    missed = f", {run.missed} missed" if run.missed else ""
    yield f"{level!s:<12}  run {run.number:<3}  {run.state!s:<11}  {times}{missed}"
    if run.reason:
        yield f"  {escape(run.reason)}"
    if run.channel is not None and (run.text or run.delivery_reason):
        yield f"  {_delivery(run)}"
    if run.text:
        yield from escape_lines(run.text, indent="  | ").split("\n")


def _delivery(run: Run) -> str:
    """Return where the result of a run went, and why not, if it did not arrive."""
    reason = f": {escape(run.delivery_reason)}" if run.delivery_reason else ""
    return f"{run.delivery} to {escape(run.channel or '')}{reason}"


def _undelivered(session: Session, job: Job) -> Run | None:
    """Return the last run of a job that has ended, if its result could not be delivered."""
    runs = (run for run, level in session.jobs.history(job.name, limit=200) if level is job.level)
    last = next((run for run in runs if not run.open), None)
    return last if last is not None and last.delivery_reason else None


def _time(at: datetime | None, zone: str = "UTC") -> str:
    """Return a time in the zone, with its offset from UTC."""
    if at is None:
        return "-"
    with suppress(InvalidArgument):  # a system update may have removed the zone
        at = at.astimezone(read_zone(zone))
    return at.isoformat("T", "seconds").replace("+00:00", "Z")
