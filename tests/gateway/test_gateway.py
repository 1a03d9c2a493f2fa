"""The gateway, step by step, on servers that are fakes: order, audit, words, and whose connection it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
from tests.gateway.conftest import AT, ECHO

import tidegate
from tidegate.audit.chain import Action
from tidegate.config.servers import Server
from tidegate.core.sessions import Sessions
from tidegate.errors import Refused, StorageError
from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.gateway import Gateway
from tidegate.gateway.pins import Definitions, Pins
from tidegate.gateway.replies import Reply
from tidegate.gateway.wire_guard import Check
from tidegate.policy.levels import Level
from tidegate.policy.refusals import ABOVE_SINK
from tidegate.policy.servers import Classification
from tidegate.session import Session
from tidegate.store import Store

T = TypeVar("T")
PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
SECRET = "argument-9b1c"


@dataclass
class Fake:
    """A server and its connections. Each act is told to `during`, which may interfere."""

    acts: list[str] = field(default_factory=list)
    opened: int = 0
    claimed: Level = PUBLIC
    during: Callable[[str], Awaitable[None]] | None = None

    async def act(self, what: str) -> None:
        self.acts.append(what)
        if self.during is not None:
            await self.during(what)

    async def open(self, server: Server, check: Check) -> FakeConnection:
        check(True)
        self.opened += 1
        await self.act(f"open {server.name}")
        return FakeConnection(self, server)


@dataclass
class FakeConnection:
    fake: Fake
    server: Server

    async def definitions(self, check: Check) -> Definitions:
        check(True)
        await self.fake.act(f"list {self.server.name}")
        return {"echo": ECHO}

    async def call(self, check: Check, tool: str, arguments: Mapping[str, Any]) -> Reply:
        check(True)
        await self.fake.act(f"call {self.server.name}")
        return Reply(f"{tool} {dict(arguments)}", failed=False, claimed=self.fake.claimed)

    async def close(self) -> None:
        await self.fake.act(f"close {self.server.name}")


def server(name: str, source: Level = PUBLIC, sink: Level = PUBLIC) -> Server:
    return Server(name, command=("x",), classification=Classification(source, sink))


SERVERS = {
    each.name: each
    for each in (
        server("web"),
        server("plans", CONFIDENTIAL, CONFIDENTIAL),
        server("leaky", CONFIDENTIAL, PUBLIC),
        Server("unclassified", command=("x",)),
        server("unseen"),
    )
}


@pytest.fixture
def pins(pins: Pins) -> Pins:
    for name in ("web", "plans", "leaky", "unclassified"):
        pins.trust(name, [ECHO], AT)
    return pins


@pytest.fixture
def fake() -> Fake:
    return Fake()


@pytest.fixture
def gateway(store: Store, session: Session, pins: Pins, fake: Fake) -> Gateway:
    return Gateway(store, session, SERVERS, pins, ids=lambda: "NONCE", connect=fake.open, hop=at_once)


async def at_once(act: Callable[..., T], *arguments: Any) -> T:
    """Runs it here and now, so that the order of calls is the test's and not a thread pool's."""
    return act(*arguments)


def call(gateway: Gateway, tool: str) -> str:
    return asyncio.run(gateway.call(tool, {"text": SECRET})).text


def entries(store: Store, level: Level) -> list[tuple[Action, str]]:
    """What the audit of one compartment says, without what opens a session."""
    with store._provider.view("ada", level) as view:
        events = [entry.event for entry in view.visible[0].entries()]
    return [(event.action, event.detail) for event in events if event.action is not Action.OPEN]


def test_p4_a_call_raises_before_the_server_is_even_reached(gateway: Gateway, fake: Fake, session: Session) -> None:
    async def look(what: str) -> None:
        assert session.taint is CONFIDENTIAL, what

    fake.during = look
    assert "echo {'text': 'argument-9b1c'}" in call(gateway, "plans__echo")
    assert fake.acts == ["open plans", "list plans", "call plans"]


def test_p4_a_raised_session_is_refused_the_lower_sink_in_words_to_pass_on(gateway: Gateway, fake: Fake) -> None:
    call(gateway, "plans__echo")
    fake.acts.clear()
    with pytest.raises(Refused) as caught:
        call(gateway, "web__echo")
    refused = f"web__echo: {ABOVE_SINK.hint}"
    assert caught.value.to_dict() == {"code": "REFUSED", "message": refused, "rule": "P14"}
    assert fake.acts == []


def test_p4_a_ceiling_refuses_what_would_raise_over_it(gateway: Gateway, store: Store, session: Session) -> None:
    store.sessions.set_ceiling(session.id, INTERNAL)
    with pytest.raises(Refused, match=r"plans__echo: this would exceed .* the owner can raise the ceiling"):
        call(gateway, "plans__echo")
    assert session.taint is PUBLIC


def test_p4_a_tool_whose_source_is_above_its_sink_is_called_once_and_then_no_more(
    gateway: Gateway, session: Session
) -> None:
    assert SECRET in call(gateway, "leaky__echo")
    assert session.taint is CONFIDENTIAL
    with pytest.raises(Refused, match="above what this tool may be told"):
        call(gateway, "leaky__echo")


def test_p14_only_what_is_trusted_and_classified_is_offered_at_every_taint(gateway: Gateway, session: Session) -> None:
    at_public = gateway.tools()
    assert [entry.name for entry in at_public] == ["leaky__echo", "plans__echo", "web__echo"]
    session.raise_taint(RESTRICTED)
    assert gateway.tools() == at_public


@pytest.mark.parametrize(
    ("tool", "words", "rule"),
    [
        ("unclassified__echo", "unclassified__echo: the tool has no classification: the owner can set its", "P14"),
        ("unseen__echo", "unknown tool: use only the listed tools", "P17"),
        ("memory_get", "unknown tool: use only the listed tools", "P17"),
        (SECRET, "unknown tool: use only the listed tools", "P17"),
    ],
)
def test_p14_all_others_are_refused(
    gateway: Gateway, fake: Fake, store: Store, tool: str, words: str, rule: str
) -> None:
    with pytest.raises(Refused) as caught:
        call(gateway, tool)
    assert caught.value.message.startswith(words)
    assert caught.value.details == {"rule": rule}
    assert fake.acts == []
    assert entries(store, PUBLIC)[-1] == (Action.REFUSE, f"call {tool if rule == 'P14' else 'tool'} {rule}")


def test_p9_calls_raises_and_refusals_are_audited_in_the_chain_of_the_new_level_without_content(
    gateway: Gateway, store: Store
) -> None:
    call(gateway, "web__echo")
    call(gateway, "plans__echo")
    with pytest.raises(Refused):
        call(gateway, "web__echo")
    assert entries(store, PUBLIC) == [(Action.CALL, "web__echo")]
    assert entries(store, CONFIDENTIAL) == [
        (Action.CALL, "plans__echo"),
        (Action.RAISE, "PUBLIC to CONFIDENTIAL: plans__echo"),
        (Action.REFUSE, "call web__echo P14"),
    ]
    assert entries(store, RESTRICTED) == []


# Labels


def test_p4_a_label_raises_after_the_answer_and_before_its_release(
    gateway: Gateway, fake: Fake, store: Store, session: Session, home: Path
) -> None:
    async def look(_: str) -> None:
        assert session.taint is PUBLIC

    fake.during, fake.claimed = look, CONFIDENTIAL

    async def act() -> Level:
        await gateway.call("web__echo")
        return session.taint

    assert asyncio.run(act()) is CONFIDENTIAL
    with tidegate.open(home) as other:
        assert other.resume("ada", "main").taint is CONFIDENTIAL, "durably"
    assert entries(store, PUBLIC) == [(Action.CALL, "web__echo")]
    assert entries(store, CONFIDENTIAL) == [(Action.RAISE, "PUBLIC to CONFIDENTIAL: label of web__echo")]
    with pytest.raises(Refused, match="above what this tool may be told"):
        call(gateway, "web__echo")


def test_p4_a_label_above_the_ceiling_withholds_the_result_and_is_audited(
    gateway: Gateway, fake: Fake, store: Store, session: Session
) -> None:
    store.sessions.set_ceiling(session.id, INTERNAL)
    fake.claimed = CONFIDENTIAL
    with pytest.raises(Refused) as caught:
        call(gateway, "web__echo")
    assert caught.value.message.startswith(
        "web__echo: the result was withheld, because its label exceeds the session's ceiling"
    )
    assert SECRET not in str(caught.value.to_dict())
    assert session.taint is PUBLIC
    assert entries(store, PUBLIC)[-1] == (Action.REFUSE, "result web__echo P4")
    fake.claimed = INTERNAL
    assert SECRET in call(gateway, "web__echo")
    assert fake.opened == 1
    assert session.taint is INTERNAL


@pytest.mark.parametrize("claimed", [PUBLIC, INTERNAL, CONFIDENTIAL])
def test_p14_a_label_at_or_below_the_taint_changes_nothing(
    gateway: Gateway, fake: Fake, store: Store, session: Session, claimed: Level
) -> None:
    fake.claimed = claimed
    call(gateway, "plans__echo")
    assert session.taint is CONFIDENTIAL
    assert entries(store, CONFIDENTIAL) == [
        (Action.CALL, "plans__echo"),
        (Action.RAISE, "PUBLIC to CONFIDENTIAL: plans__echo"),
    ]


def test_p7_a_label_raises_no_session_that_has_ended(
    gateway: Gateway, fake: Fake, store: Store, session: Session
) -> None:
    async def reset(what: str) -> None:
        if what == "call web":
            store.sessions.reset(session.id)

    fake.during, fake.claimed = reset, CONFIDENTIAL
    with pytest.raises(Refused, match="session ended"):
        call(gateway, "web__echo")
    assert entries(store, CONFIDENTIAL) == []


def test_a_label_that_waits_for_the_disk_stops_no_other_call(store: Store, session: Session, pins: Pins) -> None:
    """The raise is made in another thread; what releases the result only finds it made."""
    hopped, released = list[str](), list[str]()
    real = store.flow.check_result

    def checked(*given: Any) -> Level:
        released.append("hop" if hopping else "loop")
        return real(*given)

    hopping = False

    async def hop(act: Callable[..., T], *arguments: Any) -> T:
        nonlocal hopping
        hopping = True
        try:
            return act(*arguments)
        finally:
            hopping = False
            hopped.append("x")

    fake = Fake(claimed=INTERNAL)
    gateway = Gateway(store, session, SERVERS, pins, connect=fake.open, hop=hop)
    gateway._flow.check_result = checked  # type: ignore[method-assign]
    call(gateway, "web__echo")
    assert released == ["hop", "loop"]
    fake.claimed = PUBLIC
    call(gateway, "plans__echo")
    assert released == ["hop", "loop", "loop"]


def test_a_release_that_raises_nothing_waits_for_no_lock(
    gateway: Gateway, fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lock(what: str) -> None:
        if what == "call web":
            monkeypatch.setattr(Sessions, "_commit", lambda *_: pytest.fail("it takes the locks"))

    fake.during = lock
    assert SECRET in call(gateway, "web__echo")


def test_a_result_says_the_taint_at_its_release(gateway: Gateway, fake: Fake, session: Session) -> None:
    async def raise_meanwhile(what: str) -> None:
        if what == "call web":
            session.raise_taint(INTERNAL)

    async def level(tool: str) -> Level:
        return (await gateway.call(tool)).level

    fake.during = raise_meanwhile
    assert asyncio.run(level("web__echo")) is INTERNAL
    assert asyncio.run(level("plans__echo")) is CONFIDENTIAL
    fake.claimed = RESTRICTED
    assert asyncio.run(level("plans__echo")) is RESTRICTED


@pytest.mark.parametrize("moment", ["open web", "list web", "call web"])
def test_p4_a_raise_meanwhile_stops_the_call_at_the_next_byte(
    gateway: Gateway, fake: Fake, session: Session, moment: str
) -> None:
    async def raise_at(what: str) -> None:
        if what == moment:
            session.raise_taint(INTERNAL)

    fake.during = raise_at
    if moment == "call web":
        assert SECRET in call(gateway, "web__echo")  # it is out, and the answer may be heard
        return
    with pytest.raises(Refused, match=r"web__echo: .* above what this tool may be told"):
        call(gateway, "web__echo")
    assert "call web" not in fake.acts
    assert fake.acts[-1] == "close web"


@pytest.mark.parametrize("moment", ["open web", "list web", "call web"])
def test_p7_a_reset_meanwhile_stops_the_call_and_withholds_the_result(
    gateway: Gateway, fake: Fake, store: Store, session: Session, moment: str
) -> None:
    async def reset_at(what: str) -> None:
        if what == moment:
            store.sessions.reset(session.id)

    fake.during = reset_at
    with pytest.raises(Refused, match="web__echo: session ended"):
        call(gateway, "web__echo")


def test_p7_an_ended_session_calls_nothing(gateway: Gateway, fake: Fake, store: Store, session: Session) -> None:
    store.sessions.reset(session.id)
    with pytest.raises(Refused, match="session ended"):
        call(gateway, "web__echo")
    assert fake.acts == []


def test_p14_a_session_has_its_own_connection_and_keeps_it_open(
    gateway: Gateway, fake: Fake, store: Store, pins: Pins
) -> None:
    other = Gateway(store, store.session("ada", "other", Level.PUBLIC), SERVERS, pins, connect=fake.open)

    async def act() -> None:
        for each in (gateway, other, gateway, other):
            await each.call("web__echo")
        await gateway.close()
        await other.close()

    asyncio.run(act())
    assert fake.opened == 2
    assert fake.acts.count("close web") == 2


def test_a_connection_that_ended_while_idle_is_opened_anew_and_the_call_is_sent_once(
    gateway: Gateway, fake: Fake
) -> None:
    async def end_second(what: str) -> None:
        if fake.acts.count("list web") == 2 and what == "list web" and fake.opened == 1:
            raise CutOffError("ended the connection")

    async def act() -> None:
        await gateway.call("web__echo")
        await gateway.call("web__echo")

    fake.during = end_second
    asyncio.run(act())
    assert fake.acts[3:] == ["list web", "close web", "open web", "list web", "call web"]


@pytest.mark.parametrize("moment", ["open web", "list web", "call web"])
def test_a_server_that_breaks_off_is_reported_and_its_connection_dropped(
    gateway: Gateway, fake: Fake, moment: str
) -> None:
    async def break_off(what: str) -> None:
        if what == moment:
            raise CutOffError("did not answer within 60 seconds")

    fake.during = break_off
    assert call(gateway, "web__echo") == "web__echo: no result: the server did not answer within 60 seconds."
    assert gateway._connections == {}


def test_p7_not_even_that_a_server_broke_off_is_told_to_an_ended_session(
    gateway: Gateway, fake: Fake, store: Store, session: Session
) -> None:
    async def reset(what: str) -> None:
        if what == "call web":
            store.sessions.reset(session.id)
            raise CutOffError("ended the connection")

    fake.during = reset
    with pytest.raises(Refused, match="session ended"):
        call(gateway, "web__echo")


def test_calls_to_one_server_take_turns_and_those_to_another_do_not_wait(gateway: Gateway, fake: Fake) -> None:
    async def act() -> None:
        running = 0
        both = asyncio.Event()
        free = asyncio.Event()

        async def during(what: str) -> None:
            nonlocal running
            if what.startswith("call"):
                running += 1
                if running == 2:
                    both.set()
                await free.wait()

        fake.during = during
        calls = [asyncio.ensure_future(gateway.call(f"{name}__echo")) for name in ("web", "web", "plans")]
        await both.wait()
        assert sorted(what for what in fake.acts if what.startswith("call")) == ["call plans", "call web"]
        free.set()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, Refused)]
        assert len(refused) == 1, "the second call of web is decided when its turn comes, at the taint of then"

    asyncio.run(act())


def test_a_cancelled_call_leaves_the_taint_raised_and_the_next_call_working(
    gateway: Gateway, fake: Fake, session: Session
) -> None:
    async def act() -> None:
        reached = asyncio.Event()

        async def during(what: str) -> None:
            if what == "call plans":
                reached.set()
                await asyncio.sleep(3600)

        fake.during = during
        task = asyncio.ensure_future(gateway.call("plans__echo"))
        await reached.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert session.taint is CONFIDENTIAL
        fake.during = None
        assert SECRET in (await gateway.call("plans__echo", {"text": SECRET})).text

    asyncio.run(act())
    assert fake.opened == 1


def test_a_gateway_that_is_closed_meanwhile_keeps_no_connection(gateway: Gateway, fake: Fake) -> None:
    async def during(what: str) -> None:
        if what == "open web":
            await gateway.close()

    fake.during = during
    assert "the conversation is over" in call(gateway, "web__echo")
    assert fake.acts == ["open web", "close web"]


def test_a_closed_gateway_opens_nothing(gateway: Gateway, fake: Fake) -> None:
    async def act() -> str:
        async with gateway:
            pass
        return (await gateway.call("web__echo")).text

    assert "the conversation is over" in asyncio.run(act())
    assert fake.acts == []


def test_p15_a_child_calls_under_its_parent_s_ceiling(store: Store, session: Session, pins: Pins, fake: Fake) -> None:
    store.sessions.set_ceiling(session.id, INTERNAL)
    child = store.session("ada", parent=session)
    gateway = Gateway(store, child, SERVERS, pins, connect=fake.open)
    with pytest.raises(Refused, match="ceiling"):
        call(gateway, "plans__echo")


def test_p17_without_readable_pins_nothing_is_offered_and_nothing_called(gateway: Gateway, home: Any) -> None:
    (home / "pins.json").write_text("{}")
    with pytest.raises(StorageError):
        gateway.tools()
    with pytest.raises(StorageError):
        call(gateway, "web__echo")


def test_p17_a_failure_of_the_store_is_no_yes(
    gateway: Gateway, fake: Fake, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StorageError("the disk failed")

    monkeypatch.setattr(store.flow, "dispatch", fail)
    with pytest.raises(StorageError):
        call(gateway, "web__echo")
    assert fake.acts == []


def test_p17_a_tool_that_nobody_knows_is_refused_even_by_a_policy_that_says_yes(
    gateway: Gateway, fake: Fake, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.flow, "dispatch", lambda *_: PUBLIC)
    with pytest.raises(Refused, match=r"^unknown tool: use only the listed tools$"):
        call(gateway, "nobody__knows")
    assert fake.acts == []


def test_each_result_has_a_nonce_of_its_own(store: Store, session: Session, pins: Pins, fake: Fake) -> None:
    gateway = Gateway(store, session, SERVERS, pins, connect=fake.open)
    nonces = {call(gateway, "web__echo").split("[result ")[1].split("]")[0] for _ in range(3)}
    assert len(nonces) == 3
    assert all(len(nonce) >= 32 for nonce in nonces)
