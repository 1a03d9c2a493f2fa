"""The loop: what is told to a model, what is kept, what is shown, and how far a model can go."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.agent.scene import (
    AGENT,
    CONFIDENTIAL,
    INTERNAL,
    PUBLIC,
    RESTRICTED,
    Played,
    Recorded,
    Scene,
    Screen,
    calling,
    script,
)

from tidegate.agent.channel import Shown, TextDelta, ToolCalled
from tidegate.agent.loop import Ended
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.prompt import HiddenDelta, ModelError, ModelErrorKind, Prompt, ReplyDelta
from tidegate.agent.scripted import ScriptedModel, Step
from tidegate.agent.spine import SPINE
from tidegate.audit.chain import Action
from tidegate.core.guidance import GUIDANCE
from tidegate.errors import INTERNAL_ERROR, InvalidArgument, LimitExceeded, Refused
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.policy.refusals import UNKNOWN_TOOL

SAVED = calling("memory_save", key="k", content="v")


def results(recorded: Recorded) -> list[Any]:
    """The tools' results in the last prompt, parsed."""
    told = recorded.prompts[-1].messages
    return [json.loads(message.text) for message in told if isinstance(message, ToolResult)]


def actions(scene: Scene, action: Action) -> list[str]:
    return [
        line.entry.event.detail for line in scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions={action}))
    ]


# What a model is told


def test_an_answer_is_shown_bit_by_bit_and_told_whole(scene: Scene) -> None:
    screen = Screen()
    outcome = scene.say("hello", script("Good morning to you."), screen=screen)
    assert [event for event in screen.shown if isinstance(event, TextDelta)] == [
        TextDelta("Good "),
        TextDelta("morning "),
        TextDelta("to "),
        TextDelta("you."),
    ]
    assert (outcome.answer, outcome.ended, outcome.reason) == ("Good morning to you.", Ended.COMPLETE, "")


def test_what_one_conversation_learned_the_next_knows_after_a_restart(scene: Scene) -> None:
    scene.say("My name is Ada.", ScriptedModel(), name="first")
    scene.restart()
    recorded = Recorded(ScriptedModel())
    outcome = scene.say("What is my name?", recorded, name="second")
    assert "Ada" in recorded.prompts[0].context
    assert outcome.answer == "The user's name is Ada."


def test_the_block_is_chosen_by_the_message_at_hand(scene: Scene) -> None:
    memory = scene.store.session(AGENT, level=PUBLIC).memory
    memory.save_many([(f"note-{number:03}", f"{'bicycle ' * 20} {number}", ["project"]) for number in range(60)])
    memory.save("zoo", "The parrot is called Polly.", ["project"])
    for text, first in (("What is the name of the parrot?", "zoo"), ("hello", "note-000")):
        recorded = Recorded(ScriptedModel())
        scene.say(text, recorded, name=text, level=PUBLIC)
        assert recorded.prompts[0].context.split("\n")[2].startswith(f'{{"key": "{first}"')


def test_a_correction_replaces_what_was_known(scene: Scene) -> None:
    scene.say("My name is Ada.", ScriptedModel(), name="first")
    scene.say("No, my name is really Grace.", ScriptedModel(), name="second")
    scene.restart()
    recorded = Recorded(ScriptedModel())
    scene.say("hello", recorded, name="third")
    assert "Grace" in recorded.prompts[0].context
    assert "Ada" not in recorded.prompts[0].context


def test_a_conversation_goes_on_after_a_restart_at_its_taint(scene: Scene) -> None:
    scene.say("hello", script("hi"), level=INTERNAL)
    scene.store.session(AGENT, "main").raise_taint(CONFIDENTIAL)
    scene.restart()
    recorded = Recorded(script("welcome back"))
    agent = scene.agent(recorded)
    asyncio.run(agent.answer("again", Screen()))
    assert agent.session.taint is CONFIDENTIAL
    assert recorded.prompts[0].messages == (UserMessage("hello"), AssistantMessage("hi"), UserMessage("again"))


