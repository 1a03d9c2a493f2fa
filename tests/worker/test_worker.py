"""A worker runs what is due at its level: once, in a fresh session, in bounded time, whatever happens meanwhile."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from tests.worker.scene import (
    AGENT,
    CONFIDENTIAL,
    INTERNAL,
    NOON,
    PUBLIC,
    RESTRICTED,
    Broken,
    Hanging,
    Scene,
    at_once,
    calling,
    says,
)

from tidegate.agent.prompt import ModelError, ModelErrorKind
from tidegate.agent.scripted import Rule, ScriptedModel, Step
from tidegate.jobs import runs as core_runs
from tidegate.jobs.runs import ClaimedRun
from tidegate.policy.levels import Level
from tidegate.records.record import Origin
from tidegate.worker.execution import Execution
from tidegate.worker.worker_context import Failures

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_nothing_runs_before_its_time_and_everything_at_it(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.clock.pass_(minutes=59, seconds=59)
    assert (scene.tick(), scene.states()) == (0, ["waiting"])
    scene.clock.pass_(seconds=1)
    assert (scene.tick(), scene.states()) == (1, ["done", "waiting"])
    assert [run.due_at for run in scene.runs()] == [NOON + HOUR, NOON + HOUR + DAY]
    assert scene.tick() == 0


@pytest.mark.parametrize("level", Level, ids=str)
def test_p16_a_job_runs_at_the_level_of_the_session_that_made_it(scene: Scene, level: Level) -> None:
    scene.model = calling("memory_save", key="k", content="learned in the night", classification="PUBLIC")
    scene.add(level=level)
    scene.clock.pass_(hours=1)
    for each in Level:
        assert scene.tick(each) == (each is level)
    found = scene.session(RESTRICTED).memory.get("k")
    assert found is not None
    assert (found.classification, found.origin) == (level, Origin.AGENT)
    assert [job.level for job in scene.session(RESTRICTED).jobs.list()] == [level]
    below = [each for each in Level if each < level]
    assert all(scene.session(each).memory.get("k") is None for each in below)
    assert all(scene.session(each).jobs.list() == [] for each in below)
    assert all(scene.runs(level=each) == [] for each in below)


def test_each_run_is_a_fresh_conversation_that_knows_what_was_remembered(scene: Scene) -> None:
    scene.session().memory.save("user-name", "Ada", ["persona"])
    asked = scene.record()
    scene.add(prompt="greet me")
    for _ in range(2):
        scene.clock.pass_(hours=1)
        scene.tick()
    assert [len(prompt.messages) for prompt in asked.prompts] == [1, 1]
    assert all("greet me" in text and "No user is present in this conversation" in text for text in asked.asked)
    assert all("Ada" in prompt.context and "greet me" not in prompt.instructions for prompt in asked.prompts)
    assert len({session.id for session in scene.woken}) == 2
    assert scene.store.sessions.list(AGENT) == []


def test_the_block_of_a_run_is_chosen_by_its_request(scene: Scene) -> None:
    memory = scene.session().memory
    memory.save_many([(f"note-{number:03}", f"{'bicycle ' * 20} {number}", ["project"]) for number in range(60)])
    memory.save("conversation", "A note on the user of this conversation, for whom nobody woke.", ["project"])
    memory.save("zoo", "The parrot is called Polly.", ["project"])
    asked = scene.record()
    scene.add(prompt="feed the parrot")
    scene.clock.pass_(hours=1)
    scene.tick()
    keys = [line.split('"')[3] for line in asked.prompts[0].context.split("\n") if line.startswith('{"key"')]
    assert keys[0] == "zoo", "not what matches the words that all tasks have"
    assert "conversation" in keys[:2]


def test_p15_a_job_cannot_rise_above_the_ceiling_of_the_session_that_made_it(scene: Scene) -> None:
    scene.add(ceiling=INTERNAL)
    asked = scene.record()
    levels = list[tuple[Level, Level]]()
    asked.on_ask = lambda _: levels.append((scene.woken[-1].taint, scene.woken[-1].ceiling))
    scene.clock.pass_(hours=1)
    scene.tick()
    assert levels == [(PUBLIC, INTERNAL)]


def test_the_session_of_a_run_is_over_with_it(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    scene.tick()
    (session,) = scene.woken
    row = scene.store.sessions.read(session.id)
    assert row is not None
    assert row.ended


# Times that passed


def test_t03_a_process_that_starts_a_little_late_catches_up_once(scene: Scene) -> None:
    scene.clock.now = NOON.replace(hour=8, minute=59, second=58)
    scene.add(schedule="0 9 * * *")
    assert scene.tick() == 0
    scene.clock.pass_(seconds=5)
    assert (scene.tick(), scene.states()) == (1, ["done", "waiting"])
    assert scene.runs()[-1].due_at == NOON.replace(hour=9) + DAY


def test_t03_after_three_days_of_sleep_one_entry_says_what_was_missed(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.clock.pass_(days=3, hours=8)
    assert (scene.tick(), scene.states()) == (0, ["missed", "waiting"])
    missed, waiting = scene.runs()
    assert (missed.missed, missed.reason) == (4, "no `tidegate run` was running at that time")
    assert waiting.due_at == NOON + 4 * DAY + HOUR
    assert scene.post.sent == []


def test_t03_within_the_grace_period_the_last_of_several_is_caught_up(scene: Scene) -> None:
    scene.add(schedule="*/10 * * * *")
    scene.clock.pass_(hours=5, minutes=5)
    assert scene.tick() == 1
    done, waiting = scene.runs()
    assert (done.due_at, done.missed) == (NOON + 5 * HOUR, 29)
    assert waiting.due_at == NOON + 5 * HOUR + timedelta(minutes=10)


def test_a_clock_that_is_set_back_runs_nothing_twice_and_keeps_nothing_waiting(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.clock.pass_(hours=1)
    assert scene.tick() == 1
    scene.clock.now -= timedelta(hours=3)
    for _ in range(20):
        scene.clock.pass_(hours=1)
        scene.tick()
    assert scene.states() == ["done", "waiting"]
    scene.clock.now = NOON + DAY + HOUR
    assert scene.tick() == 1


def test_a_clock_that_was_years_ahead_leaves_nothing_waiting_for_years(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.clock.now += 3652 * DAY
    scene.tick()
    scene.clock.now = NOON
    scene.tick()
    assert scene.runs()[-1].due_at == NOON + HOUR
    scene.clock.pass_(hours=1)
    assert scene.tick() == 1


def test_a_job_for_one_time_runs_then_and_is_gone(scene: Scene) -> None:
    scene.add(schedule="2026-03-02T14:00", timezone="Europe/Berlin")
    scene.clock.pass_(hours=1)
    assert (scene.tick(), scene.states()) == (1, ["done"])
    assert scene.session().jobs.list() == []
    assert scene.tick() == 0


def test_a_job_for_one_time_that_was_missed_is_gone_and_its_history_says_so(scene: Scene) -> None:
    scene.add(schedule="2026-03-02T13:00")
    scene.clock.pass_(days=1)
    assert (scene.tick(), scene.states()) == (0, ["missed"])
    assert scene.session().jobs.list() == []


def test_a_job_that_is_deleted_does_not_run(scene: Scene) -> None:
    scene.add()
    scene.session().jobs.delete("job")
    scene.clock.pass_(hours=1)
    assert scene.tick() == 0


def test_a_job_that_is_made_again_runs_by_its_new_schedule_only(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.add(schedule="30 13 * * *", prompt="the new one")
    asked = scene.record()
    scene.clock.pass_(hours=1)
    assert scene.tick() == 0
    scene.clock.pass_(minutes=30)
    assert scene.tick() == 1
    assert "the new one" in asked.asked[0]


def test_making_the_same_job_again_and_again_does_not_put_it_off(scene: Scene) -> None:
    scene.add(schedule="*/20 * * * *")
    for _ in range(3):
        scene.clock.pass_(minutes=7)
        scene.add(schedule="*/20 * * * *", prompt="do it better")
    assert scene.tick() == 1


# Several processes


def test_two_processes_never_run_one_job_twice(scene: Scene) -> None:
    scene.add()
    other = scene.worker()
    asked = scene.record()
    meanwhile = list[int]()
    asked.on_ask = lambda _: meanwhile.append(other.tick())
    scene.clock.pass_(hours=1)
    assert scene.tick() == 1
    assert meanwhile == [0]
    assert scene.states() == ["done", "waiting"]


def test_of_two_processes_that_saw_the_same_run_waiting_one_gets_it(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    one, other = scene.worker(), scene.worker()
    (waiting,) = one._host.runs.open()
    assert one._consider(waiting) is not None
    assert other._consider(waiting) is None
    assert scene.states() == ["running", "waiting"]


# Ends


def test_a_job_past_its_time_limit_is_stopped_and_says_so(scene: Scene) -> None:
    scene.add(time_limit_seconds=90)
    scene.model = Hanging()
    scene.clock.pass_(hours=1)
    assert scene.tick(sleep=at_once) == 1
    stopped, waiting = scene.runs()
    assert (stopped.state, stopped.reason) == ("stopped", "stopped at its time limit of 90 seconds")
    assert scene.post.texts == ["(stopped at its time limit of 90 seconds)"]
    assert waiting.state == "waiting"


def test_a_job_that_hangs_delays_nothing_of_another_level(scene: Scene) -> None:
    """P16: its own thread hangs; the worker of the other level does not even look."""
    scene.add("slow", level=CONFIDENTIAL)
    scene.add("quick", level=PUBLIC)
    scene.clock.pass_(hours=1)
    hangs = threading.Event()
    scene.record(Hanging()).on_ask = lambda _: hangs.set()
    high = scene.worker(CONFIDENTIAL)
    thread = threading.Thread(target=high.tick)
    thread.start()
    assert hangs.wait(30)
    scene.model = says("quickly")
    assert (scene.tick(PUBLIC), scene.states("quick")) == (1, ["done", "waiting"])
    assert scene.states("slow") == ["running", "waiting"]
    high.stop()
    thread.join(30)
    assert scene.states("slow")[0] == "interrupted"


def test_an_error_that_nobody_foresaw_ends_the_run_and_shows_nothing_of_itself(scene: Scene) -> None:
    scene.add()
    scene.model = Broken()
    scene.clock.pass_(hours=1)
    scene.tick()
    failed = scene.runs()[0]
    assert (failed.state, failed.reason) == ("failed", "unexpected failure (ZeroDivisionError)")
    assert all("canary" not in text for text in scene.post.texts)


def test_a_model_that_does_not_answer_is_a_failed_run_that_says_why(scene: Scene) -> None:
    scene.add()
    scene.model = ScriptedModel([Rule("", (Step(error=ModelErrorKind.KEY),))])
    scene.clock.pass_(hours=1)
    scene.tick()
    assert (scene.runs()[0].state, scene.runs()[0].reason) == ("failed", str(ModelError(ModelErrorKind.KEY)))
    assert scene.post.texts == [f"({ModelError(ModelErrorKind.KEY)})"]


@pytest.mark.parametrize("answer", ["NOTHING", " nothing.\n", "**NOTHING**"])
def test_when_there_is_nothing_to_say_nobody_is_told(scene: Scene, answer: str) -> None:
    scene.add()
    scene.model = says(answer)
    scene.clock.pass_(hours=1)
    assert (scene.tick(), scene.states()[0], scene.post.sent) == (1, "done", [])


def test_one_job_that_cannot_run_holds_up_no_other(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its time zone has gone with an update of the system."""
    scene.add("lost", timezone="Asia/Kathmandu")
    scene.add("found")
    from tidegate.jobs import schedule

    real = schedule.ZoneInfo
    monkeypatch.setattr(schedule, "ZoneInfo", lambda name: real("No/Such" if name.startswith("Asia") else name))
    scene.clock.pass_(hours=1)
    said = list[str]()
    worker = scene.worker(failures=Failures(said.append))
    assert (worker.tick(), worker.tick()) == (1, 0)
    (line,) = said
    assert line.startswith("assistant at PUBLIC: cannot run: timezone: must be a name of the tz database")
    assert line.endswith(": job lost")
    assert caplog.records == []  # P12


