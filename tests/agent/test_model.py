"""What goes out to a provider's library and what comes back, message by message; and what cannot be opened."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel

from tidegate.agent import model as models
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.model import ProviderModel, open_model
from tidegate.agent.model_stream import reading_soundly
from tidegate.agent.prompt import HiddenDelta, ModelError, ModelErrorKind, Prompt, PromptMessage, ReplyDelta, ToolSpec
from tidegate.errors import InvalidArgument

CALL = ToolCall("1", "memory_get", '{"key": "k"}')


def sent(*messages: PromptMessage, context: str = "known") -> list[ModelMessage]:
    return models._messages(Prompt("be kind", context, messages))


def answered(*deltas: Any) -> tuple[list[ReplyDelta], list[AgentInfo]]:
    """The pieces that come of a provider that sends these."""
    seen: list[AgentInfo] = []

    async def stream(_: list[ModelMessage], info: AgentInfo) -> Any:
        seen.append(info)
        for delta in deltas:
            if isinstance(delta, Exception):
                raise delta
            yield delta

    async def collect() -> list[ReplyDelta]:
        specs = (ToolSpec("memory_get", "Reads.", {"type": "object", "properties": {}}),)
        prompt = Prompt("be kind", "", (UserMessage("hi"),), specs)
        return [piece async for piece in ProviderModel(FunctionModel(stream_function=stream)).stream(prompt)]

    return asyncio.run(collect()), seen


def test_what_was_said_goes_out_in_its_roles() -> None:
    request, response, again = sent(
        UserMessage("one"), AssistantMessage("two", (CALL,)), ToolResult("1", "memory_get", "{}", True)
    )
    assert isinstance(request, ModelRequest)
    assert isinstance(response, ModelResponse)
    assert isinstance(again, ModelRequest)
    assert [part.content for part in request.parts] == ["known\n\none"]
    assert response.parts == [TextPart("two"), ToolCallPart("memory_get", '{"key": "k"}', "1")]
    (part,) = again.parts
    assert isinstance(part, ToolReturnPart)
    assert (part.tool_call_id, part.outcome, again.instructions) == ("1", "failed", "be kind")


def test_two_things_said_in_a_row_are_one_message_and_the_context_stands_before_the_last() -> None:
    (request,) = sent(UserMessage("one"), UserMessage("two"))
    assert isinstance(request, ModelRequest)
    (part,) = request.parts
    assert isinstance(part, UserPromptPart)
    assert part.content == "one\n\nknown\n\ntwo"


def test_without_context_what_was_said_goes_out_as_it_is() -> None:
    (request,) = sent(UserMessage("one"), context="")
    assert [part.content for part in request.parts] == ["one"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("arguments", "goes_out"),
    [("", "{}"), ("{", '{"malformed": "{"}'), ("[1]", '{"malformed": "[1]"}'), ('{"a":1}', '{"a":1}')],
)
def test_arguments_go_back_as_an_object_whatever_they_were(arguments: str, goes_out: str) -> None:
    _, response, _ = sent(
        UserMessage("x"), AssistantMessage("", (ToolCall("1", "", arguments),)), ToolResult("1", "", "{}")
    )
    (part,) = response.parts
    assert isinstance(part, ToolCallPart)
    assert (part.tool_name, part.args) == ("unknown", goes_out)


def test_text_comes_bit_by_bit_and_the_whole_at_the_end() -> None:
    pieces, seen = answered("one ", "two")
    assert [piece for piece in pieces if isinstance(piece, str)] == ["one ", "two"]
    assert pieces[-1] == AssistantMessage("one two")
    assert [tool.name for tool in seen[0].function_tools] == ["memory_get"]


def test_calls_are_put_together_and_what_nobody_sees_is_a_sign_of_life() -> None:
    first = {0: DeltaToolCall(name="memory_get", json_args='{"key": ', tool_call_id="1")}
    pieces, _ = answered(first, {0: DeltaToolCall(json_args='"k"}')})
    assert pieces[-1] == AssistantMessage("", (CALL,))
    assert sum(piece.chars for piece in pieces if isinstance(piece, HiddenDelta)) >= len(CALL.arguments)


def test_thoughts_are_not_shown_and_go_back_to_their_provider_as_they_came() -> None:
    pieces, _ = answered({0: DeltaThinkingPart(content="hmm", signature="s")}, "said")
    whole = pieces[-1]
    assert isinstance(whole, AssistantMessage)
    assert (whole.text, [piece for piece in pieces if isinstance(piece, str)]) == ("said", ["said"])
    _, response, _ = sent(UserMessage("x"), whole, UserMessage("y"))
    assert any(isinstance(part, ThinkingPart) and part.signature == "s" for part in response.parts)


@pytest.mark.parametrize("native", ["[]", "nonsense", '[{"kind": "future"}]'])
def test_what_another_version_kept_goes_out_as_what_it_says(native: str) -> None:
    _, response, _ = sent(UserMessage("x"), AssistantMessage("said", native=native), UserMessage("y"))
    assert response.parts == [TextPart("said")]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnexpectedModelBehavior("canary"), ModelErrorKind.GARBLED),
        (ContentFilterError("canary"), ModelErrorKind.FILTERED),
        (ValueError("canary"), ModelErrorKind.GARBLED),
        (OSError("canary"), ModelErrorKind.BROKEN),
        (ModelError(ModelErrorKind.EMPTY), ModelErrorKind.EMPTY),
    ],
)
def test_nothing_of_what_a_provider_wrote_is_in_an_error(error: Exception, kind: ModelErrorKind) -> None:
    with pytest.raises(ModelError) as raised:
        answered("one", error)
    assert raised.value.kind is kind
    assert "canary" not in str(raised.value)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(InvalidArgument, match=r"it comes with tidegate\[agent\]$") as raised:
        open_model("openai:any")
    assert raised.value.details["install"] == "tidegate[agent]"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nonsense", "provider:model"),
        ("nobody:any", "no provider is called nobody; write provider:model"),
        ("openai:gpt-5-mini", "set OPENAI_API_KEY"),
        ("anthropic:any", r"not installed; it comes with pydantic-ai-slim\[anthropic\]$"),
    ],
)
def test_a_model_that_cannot_be_opened_says_what_to_do(monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(InvalidArgument, match=hint):
        open_model(name)


def test_a_providers_model_is_opened_with_its_own_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    assert isinstance(open_model("openai-chat:gpt-5-mini"), ProviderModel)


def test_models_of_other_providers_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    model = FunctionModel(lambda *_: ModelResponse([]))
    assert reading_soundly(model) is model
    monkeypatch.setitem(sys.modules, "pydantic_ai.models.openai", None)
    assert reading_soundly(model) is model
