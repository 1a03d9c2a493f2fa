"""Makes a failing trace short enough to read."""

from __future__ import annotations

from collections.abc import Callable

from tests.yardstick.traces import Trace


def shrunk(steps: Trace, fails: Callable[[Trace], bool]) -> Trace:
    """A part of the trace that still fails, and from which no step can be taken without it passing."""
    size = max(len(steps) // 2, 1)
    while size:
        place = 0
        while place < len(steps):
            shorter = steps[:place] + steps[place + size :]
            if shorter and fails(shorter):
                steps = shorter
            else:
                place += size
        size //= 2
    return steps