# What the owner is told


def told(scene: Scene, level: Level = PUBLIC) -> tuple[int, list[str]]:
    """The failures for good, and the lines, of a process that does what is due."""
    said = list[str]()
    failures = Failures(said.append)
    scene.tick(level, failures=failures)
    return failures.count, said


def test_each_run_that_fails_is_told_by_its_jobs_name(scene: Scene) -> None:
    scene.set_run(channel=None)
    scene.add("digest")
    scene.model = Broken()
    scene.clock.pass_(hours=1)
    assert told(scene) == (
        1,
        ["assistant at PUBLIC: run 1 failed: unexpected failure (ZeroDivisionError): job digest"],
    )
    scene.model = says()
    scene.clock.pass_(hours=1)
    assert told(scene) == (0, [])


def test_what_the_trigger_cannot_do_is_told_too(scene: Scene) -> None:
    scene.set_trigger("look", every_minutes=60)
    scene.worker().tick()
    (scene.home / "agents" / AGENT / "TRIGGER.md").write_bytes(b"\xff")
    scene.clock.pass_(hours=1)
    count, (line,) = told(scene)
    assert (count, line.startswith("assistant at PUBLIC: run 1 failed: "), line[-13:]) == (1, True, ": the trigger")


def test_a_result_that_can_go_nowhere_is_a_failure_and_one_that_may_yet_is_none(scene: Scene) -> None:
    scene.add("digest", channel="gone")
    scene.clock.pass_(hours=1)
    why = "its result was not delivered (pending): config.toml has no channel of this name; "
    why += "add it, or give the job another channel"
    assert told(scene) == (1, [f"assistant at PUBLIC: run 1: {why}: job digest"])
    scene.add("digest", channel="open")
    scene.post.fails = 1
    scene.clock.pass_(hours=1)
    count, lines = told(scene)
    assert (count, any("(pending): the service did not accept the message" in line for line in lines)) == (1, True)


