"""What a tick costs: how often it looks at the store, and how often it asks the policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worker.scene import Scene, says

from tidegate.core import gate, sessions
from tidegate.jobs import runs
from tidegate.storage.inmemory.control_store import EphemeralControlStore
from tidegate.storage.inmemory.provider import InMemoryProvider


@pytest.fixture
def scene(home: Path) -> Scene:
    return Scene(home)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each of these was asked, from here on."""
    counted = Counter[str]()

    def count(name: str, owner: object, attribute: str) -> None:
        asked: Callable[..., object] = getattr(owner, attribute)

        def counting(*arguments: object, **named: object) -> object:
            counted[name] += 1
            return asked(*arguments, **named)

        monkeypatch.setattr(owner, attribute, counting)

    count("open runs", runs, "_open")
    count("views", InMemoryProvider, "view")
    count("control reads", EphemeralControlStore, "read")
    count("decisions", gate, "decide")
    count("decisions", sessions, "decide")
    return counted


@pytest.mark.parametrize(
    ("answer", "most"),
    [
        ("NOTHING", {"open runs": 2, "views": 6, "control reads": 20, "decisions": 26}),
        ("done", {"open runs": 2, "views": 6, "control reads": 25, "decisions": 31}),
    ],
)
def test_a_job_with_a_one_word_answer_is_done_in_so_many_looks(
    scene: Scene, looks: Counter[str], answer: str, most: dict[str, int]
) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    scene.model = says(answer)
    worker = scene.worker()
    looks.clear()
    assert worker.tick() == 1
    worker.pause_seconds()
    assert {name: count for name, count in looks.items() if count > most[name]} == {}


def test_a_tick_with_nothing_to_do_reads_the_open_runs_once(scene: Scene, looks: Counter[str]) -> None:
    scene.add()
    scene.set_trigger()
    worker = scene.worker()
    worker.tick()
    looks.clear()
    assert worker.tick() == 0
    worker.pause_seconds()
    assert looks["open runs"] == 1


def test_what_is_made_while_something_runs_is_done_in_the_same_tick(scene: Scene) -> None:
    """The open runs are read again after each run: it may have made more."""
    scene.add()
    scene.clock.pass_(hours=1)
    posted = list[str]()

    def post(_: object) -> None:
        if not posted:
            posted.append("once")
            scene.session().jobs.post("job")

    scene.record().on_ask = post
    assert scene.worker().tick() == 2


def test_a_run_that_is_put_off_is_waited_for_until_its_new_time(scene: Scene) -> None:
    scene.add(schedule="* * * * *")
    scene.clock.pass_(days=3, seconds=58)
    scene.set_run(grace_minutes=0)
    worker = scene.worker()
    assert worker.tick() == 0
    assert worker.pause_seconds() == 2
