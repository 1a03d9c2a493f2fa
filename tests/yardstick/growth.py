"""How the time of some work grows with its size: a ratio, so a slow or busy machine does not matter."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

_TIMES = 16
_ROOM = 4  # sixteen times the size takes 16 times as long if it is linear, 256 times if it is quadratic
_TRIES = 5


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether work of this size takes at most 64 times as long as work of a sixteenth of it, at best."""
    short = long = float("inf")
    for _ in range(_TRIES):
        short = min(short, _seconds(work, size // _TIMES))
        long = min(long, _seconds(work, size))
        if long <= _ROOM * _TIMES * short:
            return True
    return False


def _seconds(work: Callable[[int], object], size: int) -> float:
    gc.disable()  # else it looks at all that other tests have left, and more often the larger the work
    try:
        began = time.process_time()
        work(size)
        return time.process_time() - began
    finally:
        gc.enable()