def test_a_run_that_is_tried_again_is_told_and_no_failure_yet(scene: Scene) -> None:
    scene.add("digest")
    scene.clock.pass_(hours=1)
    killed(scene)
    said = list[str]()
    failures = Failures(said.append)
    worker = scene.worker(failures=failures)
    worker.tick()
    later(scene, worker, 61)
    assert failures.count == 0
    assert said == [
        "assistant at PUBLIC: run 1 interrupted: its process ended before the run was done; the run is tried "
        "once more: job digest"
    ]


def test_t06_who_looks_only_once_waits_a_lease_and_tries_again_what_was_killed(scene: Scene) -> None:
    scene.add("digest")
    scene.clock.pass_(hours=1)
    killed(scene)
    worker = scene.worker()
    assert worker.tick() == 0
    waited = list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        scene.clock.pass_(seconds=seconds)

    assert worker.make_sure(sleep) == 1
    assert 60 < sum(waited) < 70
    assert scene.states("digest") == ["interrupted", "done", "waiting"]
    assert worker.make_sure(sleep) == 0


def test_who_looks_only_once_waits_no_longer_than_for_a_sign_of_life(scene: Scene) -> None:
    scene.add("digest")
    scene.clock.pass_(hours=1)
    living = scene.worker()
    execution = living._next()
    assert execution is not None
    worker = scene.worker()
    worker.tick()
    waited = list[float]()

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        scene.clock.pass_(seconds=seconds)
        execution._heartbeat()

    assert (worker.make_sure(sleep), len(waited)) == (0, 1)
    assert "running" in scene.states("digest")


