"""The session of a server process: opened when it can be, never another of its name, and refused once it has ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests.yardstick.leaks_sessions import a_reset_frees_the_name

import tidegate
from tidegate.audit.chain import Action
from tidegate.errors import INTERNAL_ERROR, InvalidArgument, Refused, StorageError
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.server.served_session import ServedSession, SessionOpener
from tidegate.session import Session
from tidegate.storage.inmemory.control_store import InMemoryControlStore
from tidegate.store import Store

AGENT, NAME = "assistant", "main"


@pytest.fixture
def opener(store: Store) -> SessionOpener:
    return SessionOpener(lambda: store, AGENT, NAME, Level.PUBLIC)


@pytest.fixture
def served(opener: SessionOpener) -> ServedSession:
    return ServedSession(opener)


def run(served: ServedSession, act: Callable[[Session], object]) -> object:
    return asyncio.run(served.run(act))


def save(session: Session) -> object:
    return session.call_tool("memory_save", {"key": "k", "content": "x"})["saved"]


def refused(served: ServedSession) -> Refused:
    """The refusal, which does not reach the session."""
    with pytest.raises(Refused) as raised:
        run(served, lambda _: pytest.fail("it was served"))
    return raised.value


def made_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> Session:
    """A session of the name, though another one had it: as no store gives it, unless a maintainer errs."""
    store.sessions.reset(store.sessions.named(AGENT, NAME).id)
    a_reset_frees_the_name(monkeypatch)
    return store.session(AGENT, NAME)


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """Let the store fail so often to open a session."""
    real, left = Store.session, [times]

    def session(*args: object, **settings: object) -> Session:
        if left[0]:
            left[0] -= 1
            raise StorageError("the store is busy; try again")
        return real(*args, **settings)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "session", session)


# Opening


def test_it_is_opened_once(served: ServedSession) -> None:
    first = run(served, lambda session: session)
    assert run(served, lambda session: session) is first


def test_what_fails_is_tried_again_at_the_next_call(served: ServedSession, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 2)
    for _ in range(2):
        with pytest.raises(StorageError, match="busy"):
            run(served, save)
    assert run(served, save) is True


def test_a_failure_that_is_not_ours_is_told_without_a_word_of_it(caplog: pytest.LogCaptureFixture) -> None:
    """P12, P17."""

    def broken() -> Session:
        raise RuntimeError("canary")

    with pytest.raises(StorageError, match=f"^{INTERNAL_ERROR}$"):
        run(ServedSession(broken), save)
    assert "RuntimeError" in caplog.text
    assert "canary" not in caplog.text


def test_calls_that_wait_while_the_opening_fails_share_its_failure(store: Store) -> None:
    waiting, opened = threading.Event(), list[int]()

    def opener() -> Session:
        opened.append(1)
        if len(opened) == 1:
            assert waiting.wait(60)
            raise StorageError("the store is busy; try again")
        return store.session(AGENT, NAME)

    async def calls(served: ServedSession) -> list[object]:
        three = [asyncio.create_task(served.run(save)) for _ in range(3)]
        while not opened:
            await asyncio.sleep(0.001)
        waiting.set()
        return await asyncio.gather(*three, return_exceptions=True)

    served = ServedSession(opener)
    assert list(map(str, asyncio.run(calls(served)))) == ["the store is busy; try again"] * 3
    assert len(opened) == 1
    assert run(served, save) is True
    assert len(opened) == 2


def test_a_store_that_was_opened_in_vain_is_closed(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 1)
    closed = list[Store]()
    monkeypatch.setattr(Store, "close", lambda store: closed.append(store))
    opener = SessionOpener(partial(tidegate.open, home), AGENT, NAME, Level.PUBLIC)
    opener.close()
    with pytest.raises(StorageError):
        opener()
    assert len(closed) == 1
    opener()
    assert len(closed) == 1
    opener.close()
    assert len(set(map(id, closed))) == 2


@pytest.mark.parametrize("settings", ["[expiry.tags]\nCANARY = 'x'", "[servers.canary]\nsource = 'RESTRICTED'"])
def test_p12_what_is_wrong_in_the_settings_is_for_the_owner_alone(home: Path, settings: str) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.toml").write_text(settings)
    told = list[str]()
    served = ServedSession(SessionOpener(partial(tidegate.open, home), AGENT, NAME, Level.PUBLIC, tell=told.append))
    with pytest.raises(InvalidArgument, match=r"^config\.toml: has an error; ask the owner to run") as raised:
        run(served, save)
    assert "canary" not in str(raised.value.to_dict()).lower()
    assert "canary" in told[0].lower()
    (home / "config.toml").unlink()
    assert run(served, save) is True


@pytest.mark.parametrize(
    ("stands", "given", "said"),
    [
        (Level.INTERNAL, Level.PUBLIC, True),
        (Level.RESTRICTED, Level.INTERNAL, True),
        (Level.INTERNAL, None, False),
        (Level.INTERNAL, Level.INTERNAL, False),
        (Level.INTERNAL, Level.CONFIDENTIAL, False),
        (None, Level.PUBLIC, False),
    ],
)
def test_a_level_below_that_of_its_session_is_told_to_the_owner_once(
    store: Store, stands: Level | None, given: Level | None, said: bool
) -> None:
    if stands is not None:
        store.session(AGENT, NAME, stands)
    told = list[str]()
    served = ServedSession(SessionOpener(lambda: store, AGENT, NAME, given, tell=told.append))
    assert run(served, save) is run(served, save) is True
    stay = f"main is already at {stands}; --level {given} does not lower it: give another name with --session, or "
    assert told == ([f"{stay}start a new conversation under this name with `tidegate session renew`"] if said else [])


# Its end (P7)


def test_p7_a_session_that_has_ended_before_it_starts_is_never_served(
    store: Store, served: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.session(AGENT, NAME)
    store.sessions.reset(store.sessions.named(AGENT, NAME).id)
    assert refused(served).message.startswith("session ended")
    a_reset_frees_the_name(monkeypatch)
    again = store.session(AGENT, NAME, Level.CONFIDENTIAL)
    assert refused(served).message.startswith("session ended")
    assert again.taint is Level.CONFIDENTIAL


def test_p7_a_session_that_ends_while_it_is_served_is_never_served_again_whoever_has_its_name(
    store: Store, served: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(served, save)
    again = made_again(store, monkeypatch)
    for _ in range(2):
        with pytest.raises(Refused, match=r"^session ended"):
            run(served, save)
    assert again.memory.get("k") is not None  # what was saved before is the agent's


def test_p7_what_it_saw_first_is_its_session_though_it_could_not_open_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.session(AGENT, NAME, Level.CONFIDENTIAL)
    failing(monkeypatch, 1)
    served = ServedSession(SessionOpener(lambda: store, AGENT, NAME, Level.INTERNAL))
    with pytest.raises(StorageError):
        run(served, save)
    again = made_again(store, monkeypatch)
    for _ in range(2):
        assert refused(served).message.startswith("session ended")
    assert again.taint is Level.PUBLIC  # nor has it raised the other


def test_p7_what_gets_the_name_after_the_look_is_not_its_session(
    store: Store, opener: SessionOpener, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = store.session(AGENT, NAME)
    monkeypatch.setattr(type(store.sessions), "id_of", lambda *_: first.id)
    made_again(store, monkeypatch)
    assert refused(ServedSession(opener)).message.startswith("session ended")


def test_p7_where_it_had_seen_none_the_one_that_it_opens_is_the_first(
    store: Store, served: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 1)
    with pytest.raises(StorageError):
        run(served, save)
    theirs = store.sessions.new(AGENT, NAME, Level.INTERNAL)
    assert run(served, lambda session: session.id) == theirs.id


def another(store: Store) -> Store:
    """A store as a process has it that starts now."""
    return Store(store._provider, toolset={})


def test_p7_a_process_that_serves_a_renewed_session_goes_on_saying_that_it_ended(
    store: Store, served: ServedSession
) -> None:
    run(served, save)
    another(store).sessions.renew(AGENT, NAME)
    again = another(store).session(AGENT, NAME, Level.PUBLIC)
    for _ in range(2):
        with pytest.raises(Refused, match="session ended"):
            run(served, save)
    assert (
        run(ServedSession(SessionOpener(lambda: another(store), AGENT, NAME, Level.PUBLIC)), lambda s: s.id) == again.id
    )


def test_p7_a_process_that_started_before_a_renewal_is_refused_though_it_had_opened_none(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 1)
    served = ServedSession(SessionOpener(lambda: another(store), AGENT, NAME, Level.PUBLIC))
    with pytest.raises(StorageError):
        run(served, save)
    store.session(AGENT, NAME, Level.CONFIDENTIAL)
    another(store).sessions.renew(AGENT, NAME)
    for _ in range(2):
        assert refused(served).message.startswith("session ended")
    assert another(store).session(AGENT, NAME, Level.PUBLIC).taint is Level.PUBLIC


def test_p7_a_process_that_could_not_read_the_store_is_refused_a_name_that_was_ever_renewed(store: Store) -> None:
    def opened(name: str) -> ServedSession:
        stores = iter([None, store])

        def open_store() -> Store:
            found = next(stores)
            if found is None:
                raise StorageError("the store is busy; try again")
            return found

        return ServedSession(SessionOpener(open_store, AGENT, name, Level.PUBLIC))

    store.session(AGENT, NAME)
    another(store).sessions.renew(AGENT, NAME)
    for name, told in ((NAME, "session ended"), ("other", "")):
        served = opened(name)
        with pytest.raises(StorageError):
            run(served, save)
        if told:
            assert refused(served).message.startswith(told)
        else:
            assert run(served, save) is True


def test_p7_a_name_that_may_be_a_lost_sessions_is_refused_for_good(
    store: Store, served: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = Refused("sessions are lost: control.db is an older copy", rule=tidegate.policy.decisions.PolicyRule.P4)

    def session(*_: object, **__: object) -> Session:
        raise lost

    with monkeypatch.context() as patch:
        patch.setattr(Store, "session", session)
        assert refused(served).message == lost.message
    store.session(AGENT, NAME)
    assert refused(served).message == lost.message


def test_p4_a_ceiling_that_the_owner_lifts_is_tried_again(store: Store) -> None:
    row = store.sessions.new(AGENT, NAME, Level.PUBLIC, Level.INTERNAL)
    served = ServedSession(SessionOpener(lambda: store, AGENT, NAME, Level.RESTRICTED))
    assert "ceiling" in refused(served).message
    store.sessions.set_ceiling(row.id, Level.RESTRICTED)
    assert run(served, lambda session: session.taint) is Level.RESTRICTED


def test_p7_an_older_copy_revives_no_session_that_it_knows_has_ended_and_each_refusal_is_entered(
    store: Store, served: ServedSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(served, save)
    row = store.sessions.named(AGENT, NAME)
    store.sessions.reset(row.id)
    for _ in range(3):
        with pytest.raises(Refused):
            run(served, save)
    entered = list(store.owner(AGENT).find_audit_lines(AuditFilter(actions=frozenset({Action.REFUSE}))))
    assert len(entered) == 3
    monkeypatch.setattr(InMemoryControlStore, "read", lambda *_: row)
    assert refused(served).message.startswith("session ended")
