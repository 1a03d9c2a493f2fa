"""An OpenAI-compatible server in this process, which streams what a test plays."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import httpx2
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
from tests.agent.openai_server import chunk

from tidegate.agent.messages import AssistantMessage, UserMessage
from tidegate.agent.model import ProviderModel
from tidegate.agent.model_stream import reading_soundly
from tidegate.agent.prompt import Prompt, ReplyDelta, ToolSpec
from tidegate.tools import AGENT_TOOLS

Pieces = Sequence[tuple[dict[str, Any], str | None]]
TOOLS = tuple(ToolSpec(tool.name, tool.description, tool.input_schema) for tool in AGENT_TOOLS.values())


class PlayedServer:
    """Answers each request with the next of these responses, and the last one again; each is a list of deltas."""

    def __init__(self, *responses: Pieces) -> None:
        self._responses = list(responses)
        self.requests = 0
        self.bodies: list[bytes] = []

    def model(self) -> ProviderModel:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(self._answer))
        provider = OpenAICompatibleProvider("played", base_url="http://played/v1", api_key="k", http_client=client)
        return ProviderModel(reading_soundly(OpenAIChatModel("m", provider=provider)), says_when_done=True)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(request.content)
        response = self._responses[min(self.requests, len(self._responses) - 1)]
        self.requests += 1
        lines = [f"data: {json.dumps(chunk(delta, finish))}\n\n" for delta, finish in response]
        body = "".join([*lines, "data: [DONE]\n\n"]).encode()
        return httpx2.Response(200, headers={"Content-Type": "text/event-stream"}, content=body)


def says(*texts: str, finish: str = "stop", **more: Any) -> Pieces:
    """A response in these pieces of text."""
    return [*(({"content": text, **more}, None) for text in texts), ({}, finish)]


def calls(*pieces: dict[str, Any], finish: str = "tool_calls") -> Pieces:
    """A response with calls in these pieces, one in each chunk."""
    return [*(({"tool_calls": [piece]}, None) for piece in pieces), ({}, finish)]


def call(arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    """A piece of a call: its index, id and name as given."""
    function = {"arguments": arguments} | ({"name": fields.pop("name")} if "name" in fields else {})
    return {**fields, "type": "function", "function": {k: v for k, v in function.items() if v is not None}}


def pieces_of(response: Pieces) -> list[ReplyDelta]:
    """What the model yields for one response."""

    async def collect() -> list[ReplyDelta]:
        stream = PlayedServer(response).model().stream(Prompt("be kind", "", (UserMessage("hi"),), TOOLS))
        return [piece async for piece in stream]

    return asyncio.run(collect())


def reply_to(response: Pieces) -> AssistantMessage:
    """The whole reply that comes of a response."""
    whole = pieces_of(response)[-1]
    assert isinstance(whole, AssistantMessage)
    return whole
