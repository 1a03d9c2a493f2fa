"""Responses of OpenAI-compatible servers, read as servers stream them and not only as they should."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from tidegate.agent.call_pieces import CallPieces

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk
    from pydantic_ai.models import Model


def reading_soundly(model: Model) -> Model:
    """Return the model, which tells streamed calls apart if it is one of an OpenAI-compatible server."""
    try:
        from pydantic_ai.models.openai import OpenAIChatModel
    except ImportError:  # the library of another provider is installed, and this one is not
        return model
    if not isinstance(model, OpenAIChatModel):
        return model
    base: Any = type(model)
    response = type("SoundStream", (_SoundStream, model._streamed_response_cls), {})
    sound = copy.copy(model)
    # The library chooses the class of a response by this property, for subclasses to override.
    sound.__class__ = type(base.__name__, (base,), {"_streamed_response_cls": property(lambda _: response)})
    return sound


class _SoundStream:
    """A change to the library's response: each call has its own index, and tags of thoughts are left to us."""

    _model_profile: Any
    model_request_parameters: Any

    async def _validate_response(self) -> AsyncIterator[ChatCompletionChunk]:
        self._model_profile = {**self._model_profile, "thinking_tags": None}
        pieces = CallPieces([tool.name for tool in self.model_request_parameters.function_tools])
        async for chunk in super()._validate_response():  # type: ignore[misc]  # of the class that it is mixed into
            for choice in chunk.choices or ():
                if choice.delta is not None and choice.delta.tool_calls:
                    choice.delta.tool_calls = [each for each in choice.delta.tool_calls if _renumber(each, pieces)]
            yield chunk


def _renumber(call: Any, pieces: CallPieces) -> bool:
    """Give a piece the number of its call. Return whether it adds anything."""
    function = getattr(call, "function", None)
    index, name = getattr(call, "index", None), getattr(function, "name", None)
    arguments = getattr(function, "arguments", None) or ""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    piece = pieces.place(index if isinstance(index, int) else None, getattr(call, "id", None) or "", name or "", text)
    if piece is None:
        return False
    call.index, call.id = piece.number, piece.id or None
    if function is not None:
        function.name, function.arguments = piece.name or None, piece.arguments
    return True
