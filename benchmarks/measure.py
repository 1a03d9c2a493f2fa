"""Timing: the subjects of a comparison run in turn, and the median counts."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

ROUNDS = 15


def timed(subjects: dict[str, Callable[[], object]], *, rounds: int, calls: int = 1) -> dict[str, list[float]]:
    """Return seconds a call of each subject, by round: in each they run `calls` times, in turn."""
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            start = time.perf_counter()
            for _ in range(calls):
                subject()
            taken[name].append((time.perf_counter() - start) / calls)
    return taken


def compare(subjects: dict[str, Callable[[], object]], *, calls: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Return microseconds a call of each subject: the median over the rounds."""
    taken = timed(subjects, rounds=rounds, calls=calls)
    return {name: round(statistics.median(values) * 1e6, 1) for name, values in taken.items()}


def ratios(figures: dict[str, float], floor: str) -> dict[str, float]:
    """Return each figure over the floor's."""
    return {name: round(value / figures[floor], 2) for name, value in figures.items() if name != floor}
