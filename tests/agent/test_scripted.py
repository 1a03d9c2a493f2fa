"""The scripted model that ships: what it can be told, and what a script may hold."""

from __future__ import annotations

import asyncio

import pytest
from tests.agent.scene import AGENT, Recorded, Scene, calling, script

from tidegate.agent.messages import AssistantMessage, UserMessage
from tidegate.agent.prompt import Prompt
from tidegate.agent.scripted import SCRIPT, Rule, ScriptedModel, Step


def reply(model: ScriptedModel, *said: UserMessage | AssistantMessage) -> AssistantMessage:
    async def last() -> AssistantMessage:
        pieces = [piece async for piece in model.stream(Prompt("be kind", "known", said))]
        assert "".join(piece for piece in pieces[:-1] if isinstance(piece, str)) == pieces[-1].text  # type: ignore[union-attr]
        return pieces[-1]  # type: ignore[return-value]

    return asyncio.run(last())


@pytest.mark.parametrize(
    ("told", "asked", "answer"),
    [
        ("Hello, my name is Ada.", "What is my name?", "The user's name is Ada."),
        ("My name is now Grace Hopper, by the way", "who is my name", "The user's name is Grace Hopper."),
        ("I like tea with milk.", "what about tea?", "The user likes tea with milk."),
        ("Always answer in verse!", "verse", "The user said: Always answer in verse."),
        ("my cat is grey", "Where is my cat?", "The user's cat is grey."),
        ("good morning", "what is my name", "You have not told me."),
        ("Hello", "and the weather?", "I follow a script, and do not know what to say to that."),
    ],
)
def test_what_it_was_told_it_knows_after_a_restart(scene: Scene, told: str, asked: str, answer: str) -> None:
    scene.say(told, ScriptedModel())
    scene.restart()
    assert scene.say(asked, ScriptedModel(), name="another").answer == answer


def test_what_it_is_to_forget_it_forgets(scene: Scene) -> None:
    scene.say("my name is Ada", ScriptedModel())
    assert scene.say("forget my name", ScriptedModel()).answer == "It is forgotten."
    assert scene.content("user-name") is None


def test_the_same_prompt_gets_the_same_answer() -> None:
    said = UserMessage("my name is Ada")
    assert reply(ScriptedModel(), said) == reply(ScriptedModel(SCRIPT), said)


def test_texts_hold_what_was_said_found_and_told() -> None:
    rules = [Rule("(a+)(b+)?", (Step("{0}-{1}-{2|none}-{3}-{said}-{context}-{result}-{content|nothing}-{unknown}"),))]
    assert reply(ScriptedModel(rules), UserMessage("xaay")).text == "aa-aa-none--xaay-known--nothing-"
    whole = reply(script("{prompt}"), UserMessage("one"), AssistantMessage("two"), UserMessage("three")).text
    assert whole == "be kind\nknown\none\ntwo\nthree"


def test_what_is_filled_in_is_not_filled_in_again() -> None:
    assert reply(script("{said}"), UserMessage("{context}")).text == "{context}"


def test_a_script_that_is_over_and_one_without_a_rule_say_so() -> None:
    assert reply(script("one"), UserMessage("x"), AssistantMessage("one")).text == "That is all."
    assert reply(ScriptedModel([Rule("y", (Step("no"),))]), UserMessage("x")).text.endswith("no rule for that.")


def test_arguments_are_filled_in_all_the_way_down_and_raw_ones_are_left_alone() -> None:
    step = Step(calls=(("t", {"a": ["{said}", {"b": "{said}"}], "n": 1}), ("t", "{said}")))
    calls = reply(script(step), UserMessage("x")).calls
    assert [call.arguments for call in calls] == ['{"a": ["x", {"b": "x"}], "n": 1}', "{said}"]


def test_the_first_memory_is_found_in_results_of_any_kind(scene: Scene) -> None:
    scene.store.session(AGENT).memory.save("k", "the content")
    for call in (calling("memory_get", key="k"), calling("memory_list"), calling("memory_search", query="content")):
        recorded = Recorded(script(call, "{content|nothing}"))
        assert scene.say("go", recorded, name=None).answer == "the content"
    for call in (calling("todo_read"), calling("nonsense")):
        assert scene.say("go", script(call, "{content|nothing}"), name=None).answer == "nothing"