def test_an_ephemeral_conversation_is_remembered_while_it_lasts_and_stored_nowhere(scene: Scene) -> None:
    recorded = Recorded(script("hi"))
    agent = scene.agent(recorded, name=None)
    for text in ("one", "two"):
        asyncio.run(agent.answer(text, Screen()))
    assert recorded.prompts[1].messages == (UserMessage("one"), AssistantMessage("hi"), UserMessage("two"))
    assert agent.session.conversation.read() == []


def test_spine_is_read_afresh_at_every_message_and_stands_below_our_guidance(scene: Scene) -> None:
    recorded = Recorded(script("hi"))
    agent = scene.agent(recorded)
    asyncio.run(agent.answer("one", Screen()))
    (scene.home / "agents" / AGENT / "SPINE.md").write_text("Speak like a pirate.")
    asyncio.run(agent.answer("two", Screen()))
    assert recorded.prompts[0].instructions == f"{GUIDANCE}\n{SPINE}"
    assert recorded.prompts[1].instructions == f"{GUIDANCE}\nSpeak like a pirate.\n"


def test_nothing_but_the_owners_words_and_ours_is_in_the_instructions(scene: Scene) -> None:
    scene.store.session(AGENT).memory.save("k", "canary", ["rule"])
    recorded = Recorded(script(SAVED, "done"))
    scene.say("canary", recorded)
    assert all("canary" not in prompt.instructions for prompt in recorded.prompts)
    assert "canary" in recorded.prompts[0].context


@pytest.mark.parametrize("level", list(Level))
def test_l07_no_memory_above_the_taint_is_in_any_prompt(scene: Scene, level: Level) -> None:
    for each in Level:
        scene.store.session(AGENT, level=each).memory.save(f"at-{each.name}", f"secret of {each.name}", ["rule"])
    recorded = Recorded(script(calling("memory_list"), calling("memory_search", query="secret"), "{prompt}"))
    scene.say("tell me all", recorded, level=level)
    told = str(recorded.prompts)
    assert [each for each in Level if f"secret of {each.name}" in told] == [e for e in Level if e.can_flow_to(level)]


def test_the_context_is_read_at_the_taint_of_the_moment(scene: Scene) -> None:
    scene.store.session(AGENT, level=CONFIDENTIAL).memory.save("k", "secret", ["rule"])
    recorded = Recorded(script("hi"))
    agent = scene.agent(recorded)
    asyncio.run(agent.answer("one", Screen()))
    agent.session.raise_taint(CONFIDENTIAL)
    asyncio.run(agent.answer("two", Screen()))
    assert ["secret" in prompt.context for prompt in recorded.prompts] == [False, True]


def test_the_tools_are_the_same_at_every_taint(scene: Scene) -> None:
    recorded = Recorded(script("hi"))
    for level in Level:
        scene.say("hello", recorded, name=None, level=level)
    assert len({str(prompt.tools) for prompt in recorded.prompts}) == 1
    assert {tool.name for tool in recorded.prompts[0].tools} >= {"memory_save", "todo_write"}


