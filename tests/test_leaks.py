"""The harness finds every seeded leak, and finds nothing where there is none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from random import Random

import pytest
from tests.yardstick import leaks_owner, leaks_pins, leaks_sessions, leaks_storage, leaks_verbs
from tests.yardstick.agreement import disagreement
from tests.yardstick.backends import InMemoryBackend
from tests.yardstick.generate import observed_trace, random_trace
from tests.yardstick.interference import differences
from tests.yardstick.leaks import LEAKS, Leak, know_the_home
from tests.yardstick.putback import put_back_wrongs

TRACES_MAX = 2_000
"""So many traces as in test_two_worlds, with and without the owner's acts, or test_stateful find every leak."""


traces = lru_cache(maxsize=1_000)(observed_trace)  # most leaks are found among the first, which are made once


@pytest.fixture
def backend() -> Iterator[InMemoryBackend]:
    made = InMemoryBackend()
    yield made
    made.close()


def traces_until_told(backend: InMemoryBackend) -> int | None:
    """How many two-world traces it takes until an observer sees what it may not depend on; None: more than enough."""
    seeds = product(range(TRACES_MAX), (False, True))
    looked = (traces(f"two worlds {seed}", 10, owned=owned) for seed, owned in seeds)
    return next((n for n, (steps, observer) in enumerate(looked, 1) if differences(backend, steps, observer)), None)


def traces_until_wrong(backend: InMemoryBackend) -> int | None:
    """How many traces it takes until something is not as the model says."""
    traces = (random_trace(f"stateful {seed}", 14) for seed in range(TRACES_MAX))
    return next((n for n, steps in enumerate(traces, 1) if disagreement(backend, steps)), None)


def histories_until_put_back(backend: InMemoryBackend) -> int | None:
    """How many histories it takes until an older control store, put back, lowers or revives a session."""
    histories = (random_trace(f"put back {seed}", 20) for seed in range(TRACES_MAX))
    takes = ((steps, Random(n).randrange(len(steps))) for n, steps in enumerate(histories))
    return next((n for n, (steps, taken) in enumerate(takes, 1) if put_back_wrongs(backend, steps, taken)), None)


@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.name)
def test_the_harness_finds_the_leak(leak: Leak, backend: InMemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    know_the_home(monkeypatch)
    leak.install(monkeypatch)
    look = histories_until_put_back if leak.by_put_back else traces_until_wrong if leak.by_model else traces_until_told
    found = look(backend)
    assert found, f"not found in {TRACES_MAX} traces"


def test_knowing_the_home_alone_is_no_leak(backend: InMemoryBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    know_the_home(monkeypatch)
    for seed in range(200):
        steps, observer = observed_trace(f"two worlds {seed}", 10, owned=True)
        assert not differences(backend, steps, observer)
        assert not disagreement(backend, random_trace(f"stateful {seed}", 14))


def test_the_catalogue_is_large_and_each_leak_is_in_it_once() -> None:
    assert len({leak.name for leak in LEAKS}) == len(LEAKS) >= 60
    assert sum(not (leak.by_model or leak.by_put_back) for leak in LEAKS) >= 40
    assert {leaks_owner, leaks_pins, leaks_sessions, leaks_storage, leaks_verbs}


def test_the_harness_is_not_traced_where_coverage_is_measured() -> None:
    assert sys.gettrace() is None
