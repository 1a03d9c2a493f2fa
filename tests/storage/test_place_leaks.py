"""Seeded leaks of places and lives: with each of them a secret gets to a session that may not see it, and it is found.

The traces of the harness put no file in another's place, and erase nothing from another process: so here it is done.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.storage.scene import database, raw
from tests.yardstick.leaks import Fault, Patch, replaced

import tidegate
from tidegate import Level, Session, TidegateError
from tidegate.audit.chain import Place
from tidegate.core.sessions import Sessions
from tidegate.storage.sqlite import places as sqlite_places
from tidegate.storage.sqlite.control_store import SqliteControlStore
from tidegate.storage.sqlite.places import Places

AGENT = "assistant"


def found(home: Path) -> Iterator[str]:
    """What gets out of a home in which files are put in others' places, and an agent is erased by another process."""
    for level, agent in ((Level.RESTRICTED, AGENT), (Level.PUBLIC, "other")):
        for forged in (False, True):
            yield from _swapped(home / f"{agent} {level} {forged}", level, agent, forged=forged)
    yield from _outlived(home / "outlived")


def _swapped(home: Path, level: Level, agent: str, *, forged: bool) -> Iterator[str]:
    """forged: with the id of the place as well, which only the chain can show."""
    home.mkdir(parents=True)
    (home / "key").write_bytes(b"k" * 32)
    (home / "config.toml").write_text('[audit]\nkey_file = "key"\n')
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "public")
        store.session(agent, level=level).memory.save("k", "secret")
    own = raw(database(home), "SELECT id FROM compartment")[0]
    shutil.copyfile(database(home, level, agent), database(home))
    raw(database(home), "UPDATE compartment SET agent = ?, level = 'PUBLIC'", bindings=(AGENT,))
    raw(database(home), "UPDATE records SET level = 'PUBLIC'")
    if forged:
        raw(database(home), "UPDATE compartment SET id = ?", bindings=own)
    with tidegate.open(home) as store, suppress(TidegateError):
        if not forged and _reads(store.session(AGENT, level=Level.PUBLIC), "secret"):
            yield f"read the file of {agent} {level}"
        if store.owner(AGENT).verify(Level.PUBLIC)[0].holds:
            yield f"the chain of {agent} {level} holds in another place"


def _outlived(home: Path) -> Iterator[str]:
    with tidegate.open(home) as theirs, tidegate.open(home) as ours:
        session = theirs.session(AGENT, level=Level.PUBLIC)
        session.memory.save("k", "first life")
        ours.owner(AGENT).erase()
        ours.session(AGENT, level=Level.PUBLIC).memory.save("k", "secret")
        if _reads(session, "secret"):
            yield "a session has outlived its agent"


def _reads(session: Session, content: str) -> bool:
    for _ in range(2):  # the first look may meet a file that is not there any more
        with suppress(TidegateError):
            memory = session.memory.get("k")
            return memory is not None and memory.content == content
    return False


def the_chain_is_not_bound_to_its_place(patch: Patch) -> None:
    patch.setattr(Place, "fields", [])


def the_chain_is_bound_to_the_agent_alone(patch: Patch) -> None:
    patch.setattr(Place, "fields", property(lambda self: [self.agent]))


def the_chain_is_bound_to_the_level_alone(patch: Patch) -> None:
    patch.setattr(Place, "fields", property(lambda self: [self.level]))


def a_file_is_taken_for_what_it_says_that_it_is(patch: Patch) -> None:
    @replaced(patch, Places, "id_of")
    def id_of(_: Fault, self: Places, connection: Any, *place: Any) -> Any:
        return sqlite_places._id_of(connection)


def the_life_of_an_agent_is_ignored(patch: Patch) -> None:
    @replaced(patch, Sessions, "_as_of_now")
    def as_of_now(_: Fault, self: Sessions, row: Any) -> Any:
        return row


def an_erasure_ends_what_is_stored_and_no_life(patch: Patch) -> None:
    @replaced(patch, SqliteControlStore, "end_life")
    def end_life(_: Fault, self: SqliteControlStore, agent: str) -> None:
        for row in self.sessions(agent):
            self.end(row.id)
        self._change("DELETE FROM compartments WHERE agent = ?", (agent,))


LEAKS: list[Callable[[Patch], None]] = [
    the_chain_is_not_bound_to_its_place,
    the_chain_is_bound_to_the_agent_alone,
    the_chain_is_bound_to_the_level_alone,
    a_file_is_taken_for_what_it_says_that_it_is,
    the_life_of_an_agent_is_ignored,
    an_erasure_ends_what_is_stored_and_no_life,
]


@pytest.mark.parametrize("leak", LEAKS, ids=lambda leak: leak.__name__)
def test_the_leak_is_found(leak: Callable[[Patch], None], home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leak(monkeypatch)
    assert list(found(home))


def test_without_a_leak_nothing_is_found(home: Path) -> None:
    assert list(found(home)) == []
