"""Two messages at once to one conversation: the second waits for the first, bounded and cancellable."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agent.scene import CONFIDENTIAL, INTERNAL, Played, Scene, Screen

from tidegate.agent import turns
from tidegate.agent.loop import Ended
from tidegate.agent.messages import AssistantMessage, UserMessage, read
from tidegate.agent.prompt import Prompt, ReplyDelta
from tidegate.agent.turns import BusyError, turn
from tidegate.errors import StorageError


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path / "home")
    yield made
    made.store.close()


class Slow:
    """A model that answers when it is told to."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.go = threading.Event()

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        self.asked.set()
        await asyncio.to_thread(self.go.wait, 30)
        yield AssistantMessage("first")


def said(scene: Scene, name: str = "main") -> list[str]:
    stored = (read(each.content) for each in scene.store.session("assistant", name).conversation.read())
    return [each.text for each in stored if isinstance(each, UserMessage | AssistantMessage)]


def test_two_messages_at_once_are_answered_one_after_the_other(scene: Scene) -> None:
    slow = Slow()
    first = threading.Thread(target=lambda: scene.say("one", slow))
    first.start()
    assert slow.asked.wait(30)

    async def waited(_: float) -> None:
        slow.go.set()
        await asyncio.to_thread(first.join)

    agent = replace(scene.agent(Played("second")), pause=waited)
    assert asyncio.run(agent.answer("two", Screen())).ended is Ended.COMPLETE
    assert said(scene) == ["one", "first", "two", "second"]


def test_the_wait_is_bounded_and_nothing_is_stored(scene: Scene) -> None:
    paused = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    async def act() -> None:
        agent = replace(scene.agent(Played("never")), pause=pause)
        async with turn(scene.home, agent.session.id, sleep=asyncio.sleep, seconds=1):
            outcome = await agent.answer("two", Screen())
        assert outcome.ended is Ended.BUSY
        assert outcome.reason.startswith("another message to this conversation is still being answered")

    asyncio.run(act())
    assert said(scene) == []
    assert sum(paused) == pytest.approx(60)


def test_a_wait_can_be_cancelled_and_leaves_the_turn_to_its_holder(scene: Scene) -> None:
    async def act() -> None:
        agent = scene.agent(Played("never"))
        async with turn(scene.home, agent.session.id, sleep=asyncio.sleep, seconds=1):
            waiting = asyncio.ensure_future(agent.answer("two", Screen()))
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(BusyError):
                async with turn(scene.home, agent.session.id, sleep=agent.sleep, seconds=0):
                    pass

    asyncio.run(act())


def test_a_waiting_message_holds_no_lock_of_the_store(scene: Scene) -> None:
    async def act() -> None:
        agent = scene.agent(Played("never"))

        async def meanwhile(_: float) -> None:
            for level in (INTERNAL, agent.session.taint):
                scene.store.session("assistant", level=level).memory.save("k", "v")

        async with turn(scene.home, agent.session.id, sleep=asyncio.sleep, seconds=1):
            assert (await replace(agent, pause=meanwhile).answer("two", Screen())).ended is Ended.BUSY

    asyncio.run(act())


def test_p5_a_session_that_is_busy_keeps_no_other_waiting(scene: Scene) -> None:
    async def act() -> None:
        high = scene.agent(Played("x"), "high", CONFIDENTIAL)
        async with turn(scene.home, high.session.id, sleep=asyncio.sleep, seconds=1):
            scene.bound(turn_seconds_max=0)
            for name in ("low", None):
                assert (await scene.agent(Played("y"), name).answer("x", Screen())).ended is Ended.COMPLETE

    asyncio.run(act())


def test_a_session_that_rose_meanwhile_is_judged_again(scene: Scene) -> None:
    async def act() -> None:
        agent, screen = scene.agent(Played("never")), Screen(clearance=INTERNAL)
        held = turn(scene.home, agent.session.id, sleep=asyncio.sleep, seconds=1)
        await held.__aenter__()

        async def raised(_: float) -> None:
            agent.session.raise_taint(CONFIDENTIAL)
            await held.__aexit__(None, None, None)

        assert (await replace(agent, pause=raised).answer("two", screen)).ended is Ended.HELD

    asyncio.run(act())
    assert said(scene) == []


def test_no_file_is_left(scene: Scene) -> None:
    scene.say("one", Played("first"))
    assert list((scene.home / "turns").iterdir()) == []
    assert (scene.home / "turns").stat().st_mode & 0o077 == 0


HOLD = """
import asyncio, sys, pathlib
from tidegate.agent.turns import turn
async def main():
    async with turn(pathlib.Path(sys.argv[1]), sys.argv[2], sleep=asyncio.sleep, seconds=1):
        print("held", flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""


def test_another_process_is_waited_for_and_a_killed_one_is_not(scene: Scene) -> None:
    scene.bound(turn_seconds_max=0)
    agent = scene.agent(Played("done"))
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(scene.home), agent.session.id], stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert asyncio.run(agent.answer("one", Screen())).ended is Ended.BUSY
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    assert asyncio.run(agent.answer("two", Screen())).ended is Ended.COMPLETE
    assert said(scene) == ["two", "done"]


def test_without_locks_or_without_a_place_for_them(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act() -> None:
        async with turn(scene.home, "x", sleep=asyncio.sleep, seconds=1):
            pass

    def no_locks(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(turns.fcntl, "flock", no_locks)
        asyncio.run(act())
    (scene.home / "turns").rmdir()
    (scene.home / "turns").write_text("")
    with pytest.raises(StorageError, match=r"^turns: cannot be written"):
        asyncio.run(act())


@pytest.mark.parametrize("found", ["gone", "another"])
def test_a_file_that_its_holder_removed_is_not_taken_for_the_turn(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    path = scene.home / "turns" / "x"
    locks = turns.fcntl.flock
    tries = []

    def late(descriptor: int, how: int) -> None:
        locks(descriptor, how)
        tries.append(how)
        if len(tries) == 1:
            path.unlink()
            if found == "another":
                path.write_text("")

    monkeypatch.setattr(turns.fcntl, "flock", late)

    async def act() -> None:
        async with turn(scene.home, "x", sleep=asyncio.sleep, seconds=1) as waited:
            assert waited

    asyncio.run(act())
    assert len(tries) == 2
