"""The toolbox: how one call of a foreign tool finds its tool, and what is said of a refusal to whom."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from tests.agent.scene import AGENT, CONFIDENTIAL, NOW, PUBLIC, Recorded, Scene, Screen
from tests.agent.test_attacks import ECHO, OBEDIENT, Web, says

from tidegate.agent.channel import ToolCalled
from tidegate.agent.messages import ToolCall, ToolResult
from tidegate.agent.toolbox import Toolbox
from tidegate.config.servers import Server
from tidegate.gateway import gateway as gateways
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Pins
from tidegate.policy.refusals import ABOVE_SINK
from tidegate.policy.servers import Classification

PUBLIC_ONLY = Classification(PUBLIC, PUBLIC)


def test_a_refusal_names_the_tool_to_the_model_and_only_the_reason_beside_the_tool_s_name(scene: Scene) -> None:
    recorded, screen = Recorded(OBEDIENT), Screen()
    says(scene, Web(), "plan the merger", recorded, CONFIDENTIAL, "planning", screen)
    (result,) = (message.text for message in recorded.prompts[1].messages if isinstance(message, ToolResult))
    assert json.loads(result)["error"]["message"] == f"web__echo: {ABOVE_SINK.hint}"
    assert screen.used[0] == ToolCalled("web__echo", failed=True, refused=True, reason=ABOVE_SINK.hint)


def test_a_foreign_call_reads_the_pins_and_builds_the_catalog_once(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, builds = list[Pins](), list[object]()
    read, build = Pins.read, gateways.catalog
    monkeypatch.setattr(Pins, "read", lambda self: (reads.append(self), read(self))[1])
    monkeypatch.setattr(gateways, "catalog", lambda *given: (builds.append(given), build(*given))[1])
    servers = {name: Server(name, command=("x",), classification=PUBLIC_ONLY) for name in ("web", "mail", "files")}
    for name in servers:
        Pins(scene.home).trust(name, [ECHO], NOW)
    web, session = Web(), scene.store.session(AGENT)
    gateway = Gateway(scene.store, session, servers, Pins(scene.home), ids=scene.ids, connect=web.open)
    toolbox = Toolbox(gateway, ids=scene.ids)

    async def call(name: str) -> tuple[bool, int, int]:
        reads.clear()
        builds.clear()
        outcome = await toolbox.run(session, ToolCall("1", name, "{}"))
        return outcome.failed, len(reads), len(builds)

    async def main() -> list[tuple[bool, int, int]]:
        return [await call(name) for name in ("web__echo", "web__echo", "memory_list", "nobody__knows")]

    assert asyncio.run(main()) == [(False, 1, 1), (False, 1, 1), (False, 0, 0), (True, 1, 1)]
    assert web.told == ["{}", "{}"]


def test_a_definition_that_the_owner_trusts_between_two_calls_is_trusted_at_the_next(scene: Scene) -> None:
    changed = replace(ECHO, description="Says it again, louder.")
    web, session, pins = Web(defines=changed), scene.store.session(AGENT), Pins(scene.home)
    pins.trust("web", [ECHO], NOW)
    servers = {"web": Server("web", command=("x",), classification=PUBLIC_ONLY)}
    gateway = Gateway(scene.store, session, servers, Pins(scene.home), ids=scene.ids, connect=web.open)
    toolbox = Toolbox(gateway, ids=scene.ids)

    async def main() -> list[bool]:
        before = await toolbox.run(session, ToolCall("1", "web__echo", "{}"))
        pins.trust("web", [changed], NOW)
        return [before.refused, (await toolbox.run(session, ToolCall("2", "web__echo", "{}"))).failed]

    assert asyncio.run(main()) == [True, False]
