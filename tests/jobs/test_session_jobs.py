"""Jobs as records: at the level of the session that made them, seen from there upward, bounded in number and depth."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.worker.scene import AGENT, CONFIDENTIAL, INTERNAL, NOON, PUBLIC, RESTRICTED, Scene, calling, says

from tidegate.agent.scripted import Rule, ScriptedModel, Step
from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError
from tidegate.jobs import retention as core_tidying
from tidegate.jobs import runs as core_runs
from tidegate.jobs import session_jobs as core_jobs
from tidegate.jobs.job import began_at, group_of, is_group, name_of, read_plan, risen_group
from tidegate.policy.levels import Level
from tidegate.records.record import Draft, Origin, RecordKind, key_of
from tidegate.tools import AGENT_TOOLS, TOOLS

TOOL = {"name": "digest", "schedule": "0 9 * * *", "prompt": "sum up"}


def test_a_job_says_when_it_runs_next(scene: Scene) -> None:
    made = scene.session().call_tool("cron_create", {**TOOL, "timezone": "Europe/Berlin"})
    assert made == {
        "created": True,
        "name": "digest",
        "schedule": "0 9 * * *",
        "timezone": "Europe/Berlin",
        "prompt": "sum up",
        "classification": "PUBLIC",
        "origin": "agent",
        "next_run_at": "2026-03-03T08:00:00.000000Z",
    }
    listed = scene.session().call_tool("cron_list")
    assert listed == {"jobs": [{name: value for name, value in made.items() if name != "created"}]}


def test_p2_whatever_level_a_model_asks_for_the_job_is_at_its_sessions(scene: Scene) -> None:
    session = scene.session(CONFIDENTIAL)
    made = session.call_tool("cron_create", {**TOOL, "level": "PUBLIC", "classification": "PUBLIC"})
    assert made["classification"] == "CONFIDENTIAL"
    assert scene.session(INTERNAL).call_tool("cron_list") == {"jobs": []}
    attempts = [
        line.entry.event.detail
        for line in scene.store.owner(AGENT).find_audit_lines()
        if line.entry.event.action == "attempt"
    ]
    assert attempts == ["cron_create classification level"]


@pytest.mark.parametrize("argument", ["ceiling", "channel", "time_limit_seconds", "agent", "generation"])
def test_what_is_the_owners_to_say_is_no_argument_of_the_tool(scene: Scene, argument: str) -> None:
    with pytest.raises(InvalidArgument, match="has an unknown name; known names: "):
        scene.session().call_tool("cron_create", {**TOOL, argument: "x"})


def test_the_tools_of_other_clients_stay_the_five(scene: Scene) -> None:
    assert "cron_create" in AGENT_TOOLS
    assert not [name for name in TOOLS if name.startswith("cron")]


def test_a_session_sees_its_own_jobs_and_those_below_and_never_one_above(scene: Scene) -> None:
    for level in Level:
        scene.add("same name", level=level)
    for level in Level:
        seen = [job.level for job in scene.session(level).jobs.list()]
        assert seen == [each for each in reversed(Level) if each <= level]


def test_p16_a_high_session_can_neither_make_change_nor_delete_a_low_job(scene: Scene) -> None:
    scene.add("low", prompt="the low prompt")
    high = scene.session(RESTRICTED)
    with pytest.raises(NotFound) as caught:
        high.jobs.delete("low")
    assert caught.value.details == {"argument": "name", "visible_at": "PUBLIC"}
    with pytest.raises(NotFound):
        high.jobs.post("low")
    high.jobs.create("low", "0 1 * * *", "the secret prompt")
    (low,) = scene.session(PUBLIC).jobs.list()
    assert low.plan.prompt == "the low prompt"
    assert scene.runs("low", PUBLIC)[0].due_at == NOON + timedelta(hours=1)


def test_what_is_hidden_and_what_never_was_answer_alike(scene: Scene) -> None:
    scene.add("hidden", level=CONFIDENTIAL)
    scene.add("gone")
    scene.session().jobs.delete("gone")
    answers = set[str]()
    for name in ("hidden", "gone", "never"):
        for act in (scene.session().jobs.delete, scene.session().jobs.post):
            with pytest.raises(NotFound) as caught:
                act(name)
            answers.add(str(caught.value.to_dict()))
    assert len(answers) == 1


def test_a_level_holds_so_many_jobs_whatever_the_levels_above_hold(scene: Scene) -> None:
    for number in range(64):
        scene.add(f"job {number}", level=CONFIDENTIAL)
    with pytest.raises(LimitExceeded) as caught:
        scene.add("one more", level=CONFIDENTIAL)
    assert (caught.value.details["limit"], caught.value.details["actual"]) == (64, 65)
    scene.add("job 1", prompt="changed", level=CONFIDENTIAL)
    scene.add("job", level=PUBLIC)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"name": ""}, InvalidArgument),
        ({"name": "a\nb"}, InvalidArgument),
        ({"name": "x" * 257}, LimitExceeded),
        ({"prompt": ""}, InvalidArgument),
        ({"prompt": "nul \0"}, InvalidArgument),
        ({"schedule": "every day"}, InvalidArgument),
        ({"schedule": "2026-03-02T11:59"}, InvalidArgument),
        ({"timezone": "Mars"}, InvalidArgument),
    ],
)
def test_what_is_refused_leaves_nothing_behind(scene: Scene, changed: dict[str, str], error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        scene.session().call_tool("cron_create", {**TOOL, **changed})
    assert caught.value.details["argument"] in changed  # type: ignore[attr-defined]
    assert scene.session().jobs.list() == []
    assert scene.worker()._host.runs.open() == []


def test_x09_a_prompt_over_the_limit_of_content_is_refused_with_limit_and_size(scene: Scene) -> None:
    with pytest.raises(LimitExceeded, match=r"^prompt: 1048577 bytes of UTF-8; the limit is 1048576$"):
        scene.add(prompt="x" * (1024 * 1024 + 1))


def test_a_long_prompt_is_cut_in_lists_and_told_whole(scene: Scene) -> None:
    scene.add(prompt="word " * 1000)
    (listed,) = scene.session().call_tool("cron_list")["jobs"]  # type: ignore[misc]
    assert (len(listed["prompt"]) <= 500, listed["truncated"]) == (True, True)
    asked = scene.record()
    scene.clock.pass_(hours=1)
    scene.tick()
    assert "word " * 1000 in asked.asked[0]


# P15: what makes jobs


def test_p15_a_job_cannot_be_made_under_a_higher_ceiling_than_its_makers(scene: Scene) -> None:
    session = scene.session(PUBLIC, ceiling=INTERNAL)
    with pytest.raises(Refused) as caught:
        session.jobs.create("job", "@daily", "x", ceiling=CONFIDENTIAL)
    assert caught.value.details["rule"] == "P15"
    assert session.jobs.create("job", "@daily", "x").plan.ceiling is INTERNAL


def test_p15_a_job_that_makes_the_next_one_without_end_is_stopped_at_a_depth(scene: Scene) -> None:
    """Each run makes a job under a new name, a minute later; the first was made in a conversation."""
    chain = ScriptedModel(
        [
            Rule(
                r"go on (x*)",
                (
                    Step(
                        calls=(
                            ("cron_create", {**TOOL, "name": "{1}x", "schedule": "* * * * *", "prompt": "go on {1}x"}),
                        )
                    ),
                    Step("{result}"),
                ),
            )
        ]
    )
    scene.model = chain
    scene.add("x", schedule="2026-03-02T12:01", prompt="go on x")
    for _ in range(20):
        scene.clock.pass_(minutes=1)
        scene.tick()
    jobs = scene.session().jobs.list()
    assert [job.name for job in jobs] == ["xx", "xxx"]
    assert [job.plan.generation for job in jobs] == [2, 3]
    assert any("jobs that create jobs are nested too deeply" in text for text in scene.post.texts)


def test_p15_a_job_that_replaces_itself_gets_no_younger_by_it(scene: Scene) -> None:
    scene.model = calling("cron_create", **{**TOOL, "name": "self", "schedule": "* * * * *"})
    scene.add("self", schedule="* * * * *")
    generations = list[int]()
    for _ in range(6):
        scene.clock.pass_(minutes=1)
        scene.tick()
        generations += [job.plan.generation for job in scene.session().jobs.list()]
    assert generations == [2, 3, 3, 3, 3, 3]


def test_p15_the_depth_is_counted_too_where_what_is_read_came_from_outside(scene: Scene) -> None:
    """Marking a session's memories makes another object of it."""
    scene.add("self", schedule="* * * * *")
    scene.session().jobs.post("self", "an event")
    scene.model = calling("cron_create", **{**TOOL, "name": "planted"})
    scene.tick()
    (planted,) = [job for job in scene.session().jobs.list() if job.name == "planted"]
    assert (planted.plan.generation, planted.origin) == (2, Origin.TOOL)


