"""The cron tools: what an agent does later, by itself, at the level of the session that scheduled it (P16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.records.excerpt import excerpt
from tidegate.records.times import write_timestamp
from tidegate.tools import schema
from tidegate.tools.tool import Annotations, Arguments, Tool

if TYPE_CHECKING:
    from tidegate.jobs.job import Job
    from tidegate.session import Session

_NAME = schema.text("Name", "What the job is called, such as morning-digest.")
_SHOWN = {
    "name": _NAME,
    "schedule": schema.text("Schedule", "When it runs."),
    "timezone": schema.text("Time zone", "The zone of the schedule."),
    "prompt": schema.text("Prompt", "What it is told to do."),
    "classification": schema.level("Classification", "Its level, at which its sessions start."),
    "origin": schema.text("Origin", "Where it came from."),
    "truncated": schema.flag("Truncated", "The prompt is longer than shown."),
    "next_run_at": schema.time("Next run", "When it runs next; left out when it does not."),
}


def shown(job: Job) -> dict[str, Any]:
    """Return a job as results show it, its prompt as an excerpt."""
    prompt, truncated = excerpt(job.plan.prompt)
    return {
        "name": job.name,
        "schedule": job.plan.schedule,
        "timezone": job.plan.timezone,
        "prompt": prompt,
        **({"truncated": True} if truncated else {}),
        "classification": str(job.level),
        "origin": str(job.origin),
        **({} if job.next_run_at is None else {"next_run_at": write_timestamp(job.next_run_at)}),
    }


def _create(session: Session, arguments: Arguments) -> dict[str, Any]:
    job = session.jobs.create(
        arguments["name"], arguments["schedule"], arguments["prompt"], timezone=arguments.get("timezone")
    )
    return {"created": True, **shown(job)}


def _list(session: Session, _arguments: Arguments) -> dict[str, Any]:
    return {"jobs": [shown(job) for job in session.jobs.list()]}


def _delete(session: Session, arguments: Arguments) -> dict[str, Any]:
    job = session.jobs.delete(arguments["name"])
    return {"deleted": True, "name": job.name, "classification": str(job.level)}


CREATE = Tool(
    name="cron_create",
    title="Schedule a job",
    description=(
        "Have something done later or again and again: at its time you are woken in a fresh conversation and told the "
        "prompt; the answer is handed to the owner. Use it when the user asks for a reminder, or for something "
        "regular. Write the prompt so that it can be understood without this conversation. A job of the same name is "
        "replaced."
    ),
    input_schema=schema.inputs(
        {
            "name": _NAME,
            "schedule": schema.text(
                "Schedule",
                "Five cron fields (minute, hour, day, month, weekday), such as `30 7 * * 1-5`; @hourly, @daily, "
                "@weekly, @monthly, @yearly; or one time, such as 2030-05-01T09:00.",
            ),
            "prompt": schema.text("Prompt", "What to do then, in full."),
            "timezone": schema.text("Time zone", "Of the user, such as Europe/Berlin. UTC when left out."),
        },
        required=["name", "schedule", "prompt"],
    ),
    output_schema=schema.outputs({"created": schema.flag("Created", "Whether it is scheduled."), **_SHOWN}),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_create,
)

LIST = Tool(
    name="cron_list",
    title="List the jobs",
    description="See what is scheduled, and when each job runs next. Use it before you create or delete one.",
    input_schema=schema.inputs({}),
    output_schema=schema.outputs({"jobs": schema.array("Jobs", "By name.", schema.record("Job", "One job.", _SHOWN))}),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    work=_list,
)

DELETE = Tool(
    name="cron_delete",
    title="Delete a job",
    description="Have a job not run any more. Use it when the user no longer wants it.",
    input_schema=schema.inputs({"name": _NAME}, required=["name"]),
    output_schema=schema.outputs(
        {
            "deleted": schema.flag("Deleted", "Whether it is gone."),
            "name": _NAME,
            "classification": schema.level("Classification", "The level that it had."),
        }
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=False),
    work=_delete,
)
