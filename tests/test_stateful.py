"""Random traces against the reference model, on every provider."""

from __future__ import annotations

import pytest
from tests.yardstick.agreement import disagreement
from tests.yardstick.backends import Backend
from tests.yardstick.effort import portions, story
from tests.yardstick.generate import random_trace

LENGTH = 14
SEQUENCES = portions(2_000, 100_000, size=100)


@pytest.mark.parametrize("seeds", SEQUENCES, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_every_answer_and_all_that_is_stored_is_as_the_model_says(backend: Backend, seeds: range) -> None:
    for seed in seeds[:: backend.parts]:
        steps = random_trace(f"stateful {seed}", LENGTH, parts=backend.parts)
        if disagreement(backend, steps):
            pytest.fail(story(f"stateful {seed}", steps, lambda shorter: disagreement(backend, shorter)))
