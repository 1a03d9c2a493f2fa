"""An older control.db put back at random points of random histories: no taint falls, and nothing ended lives."""

from __future__ import annotations

from random import Random

import pytest
from tests.yardstick.backends import Backend
from tests.yardstick.effort import portions
from tests.yardstick.generate import random_trace
from tests.yardstick.putback import put_back_wrongs
from tests.yardstick.traces import show

LENGTH = 20
HISTORIES = portions(1_000, 50_000, size=100)


@pytest.mark.long
@pytest.mark.parametrize("seeds", HISTORIES, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_p4_p7_an_older_control_store_lowers_no_taint_and_revives_no_session(backend: Backend, seeds: range) -> None:
    for seed in seeds[:: backend.parts]:
        steps = random_trace(f"put back {seed}", LENGTH)
        taken = Random(seed).randrange(len(steps))
        if wrongs := put_back_wrongs(backend, steps, taken):
            pytest.fail(f"seed {seed}, taken before step {taken} of\n{show(steps)}\n{wrongs}")
