"""Refusals: each a rule and a hint, which says what is wrong and what to do and holds no content (P12)."""

from __future__ import annotations

from tidegate.policy.decisions import Deny, PolicyRule

# Sessions
UNKNOWN_SESSION = Deny(PolicyRule.P13, "unknown session: the owner can create one with `tidegate session new`")
OLDER_COPY = Deny(PolicyRule.P4, "control.db is an older copy and lacks sessions: the owner must run `tidegate doctor`")
ENDED = Deny(
    PolicyRule.P7,
    "session ended: if it was renewed, start this program again; otherwise the owner can start a new session under "
    "this name with `tidegate session renew`, or under another name with `tidegate session new`",
)
ABOVE_CEILING = Deny(
    PolicyRule.P4,
    "this would exceed the session's ceiling: the owner can raise the ceiling with `tidegate session ceiling`, or "
    "start a new session",
)
OPENED_ABOVE_CEILING = Deny(
    PolicyRule.P4, "the session would start above its ceiling: use a lower level or a higher ceiling"
)
CEILING_BELOW_TAINT = Deny(
    PolicyRule.P4, "the ceiling cannot be below the session's taint: start a new session instead"
)
CEILING_BELOW_CHILD = Deny(
    PolicyRule.P15, "the ceiling cannot be below the taint of a child session: end that session first"
)
CHILD_TOO_DEEP = Deny(PolicyRule.P15, "child sessions are nested too deeply: continue in this session")
CHILD_ABOVE_PARENT = Deny(PolicyRule.P15, "a child's ceiling cannot be above its parent's: give a lower ceiling")
RISEN_MEANWHILE = Deny(
    PolicyRule.P4, "the session's taint has just risen, so nothing was changed: run the command again"
)

# Jobs
JOB_ABOVE_CEILING = Deny(PolicyRule.P4, "the job would start above its ceiling: use a higher ceiling")
JOB_TOO_DEEP = Deny(
    PolicyRule.P15,
    "jobs that create jobs are nested too deeply: ask the owner to create this job with `tidegate cron add`",
)
JOB_ABOVE_SESSION = Deny(
    PolicyRule.P15, "a job's ceiling cannot be above that of the session that creates it: give a lower ceiling"
)

# Tools and results
UNKNOWN_EVENT = Deny(PolicyRule.P17, "internal error: unknown event; report it to the owner")
UNKNOWN_TOOL = Deny(PolicyRule.P17, "unknown tool: use only the listed tools")
RESULT_WITHHELD = Deny(
    PolicyRule.P1, "the result was withheld: this session may not see it; the owner can run `tidegate doctor`"
)

# What goes out, and servers
NO_CLEARANCE = Deny(PolicyRule.P14, "the destination has no clearance: the owner can set one in config.toml")
ABOVE_CLEARANCE = Deny(
    PolicyRule.P14,
    "this session's level is above the clearance of the destination: the owner can start a new session at a lower "
    "level with `--level`, or raise the clearance in config.toml",
)
TOOLS_CHANGED = Deny(
    PolicyRule.P14, "the server's tools have changed: the owner can review them with `tidegate tools trust`"
)
TOOL_NOT_TRUSTED = Deny(
    PolicyRule.P14, "this tool is not trusted yet: the owner can trust it with `tidegate tools trust`"
)
TOOL_GONE = Deny(PolicyRule.P14, "the server no longer has this tool: use another tool")
UNCLASSIFIED_TOOL = Deny(
    PolicyRule.P14, "the tool has no classification: the owner can set its source and sink in config.toml"
)
ABOVE_SINK = Deny(
    PolicyRule.P14,
    "this session's level is above what this tool may be told: the owner can start a new session at a lower level with "
    "`--level`, or raise the tool's sink in config.toml",
)
SERVER_RESULT_WITHHELD = Deny(
    PolicyRule.P4,
    "the result was withheld: this session may not see it; the owner can start a new session at a higher level",
)
LABEL_ABOVE_CEILING = Deny(
    PolicyRule.P4,
    "the result was withheld, because its label exceeds the session's ceiling: the owner can raise the ceiling with "
    "`tidegate session ceiling`, or start a new session",
)
