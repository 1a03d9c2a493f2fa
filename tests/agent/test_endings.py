"""Why a response ended: told as what it is, and asked again only where that can help."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from tests.agent.played_server import Pieces, PlayedServer, call, calls, says
from tests.agent.scene import Scene, Screen

from tidegate.agent import model as models
from tidegate.agent.channel import TextDelta, TextWithdrawn
from tidegate.agent.endings import ending
from tidegate.agent.loop import Ended, Outcome
from tidegate.agent.prompt import ModelError, ModelErrorKind

K = ModelErrorKind


@pytest.fixture
def scene(tmp_path: Path) -> Any:
    scene = Scene(tmp_path / "home")
    yield scene
    scene.store.close()


def answered(scene: Scene, *responses: Pieces) -> tuple[Outcome, PlayedServer, Screen]:
    server, screen = PlayedServer(*responses), Screen()
    return scene.say("x", server.model(), screen=screen), server, screen


THINKING: Pieces = [({"reasoning_content": "hmm"}, None), ({}, "length")]
CUT_CALL = call('{"key": "a", "cont', index=0, id="a", name="memory_save")
WHOLE_CALL = call('{"key": "a", "content": "x"}', index=0, id="a", name="memory_save")


@pytest.mark.parametrize(
    ("response", "text", "ended", "kind"),
    [
        (says("Part of", finish="content_filter"), "Part of", Ended.STOPPED, K.CUT_BY_FILTER),
        (says("canary", finish="length"), "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (says("canary", finish="max_tokens"), "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (says("canary</think>Part of", finish="length"), "Part of", Ended.STOPPED, K.LIMIT),
        (says("<think>canary</think>Part of", finish="length"), "Part of", Ended.STOPPED, K.LIMIT),
        (says("Part of", finish="refusal"), "Part of", Ended.STOPPED, K.REFUSED),
        (says("Part of", finish="guardrail_intervened"), "Part of", Ended.STOPPED, K.CUT_BY_FILTER),
        (says("Part of", finish="pause_turn"), "Part of", Ended.STOPPED, K.PAUSED),
        (says("Part of", finish="on_a_whim"), "Part of", Ended.STOPPED, K.UNKNOWN_END),
        (says(finish="content_filter"), "", Ended.FAILED, K.FILTERED),
        (says(finish="length"), "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (says("\n\n", finish="length"), "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (says("<think>hmm", finish="length"), "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (says(finish="refusal"), "", Ended.FAILED, K.REFUSED),
        (THINKING, "", Ended.FAILED, K.LIMIT_BEFORE_ANSWER),
        (calls(CUT_CALL, finish="length"), "", Ended.FAILED, K.LIMIT_IN_CALL),
        (calls(WHOLE_CALL, finish="length"), "", Ended.FAILED, K.LIMIT_IN_CALL),
        (calls(WHOLE_CALL, finish="content_filter"), "", Ended.FAILED, K.FILTERED),
        (
            [*says("I will save"), *calls(CUT_CALL, finish="length")][:1] + list(calls(CUT_CALL, finish="length")),
            "I will save",
            Ended.STOPPED,
            K.LIMIT_IN_CALL,
        ),
        (
            [({"refusal": "I cannot "}, None), ({"refusal": "help"}, None), ({}, "stop")],
            "I cannot help",
            Ended.STOPPED,
            K.REFUSED,
        ),
        (
            [({"content": "Well."}, None), ({"refusal": "No."}, None), ({}, "content_filter")],
            "Well.\n\nNo.",
            Ended.STOPPED,
            K.REFUSED,
        ),
    ],
)
def test_what_ended_a_response_is_told_at_once(
    scene: Scene, response: Pieces, text: str, ended: Ended, kind: ModelErrorKind
) -> None:
    outcome, server, screen = answered(scene, response)
    assert (outcome.answer, outcome.ended, outcome.reason) == (text, ended, kind.value)
    assert (server.requests, screen.used, screen.retried) == (1, [], [])
    assert scene.content("a") is None, "a call that is cut is not made"
    assert not stored(scene, "canary")


@pytest.mark.parametrize("finish", ["stop", "STOP", "end_turn", "tool_calls", "eos", "stop_sequence", "complete"])
def test_a_whole_answer_is_complete_whatever_its_end_is_called(scene: Scene, finish: str) -> None:
    outcome, _, _ = answered(scene, says("All of it", finish=finish))
    assert (outcome.answer, outcome.ended) == ("All of it", Ended.COMPLETE)


@pytest.mark.parametrize("finish", ["tool_calls", "stop", "function_call", "on_a_whim"])
def test_whole_calls_are_made_whatever_their_end_is_called(scene: Scene, finish: str) -> None:
    outcome, _, _ = answered(scene, calls(WHOLE_CALL, finish=finish), says("Done."))
    assert (outcome.answer, outcome.ended, scene.content("a")) == ("Done.", Ended.COMPLETE, "x")


@pytest.mark.parametrize("finish", ["error", "network_error", "abort"])
def test_an_error_of_the_provider_is_asked_again_while_nothing_was_shown(scene: Scene, finish: str) -> None:
    outcome, server, screen = answered(scene, says(finish=finish), says("Better.", finish="stop"))
    assert (outcome.answer, outcome.ended, server.requests) == ("Better.", Ended.COMPLETE, 2)
    assert screen.retried == [K.FAILED.value]


def test_an_error_after_part_of_an_answer_was_shown_is_told(scene: Scene) -> None:
    outcome, _ = talk(scene, says("First."), says("Part of", finish="error"))
    assert (outcome.answer, outcome.ended, outcome.reason) == ("Part of", Ended.FAILED, K.FAILED.value)


def test_an_answer_of_a_known_model_that_reaches_its_limit_is_kept(scene: Scene) -> None:
    outcome, _ = talk(scene, says("First."), says("Part of", finish="length"))
    assert (outcome.answer, outcome.ended, outcome.reason) == ("Part of", Ended.STOPPED, K.LIMIT.value)


@pytest.mark.parametrize("before", [0, 1])
def test_thoughts_that_only_their_end_tells_are_withdrawn_however_late_it_comes(scene: Scene, before: int) -> None:
    late = says("canary ", "thought</th", "ink>Answer")
    outcome, screen = talk(scene, *[says("Hi.")] * before, late)
    assert (outcome.answer, outcome.ended) == ("Answer", Ended.COMPLETE)
    assert not stored(scene, "canary")
    assert screen.shown[-2:] == [TextWithdrawn(len("canary thought")), TextDelta("Answer")][-2 if before else -1 :]


def test_thoughts_before_a_call_are_withdrawn_and_what_was_said_before_it_stays(scene: Scene) -> None:
    late = [*says("canary</think>Done")[:1], *calls(WHOLE_CALL)]
    outcome, _ = talk(scene, *[says("Hi.")] * 3, late, says("."))
    assert (outcome.answer, scene.content("a")) == ("Done.", "x")
    assert not stored(scene, "canary")


def talk(scene: Scene, *responses: Pieces) -> tuple[Outcome, Screen]:
    """The last answer of one process, with a message for each response without calls, and what was shown of it."""
    agent, screen = scene.agent(PlayedServer(*responses).model()), Screen()

    async def all_answers() -> Outcome:
        for response in responses:
            if response[-1][1] != "tool_calls":
                screen.shown.clear()
                outcome = await agent.answer("x", screen)
        return outcome

    return asyncio.run(all_answers()), screen


def stored(scene: Scene, word: str) -> bool:
    """Whether the conversation holds a word."""
    return any(word in each.content for each in scene.store.session("assistant", "main").conversation.read())


def test_b75_thoughts_are_neither_shown_nor_stored(scene: Scene) -> None:
    for response in (
        says("<think>The user wants canary</think>Answer"),
        says("The user wants canary</think>Answer"),
        says("<thi", "nk>The user wants canary</thi", "nk>", "Answer"),
        says("The user ", "wants canary", "\n</think>\n\n", "Answer"),
    ):
        outcome, _, screen = answered(scene, response)
        assert (outcome.answer, outcome.ended, screen.text) == ("Answer", Ended.COMPLETE, "Answer")
    assert not stored(scene, "canary")


def test_thoughts_that_come_apart_go_back_during_the_answer_and_are_not_stored(scene: Scene) -> None:
    thinking: Pieces = [({"reasoning_content": "canary"}, None), *calls(WHOLE_CALL)]
    outcome, server, _ = answered(scene, thinking, says("Done."))
    assert (outcome.answer, outcome.ended) == ("Done.", Ended.COMPLETE)
    assert b"canary" in server.bodies[1]
    answered(scene, says("More."))
    files = [path.read_bytes() for path in scene.home.rglob("*") if path.is_file()]
    assert files
    assert not any(b"canary" in each for each in files)


def test_an_answer_that_is_stopped_before_anything_was_shown_stores_nothing(scene: Scene) -> None:
    agent = scene.agent(PlayedServer(says("The user wants canary", finish="error")).model())

    async def stop(_: float) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(replace(agent, sleep=stop).answer("x", Screen()))
    assert [each.content for each in agent.session.conversation.read() if "canary" in each.content] == []


def test_a_server_that_takes_out_the_thoughts_is_shown_piece_by_piece(scene: Scene) -> None:
    response = [({"reasoning_content": "hmm"}, None), *says("One ", "two")]
    agent, screen = scene.agent(PlayedServer(response).model()), Screen()
    asyncio.run(agent.answer("x", screen))
    assert [event.text for event in screen.shown if isinstance(event, TextDelta)] == ["One ", "two"]


@pytest.mark.parametrize(
    ("said", "mapped", "kind"),
    [
        ("end_turn", "stop", None),
        ("max_tokens", "length", K.LIMIT),
        ("model_context_window_exceeded", "length", K.LIMIT),
        ("refusal", "content_filter", K.REFUSED),
        ("pause_turn", None, K.PAUSED),
        ("SAFETY", "content_filter", K.CUT_BY_FILTER),
        ("MALFORMED_FUNCTION_CALL", "error", K.FAILED),
        ("OTHER", None, K.UNKNOWN_END),
        ("new_name", "length", K.LIMIT),
        ("new_name", "tool_call", None),
        (None, "stop", None),
        (None, "error", K.FAILED),
        (None, None, None),
        (5, None, K.UNKNOWN_END),
    ],
)
def test_the_reasons_of_all_providers(said: object, mapped: str | None, kind: ModelErrorKind | None) -> None:
    assert ending(said, mapped) is kind


def test_a_cut_response_keeps_neither_calls_nor_thoughts() -> None:
    parts = [ThinkingPart("canary", signature="s"), TextPart("Part of"), ToolCallPart("memory_get", "{}", "1")]
    reply = models._reply(ModelResponse(parts, finish_reason="length"))
    assert (reply.text, reply.calls, reply.native, reply.cut) == ("Part of", (), "", K.LIMIT_IN_CALL.value)


def test_an_error_without_text_from_the_provider_is_an_error() -> None:
    with pytest.raises(ModelError) as raised:
        models._reply(ModelResponse([TextPart("x")], finish_reason="error"))
    assert raised.value.kind is K.FAILED
