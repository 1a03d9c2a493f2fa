"""Examining a home: the owner's act."""

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
    common={**NO_LEVEL, "agent": "Whose memory. [default: all agents]"},
    examples=("tidegate doctor", "tidegate doctor --repair", "tidegate doctor --anchor anchors.jsonl --json"),
)
@click.option("--repair", is_flag=True, help="Put right what is safe to: modes, left-over files, the index, tags.")
@click.option("--anchor", "file", metavar="FILE", help="What `audit anchor` printed, for the audit chains.")
def doctor(repair: bool, file: str | None) -> int:
    """Look for everything that can be wrong with the home, and say what to do. Servers may run meanwhile.

    With --agent, of what is in the memories only that agent's is examined. JSON: one object a finding. Exit code 1
    when an error is left. A warning is about what works, and should be seen to; it is no error.
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
        info(f"there is no home at {home}: nothing was saved there yet")
        return 0
    info(f"the home at {home}")
    findings: list[Finding] = []
    try:
        findings.extend(examination)
    finally:  # not between the lines that say how far it is; and cut short, what was found by then
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
    return ", ".join(told) or "nothing is wrong"
