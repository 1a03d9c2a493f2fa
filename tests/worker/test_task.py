"""An agent that has a TRIGGER.md wakes by itself, from time to time, at the level that its owner chose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.worker.scene import AGENT, CONFIDENTIAL, INTERNAL, NOON, PUBLIC, RESTRICTED, Scene, calling, says

from tidegate.policy.levels import Level


def pass_time(scene: Scene, minutes: int, level: Level = PUBLIC) -> list[datetime]:
    """When runs began, with a process that looks every minute."""
    worker, before = scene.worker(level), len(scene.runs(None))
    for _ in range(minutes):
        worker.tick()
        scene.clock.pass_(minutes=1)
    worker.finish()
    return [run.started_at for run in scene.runs(None)[max(before - 1, 0) :] if run.started_at is not None]


def test_it_wakes_every_so_many_minutes_and_is_told_trigger_md(scene: Scene) -> None:
    scene.set_trigger("See whether anything is due.", every_minutes=20)
    asked = scene.record()
    began = pass_time(scene, 61)
    assert began == [NOON + timedelta(minutes=minutes) for minutes in (20, 40, 60)]
    assert all(text.endswith("See whether anything is due.") for text in asked.asked)
    assert all("See whether" not in prompt.instructions for prompt in asked.prompts)


def test_trigger_md_is_read_afresh_each_time(scene: Scene) -> None:
    scene.set_trigger("one", every_minutes=20)
    asked = scene.record()
    pass_time(scene, 21)
    scene.set_trigger("two", every_minutes=20)
    pass_time(scene, 20)
    assert [text.rpartition("\n\n")[2] for text in asked.asked] == ["one", "two"]


@pytest.mark.parametrize("level", Level, ids=str)
def test_it_wakes_at_its_level_and_only_there(scene: Scene, level: Level) -> None:
    scene.set_trigger(level=level)
    scene.model = calling("memory_save", key="k", content="seen")
    for each in Level:
        pass_time(scene, 31, each)
    found = scene.session(RESTRICTED).memory.get("k")
    assert found is not None
    assert found.classification is level
    assert all(scene.runs(None, each) == [] for each in Level if each < level)


def test_its_level_is_where_its_sessions_start(scene: Scene) -> None:
    scene.set_trigger()
    seen = list[tuple[Level, Level]]()
    scene.record().on_ask = lambda _: seen.append((scene.woken[-1].taint, scene.woken[-1].ceiling))
    pass_time(scene, 31)
    assert seen == [(PUBLIC, RESTRICTED)]


def test_p15_it_rises_no_higher_than_its_ceiling(scene: Scene) -> None:
    scene.set_trigger(ceiling=INTERNAL)
    scene.record().on_ask = lambda _: scene.woken[-1].raise_taint(CONFIDENTIAL)
    pass_time(scene, 31)
    assert [run.state for run in scene.runs(None)] == ["failed", "waiting"]
    assert scene.session(CONFIDENTIAL).memory.list().page().memories == ()


def test_without_a_trigger_md_nothing_wakes_and_nothing_is_made(scene: Scene) -> None:
    scene.set_trigger(None)
    pass_time(scene, 100)
    assert scene.woken == []
    assert scene.store.agents() == []
    assert not (scene.home / "agents" / AGENT).exists()


def test_an_empty_trigger_md_is_none(scene: Scene) -> None:
    scene.set_trigger("\ufeff  \n")
    pass_time(scene, 100)
    assert scene.woken == []


def test_when_trigger_md_goes_nothing_waits_any_more_and_when_it_comes_back_nothing_is_caught_up(scene: Scene) -> None:
    scene.set_trigger(every_minutes=30)
    pass_time(scene, 31)
    (scene.home / "agents" / AGENT / "TRIGGER.md").unlink()
    pass_time(scene, 100)
    assert scene.states(None) == ["done"]
    scene.set_trigger(every_minutes=30)
    began = pass_time(scene, 31)
    assert len(began) == 2
    assert [run.missed for run in scene.runs(None)] == [0, 0, 0]


def test_a_trigger_md_that_cannot_be_read_fails_and_says_so_and_jobs_run_on(scene: Scene) -> None:
    scene.set_trigger("x" * (64 * 1024 + 1), every_minutes=30)
    scene.add("job", schedule="30 12 * * *")
    pass_time(scene, 31)
    assert [run.reason for run in scene.runs(None)] == ["TRIGGER.md: must be at most 65536 bytes", ""]
    assert scene.states("job") == ["done", "waiting"]
    (scene.home / "agents" / AGENT / "TRIGGER.md").write_bytes(b"\xff\xfe")
    pass_time(scene, 30)
    assert scene.runs(None)[1].reason == "TRIGGER.md: must be a readable file in UTF-8"


def test_in_the_quiet_hours_it_sleeps_and_at_their_end_it_wakes(scene: Scene) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    scene.clock.now = datetime(2026, 3, 28, 21, 10, tzinfo=berlin).astimezone(UTC)
    scene.set_trigger(quiet="22:00-07:00", timezone="Europe/Berlin", every_minutes=30)
    began = pass_time(scene, 9 * 60)  # a night of nine hours, which the clock shows as ten
    assert [at.astimezone(berlin).strftime("%H:%M") for at in began] == ["21:30", "07:00"]


def test_after_a_sleep_it_wakes_once(scene: Scene) -> None:
    scene.set_trigger(every_minutes=30)
    scene.worker().tick()
    scene.clock.pass_(hours=9, minutes=1)
    assert (scene.tick(), scene.tick()) == (1, 0)
    done, waiting = scene.runs(None)
    assert (done.missed, done.due_at) == (17, NOON + timedelta(hours=9))
    assert waiting.due_at == NOON + timedelta(hours=9, minutes=30)


def test_two_processes_wake_it_once(scene: Scene) -> None:
    scene.set_trigger(every_minutes=30)
    workers = [scene.worker(), scene.worker()]
    for _ in range(3):
        for worker in workers:
            worker.tick()
        scene.clock.pass_(minutes=30)
    assert scene.states(None) == ["done", "done", "waiting"]


def test_what_it_has_nothing_to_say_about_reaches_nobody(scene: Scene) -> None:
    scene.set_trigger(channel="street")
    scene.model = says("NOTHING")
    pass_time(scene, 31)
    scene.model = says("Your plant needs water.")
    pass_time(scene, 30)
    assert [(channel, message.subject, message.text) for channel, message in scene.post.sent] == [
        ("street", "", "Your plant needs water.")
    ]


def test_what_a_waking_learned_is_there_in_the_next_conversation(scene: Scene) -> None:
    scene.set_trigger()
    scene.model = calling("memory_save", key="plant", content="The plant was watered.", tags=["project"])
    pass_time(scene, 31)
    assert "The plant was watered." in scene.session(PUBLIC).context().text
