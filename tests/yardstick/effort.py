"""How much is tried: enough for every commit by default, and the long run when TIDEGATE_TEST_DEEP is set."""

from __future__ import annotations

import os
from collections.abc import Callable

from tests.yardstick.shrink import shrunk
from tests.yardstick.traces import Trace, show

DEEP = bool(os.environ.get("TIDEGATE_TEST_DEEP"))


def portions(usual: int, deep: int, *, size: int) -> list[range]:
    """The seeds to run, in portions that can be shared out among processes."""
    count = deep if DEEP else usual
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def story(seed: str, steps: Trace, wrong: Callable[[Trace], str]) -> str:
    """What a failing test prints: the seed, the shortest trace that still fails, and what is wrong with it."""
    short = shrunk(steps, lambda shorter: bool(wrong(shorter)))
    return f"seed {seed!r}, shrunk to\n{show(short)}\n{wrong(short)}"