# Runs that are asked for


def test_a_run_that_is_asked_for_comes_besides_the_schedule(scene: Scene) -> None:
    scene.add(schedule="0 13 * * *")
    scene.session().jobs.post("job")
    assert scene.tick() == 1
    assert scene.states() == ["done", "waiting"]
    assert scene.runs()[1].due_at == NOON + timedelta(hours=1)


def test_asked_for_twice_while_it_waits_it_runs_once(scene: Scene) -> None:
    scene.add()
    for _ in range(3):
        scene.session().jobs.post("job")
    assert scene.tick() == 1
    scene.session().jobs.post("job")
    assert scene.tick() == 1


def test_a10_events_that_come_during_a_run_are_run_in_order_and_copies_once(scene: Scene) -> None:
    scene.add("inbox", prompt="look at it")
    scene.session().jobs.post("inbox", "first")
    asked = scene.record()
    posted = list[int]()

    def arrive(_: object) -> None:
        if posted:
            return
        jobs = scene.session().jobs
        for event, event_id in [
            ("two", "2"),
            ("same", "s"),
            *[("same", "s")] * 3,
            ("three", "3"),
            ("same", "s"),
            ("four", "4"),
        ]:
            posted.append(jobs.post("inbox", event, event_id=event_id).number)

    asked.on_ask = arrive
    assert scene.tick() == 5
    assert len(posted) == 8  # every sender was answered
    events = [
        next(word for word in ("first", "two", "same", "three", "four") if f'"{word}"' in text) for text in asked.asked
    ]
    assert events == ["first", "two", "same", "three", "four"]
    assert scene.session().jobs.post("inbox", "same", event_id="s").state == "done"  # a copy that comes late
    assert scene.tick() == 0


