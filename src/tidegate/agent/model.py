"""Any model that pydantic-ai supports. Only this module and its stream import it, and only when a model is opened."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

from tidegate.agent.endings import ending
from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.prompt import HiddenDelta, ModelError, ModelErrorKind, Prompt, ReplyDelta
from tidegate.agent.thoughts import ThinkingHabit
from tidegate.errors import InvalidArgument

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse, ModelResponseStreamEvent
    from pydantic_ai.models import Model as Provided
    from pydantic_ai.models import ModelRequestParameters

_log = logging.getLogger(__name__)
NO_KEY = "no-key"  # for local servers, which need none


def open_model(name: str, base_url: str | None = None, key: str | None = None) -> ProviderModel:
    """Return the model named `provider:model`, or a model of that name on the OpenAI-compatible server at a base URL.

    key: for the base URL. Without it, a provider finds its key in its own environment variable.
    Raises: InvalidArgument when the library is not installed, or the name, the URL or the key is not usable.
    """
    try:
        from pydantic_ai import models
        from pydantic_ai.exceptions import UserError

        from tidegate.agent.model_stream import reading_soundly
    except ModuleNotFoundError:
        raise _not_installed("the model library", "tidegate[agent]") from None
    try:
        if base_url is not None:
            return ProviderModel(reading_soundly(_compatible(name, base_url, key)), says_when_done=True)
        return ProviderModel(reading_soundly(models.infer_model(name)))
    except ImportError as error:
        named = re.search(r"pydantic-ai-slim\[[a-z-]+\]", str(error))
        if named is None:
            raise _bad("the library of this provider is not installed") from None
        raise _not_installed("the library of this provider", named[0]) from None
    except UserError as error:
        missing = re.search(r"[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)", str(error))
        if missing:
            raise _bad(f"the model cannot be opened: set {missing[0]}") from None
        provider = re.match(r"([\w./-]{1,40}):.", name)
        unknown = f"no provider is called {provider[1]}; " if provider else ""
        advice = "write provider:model, such as openai:gpt-5-mini, or set chat.base_url"
        raise _bad(f"the model cannot be opened: {unknown}{advice}") from None


def _compatible(name: str, base_url: str, key: str | None) -> Provided:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # Never the key of another provider from the environment: the URL may be anyone's.
    provider = OpenAICompatibleProvider("compatible", base_url=base_url, api_key=key or NO_KEY)
    return OpenAIChatModel(name, provider=provider)


class ProviderModel:
    """A model of some provider. says_when_done: a response without a reason for its end is incomplete.

    habit: what was seen of its thoughts. It is a property of the model and its server, and delays only what is shown.
    """

    def __init__(self, provided: Provided, *, says_when_done: bool = False) -> None:
        self.habit = ThinkingHabit()
        self._provided = provided
        self._says_when_done = says_when_done

    async def stream(self, prompt: Prompt) -> AsyncIterator[ReplyDelta]:
        """Yield the response in pieces. Raises: ModelError, without any text from the provider (P12)."""
        from pydantic_ai.direct import model_request_stream

        try:
            async with model_request_stream(
                self._provided,
                _messages(prompt),
                model_settings={"max_retries": 0},  # the loop retries, and shows it
                model_request_parameters=_parameters(prompt),
            ) as response:
                async for event in response:
                    self.habit.plain |= _is_thought(event)  # its server takes the thoughts out
                    yield _delta(event)
                whole = response.get()
                details = whole.provider_details or {}
                # The library invents a missing reason; the details hold the received one.
                if self._says_when_done and not {"finish_reason", "refusal"} & details.keys():
                    raise ModelError(ModelErrorKind.BROKEN)
                reply = _reply(whole)
                if refusal := _refusal(whole):  # it comes apart from the text
                    yield refusal if reply.text == refusal else f"\n\n{refusal}"
                yield reply
        except Exception as error:  # noqa: BLE001  any error means no answer
            raise _model_error(error) from None


# What goes out


def _parameters(prompt: Prompt) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    tools = [
        ToolDefinition(name=tool.name, description=tool.description, parameters_json_schema=tool.schema, strict=False)
        for tool in prompt.tools
    ]
    return ModelRequestParameters(function_tools=tools, instruction_parts=[InstructionPart(prompt.instructions)])


def _messages(prompt: Prompt) -> list[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ToolReturnPart, UserPromptPart

    last = max(place for place, message in enumerate(prompt.messages) if isinstance(message, UserMessage))
    made: list[ModelMessage] = []
    parts: list[Any] = []
    for place, message in enumerate(prompt.messages):
        if isinstance(message, AssistantMessage):
            made += [ModelRequest(parts), _response(message)]
            parts = []
        elif isinstance(message, ToolResult):
            name = _plain_name(message.name)
            outcome: Any = "failed" if message.failed else "success"
            parts.append(ToolReturnPart(name, message.text, message.call, outcome=outcome))
        else:
            text = f"{prompt.context}\n\n{message.text}" if place == last and prompt.context else message.text
            _add_user(parts, UserPromptPart(text))
    return [*made, ModelRequest(parts, instructions=prompt.instructions)]


def _add_user(parts: list[Any], part: Any) -> None:
    """Add a part; merge two of one kind in a row, because many models require the roles to alternate."""
    if parts and type(parts[-1]) is type(part):
        part = type(part)(f"{parts[-1].content}\n\n{part.content}")
        parts.pop()
    parts.append(part)


def _response(message: AssistantMessage) -> ModelResponse:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart

    if message.native:
        try:
            (native,) = ModelMessagesTypeAdapter.validate_json(message.native)
        except ValueError:
            native = None  # of another version: the text and calls must suffice
        if isinstance(native, ModelResponse):
            return native
    calls = [ToolCallPart(_plain_name(call.name), _plain_arguments(call.arguments), call.id) for call in message.calls]
    text = [TextPart(message.text)] if message.text or not calls else []
    return ModelResponse([*text, *calls])


def _plain_name(name: str) -> str:
    """Return a tool's name in a form that providers accept, whatever the model sent."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def _plain_arguments(arguments: str) -> str:
    """Return arguments in a form that providers accept: wrapped in a JSON object if they are none."""
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"malformed": arguments[:2_000]} if arguments.strip() else {})


