"""Races: parallel calls, a raise or a lower ceiling in between, a reset against a call in flight, a cancel anywhere.

10,000 seeded schedules: nothing flows down, the taint is never lowered, and no result comes after the end.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from random import Random

import pytest
from tests.gateway.schedules import FakeConnection, ShuffledLoop, World, hop, step
from tests.yardstick.effort import portions

from tidegate.core.flow import FlowChecks
from tidegate.core.sessions import Sessions
from tidegate.errors import Refused
from tidegate.gateway.gateway import Gateway
from tidegate.policy import rules
from tidegate.policy.decisions import Allow
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification, ServerCall, ServerResult

PORTIONS = portions(10_000, 200_000, size=2_500)


@pytest.fixture
def loop() -> Iterator[ShuffledLoop]:
    opened = ShuffledLoop()
    yield opened
    opened.close()


async def converse(world: World, gateway: Gateway) -> None:
    """A model that calls tools one after the other, each with all that it has seen."""
    for _ in range(world.random.randint(1, 3)):
        await step()
        entry = world.random.choice(gateway.tools())
        try:
            result = await gateway.call(entry.name, {"carries": world.seen.name})
        except Refused:
            world.count("refused")
            continue
        if not result.failed and entry.classification is not None:
            claimed = Level[result.text.splitlines()[2]]
            assert claimed.can_flow_to(result.level)
            world.released(entry.classification.source, claimed)


async def interfere(world: World) -> None:
    """The owner, in another process: raises, lifts or lowers the ceiling, resets."""
    sessions, session = world.store.sessions, world.session.id
    for _ in range(world.random.randint(0, 3)):
        for _ in range(world.random.randint(0, 12)):
            await step()
        try:
            act = world.random.random()
            if act < 0.4:
                sessions.raise_taint(session, world.random.choice(list(Level)))
            elif act < 0.6:
                sessions.set_ceiling(session, world.random.choice(list(Level)))
            elif act < 0.7:
                sessions.reset(session)
                world.count("reset")
        except Refused:
            world.count("owner refused")
        world.row()


async def cancel(world: World, tasks: list[asyncio.Task[None]]) -> None:
    """Somebody presses Ctrl-C."""
    if world.random.random() < 0.5:
        for _ in range(world.random.randint(0, 40)):
            await step()
        task = world.random.choice(tasks)
        if not task.done():
            world.count("cancelled")
        task.cancel()


async def schedule(world: World) -> None:
    async with Gateway(
        world.store,
        world.session,
        world.servers,
        world.pins,  # type: ignore[arg-type]
        ids=lambda: "nonce",
        connect=partial(FakeConnection.open, world),
        hop=hop,
    ) as gateway:
        talks = [asyncio.ensure_future(converse(world, gateway)) for _ in range(world.random.randint(1, 4))]
        others = [asyncio.ensure_future(interfere(world)), asyncio.ensure_future(cancel(world, talks))]
        for outcome in await asyncio.gather(*talks, *others, return_exceptions=True):
            if outcome is not None and not isinstance(outcome, asyncio.CancelledError):
                raise outcome
    world.row()


def run(loop: ShuffledLoop, seed: int) -> World:
    loop.random = Random(seed)
    world = World(Random(seed))
    loop.run_until_complete(asyncio.wait_for(schedule(world), 60))
    return world


@pytest.mark.parametrize("seeds", PORTIONS, ids=str)
def test_p4_no_schedule_lets_anything_flow_down_or_out_after_the_end(loop: ShuffledLoop, seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        world = run(loop, seed)
        assert not world.wrong, f"seed {seed}: {world.wrong[0]}"
        counts.update(world.counts)
    # All that is to be raced did happen, and often.
    for what in ("sent", "released", "labelled", "refused", "reset", "cancelled", "later"):
        assert counts[what] > len(seeds) / 20, counts


def test_the_same_seed_gives_the_same_schedule(loop: ShuffledLoop) -> None:
    for seed in range(20):
        assert run(loop, seed).counts == run(loop, seed).counts


def finds(loop: ShuffledLoop, fault: str) -> bool:
    return any(fault in wrong for seed in range(1_000) for wrong in run(loop, seed).wrong)


def test_the_schedules_find_a_result_without_a_look_at_the_session(
    loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlowChecks, "check_result", lambda *_: Level.RESTRICTED)
    assert finds(loop, "a result was released after the session ended")


def test_the_schedules_find_bytes_that_are_not_checked(loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FlowChecks, "check_send", lambda *_: None)
    assert finds(loop, "something was sent after the session ended")
    assert finds(loop, "a later byte was sent to a sink below the taint")


def test_the_schedules_find_a_call_that_does_not_raise(loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sessions, "_commit", lambda *_: None)
    monkeypatch.setattr(FlowChecks, "check_result", lambda *_: Level.RESTRICTED)
    assert finds(loop, "a result was released to a session below its source")
    assert finds(loop, "something was sent to a sink below it")


def test_the_schedules_find_a_label_that_raises_only_after_the_release(
    loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = FlowChecks.check_result

    def late(self: FlowChecks, session: str, tool: str, classification: Classification, claimed: Level) -> Level:
        def raise_later() -> None:
            with suppress(Refused):
                real(self, session, tool, classification, claimed)

        real(self, session, tool, classification, Level.PUBLIC)
        loop.call_soon(raise_later)
        return Level.RESTRICTED

    monkeypatch.setattr(FlowChecks, "check_result", late)
    assert finds(loop, "a result was released to a session below its label")


def test_the_schedules_find_a_label_that_lowers(loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    from tidegate.core import sessions

    def believing(event: object) -> object:
        if isinstance(event, ServerResult) and event.state is not None and not event.state.ended:
            return Allow(event.claimed)
        return rules.decide(event)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "decide", believing)
    assert finds(loop, "the taint was lowered")


def test_the_schedules_find_a_call_that_is_decided_before_its_turn(
    loop: ShuffledLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the sink were checked at one moment and the taint raised at another."""
    from tidegate.core import sessions

    def without_sink(event: object) -> object:
        if isinstance(event, ServerCall) and event.classification is not None:
            source = event.classification.source
            return rules.decide(rules.TaintRaise(event.state, source))
        return rules.decide(event)  # type: ignore[arg-type]

    monkeypatch.setattr(sessions, "decide", without_sink)
    assert finds(loop, "something was sent to a sink below it")
