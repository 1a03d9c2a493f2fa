"""Examining a home: the owner's act."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from tidegate.surfaces import output
from tidegate.surfaces.cli_common import Command, options, refuse_options, remark, show

if TYPE_CHECKING:
    from tidegate.domain.finding import Finding


@click.command(cls=Command, examples=("tidegate doctor", "tidegate doctor --repair", "tidegate doctor --json"))
@click.option("--repair", is_flag=True, help="Put right what is safe to: modes, left-over files, the index, tags.")
def doctor(repair: bool) -> int:
    """Look for everything that can be wrong with the home, and say what to do. Servers may run meanwhile.

    With --agent, of what is in the memories only that agent's is examined. JSON: one object a finding. Exit code 0
    when nothing is wrong any more, else 1.
    """
    from tidegate import home as homes
    from tidegate.core.doctor import Doctor
    from tidegate.core.store import utc_now
    from tidegate.domain.arguments import check_agent

    refuse_options("level", "session")
    agent = click.get_current_context().meta.get("agent")
    home = homes.find(options().home)
    examination = Doctor(home, utc_now, repair, remark).examine(None if agent is None else check_agent(agent))
    left = found = 0
    for finding in examination:
        show(_finding(finding), _lines(finding))
        found += 1
        left += not finding.repaired
    remark(f"{found} findings, {found - left} of them repaired" if found else "nothing is wrong")
    return 1 if left else 0


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "severity": str(finding.severity),
        "where": finding.where,
        "problem": finding.problem,
        "advice": finding.advice,
        "repaired": finding.repaired,
    }


def _lines(finding: Finding) -> Iterator[str]:
    state = "repaired" if finding.repaired else str(finding.severity)
    yield f"{state:<8}  {output.escape(finding.where)}: {finding.problem}"
    if not finding.repaired:
        yield f"          {finding.advice}"
