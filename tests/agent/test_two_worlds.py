"""P5 and P6 for all that a model is told: an observer's prompts do not depend on what is above it or beside it."""

from __future__ import annotations

import pytest
from tests.agent.agent_world import AgentWorld, through_the_agent
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, InMemoryBackend
from tests.yardstick.effort import portions
from tests.yardstick.generate import observed_trace
from tests.yardstick.interference import Observer, differences, part_of, what_tells

from tidegate.core import context
from tidegate.core.gate import Gate
from tidegate.policy.levels import Level
from tidegate.session import Session

LENGTH = 10


def trace(seed: str) -> tuple[t.Trace, Observer]:
    steps, observer = observed_trace(seed, LENGTH)
    return through_the_agent(steps), observer


@pytest.mark.parametrize("seeds", portions(80, 20_000, size=20), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_nothing_above_or_beside_an_observer_changes_what_its_models_are_told(backend: Backend, seeds: range) -> None:
    for seed in seeds:
        steps, observer = trace(f"agent {seed}")
        if told := what_tells(backend, f"agent {seed}", steps, observer, AgentWorld):
            pytest.fail(told)


def test_the_traces_reach_models_and_leave_something_to_see() -> None:
    backend, watched, told = InMemoryBackend(), 0, 0
    for seed in range(20):
        steps, observer = trace(f"agent {seed}")
        part = part_of(steps, observer)
        watched += len(part.watched)
        world = AgentWorld(backend)
        outcomes = world.run(steps)
        told += sum("told" in outcomes[index].answer for index in part.watched)
        world.close()
    assert watched > 400
    assert told > 300


def leaks(seeds: int = 150) -> bool:
    """Whether a fault is found among so many traces."""
    backend = InMemoryBackend()
    return any(differences(backend, *trace(f"agent {seed}"), AgentWorld) for seed in range(seeds))


def test_a_prompt_block_that_is_read_too_high_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Gate.read

    def read(self: Gate, handle: object, tool: str, verb: object) -> object:
        if tool != "context":
            return whole(self, handle, tool, verb)  # type: ignore[arg-type]
        row = self._sessions.read(handle.id)  # type: ignore[attr-defined]
        with self._views.view(row.agent, Level.RESTRICTED) as view:  # type: ignore[union-attr]
            return verb(view).value  # type: ignore[operator]

    monkeypatch.setattr(Gate, "read", read)
    assert leaks()


def test_a_cache_of_the_block_that_knows_no_taint_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Session.context
    cache: dict[str, context.Context] = {}

    def cached(self: Session, **budget: int) -> context.Context:
        found = block(self, **budget)
        cache[self.agent] = max(found, cache.get(self.agent, found), key=lambda each: each.included)
        return cache[self.agent]

    monkeypatch.setattr(Session, "context", cached)
    assert leaks()


def test_a_count_of_what_is_hidden_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    block = Session.context

    def counting(self: Session, **budget: int) -> context.Context:
        hidden = self._gate._views.view(self.agent, Level.RESTRICTED)
        with hidden as view:
            count = sum(each.statistics().documents for each in view.visible)
        found = block(self, **budget)
        return context.Context(f"{found.text}{count}", found.included, found.left_out)

    monkeypatch.setattr(Session, "context", counting)
    assert leaks()
