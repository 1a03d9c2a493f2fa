"""P5 and P6 at the surfaces: no answer of a server, a command or a chat depends on what is above it or beside it.

Few traces go through real processes at each commit, since each takes dozens of them; in the long run more do. The
processes of the first are started, those of the others forked from one that has loaded the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from tests.agent.agent_world import through_the_agent
from tests.conftest import Run
from tests.yardstick import traces as t
from tests.yardstick.backends import SqliteBackend
from tests.yardstick.effort import portions
from tests.yardstick.forks import forking
from tests.yardstick.generate import observed_trace
from tests.yardstick.interference import differences
from tests.yardstick.surfaces import ChatWorld, CommandWorld, McpProcessWorld, McpWorld, script, told_apart
from tests.yardstick.worlds import World

from tidegate.cli import chat_session as chat
from tidegate.cli import memory as cli_memory
from tidegate.cli import output
from tidegate.config.settings import ChatSettings
from tidegate.policy.levels import Level
from tidegate.server import resources
from tidegate.session import Session
from tidegate.store import Store

LENGTH = 10


@pytest.fixture(scope="module")
def backend() -> Iterator[SqliteBackend]:
    made = SqliteBackend()
    yield made
    made.close()


@pytest.fixture(scope="module")
def forked() -> Iterator[Run]:
    with forking() as run:
        yield run


@pytest.fixture(autouse=True)
def _scripted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CHAT_MODEL", script(tmp_path / "script.json"))


def check(
    made: Callable[..., World], backend: SqliteBackend, seed: str, change: Callable[[t.Trace], t.Trace] = tuple
) -> None:
    """One trace in two worlds, by way of a surface."""
    steps, observer = observed_trace(seed, LENGTH)
    steps = change(steps)
    assert list(told_apart(made, backend, steps, observer)) == [], f"{observer}, seed {seed!r}\n{t.show(steps)}"


def seeds(usual: int, deep: int, size: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "seeds", portions(usual, deep, size=size), ids=lambda seeds: f"{seeds.start}-{seeds.stop - 1}"
    )


@seeds(40, 2_000, 20)
def test_no_answer_of_a_server(backend: SqliteBackend, seeds: range) -> None:
    for seed in seeds:
        steps, observer = observed_trace(f"server {seed}", LENGTH)
        assert differences(backend, steps, observer, McpWorld) == [], f"seed 'server {seed}'"


@seeds(40, 2_000, 20)
def test_no_answer_of_a_command(backend: SqliteBackend, seeds: range, cli: Run) -> None:
    for seed in seeds:
        check(partial(CommandWorld, command=cli, named=False), backend, f"command {seed}")


@seeds(10, 1_000, 5)
def test_no_answer_of_a_chat(backend: SqliteBackend, seeds: range, cli: Run) -> None:
    for seed in seeds:
        check(partial(ChatWorld, command=cli, named=False), backend, f"chat {seed}", through_the_agent)


@seeds(4, 40, 2)
def test_no_answer_of_a_server_that_is_a_process(backend: SqliteBackend, seeds: range) -> None:
    for seed in seeds:
        check(McpProcessWorld, backend, f"server process {seed}")


@seeds(4, 40, 2)
def test_no_answer_of_a_command_that_is_a_process(
    backend: SqliteBackend, seeds: range, process: Run, forked: Run
) -> None:
    for seed in seeds:
        made = partial(CommandWorld, command=forked if seed else process, named=True)
        check(made, backend, f"command process {seed}")


@seeds(4, 40, 2)
def test_no_answer_of_a_chat_that_is_a_process(backend: SqliteBackend, seeds: range, process: Run, forked: Run) -> None:
    for seed in seeds:
        made = partial(ChatWorld, command=forked if seed else process, named=True)
        check(made, backend, f"chat process {seed}", through_the_agent)


def test_a_command_answers_alike_started_and_forked(backend: SqliteBackend, process: Run, forked: Run) -> None:
    place = ["--home", str(backend.home), "--agent", "alike", "--level", "INTERNAL"]
    assert forked("save", "k", "v", *place).code == 0
    for words in (["get", "k", "--json"], ["get", "nothing"], ["lost"], ["chat", "--message", "hello", *place[2:4]]):
        assert forked(*words, *place) == process(*words, *place)


# What a maintainer could add to a surface, and must be found


def hidden(session: Session) -> int:
    """How many memories there are, wherever they are."""
    with session._gate._views.view(session.agent, Level.RESTRICTED) as view:
        return sum(each.statistics().documents for each in view.visible)


def test_a_resource_that_counts_what_is_hidden_is_found(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def read(offers: resources.MemoryResources) -> tuple[str, dict[str, object]]:
        return f"{await offers.tools.served.run(hidden)} memories", {}

    monkeypatch.setattr(resources.MemoryResources, "_read", read)
    traces = (observed_trace(f"server {seed}", LENGTH) for seed in range(40))
    assert any(differences(backend, *trace, McpWorld) for trace in traces)


def test_a_remark_that_counts_what_is_hidden_is_found(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, cli: Run
) -> None:
    whole = cli_memory.open_session

    @contextmanager
    def remarking() -> Iterator[Session]:
        with whole() as session:
            output.warn(f"{hidden(session)} in all")
            yield session

    monkeypatch.setattr(cli_memory, "open_session", remarking)
    made = partial(CommandWorld, command=cli, named=False)
    assert any(any(told_apart(made, backend, *observed_trace(f"command {seed}", LENGTH))) for seed in range(40))


def test_a_greeting_that_counts_what_is_hidden_is_found(
    backend: SqliteBackend, monkeypatch: pytest.MonkeyPatch, cli: Run
) -> None:
    whole = chat.open_session

    def greeting(store: Store, place: chat.ChatPlace, settings: ChatSettings) -> Session:
        session = whole(store, place, settings)
        output.warn(f"{hidden(session)} in all")
        return session

    monkeypatch.setattr(chat, "open_session", greeting)
    made = partial(ChatWorld, command=cli, named=False)
    assert any(any(told_apart(made, backend, *observed_trace(f"chat {seed}", LENGTH))) for seed in range(40))
