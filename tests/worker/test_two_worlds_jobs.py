"""P5, P6, P16 with jobs in the alphabet: when and what a job does never depends on what lies above it or beside it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from tests.yardstick import traces as t
from tests.yardstick.backends import Backend, InMemoryBackend, SqliteBackend
from tests.yardstick.effort import portions
from tests.yardstick.generate import observed_trace
from tests.yardstick.interference import Observer, differences, files_seen, part_of, what_tells
from tests.yardstick.worlds import World

from tidegate.core.variants import every
from tidegate.jobs import runs
from tidegate.jobs import session_jobs as jobs
from tidegate.jobs.job import RunState
from tidegate.jobs.runs import SessionRuns
from tidegate.policy.levels import Level
from tidegate.records.record import RecordKind
from tidegate.worker.execution import Execution
from tidegate.worker.worker import Worker

LENGTH = 18
TRACES = portions(600, 60_000, size=100)


def trace(seed: int, parts: int = 1) -> tuple[t.Trace, Observer]:
    return observed_trace(f"jobs {seed}", LENGTH, parts=parts, jobs=True)


@pytest.mark.parametrize("seeds", TRACES, ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}")
def test_nothing_above_or_beside_an_observer_changes_what_it_sees_of_jobs(backend: Backend, seeds: range) -> None:
    for seed in seeds[:: backend.parts]:
        steps, observer = trace(seed, backend.parts)
        if told := what_tells(backend, f"jobs {seed}", steps, observer):
            pytest.fail(told)


def test_the_files_an_observer_may_read_are_the_same_to_the_byte_with_jobs() -> None:
    backend = SqliteBackend()
    try:
        for seed in range(30):
            steps, observer = trace(seed)
            kept = part_of(steps, observer).kept
            assert files_seen(backend, steps, observer) == files_seen(backend, kept, observer), f"seed 'jobs {seed}'"
    finally:
        backend.close()


def test_the_traces_wake_agents_that_run_rise_and_find_something() -> None:
    backend = InMemoryBackend()
    ran = risen = found = missing = 0
    kept, gone = set[type](), set[type]()
    for seed in range(150):
        steps, observer = trace(seed)
        part = part_of(steps, observer)
        kept |= {type(step.op) for step in steps if step.index in part.watched}
        gone |= {type(step.op) for step in steps if step not in part.kept}
        world = World(backend, agents=[observer.agent])
        outcomes = world.run(steps)
        ran += sum(outcome.answer.get("runs", 0) for outcome in outcomes.values())
        missing += any(step not in part.kept for step in steps if isinstance(step.op, t.Wake))
        for level in Level:
            with world.compartment(observer.agent, level) as compartment:
                stored = compartment.page(RecordKind.RUN, after="", tag=None, limit=100, chars_max=10_000)
                risen += sum('"state": "risen"' in record.content for record in stored)
                found += len(compartment.live(RecordKind.MEMORY, ["found"]))
        world.close()
    assert set(get_args(t.Job)) <= kept
    assert set(get_args(t.Job)) <= gone
    assert ran > 100
    assert risen > 10
    assert found > 3
    assert missing > 10


# Leaks put in on purpose: the harness must find each.


def finds(most: int = 600) -> bool:
    """Whether any of the traces is told apart."""
    backend = InMemoryBackend()
    return any(differences(backend, *trace(seed)) for seed in range(most))


def test_without_a_leak_nothing_is_found() -> None:
    assert not finds(100)


def test_a_result_that_stays_where_the_run_began_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The most natural mistake: the run's record keeps the answer, whatever was read on the way."""
    monkeypatch.setattr(Execution, "_promote", lambda *_: None)
    assert finds()


def test_a_run_that_says_below_how_long_its_result_above_is_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that is closed at the end of the run, instead of at the moment at which it rises."""
    real, open_below = SessionRuns.close, list[Any]()

    def close(session: SessionRuns, claimed: Any, closed: Any, **more: Any) -> Any:
        if closed.state is RunState.RISEN:
            open_below.append((session, claimed, closed))
            return claimed
        done = real(session, claimed, closed, **more)
        while open_below:
            below, risen, then = open_below.pop()
            real(below, risen, replace(then, reason=f"{len(closed.text)} characters"))
        return done

    monkeypatch.setattr(SessionRuns, "close", close)
    assert finds()


def test_a_limit_that_counts_the_jobs_of_all_levels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = jobs.SessionJobs.create

    def create(session: jobs.SessionJobs, *arguments: Any, **more: Any) -> Any:
        compartments = [session._gate._views.view(row.agent, Level.RESTRICTED) for row in [session._handle.seen] if row]
        for each in compartments:
            with each as view:
                if (
                    sum(
                        1
                        for compartment in view.visible
                        for _ in every(compartment, RecordKind.JOB, batch=100, chars_max=0)
                    )
                    >= 2
                ):
                    more["timezone"] = "Europe/Berlin"
        return real(session, *arguments, **more)

    monkeypatch.setattr(jobs.SessionJobs, "create", create)
    assert finds()


def test_one_worker_for_all_levels_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would run what is due anywhere before what was asked for, and say how much that was."""
    real = Worker.tick

    def tick(worker: Worker) -> int:
        others = [Worker(worker._context, worker._agent, level) for level in Level if level > worker._level]
        return sum(map(real, others)) + real(worker)

    monkeypatch.setattr(Worker, "tick", tick)
    assert finds()


def test_runs_that_are_listed_from_above_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = SessionRuns.open

    def open_(session: SessionRuns) -> Any:
        row = session._handle.seen
        with session._gate._views.view(row.agent if row else "", Level.RESTRICTED) as view:
            hidden = sum(len(runs._tagged(compartment)) for compartment in view.visible)
        return real(session) if hidden < 4 else []

    monkeypatch.setattr(SessionRuns, "open", open_)
    assert finds()
