"""The cron tools: work that an agent does later, at the level of the session that scheduled it (P16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.records.excerpt import excerpt
from tidegate.records.times import write_timestamp
from tidegate.tools import schema
from tidegate.tools.tool import Annotations, Arguments, Tool

if TYPE_CHECKING:
    from tidegate.jobs.job import Job
    from tidegate.session import Session

_NAME = schema.text("Name", "The name of the job, for example morning-digest.")
_SHOWN = {
    "name": schema.TEXT,
    "schedule": schema.TEXT,
    "timezone": schema.TEXT,
    "prompt": schema.TEXT,
    "classification": schema.TEXT,
    "origin": schema.TEXT,
    "truncated": {**schema.FLAG, "description": "True if the prompt is cut."},
    "next_run_at": {**schema.TEXT, "description": "When it runs next. Absent if it does not run again."},
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
        "Schedule work for later, once or regularly. At that time a new conversation starts, and you get the prompt. "
        "Your answer goes to the user. Use it for reminders and regular tasks. Write a prompt that makes sense "
        "without this conversation. A job with the same name is replaced."
    ),
    input_schema=schema.inputs(
        {
            "name": _NAME,
            "schedule": schema.text(
                "Schedule",
                "Five cron fields (minute, hour, day, month, weekday), for example `30 7 * * 1-5`; or @hourly, @daily, "
                "@weekly, @monthly, @yearly; or one time, for example 2030-05-01T09:00.",
            ),
            "prompt": schema.text("Prompt", "What to do at that time, in full."),
            "timezone": schema.text("Time zone", "The user's time zone, for example Europe/Berlin. Default: UTC."),
        },
        required=["name", "schedule", "prompt"],
    ),
    output_schema=schema.outputs({"created": schema.FLAG, **_SHOWN}),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_create,
)

LIST = Tool(
    name="cron_list",
    title="List the jobs",
    description="List the scheduled jobs and when each runs next. Use it before you create or delete a job.",
    input_schema=schema.inputs({}),
    output_schema=schema.outputs({"jobs": schema.list_of(_SHOWN)}),
    annotations=Annotations(read_only=True, destructive=False, idempotent=True),
    work=_list,
)

DELETE = Tool(
    name="cron_delete",
    title="Delete a job",
    description="Delete a scheduled job. Use it when the user no longer wants it.",
    input_schema=schema.inputs({"name": _NAME}, required=["name"]),
    output_schema=schema.outputs({"deleted": schema.FLAG, "name": schema.TEXT, "classification": schema.TEXT}),
    annotations=Annotations(read_only=False, destructive=True, idempotent=False),
    work=_delete,
)