# Interruptions


def killed(scene: Scene) -> None:
    """A process takes the run that is due, and is no more."""
    worker = scene.worker()
    execution = worker._next()
    assert execution is not None


def later(scene: Scene, worker: object, seconds: float) -> None:
    scene.clock.pass_(seconds=seconds)
    worker.tick()  # type: ignore[attr-defined]


def killed_and_found(scene: Scene, schedule: str, *, hours: int = 0) -> None:
    """A process is killed in the run of a job; so many hours later another looks, twice, and takes it for dead."""
    scene.add(schedule=schedule)
    scene.clock.pass_(hours=1)
    killed(scene)
    scene.clock.pass_(hours=hours)
    worker = scene.worker()
    worker.tick()
    later(scene, worker, 61)


def test_t06_a_kill_in_the_middle_is_recorded_and_the_run_is_tried_once_more(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    killed(scene)
    assert scene.states() == ["running", "waiting"]
    worker = scene.worker()
    worker.tick()
    later(scene, worker, 30)
    assert scene.states() == ["running", "waiting"]  # it may live, for all one knows
    later(scene, worker, 31)
    assert sorted(scene.states()) == ["done", "interrupted", "waiting"]
    interrupted, again = [run for run in scene.runs() if run.state != "waiting"]
    assert interrupted.reason == "its process ended before the run was done; the run is tried once more"
    assert (again.attempt, again.due_at) == (2, interrupted.due_at)


def test_t06_killed_again_it_is_not_tried_a_third_time_and_nothing_stays_running(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.clock.pass_(hours=1)
    killed(scene)
    worker = scene.worker()
    worker.tick()
    scene.clock.pass_(seconds=61)
    worker._look_again()
    killed(scene)
    for _ in range(3):
        later(scene, worker, 61)
    assert sorted(scene.states()) == ["interrupted", "interrupted", "waiting"]
    assert scene.post.texts == ["(its process ended before the run was done)"]


def test_t06_where_the_owner_wants_no_second_attempt_there_is_none(scene: Scene) -> None:
    scene.set_run(rerun_interrupted=False)
    killed_and_found(scene, "0 13 * * *")
    assert scene.states() == ["interrupted", "waiting"]


def test_t06_after_the_grace_period_an_interrupted_run_is_not_tried_again(scene: Scene) -> None:
    killed_and_found(scene, "0 13 * * *", hours=2)
    assert scene.states() == ["interrupted", "waiting"]


def test_a_job_for_one_time_that_was_interrupted_is_still_there_for_its_second_attempt(scene: Scene) -> None:
    killed_and_found(scene, "2026-03-02T13:00")
    assert scene.states() == ["interrupted", "done"]
    assert scene.session().jobs.list() == []


def test_a_run_whose_process_lives_is_never_taken_for_dead(scene: Scene) -> None:
    """Not by a clock that jumps either: what counts is a sign of life, and time that nobody can set."""
    scene.add()
    scene.clock.pass_(hours=1)
    first = scene.worker()
    execution = first._next()
    assert execution is not None
    other = scene.worker()
    for jump in (5, -700, 9_000_000, -9_000_000, 0, 0):
        scene.clock.now += timedelta(seconds=jump)
        assert execution._heartbeat()
        scene.clock.ticks += 59
        other._look_again()
    assert "running" in scene.states()


def test_a_process_that_was_taken_for_dead_writes_nothing_any_more(scene: Scene) -> None:
    """It slept too long, and another one has begun anew: what it would say now is not heard."""
    scene.add()
    scene.clock.pass_(hours=1)
    asleep = scene.worker()._next()
    assert asleep is not None
    other = scene.worker()
    other.tick()
    later(scene, other, 61)
    before = scene.runs()
    assert not asleep._heartbeat()
    scene.model = says("late")
    asleep.run()
    assert scene.runs() == before
    assert "late" not in scene.post.texts


def test_a_process_that_notices_that_it_was_taken_for_dead_stops_its_run(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    execution = scene.worker(sleep=at_once)._next()
    assert execution is not None
    other = scene.worker()
    other.tick()
    scene.clock.pass_(seconds=61)
    other._look_again()
    scene.model = Hanging()
    execution.run()
    assert "stopped" not in scene.states()


def test_a_process_that_is_told_to_stop_notes_what_it_interrupts(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    worker = scene.worker()
    asked = scene.record(Hanging())
    asked.on_ask = lambda _: worker.stop()
    worker.tick()
    worker.finish()
    assert scene.states() == ["interrupted", "waiting", "waiting"]
    assert scene.runs()[0].reason == "the process was stopped"
    scene.model = says("now")
    assert scene.tick() == 1
    assert scene.post.texts == ["now"]


class Killed(BaseException):
    """The process is no more."""


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_t06_killed_at_any_step_a_run_is_tried_at_most_twice_and_never_stays_running(
    scene: Scene, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.core.gate import Gate
    from tidegate.worker.execution import Execution

    monkeypatch.setattr(Execution, "start", Execution.run)  # on this thread, so that a kill ends all of it
    real, steps = Gate.write, 0

    def write(gate: Gate, seat: object, tool: str, verb: object) -> object:
        nonlocal steps
        if tool == "runs":
            steps -= 1
            if steps == 0 and not after:
                raise Killed
        done = real(gate, seat, tool, verb)  # type: ignore[arg-type,var-annotated]
        if tool == "runs" and steps == 0 and after:
            raise Killed
        return done

    monkeypatch.setattr(Gate, "write", write)
    died = 0
    for step in range(1, 12):
        name = f"job {step}"
        scene.add(name, schedule=scene.clock.now.strftime("%Y-%m-%dT%H:%M:%S") + ".5")
        scene.clock.pass_(seconds=1)
        asked = scene.record(says("told"))
        steps, sent = step, len(scene.post.sent)
        try:
            scene.worker().tick()
        except Killed:
            died += 1
        steps = -1
        worker = scene.worker()
        for _ in range(4):
            later(scene, worker, 61)
        states = scene.states(name)
        assert "running" not in states
        assert "waiting" not in states
        assert states in (["done"], ["interrupted", "done"])
        assert 1 <= len(asked.prompts) <= 2
        assert 1 <= len(scene.post.sent) - sent <= 2  # at least once, and once more after a kill in between
        assert scene.session().jobs.list() == []
    assert died >= 4


# What rises


def test_p5_a_run_that_rises_is_over_below_at_that_moment_with_nothing_of_what_follows(scene: Scene) -> None:
    scene.add("digest")
    scene.model = says("the secret digest")
    asked = scene.record()
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(CONFIDENTIAL) and scene.clock.pass_(minutes=3)
    scene.clock.pass_(hours=1)
    scene.tick()
    below, waiting = scene.runs("digest", PUBLIC)
    assert (below.state, below.text, waiting.state) == ("risen", "", "waiting")
    assert below.ended_at == below.started_at == NOON + HOUR
    (above,) = [run for run in scene.runs("digest", CONFIDENTIAL) if run.state == "done"]
    assert (above.text, above.ended_at) == ("the secret digest", NOON + HOUR + timedelta(minutes=3))
    assert [run.state for run in scene.runs("digest", INTERNAL)] == ["risen", "waiting"]


def test_p5_below_its_worker_goes_on_at_once_though_what_has_risen_hangs(scene: Scene) -> None:
    scene.add("a-rises")
    scene.add("b-stays")
    scene.clock.pass_(hours=1)
    asked = scene.record(ScriptedModel([Rule("a-rises", (Step("up"),)), Rule("", (Step("low"),))]))
    let_go = threading.Event()

    def on_ask(prompt: object) -> None:
        if "a-rises" in asked.asked[-1]:
            scene.woken[-1].raise_taint(RESTRICTED)
            assert let_go.wait(30)

    asked.on_ask = on_ask
    worker = scene.worker()
    assert worker.tick() == 2  # it came back though the first is not over
    assert scene.states("b-stays", PUBLIC) == ["done", "waiting"]
    let_go.set()
    worker.finish()
    assert scene.states("a-rises", PUBLIC) == ["risen", "waiting"]
    assert [run.text for run in scene.runs("a-rises") if run.state == "done"] == ["up"]


def test_p5_runs_that_rise_are_bounded_where_they_arrive_and_only_there(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_runs, "RISEN_MAX", 2)
    told = list[str]()
    names = [f"job-{number}" for number in range(4)]
    for name in names:
        scene.add(name)
    asked = scene.record(Hanging())
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(RESTRICTED)
    scene.clock.pass_(hours=1)
    worker = scene.worker(failures=Failures(told.append))
    assert worker.tick() == 4  # each as if there were no other
    assert len(asked.asked) == 4
    for execution in worker._running[2:]:
        assert execution.over.wait(30)
    worker.stop()
    worker.finish()
    for name in names:
        below = scene.runs(name, PUBLIC)
        assert [(run.state, run.text) for run in below] == [("risen", ""), ("waiting", "")]
        assert "already" not in below[0].reason
    above = [next(run for run in scene.runs(name) if run.group.startswith("risen/")) for name in names]
    assert [str(run.state) for run in above] == ["interrupted", "interrupted", "stopped", "stopped"]
    assert above[2].reason == "2 runs that rose to this level are already running"
    assert [str(run.delivery) for run in above] == ["pending"] * 4
    assert any(f"at RESTRICTED: run 1 stopped: {above[2].reason}: job job-2" in line for line in told)
    assert not any("at PUBLIC" in line for line in told)


def test_where_a_run_that_rose_has_ended_there_is_room_for_the_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_runs, "RISEN_MAX", 1)
    scene.add(schedule="* * * * *")
    asked = scene.record(says("up"))
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(INTERNAL)
    for _ in range(3):
        scene.clock.pass_(minutes=1)
        scene.tick()
    assert scene.states(level=INTERNAL).count("done") == 3


def test_a_run_that_was_stopped_where_it_arrived_is_not_written_down_at_every_level_above(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_runs, "RISEN_MAX", 0)
    scene.add()
    scene.clock.pass_(hours=1)
    execution = scene.worker()._next()
    assert execution is not None
    session = scene.session()
    for level in (INTERNAL, RESTRICTED):
        session.raise_taint(level)
        execution._promote(session)
    assert scene.states(level=RESTRICTED) == scene.states(level=INTERNAL)
    assert "stopped" in scene.states(level=INTERNAL)


def test_l16_what_a_risen_run_saves_and_says_has_the_level_it_rose_to(scene: Scene) -> None:
    scene.add("digest")
    scene.model = calling("memory_save", say="digest of the mail", key="digest", content="the merger is in May")
    asked = scene.record()
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(RESTRICTED)
    scene.clock.pass_(hours=1)
    scene.tick()
    for level in (PUBLIC, INTERNAL, CONFIDENTIAL):
        assert scene.content("digest", level) is None
        assert scene.session(level).memory.search("merger May digest mail") == []
        assert all(run.text == "" for run in scene.runs("digest", level))
    assert scene.content("digest") == "the merger is in May"
    scene.tick(RESTRICTED)
    assert [(name, message.level) for name, message in scene.post.sent] == [("open", RESTRICTED)]


def test_a_run_that_has_risen_and_is_killed_is_interrupted_above_and_not_begun_anew(scene: Scene) -> None:
    scene.add("digest", schedule="0 13 * * *")
    scene.clock.pass_(hours=1)
    execution = scene.worker()._next()
    assert execution is not None
    session = scene.session()
    session.raise_taint(INTERNAL)
    execution._promote(session)
    low, high = scene.worker(PUBLIC), scene.worker(INTERNAL)
    for worker in (low, high):
        worker.tick()
    scene.clock.pass_(seconds=61)
    for worker in (low, high):
        worker.tick()
    assert scene.states("digest", PUBLIC) == ["risen", "waiting"]
    assert sorted(scene.states("digest", INTERNAL)) == ["interrupted", "risen", "waiting"]


def test_a_run_can_rise_twice(scene: Scene) -> None:
    scene.add("digest", schedule="0 13 * * *")
    asked = scene.record(calling("memory_list", say="up"))
    levels = iter((INTERNAL, RESTRICTED))
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(next(levels))
    scene.clock.pass_(hours=1)
    scene.tick()
    assert scene.states("digest", PUBLIC) == ["risen", "waiting"]
    assert [run.text for run in scene.runs("digest", RESTRICTED) if run.state == "done"] == ["up"]
    assert all(run.text == "" for run in scene.runs("digest", CONFIDENTIAL))


def test_old_runs_are_really_removed_and_the_audit_chain_still_holds(scene: Scene) -> None:
    scene.add(schedule="* * * * *")
    for _ in range(70):
        scene.clock.pass_(minutes=1)
        scene.tick()
    assert scene.states() == ["done"] * 50 + ["waiting"]
    assert scene.runs()[-1].number == 71
    with scene.store._provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        kept = [record for record, _ in owner_compartment.every_version() if record.kind == "run"]
    assert len(kept) < 60
    assert all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


# What nobody foresaw


def test_p17_a_run_that_nobody_can_handle_is_told_by_its_jobs_name_and_no_other_waits_for_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.add("bad")
    scene.add("good")
    scene.clock.pass_(hours=1)
    told = list[str]()
    worker = scene.worker(failures=Failures(told.append))
    honest = worker._consider

    def consider(waiting: ClaimedRun) -> Execution | None:
        if waiting.run.group == "job/bad":
            raise ZeroDivisionError("secret-canary")
        return honest(waiting)

    monkeypatch.setattr(worker, "_consider", consider)
    assert worker.tick() == 1
    assert scene.states("good") == ["done", "waiting"]
    assert told == [f"{AGENT} at PUBLIC: cannot run: unexpected failure (ZeroDivisionError): job bad"]


def test_p17_a_worker_goes_on_after_what_nobody_foresaw(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    worker, ticks = scene.worker(), list[int]()

    def tick() -> int:
        ticks.append(len(ticks))
        if len(ticks) == 2:
            worker.stop()
        raise ZeroDivisionError("secret-canary")

    monkeypatch.setattr(worker, "tick", tick)
    monkeypatch.setattr("tidegate.worker.worker.POLL_SECONDS", 0)
    worker.work()
    assert len(ticks) == 2
    assert "unexpected failure (ZeroDivisionError)" in caplog.text
    assert "secret-canary" not in caplog.text


def test_p17_a_run_for_which_no_thread_can_be_had_is_told_and_holds_up_nothing(scene: Scene) -> None:
    def spawn(_: object) -> None:
        raise RuntimeError("secret-canary")

    scene.add()
    scene.clock.pass_(hours=1)
    told = list[str]()
    assert scene.tick(spawn=spawn, failures=Failures(told.append)) == 1
    assert told == [f"{AGENT} at PUBLIC: a run could not begin (RuntimeError): job job"]
    assert scene.states() == ["running", "waiting"]