@pytest.mark.parametrize(
    ("text", "error"), [("", InvalidArgument), ("\0", InvalidArgument), ("x" * 2**21, LimitExceeded)]
)
def test_what_cannot_be_said_is_refused_and_nothing_is_kept(scene: Scene, text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        scene.say(text, script("hi"))
    assert scene.store.session(AGENT, "main").conversation.read() == []


# Tools


def test_a_memory_is_saved_at_the_sessions_level_whatever_the_model_sends(scene: Scene) -> None:
    step = calling("memory_save", key="k", content="v", classification="PUBLIC", level="PUBLIC")
    recorded = Recorded(script(step, "done"))
    scene.say("remember", recorded, level=CONFIDENTIAL)
    assert results(recorded)[0]["classification"] == "CONFIDENTIAL"
    assert scene.content("k", INTERNAL) is None
    assert actions(scene, Action.ATTEMPT) == ["memory_save classification level"]


def test_history_keeps_the_models_own_arguments(scene: Scene) -> None:
    arguments = '{ "key":"k",  "content":"v", "level":"PUBLIC" }'
    recorded = Recorded(script(Step(calls=(("memory_save", arguments),)), "done"))
    scene.say("remember", recorded)
    scene.restart()
    scene.say("and?", recorded)
    replied = [message for message in recorded.prompts[-1].messages if isinstance(message, AssistantMessage)]
    assert replied[0].calls[0].arguments == arguments


def test_the_tools_of_one_response_run_one_after_the_other_in_order(scene: Scene) -> None:
    step = Step(calls=tuple(("memory_save", {"key": "k", "content": str(number)}) for number in range(8)))
    recorded = Recorded(script(step, "done"))
    outcome = scene.say("count", recorded)
    assert [result["version"] for result in results(recorded)] == list(range(1, 9))
    assert scene.content("k") == "7"
    assert outcome.used == (ToolCalled("memory_save", failed=False),) * 8


def test_an_unknown_tool_is_refused_audited_and_never_named(scene: Scene) -> None:
    screen = Screen()
    recorded = Recorded(script(calling("rm -rf canary", path="/"), "done"))
    outcome = scene.say("go", recorded, screen=screen)
    assert results(recorded)[0]["error"]["code"] == "REFUSED"
    assert outcome.used == tuple(screen.used) == (ToolCalled("unknown tool", True, True, UNKNOWN_TOOL.hint),)
    assert actions(scene, Action.REFUSE) == ["unknown tool P17"]
    assert outcome.ended is Ended.COMPLETE


@pytest.mark.parametrize(
    "arguments", ["{", "[1]", "null", '"x"', "nonsense", "[" * 100_000, '{"key": 1}', '{"kez": "k"}']
)
def test_malformed_arguments_are_answered_with_an_error_and_change_nothing(scene: Scene, arguments: str) -> None:
    recorded = Recorded(script(Step(calls=(("memory_save", arguments),)), "sorry"))
    outcome = scene.say("go", recorded)
    assert results(recorded)[0]["error"]["code"] == "INVALID_ARGUMENT"
    assert (outcome.answer, outcome.ended) == ("sorry", Ended.COMPLETE)
    assert list(scene.store.session(AGENT, level=RESTRICTED).memory.list()) == []


def test_no_arguments_at_all_are_an_empty_object(scene: Scene) -> None:
    recorded = Recorded(script(Step(calls=(("todo_read", ""),)), "done"))
    scene.say("go", recorded)
    assert results(recorded) == [{"todos": []}]


def test_a_tool_that_fails_in_an_unforeseen_way_says_nothing_of_it(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> dict[str, object]:
        raise RuntimeError("canary")

    recorded = Recorded(script(SAVED, "sorry"))
    agent = scene.agent(recorded)
    monkeypatch.setattr(type(agent.session), "call_tool", broken)
    outcome = asyncio.run(agent.answer("go", Screen()))
    assert results(recorded) == [{"error": {"code": "STORAGE", "message": INTERNAL_ERROR}}]
    assert outcome.ended is Ended.COMPLETE


def test_a_result_too_long_for_a_prompt_is_cut_and_says_so(scene: Scene) -> None:
    scene.store.session(AGENT).memory.save("k", "x" * 500_000)
    recorded = Recorded(script(calling("memory_get", key="k"), "done"))
    scene.say("go", recorded)
    (result,) = results(recorded)
    assert re.fullmatch(r"\[440\d{3} characters are left out\]", result["note"])
    assert len(result["text"]) == 60_000


def test_calls_whose_ids_are_missing_or_used_get_ids_of_their_own(scene: Scene) -> None:
    twice = AssistantMessage(
        "", (ToolCall("same", "todo_read", ""), ToolCall("same", "todo_read", "{}"), ToolCall("", "todo_read", " "))
    )
    recorded = Recorded(Played(twice, twice, "done"))
    scene.say("go", recorded)
    told = recorded.prompts[-1].messages
    calls = [call.id for each in told if isinstance(each, AssistantMessage) for call in each.calls]
    assert len(set(calls)) == 6
    assert [each.call for each in told if isinstance(each, ToolResult)] == calls


# How far a model can go


def test_a_model_that_calls_without_end_is_stopped(scene: Scene) -> None:
    scene.bound(requests_max=5)
    steps = [calling("memory_save", key=f"k{number}", content="v") for number in range(50)]
    recorded = Recorded(script(*steps))
    outcome = scene.say("go", recorded)
    assert outcome.ended is Ended.STOPPED
    assert "5 requests" in outcome.reason
    assert len(recorded.prompts) == 5


def test_the_same_call_again_and_again_is_not_run(scene: Scene) -> None:
    scene.bound(requests_max=6)
    recorded = Recorded(script(*[SAVED] * 5, "I give up."))
    outcome = scene.say("go", recorded)
    assert ["error" in result for result in results(recorded)] == [False, False, False, True, True]
    assert outcome.answer == "I give up."


def test_a_response_with_too_many_calls_has_the_rest_of_them_not_run(scene: Scene) -> None:
    scene.bound(calls_max=3)
    step = Step(calls=tuple(("memory_save", {"key": f"k{n}", "content": "v"}) for n in range(10)))
    recorded = Recorded(script(step, "done"))
    scene.say("go", recorded)
    assert ["error" in result for result in results(recorded)] == [False] * 3 + [True] * 7
    assert len(list(scene.store.session(AGENT).memory.list())) == 3


@pytest.mark.parametrize("flood", [["x" * 100] * 100, [HiddenDelta(5_000)] * 3], ids=["text", "thoughts"])
def test_a_model_that_does_not_stop_talking_is_stopped(scene: Scene, flood: list[ReplyDelta]) -> None:
    scene.bound(text_chars_max=1_000, reply_chars_max=10_000)
    outcome = scene.say("go", Played(flood))
    assert outcome.ended is Ended.FAILED
    assert outcome.reason == ModelErrorKind.FLOOD.value
    assert len(outcome.answer) <= 1_000


def test_a_model_that_is_silent_for_too_long_is_given_up_on(scene: Scene) -> None:
    class Hanging:
        async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
            yield "Once "
            await asyncio.Event().wait()

    scene.bound(silence_seconds=0.01)
    outcome = scene.say("go", Hanging())
    assert (outcome.answer, outcome.ended, outcome.reason) == ("Once ", Ended.FAILED, ModelErrorKind.TIMEOUT.value)


def test_a_model_that_dribbles_for_ever_is_given_up_on(scene: Scene) -> None:
    class Dribbling:
        async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
            while True:
                await asyncio.sleep(0)
                yield HiddenDelta(0)

    scene.bound(request_seconds=0.05, attempts_max=2)
    outcome = scene.say("go", Dribbling())
    assert (outcome.answer, outcome.ended, outcome.reason) == ("", Ended.FAILED, ModelErrorKind.TIMEOUT.value)
    assert len(scene.slept) == 1


# A model that does not answer


@pytest.mark.parametrize(
    "kind",
    [
        ModelErrorKind.RATE,
        ModelErrorKind.SERVER,
        ModelErrorKind.TIMEOUT,
        ModelErrorKind.UNREACHABLE,
        ModelErrorKind.BROKEN,
    ],
)
def test_what_may_be_over_soon_is_tried_again_with_longer_and_longer_waits(scene: Scene, kind: ModelErrorKind) -> None:
    screen = Screen()
    outcome = scene.say("go", Played(ModelError(kind), ModelError(kind), "at last"), screen=screen)
    assert (outcome.answer, outcome.ended) == ("at last", Ended.COMPLETE)
    assert screen.retried == [kind.value] * 2
    assert scene.slept == [1.0, 2.0]


def test_a_provider_that_says_how_long_to_wait_is_believed_within_reason(scene: Scene) -> None:
    errors = [ModelError(ModelErrorKind.RATE, retry_after_seconds=seconds) for seconds in (7.5, 86_400, -1)]
    scene.say("go", Played(*errors, "at last"))
    assert scene.slept == [7.5, 60, 4.0]


@pytest.mark.parametrize(
    "kind",
    [
        ModelErrorKind.KEY,
        ModelErrorKind.NO_MODEL,
        ModelErrorKind.REJECTED,
        ModelErrorKind.TOO_LONG,
        ModelErrorKind.QUOTA,
    ],
)
def test_what_will_not_change_is_not_tried_again(scene: Scene, kind: ModelErrorKind) -> None:
    outcome = scene.say("go", Played(ModelError(kind)))
    assert (outcome.ended, outcome.reason, scene.slept) == (Ended.FAILED, kind.value, [])


@pytest.mark.parametrize("summing_up", [False, True])
def test_p14_a_prompt_is_not_sent_again_after_a_raise_above_the_models_clearance(
    scene: Scene, summing_up: bool
) -> None:
    scene.settings = replace(scene.settings, model_clearance=INTERNAL, history_chars_max=100 if summing_up else 10_000)
    scene.say("go", script("x" * 200))
    recorded = Recorded(Played(ModelError(ModelErrorKind.RATE), "never"))
    agent = scene.agent(recorded)

    async def meanwhile(_: float) -> None:
        scene.store.sessions.raise_taint(agent.session.id, CONFIDENTIAL)

    outcome = asyncio.run(replace(agent, sleep=meanwhile).answer("more", Screen()))
    assert outcome.ended is Ended.WITHHELD
    assert len(recorded.prompts) == 1


def test_p7_a_prompt_is_not_sent_again_after_a_reset(scene: Scene) -> None:
    recorded = Recorded(Played(ModelError(ModelErrorKind.RATE), "never"))
    agent = scene.agent(recorded)

    async def meanwhile(_: float) -> None:
        scene.store.sessions.reset(agent.session.id)

    with pytest.raises(Refused):
        asyncio.run(replace(agent, sleep=meanwhile).answer("my words", Screen()))
    assert len(recorded.prompts) == 1


def test_attempts_come_to_an_end_and_what_was_said_is_kept(scene: Scene) -> None:
    outcome = scene.say("go", Played(*[ModelError(ModelErrorKind.RATE)] * 4))
    assert (outcome.ended, outcome.reason) == (Ended.FAILED, ModelErrorKind.RATE.value)
    recorded = Recorded(script("here I am"))
    scene.say("again", recorded)
    assert recorded.prompts[0].messages == (UserMessage("go"), UserMessage("again"))


@pytest.mark.parametrize(
    "nothing", [[], [AssistantMessage("")], [HiddenDelta(5), AssistantMessage(" \n")]], ids=["none", "empty", "blank"]
)
def test_a_model_that_answers_nothing_is_asked_again_and_then_said_to(scene: Scene, nothing: list[ReplyDelta]) -> None:
    outcome = scene.say("go", Played(*[nothing] * 4))
    assert outcome.ended is Ended.FAILED
    assert outcome.reason in (ModelErrorKind.EMPTY.value, ModelErrorKind.BROKEN.value)
    assert len(scene.slept) == 3


def test_a_response_that_breaks_off_is_kept_as_far_as_it_came_and_not_asked_for_again(scene: Scene) -> None:
    outcome = scene.say("go", Played(["Once upon ", ModelError(ModelErrorKind.BROKEN)]))
    assert (outcome.answer, outcome.ended, outcome.reason) == ("Once upon ", Ended.FAILED, ModelErrorKind.BROKEN.value)
    scene.restart()
    recorded = Recorded(script("a time"))
    scene.say("go on", recorded)
    assert recorded.prompts[0].messages[1] == AssistantMessage("Once upon ", cut=ModelErrorKind.BROKEN.value)


def test_an_answer_that_its_model_cut_says_so(scene: Scene) -> None:
    outcome = scene.say("go", Played(AssistantMessage("Once upon", cut="the limit")))
    assert (outcome.ended, outcome.reason) == (Ended.STOPPED, "the limit")


# Stopped in the middle


def stopped(scene: Scene, model: Any, screen: Screen) -> None:
    """An answer that its reader stops at the first bit that is shown."""

    async def main() -> None:
        task = asyncio.ensure_future(scene.agent(model).answer("go", screen))
        screen.on_show = lambda _: task.cancel() and None
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_an_answer_that_is_stopped_is_kept_as_far_as_it_came(scene: Scene) -> None:
    stopped(scene, script("one two three"), Screen())
    scene.restart()
    recorded = Recorded(script("well"))
    outcome = scene.say("why?", recorded)
    assert recorded.prompts[0].messages == (
        UserMessage("go"),
        AssistantMessage("one ", cut="stopped by the user"),
        UserMessage("why?"),
    )
    assert outcome.ended is Ended.COMPLETE


def test_stopped_between_tools_every_call_still_has_its_result(scene: Scene) -> None:
    step = Step(calls=(("memory_save", {"key": "a", "content": "v"}), ("memory_save", {"key": "b", "content": "v"})))
    stopped(scene, script(step, "done"), Screen())
    recorded = Recorded(script("well"))
    scene.say("why?", recorded)
    (replied,) = (each for each in recorded.prompts[0].messages if isinstance(each, AssistantMessage))
    returned = [each for each in recorded.prompts[0].messages if isinstance(each, ToolResult)]
    assert [each.call for each in returned] == [call.id for call in replied.calls]
    assert (returned[0].failed, returned[1].failed) == (False, True)
    assert "interrupted" in returned[1].text


def test_a_session_that_is_reset_in_the_middle_of_an_answer_shows_nothing_more(scene: Scene) -> None:
    screen = Screen()
    agent = scene.agent(script("one two three"))
    screen.on_show = lambda _: scene.store.sessions.reset(agent.session.id) and None
    with pytest.raises(Refused, match="ended"):
        asyncio.run(agent.answer("go", screen))
    assert screen.text == "one "


# What may be shown, and told


def test_an_answer_above_the_channel_is_held_back_and_the_model_is_not_even_asked(scene: Scene) -> None:
    recorded, screen = Recorded(script("secret")), Screen(clearance=INTERNAL)
    outcome = scene.say("go", recorded, level=CONFIDENTIAL, screen=screen)
    assert (outcome.answer, outcome.ended, screen.shown, recorded.prompts) == ("", Ended.HELD, [], [])
    assert "new session" in outcome.reason
    assert not any(level.name in outcome.reason for level in Level)


def test_a_channel_without_clearance_shows_nothing(scene: Scene) -> None:
    screen = Screen(clearance=None)
    outcome = scene.say("go", script("hi"), screen=screen)
    assert (outcome.ended, screen.shown) == (Ended.HELD, [])
    assert "clearance" in outcome.reason


def raising_after(scene: Scene, words: int) -> tuple[Screen, Any]:
    """A channel of PUBLIC, and a session that is raised by another process once so many bits were shown."""
    screen = Screen(clearance=PUBLIC)
    agent = scene.agent(script("one two three four"))

    def raise_then(_: Shown) -> None:
        if len(screen.shown) == words:
            scene.store.sessions.raise_taint(agent.session.id, CONFIDENTIAL)

    screen.on_show = raise_then
    return screen, agent


@pytest.mark.parametrize("words", [1, 2, 3])
def test_a_taint_that_rises_in_the_middle_of_an_answer_holds_back_the_rest_of_it(scene: Scene, words: int) -> None:
    screen, agent = raising_after(scene, words)
    outcome = asyncio.run(agent.answer("go", screen))
    shown = "".join(["one ", "two ", "three "][:words])
    assert (screen.text, outcome.answer, outcome.ended) == (shown, shown, Ended.HELD)


def test_what_was_held_back_is_kept_in_the_conversation_at_its_taint(scene: Scene) -> None:
    screen, agent = raising_after(scene, 1)
    asyncio.run(agent.answer("go", screen))
    stored = agent.session.conversation.read()
    assert [each.level for each in stored] == [PUBLIC, CONFIDENTIAL]
    assert "three four" in stored[1].content


def test_not_even_the_names_of_tools_are_shown_above_the_clearance(scene: Scene) -> None:
    screen = Screen(clearance=PUBLIC)
    agent = scene.agent(script("one", SAVED, "done"))
    model = Played(["one ", AssistantMessage("one ", (ToolCall("1", "todo_read", ""),))], "done")
    agent = scene.agent(model)
    screen.on_show = lambda _: scene.store.sessions.raise_taint(agent.session.id, INTERNAL) and None
    outcome = asyncio.run(agent.answer("go", screen))
    assert screen.shown == [TextDelta("one ")]
    assert outcome.ended is Ended.HELD


def test_a_model_is_not_told_what_is_above_its_clearance(scene: Scene) -> None:
    scene.settings = replace(scene.settings, model_clearance=INTERNAL)
    recorded = Recorded(script("hi"))
    outcome = scene.say("canary", recorded, level=CONFIDENTIAL)
    assert (outcome.ended, recorded.prompts) == (Ended.WITHHELD, [])
    assert "chat.model_clearance" in outcome.reason
    assert scene.say("hello", recorded, name="low", level=INTERNAL).ended is Ended.COMPLETE


def test_a_model_is_told_no_more_once_the_session_has_risen_above_its_clearance(scene: Scene) -> None:
    scene.settings = replace(scene.settings, model_clearance=INTERNAL)
    recorded, screen = Recorded(script(SAVED, "done")), Screen()
    agent = scene.agent(recorded)
    screen.on_show = lambda _: scene.store.sessions.raise_taint(agent.session.id, CONFIDENTIAL) and None
    outcome = asyncio.run(agent.answer("go", screen))
    assert outcome.ended is Ended.WITHHELD
    assert len(recorded.prompts) == 1


def test_an_ended_session_answers_nothing(scene: Scene) -> None:
    agent = scene.agent(script("hi"))
    scene.store.sessions.reset(agent.session.id)
    with pytest.raises(Refused, match="ended"):
        asyncio.run(agent.answer("go", Screen()))


@pytest.mark.parametrize("ticks", [*range(0, 40, 2), *range(40, 120, 8)])
def test_cancelled_at_any_moment_it_leaves_a_conversation_that_goes_on(scene: Scene, ticks: int) -> None:
    steps = (calling("memory_save", key="k", content="v"), calling("memory_get", key="k"), "one two three")

    async def main() -> None:
        task = asyncio.ensure_future(scene.agent(script(*steps), level=INTERNAL).answer("go", Screen()))
        for _ in range(ticks):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())
    assert scene.store.session(AGENT, "main").taint is INTERNAL
    recorded = Recorded(script("well"))
    assert scene.say("go on", recorded, level=INTERNAL).answer == "well"
    told = recorded.prompts[0].messages
    calls = [call.id for each in told if isinstance(each, AssistantMessage) for call in each.calls]
    assert [each.call for each in told if isinstance(each, ToolResult)] == calls
    assert told[-1] == UserMessage("go on")


def test_a_session_that_ends_while_a_tool_runs_tells_its_model_nothing_more(scene: Scene) -> None:
    recorded, screen = (
        Recorded(Played(["one ", AssistantMessage("one ", (ToolCall("1", "todo_read", ""),))], "done")),
        Screen(),
    )
    agent = scene.agent(recorded)
    run = agent.toolbox.run

    async def ending(*given: Any) -> Any:
        done = await run(*given)
        scene.store.sessions.reset(agent.session.id)
        return done

    object.__setattr__(agent.toolbox, "run", ending)
    with pytest.raises(Refused, match="ended"):
        asyncio.run(agent.answer("go", screen))
    assert len(recorded.prompts) == 1


def test_an_answer_is_not_over_before_what_was_shown_is_stored(scene: Scene) -> None:
    agent = scene.agent(script("one two"))
    add, adding, may_end = agent.history.add, threading.Event(), threading.Event()
    stored: list[object] = []

    def slowly(turn: Any, origin: Any) -> None:
        if isinstance(turn, AssistantMessage):
            adding.set()
            may_end.wait(10)
        add(turn, origin)
        stored.append(turn)

    object.__setattr__(agent.history, "add", slowly)

    async def main() -> list[object]:
        task = asyncio.ensure_future(agent.answer("go", Screen()))
        await asyncio.to_thread(adding.wait, 10)
        task.cancel()
        asyncio.get_running_loop().call_later(0.05, may_end.set)
        with pytest.raises(asyncio.CancelledError):
            await task
        return list(stored)

    assert asyncio.run(main()) == [UserMessage("go"), AssistantMessage("one two")]
