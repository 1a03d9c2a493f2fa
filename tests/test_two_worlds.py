"""P5 and P6: an observer cannot tell a world from the same world without what lies above it and beside it."""

from __future__ import annotations

from typing import get_args

import pytest
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, SqliteBackend
from tests.yardstick.effort import portions
from tests.yardstick.generate import observed_trace
from tests.yardstick.interference import files_seen, part_of, what_tells

LENGTH = 10
EVERY_KIND = {*get_args(t.Memory), *get_args(t.Other), *get_args(t.Act), *get_args(t.Owned), t.Restart}
TRACES = portions(5_000, 200_000, size=250)


@pytest.mark.parametrize("seeds", TRACES, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_nothing_above_or_beside_an_observer_changes_what_it_sees(backend: Backend, seeds: range) -> None:
    for seed in seeds[:: backend.parts]:
        steps, observer = observed_trace(f"two worlds {seed}", LENGTH, parts=backend.parts, owned=True)
        if told := what_tells(backend, f"two worlds {seed}", steps, observer):
            pytest.fail(told)


def test_the_files_an_observer_may_read_are_the_same_to_the_byte() -> None:
    backend = SqliteBackend()
    for seed in range(100):
        steps, observer = observed_trace(f"files {seed}", LENGTH)
        kept = part_of(steps, observer).kept
        assert files_seen(backend, steps, observer) == files_seen(backend, kept, observer), f"seed 'files {seed}'"
    backend.close()


def test_the_traces_take_something_away_and_leave_something_to_see() -> None:
    kinds_kept, kinds_gone, told = set[type](), set[type](), 0
    for seed in range(300):
        steps, observer = observed_trace(f"two worlds {seed}", LENGTH, owned=True)
        part = part_of(steps, observer)
        kept = {step.index for step in part.kept}
        kinds_kept |= {type(step.op) for step in steps if step.index in part.watched}
        kinds_gone |= {type(step.op) for step in steps if step.index not in kept}
        told += len(part.kept) < len(steps)
    assert kinds_gone == EVERY_KIND - {t.Restart, t.Lose}
    assert kinds_kept == EVERY_KIND - {t.Restart, t.Lose}
    assert told > 200


def test_a_step_is_the_same_step_when_others_are_taken_away() -> None:
    steps, observer = observed_trace("the same", LENGTH)
    part = part_of(steps, observer)
    assert set(part.kept) <= set(steps)
    assert [step.index for step in part.kept] == sorted(step.index for step in part.kept)