def test_a_tidied_run_leaves_the_id_of_its_event_so_that_a_late_copy_does_not_run_again(scene: Scene) -> None:
    scene.add("inbox", schedule="* * * * *")
    scene.session().jobs.post("inbox", "hello", event_id="4711")
    for _ in range(60):
        scene.clock.pass_(minutes=1)
        scene.tick()
    assert not any(run.event_id for run in scene.runs("inbox")), "the run itself is gone"
    assert scene.session().jobs.post("inbox", "hello", event_id="4711").state == "done"
    assert scene.states("inbox").count("waiting") == 1
    other = scene.session().jobs.post("inbox", "hello", event_id="4712")
    assert other.state == "waiting"
    assert len({run.number for run in scene.runs("inbox")}) == len(scene.runs("inbox"))


def test_ids_of_events_are_remembered_up_to_a_bound_and_the_newest_the_longest(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core_tidying, "EVENTS_KEPT", 3)
    monkeypatch.setattr(core_tidying, "RUNS_KEPT", 1)
    scene.add("inbox")
    for number in range(5):
        scene.session().jobs.post("inbox", "hello", event_id=str(number))
    scene.tick()
    states = [str(scene.session().jobs.post("inbox", "hello", event_id=str(number)).state) for number in (4, 3, 2, 0)]
    assert states == ["done", "done", "done", "waiting"]


def test_an_id_is_remembered_for_the_job_it_came_to_and_at_its_level(scene: Scene) -> None:
    for name, level in (("a", PUBLIC), ("b", PUBLIC), ("a", RESTRICTED)):
        scene.add(name, level=level)
        run = scene.session(level).jobs.post(name, "hello", event_id="4711")
        assert (run.state, run.event) == ("waiting", "hello")
    assert [scene.tick(level) for level in (PUBLIC, RESTRICTED)] == [2, 1]


def test_an_event_whose_run_never_came_because_its_job_was_deleted_may_come_again(scene: Scene) -> None:
    scene.add()
    scene.session().jobs.post("job", "hello", event_id="ran")
    scene.tick()
    scene.session().jobs.post("job", "hello", event_id="waits")
    scene.session().jobs.delete("job")
    scene.add()
    assert scene.session().jobs.post("job", "hello", event_id="waits").state == "waiting"
    assert scene.session().jobs.post("job", "hello", event_id="ran").state == "done"


