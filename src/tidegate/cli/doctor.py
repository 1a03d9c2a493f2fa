"""The doctor: an owner command that examines a home."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from tidegate.cli import output
from tidegate.cli.common import NO_LEVEL, Command, info, options, read_anchor_file, show
from tidegate.records.finding import Finding, Severity

_REPAIRED = "repaired"


@click.command(
    cls=Command,
    common={**NO_LEVEL, "agent": "Name of the agent. [default: all agents]"},
    examples=("tidegate doctor", "tidegate doctor --repair", "tidegate doctor --anchor anchors.jsonl --json"),
)
@click.option(
    "--repair", is_flag=True, help="Repair what is safe to repair: file modes, left-over files, the index, tags."
)
@click.option("--anchor", "file", metavar="FILE", help="Output of `audit anchor`, to check the audit chains.")
def doctor(repair: bool, file: str | None) -> int:
    """Check the home for problems, and say how to fix them. Servers may keep running.

    With --agent, the check of stored data covers only that agent. JSON: one object per finding. Exit code 1 if an
    error is left. A warning is not an error: everything works, but something needs your attention.
    """
    from tidegate.config.home import find_home
    from tidegate.owner.doctor import Doctor
    from tidegate.records.validation import check_agent
    from tidegate.store import utc_now

    agent = click.get_current_context().meta.get("agent")
    home = find_home(options().home)
    anchors = () if file is None else read_anchor_file(file)
    examination = Doctor(home, utc_now, repair, info, anchors).examine(None if agent is None else check_agent(agent))
    if not home.exists():
        info(f"no home at {home}: nothing has been saved there yet")
        return 0
    info(f"home: {home}")
    findings: list[Finding] = []
    try:
        findings.extend(examination)
    finally:  # after the progress lines; if interrupted, with the findings so far
        for finding in findings:
            advice = [] if finding.repaired else [f"          {finding.advice}"]
            problem = f"{_state(finding):<8}  {output.escape(finding.where)}: {finding.problem}"
            show(_finding(finding), [problem, *advice])
    states = Counter(map(_state, findings))
    info(_summary(states))
    return 1 if states[Severity.ERROR] else 0


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "where": finding.where,
        "problem": finding.problem,
        "advice": finding.advice,
        "repaired": finding.repaired,
    }


def _state(finding: Finding) -> str:
    return _REPAIRED if finding.repaired else finding.severity


def _summary(states: Counter[str]) -> str:
    told = [output.counted(states[each], each) for each in Severity if states[each]]
    if states[_REPAIRED]:
        told.append(f"{states[_REPAIRED]} {_REPAIRED}")
    return ", ".join(told) or "no problems found"
