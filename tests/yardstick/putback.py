"""An older copy of the control store put back after a random history: what must not follow from it (P4, P7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from tests.yardstick import traces as t
from tests.yardstick.backends import Backend
from tests.yardstick.worlds import World

from tidegate.errors import Refused, StorageError, TidegateError
from tidegate.policy.levels import Level
from tidegate.storage.control import SessionRow
from tidegate.store import Store
from tidegate.tools import TOOLS


def put_back_wrongs(backend: Backend, steps: t.Trace, taken: int) -> list[str]:
    """What is wrong when the copy taken before step `taken` replaces the control store at the end."""
    world = World(backend)
    older: object = None
    for at, step in enumerate(steps):
        if at == taken:
            world.close()
            older = backend.control()
            world.reopen()
        world.step(step)
    agents = sorted({step.op.seat.agent for step in steps if not isinstance(step.op, t.Restart)})
    newer = [row for agent in agents for row in world.rows(agent)]
    world.close()
    backend.put_back(older)
    numbers = iter(range(10**6))
    with Store(backend.provider(), toolset=TOOLS, ids=lambda: f"after-{next(numbers)}") as store:
        before = world.names_before
        renewed = [row for row in newer if row.id in before and _is_resumed(store, row, before[row.id])]
        wrong = list(_wrongs(store, [row for row in newer if row.id not in before]))
        return [f"{row.id}: renewed, and resumed" for row in renewed] + wrong


def _wrongs(store: Store, newer: list[SessionRow]) -> Iterator[str]:
    for row in newer:
        assert row.name is not None
        with suppress(TidegateError):
            found = store.resume(row.agent, row.name)
            yield from _against(found.taint, row, "resumed")
        with suppress(Refused, StorageError):
            opened = store.session(row.agent, row.name, Level.PUBLIC)
            if opened.id == row.id:
                yield from _against(opened.taint, row, "opened again")
            elif _has_acted(store, row):
                yield f"{row.name}: a lost session's name was given again"
    for agent in {row.agent for row in newer}:
        try:
            store.owner(agent).end_lost()
            if store.owner(agent).lost():
                yield "what was lost is not ended"
            store.session(agent, "a new one")
        except StorageError:
            continue  # older than the agent's compartments, which it therefore takes for another's: all is refused
    for row in newer:
        now = store.sessions.read(row.id)
        if now is not None and row.ended and not now.ended and store.sessions.read(row.id) == now:
            with suppress(Refused, StorageError):
                store.resume(row.agent, row.name or "")
                yield f"{row.name}: lives again"


def _is_resumed(store: Store, row: SessionRow, name: str) -> bool:
    """Whether the name that a session had is answered by it again."""
    with suppress(TidegateError):
        return store.resume(row.agent, name).id == row.id
    return False


def _against(taint: Level, row: SessionRow, how: str) -> Iterator[str]:
    if row.ended:
        yield f"{row.name}: ended, and was {how}"
    if taint < row.taint:
        yield f"{row.name}: {how} at {taint} and stood at {row.taint}"


def _has_acted(store: Store, row: SessionRow) -> bool:
    """Whether any chain holds more of it than that it was opened."""
    entries = Counter(
        line.entry.event.action.value
        for line in store.owner(row.agent).find_audit_lines()
        if line.entry.event.session == row.id
    )
    return entries.total() > entries["open"]