def test_a_number_at_which_an_id_is_remembered_is_given_to_no_other_event(scene: Scene) -> None:
    scene.add()
    first = scene.session().jobs.post("job", "hello", event_id="first").number
    scene.tick()
    with scene.store._provider.owner_compartment(AGENT, PUBLIC) as owner_compartment, owner_compartment.transaction():
        owner_compartment.soft_delete(
            RecordKind.RUN, key_of("job/job", first), scene.clock.now
        )  # as when it was tidied
    assert scene.session().jobs.post("job", "hello", event_id="second").number > first
    assert scene.session().jobs.post("job", "hello", event_id="first").state == "done"


# What a job leaves


@pytest.mark.parametrize("level", [PUBLIC, RESTRICTED])
def test_what_the_runs_of_a_removed_job_said_can_be_purged(scene: Scene, level: Level) -> None:
    scene.set_run(channel=None)
    for name in ("gone", "stays"):
        scene.add(name)
        scene.session().jobs.post(name, "the-canary", event_id="id-of-canary")
    asked = scene.record(says("what-was-said"))
    asked.on_ask = lambda _: scene.woken[-1].raise_taint(level)
    assert scene.tick() == 2
    scene.session().jobs.delete("gone")
    owner = scene.store.owner(AGENT)
    scene.clock.pass_(days=3)
    owner.purge(timedelta(days=10))
    assert scene.states("gone").count("done") == 1, "it is not so old"
    foreseen = [(each.memories, each.versions) for each in owner.purge(timedelta(days=2), dry_run=True)]
    assert scene.states("gone").count("done") == 1, "a dry run removes nothing"
    assert [(each.memories, each.versions) for each in owner.purge(timedelta(days=2))] == foreseen
    assert scene.runs("gone") == []
    assert scene.states("stays").count("done") == 1
    for each in Level:
        with scene.store._provider.owner_compartment(AGENT, each) as owner_compartment:
            kept = [record for record, _ in owner_compartment.every_version() if record.kind is RecordKind.RUN]
        assert not any("gone" in record.key for record in kept)
    assert all(verdict.holds for verdict in owner.verify())
    scene.tick(level)
    scene.add("gone")
    assert scene.session().jobs.post("gone", "the-canary", event_id="id-of-canary").state == "waiting"


def test_a_run_of_a_removed_job_that_is_under_way_is_not_purged(scene: Scene) -> None:
    scene.add()
    scene.session().jobs.post("job")
    assert scene.worker()._next() is not None
    scene.session().jobs.delete("job")
    scene.store.owner(AGENT).purge(timedelta())
    assert scene.states() == ["running"]


def test_the_runs_of_the_trigger_are_no_removed_jobs(scene: Scene) -> None:
    scene.set_trigger()
    scene.session().jobs.post(None)
    scene.tick()
    scene.store.owner(AGENT).purge(timedelta())
    assert "done" in scene.states(None)


@pytest.mark.parametrize("group", ["risen/x", "risen/", "known/risen/x", "risen/NONE/job/a", "job/", ""])
def test_p17_a_group_that_no_run_can_be_of_is_none_and_nothing_worse(group: str) -> None:
    assert not is_group(group)


def test_p5_the_level_of_a_job_is_never_looked_for_above(scene: Scene) -> None:
    assert began_at("risen/INTERNAL/risen/PUBLIC/job/a", RESTRICTED) is PUBLIC
    assert began_at("job/a", INTERNAL) is INTERNAL
    assert began_at("risen/RESTRICTED/job/a", INTERNAL) is INTERNAL
    assert began_at("risen/NONE/job/a", INTERNAL) is INTERNAL


def test_a_job_cannot_be_flooded_with_events(scene: Scene) -> None:
    scene.add()
    for number in range(64):
        scene.session().jobs.post("job", f"event {number}")
    with pytest.raises(LimitExceeded, match="64 runs of this job already wait"):
        scene.session().jobs.post("job", "one more")
    assert scene.session().jobs.post("job", "event 1").number == 3


def test_a_deleted_job_takes_what_waits_with_it(scene: Scene) -> None:
    scene.add()
    scene.session().jobs.post("job", "event")
    scene.session().jobs.delete("job")
    assert (scene.tick(), scene.states()) == (0, [])
    scene.add()
    assert scene.states() == ["waiting"]


# What is stored


def test_the_parts_of_a_name_never_get_mixed_up() -> None:
    for name in ("a", "a/b", "risen/PUBLIC/job/a", "trigger", "job/a", "x/000000000001", "%2F", "%252F%"):
        group = group_of(name)
        assert name_of(group) == name
        assert name_of(risen_group(risen_group(group, PUBLIC), INTERNAL)) == name
    assert name_of("trigger") == name_of(risen_group("trigger", PUBLIC)) == ""


