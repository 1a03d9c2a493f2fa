"""A server that speaks as OpenAI-compatible ones do, over real HTTP, in a process of its own.

It answers by a script, and keeps every request that it gets, byte for byte. The name of the model says how it behaves:
`scripted`, or one of the ways in which real ones go wrong.

    python -m tests.agent.openai_server FOLDER [SCRIPT]     # prints its port
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from tidegate.agent.messages import AssistantMessage, ToolCall, ToolResult, UserMessage
from tidegate.agent.prompt import Prompt, PromptMessage
from tidegate.agent.scripted import SCRIPT, ScriptedModel, read_script

NUMBERS = count(1)
TROUBLES = {
    "rate-limited": (429, {"error": {"message": "slow down", "type": "rate_limit_exceeded"}}),
    "out-of-quota": (429, {"error": {"message": "pay", "type": "insufficient_quota", "code": "insufficient_quota"}}),
    "wrong-key": (401, {"error": {"message": "bad key sk-secret-canary", "code": "invalid_api_key"}}),
    "unknown": (404, {"error": {"message": "no such model", "code": "model_not_found"}}),
    "rejecting": (400, {"error": {"message": "bad request: secret-canary", "type": "invalid_request_error"}}),
    "failing": (500, {"error": {"message": "secret-canary"}}),
}


class Handler(BaseHTTPRequestHandler):
    """Answers one request after the other."""

    protocol_version = "HTTP/1.1"
    folder: Path
    model: ScriptedModel

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        number = next(NUMBERS)
        (self.folder / f"{number:04}.json").write_bytes(body)
        (self.folder / f"{number:04}.headers").write_text(str(self.headers))
        request = json.loads(body)
        behaviour = request["model"]
        if behaviour == "busy-once":
            behaviour = "rate-limited" if number == 1 else "scripted"
        if "-at-the-" in behaviour:
            how, _, when = behaviour.partition("-at-the-")
            behaviour = how if number == {"first": 1, "second": 2}[when] else "scripted"
        if behaviour in TROUBLES:
            self._refuse(*TROUBLES[behaviour])
        else:
            self._stream(request, behaviour)

    def _refuse(self, status: int, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status == 429:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, request: dict[str, Any], behaviour: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for place, chunk in enumerate(self._chunks(request, behaviour)):
            if behaviour == "breaking" and place == 2:
                return  # without an end
            if behaviour == "garbling" and place == 2:
                self.wfile.write(b"data: {not json\n\n")
                return
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
            if behaviour == "hanging" and place == 2:
                time.sleep(30)
                return
        self.wfile.write(b"data: [DONE]\n\n")

    def _chunks(self, request: dict[str, Any], behaviour: str) -> Iterator[dict[str, Any]]:
        if behaviour == "flooding":
            yield from (chunk({"content": "x" * 10_000}) for _ in range(400))
            return
        if behaviour == "mute":
            yield chunk({}, "stop")
            return
        if behaviour == "cutting":
            yield chunk({"content": "Once upon a"})
            yield chunk({}, "length")
            return
        pieces, reply = asyncio.run(collected(self.model, prompt_of(request)))
        yield chunk({"role": "assistant", "content": ""})
        yield from (chunk({"content": piece}) for piece in pieces)
        for index, call in enumerate(reply.calls):
            half = len(call.arguments) // 2
            function = {"name": call.name, "arguments": call.arguments[:half]}
            yield chunk({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]})
            rest = {"arguments": call.arguments[half:]}
            yield chunk({"tool_calls": [{"index": index, "function": rest}]})
        yield chunk({}, "tool_calls" if reply.calls else "stop")

    def log_message(self, *_: object) -> None:
        """Nothing."""


async def collected(model: ScriptedModel, prompt: Prompt) -> tuple[list[str], AssistantMessage]:
    pieces = [piece async for piece in model.stream(prompt)]
    (reply,) = [piece for piece in pieces if isinstance(piece, AssistantMessage)]
    return [piece for piece in pieces if isinstance(piece, str)], reply


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted", "choices": [choice]}


def prompt_of(request: dict[str, Any]) -> Prompt:
    """The request as the script reads it."""
    messages = request["messages"]
    instructions = "\n".join(each["content"] for each in messages if each["role"] == "system")
    told = [message_of(each) for each in messages if each["role"] != "system"]
    return Prompt(instructions, "", tuple(told), ())


def message_of(message: dict[str, Any]) -> PromptMessage:
    if message["role"] == "user":
        # The context stands before what was said, which is the last paragraph.
        return UserMessage(message["content"].rpartition("\n\n")[2])
    if message["role"] == "tool":
        return ToolResult(message["tool_call_id"], "", message["content"])
    calls = [
        ToolCall(each["id"], each["function"]["name"], each["function"]["arguments"])
        for each in message.get("tool_calls") or ()
    ]
    return AssistantMessage(message.get("content") or "", tuple(calls))


def main() -> None:
    Handler.folder = Path(sys.argv[1])
    Handler.folder.mkdir(parents=True, exist_ok=True)
    Handler.model = ScriptedModel(read_script(Path(sys.argv[2])) if len(sys.argv) > 2 else SCRIPT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