# What comes back


def _delta(event: ModelResponseStreamEvent) -> ReplyDelta:
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent):
        return event.part.content if isinstance(event.part, TextPart) else HiddenDelta(_size(event.part))
    if isinstance(event, PartDeltaEvent):
        return event.delta.content_delta if isinstance(event.delta, TextPartDelta) else HiddenDelta(_size(event.delta))
    return HiddenDelta(0)


def _size(part: object) -> int:
    values = (getattr(part, name, None) for name in ("content", "content_delta", "args", "args_delta"))
    return sum(len(value if isinstance(value, str) else json.dumps(value)) for value in values if value)


def _is_thought(event: ModelResponseStreamEvent) -> bool:
    from pydantic_ai.messages import PartStartEvent, ThinkingPart

    return isinstance(event, PartStartEvent) and isinstance(event.part, ThinkingPart)


def _refusal(response: ModelResponse) -> str:
    refusal = (response.provider_details or {}).get("refusal")
    return refusal if isinstance(refusal, str) and refusal.strip() else ""


def _reply(response: ModelResponse) -> AssistantMessage:
    from pydantic_ai.messages import ModelMessagesTypeAdapter, TextPart, ToolCallPart

    calls = tuple(_calls(response))
    text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
    text = "\n\n".join(filter(None, (text, _refusal(response))))
    sound = all(call.arguments == _plain_arguments(call.arguments) for call in calls)
    early = _early(response, whole_calls=bool(calls) and sound)
    if early is not None:  # calls that may be cut are not made
        return AssistantMessage(text, cut=early.value)
    plain = all(isinstance(part, TextPart | ToolCallPart) and not part.provider_details for part in response.parts)
    native = "" if plain or not sound else ModelMessagesTypeAdapter.dump_json([response]).decode()
    return AssistantMessage(text, calls, native)


def _early(response: ModelResponse, *, whole_calls: bool) -> ModelErrorKind | None:
    """Return why a response ended early; None if it is whole. Raises: ModelError for an error of the provider."""
    from pydantic_ai.messages import ToolCallPart

    if _refusal(response):
        return ModelErrorKind.REFUSED
    early = ending((response.provider_details or {}).get("finish_reason"), response.finish_reason)
    if early is ModelErrorKind.FAILED:
        raise ModelError(early)
    if early is ModelErrorKind.UNKNOWN_END and whole_calls:
        return None
    if early is ModelErrorKind.LIMIT and any(isinstance(part, ToolCallPart) for part in response.parts):
        return ModelErrorKind.LIMIT_IN_CALL
    return early


def _calls(response: ModelResponse) -> Iterator[ToolCall]:
    from pydantic_ai.messages import ToolCallPart

    for part in response.parts:
        if isinstance(part, ToolCallPart):
            arguments = part.args if isinstance(part.args, str) else json.dumps(part.args or {})
            yield ToolCall(part.tool_call_id, part.tool_name, arguments)


def _model_error(error: Exception) -> ModelError:
    """Return the matching kind, in our words: the provider's text may repeat the prompt (P12)."""
    from pydantic_ai import exceptions as e

    if isinstance(error, ModelError):
        return error
    kinds: list[tuple[type[Exception], ModelErrorKind]] = [
        (e.ModelQuotaExceededError, ModelErrorKind.QUOTA),
        (e.ModelRateLimitError, ModelErrorKind.RATE),
        (e.ModelAuthenticationError, ModelErrorKind.KEY),
        (e.ModelNotFoundError, ModelErrorKind.NO_MODEL),
        (e.ModelContextWindowExceededError, ModelErrorKind.TOO_LONG),
        (e.ModelRequestRejectedError, ModelErrorKind.REJECTED),
        (e.ModelTimeoutError, ModelErrorKind.TIMEOUT),
        (e.ModelRequestTimeout, ModelErrorKind.TIMEOUT),
        (e.ModelConnectionError, ModelErrorKind.UNREACHABLE),
        (e.ContentFilterError, ModelErrorKind.FILTERED),
        (e.ModelAPIError, ModelErrorKind.SERVER),
        (e.UnexpectedModelBehavior, ModelErrorKind.GARBLED),
        (ValueError, ModelErrorKind.GARBLED),
    ]
    _log.info("a model request failed: %s", type(error).__name__)
    kind = next((kind for raised, kind in kinds if isinstance(error, raised)), ModelErrorKind.BROKEN)
    return ModelError(kind, retry_after_seconds=getattr(error, "retry_after", None))


def _not_installed(what: str, package: str) -> InvalidArgument:
    message = f"chat.model: {what} is not installed; it comes with {package}"
    return InvalidArgument(message, argument="chat.model", install=package)


def _bad(reason: str) -> InvalidArgument:
    return InvalidArgument(f"chat.model: {reason}", argument="chat.model")