def test_jobs_whose_names_begin_alike_keep_their_runs_apart(scene: Scene) -> None:
    names = ("a", "a/b", "a/000000000001", "A", "trigger", "job/a")
    for name in names:
        scene.add(name)
    scene.clock.pass_(hours=1)
    assert scene.tick() == len(names)
    for name in names:
        assert scene.states(name) == ["done", "waiting"]


@pytest.mark.parametrize(
    "text", ["", "[]", "nothing", '{"ceiling": "SECRET"}', '{"ceiling": "PUBLIC"}', '{"unknown": 1}']
)
def test_p17_a_plan_that_cannot_be_read_is_no_plan(text: str) -> None:
    with pytest.raises(StorageError, match="tidegate doctor"):
        read_plan(text)


@pytest.mark.parametrize(
    "text",
    [
        "x",
        '{"group": "g"}',
        '{"group": "g", "number": 1, "due_at": "never"}',
        '{"group": "g", "number": 1, "due_at": "2026-01-01", "state": "odd"}',
        '{"group": "other", "number": 1, "due_at": "2026-01-01"}',
    ],
)
def test_p17_a_run_that_cannot_be_read_stops_its_level_and_no_other(scene: Scene, text: str) -> None:
    scene.add(level=INTERNAL)
    scene.add(level=PUBLIC)
    draft = Draft(
        kind=RecordKind.RUN,
        key="g/000000000001",
        content=text,
        tags=("open",),
        origin=Origin.AGENT,
        version=1,
        nonce="n",
        created_at=NOON,
        updated_at=NOON,
    )
    with scene.provider.writable_view(AGENT, INTERNAL) as view, view.own.transaction():
        view.own.put(draft, None)
    scene.clock.pass_(hours=1)
    with pytest.raises(StorageError, match="tidegate doctor"):
        scene.tick(INTERNAL)
    assert scene.tick(PUBLIC) == 1


def test_the_run_record_of_a_run_is_kept_in_full_up_to_a_bound(scene: Scene) -> None:
    scene.add()
    scene.model = says("words " * 30_000)
    scene.clock.pass_(hours=1)
    scene.tick()
    text = scene.runs()[0].text
    assert text.endswith("\n[80000 characters are left out]")


# What can only go wrong by accident


def test_whatever_number_of_them_there_is_none_is_left_out(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (core_jobs, core_runs, core_tidying):
        monkeypatch.setattr(module, "_BATCH", 2)
    for number in range(5):
        scene.add(f"job {number}")
    for _ in range(5):
        scene.clock.pass_(hours=1)
        assert scene.tick() == 5
    assert len(scene.session().jobs.list()) == 5
    assert scene.states("job 3") == ["done"] * 5 + ["waiting"]
    assert scene.store.tidy_runs(AGENT, PUBLIC) == 0
    assert scene.store.tidy_runs("nobody", PUBLIC) == 0


def test_a_second_attempt_at_a_job_that_is_gone_is_not_made(scene: Scene) -> None:
    scene.add()
    scene.clock.pass_(hours=1)
    killed, other = scene.worker(), scene.worker()
    assert killed._next() is not None
    scene.session().jobs.delete("job")
    other.tick()
    scene.clock.pass_(seconds=61)
    assert (other.tick(), scene.states()) == (0, ["interrupted"])


def test_what_has_changed_since_it_was_seen_is_left_as_it_is(scene: Scene) -> None:
    scene.add()
    runs = scene.worker()._host.runs
    (seen,) = runs.open()
    assert runs.move(seen, NOON) is not None
    runs.cancel(seen)
    assert runs.move(seen, NOON) is None
    assert runs.close(seen, seen.run) is None
    assert [waiting.run.due_at for waiting in runs.open()] == [NOON]


def test_of_one_group_only_one_run_is_begun(scene: Scene) -> None:
    runs = scene.worker()._host.runs
    assert runs.begin("trigger", NOON) is not None
    assert runs.begin("trigger", NOON) is None


def test_a_job_whose_next_run_was_lost_gets_another(scene: Scene) -> None:
    scene.add()
    runs = scene.worker()._host.runs
    (lost,) = runs.open()
    scene.session().jobs.post("job")
    runs.cancel(lost)
    scene.tick()
    assert scene.states() == ["done", "waiting"]
