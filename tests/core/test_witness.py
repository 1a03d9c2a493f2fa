"""An older copy of the control store, put back: no taint falls, nothing ended lives, no lost name is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import apsw
import pytest
from tests.storage.scene import numbered, ticking
from tests.yardstick.backends import BACKENDS, Backend, SqliteBackend

from tidegate.audit.chain import Action
from tidegate.core import witness
from tidegate.core.audit_log import Chain
from tidegate.errors import Refused, StorageError
from tidegate.policy.levels import Level
from tidegate.policy.servers import Classification, Pin
from tidegate.storage.control import SessionRow
from tidegate.store import Store
from tidegate.tools import TOOLS

AGENT = "assistant"


class Home:
    """A home that is opened for one act at a time."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._ids, self._clock = numbered(), ticking()

    def open(self) -> Store:
        return Store(
            self.backend.provider(), toolset=TOOLS, clock=self._clock, ids=self._ids, default_level=Level.PUBLIC
        )

    def row(self, name: str = "main") -> SessionRow:
        """As the control store has it."""
        with self.open() as store:
            return next(row for row in store.sessions.list(AGENT) if row.name == name)

    def entered(self, level: Level) -> list[str]:
        with closing(self.open()) as store, store._provider.owner_compartment(AGENT, level) as owner_compartment:
            return [str(entry.event.action) for entry in owner_compartment.entries()]

    def resumed(self, name: str = "main") -> Level:
        with self.open() as store:
            return store.resume(AGENT, name).taint

    def opened(self, name: str = "main", level: Level = Level.PUBLIC) -> Level:
        with self.open() as store:
            return store.session(AGENT, name, level).taint


@pytest.fixture(params=sorted(BACKENDS))
def home(request: pytest.FixtureRequest) -> Iterator[Home]:
    """A home with a session "main" that has saved something."""
    backend = BACKENDS[request.param]()
    home = Home(backend)
    with home.open() as store:
        store.session(AGENT, "main").memory.save("k", "words")
    yield home
    backend.close()


@pytest.fixture
def older(home: Home) -> object:
    """The control store as it was then."""
    return home.backend.control()


def test_p4_a_session_is_resumed_at_the_highest_level_that_an_entry_of_its_raise_stands_in(
    home: Home, older: object
) -> None:
    with home.open() as store:
        store.session(AGENT, "main", Level.INTERNAL).raise_taint(Level.CONFIDENTIAL)
    home.backend.put_back(older)
    assert home.resumed() is Level.CONFIDENTIAL
    assert home.row().taint is Level.CONFIDENTIAL
    assert home.entered(Level.CONFIDENTIAL) == ["raise"]  # nothing more: it has been entered


def test_p4_a_session_is_opened_again_at_that_level_whatever_is_asked_for(home: Home, older: object) -> None:
    with home.open() as store:
        store.session(AGENT, "main", Level.CONFIDENTIAL)
    home.backend.put_back(older)
    assert home.opened(level=Level.INTERNAL) is Level.CONFIDENTIAL


def test_p4_a_call_of_a_servers_tool_counts_as_a_raise(home: Home, older: object) -> None:
    source = Classification(source=Level.RESTRICTED, sink=Level.RESTRICTED)
    with home.open() as store:
        session = store.session(AGENT, "main")
        store.flow.dispatch(session.id, "s.t", source, Pin.TRUSTED)
    home.backend.put_back(older)
    assert home.resumed() is Level.RESTRICTED


def test_p4_above_its_ceiling_it_is_refused_until_the_owner_sets_that(home: Home) -> None:
    with home.open() as store:
        store.sessions.set_ceiling(store.sessions.find(AGENT, "main").id, Level.INTERNAL)
    older = home.backend.control()
    with home.open() as store:
        store.sessions.set_ceiling(store.sessions.find(AGENT, "main").id, Level.RESTRICTED)
        store.session(AGENT, "main", Level.RESTRICTED)
    home.backend.put_back(older)
    for act in (home.opened, home.resumed):
        with pytest.raises(Refused):
            act()
    assert home.row().taint is Level.PUBLIC
    with home.open() as store:
        store.sessions.set_ceiling(store.sessions.named(AGENT, "main").id, Level.RESTRICTED)
    assert home.resumed() is Level.RESTRICTED


def test_p7_what_has_ended_stays_ended_and_keeps_its_level(home: Home, older: object) -> None:
    with home.open() as store:
        store.session(AGENT, "main", Level.INTERNAL)
        store.sessions.reset(store.sessions.find(AGENT, "main").id)
    home.backend.put_back(older)
    for act in (home.opened, home.resumed):
        with pytest.raises(Refused, match="ended"):
            act()
    assert (home.row().ended, home.row().taint) == (True, Level.INTERNAL)


def test_p7_what_has_ended_above_the_ceiling_of_an_older_copy_has_ended(home: Home) -> None:
    with home.open() as store:
        store.sessions.set_ceiling(store.sessions.find(AGENT, "main").id, Level.PUBLIC)
    older = home.backend.control()
    with home.open() as store:
        row = store.sessions.find(AGENT, "main")
        store.sessions.set_ceiling(row.id, Level.INTERNAL)
        store.sessions.raise_taint(row.id, Level.INTERNAL)
        store.sessions.reset(row.id)
    home.backend.put_back(older)
    with pytest.raises(Refused, match="ended"):
        home.resumed()
    row = home.row()  # no session stands above its ceiling: a backup with such a one is none
    assert (row.ended, row.taint, row.ceiling) == (True, Level.INTERNAL, Level.INTERNAL)


def test_p7_a_child_does_not_outlive_a_parent_whose_end_the_audit_alone_knows(home: Home) -> None:
    with home.open() as store:
        store.session(AGENT, "child", parent=store.session(AGENT, "main"))
    older = home.backend.control()
    with home.open() as store:
        store.sessions.reset(store.sessions.find(AGENT, "main").id)
    home.backend.put_back(older)
    with pytest.raises(Refused, match="ended"):
        home.resumed("child")


def test_of_a_parent_without_a_name_nothing_is_put_back(home: Home) -> None:
    with home.open() as store:
        parent = store.session(AGENT)
        store.session(AGENT, "child", parent=parent)
        parent.raise_taint(Level.INTERNAL)
        assert store.resume(AGENT, "child").taint is Level.PUBLIC


def test_p4_a_name_is_not_given_while_a_session_that_has_acted_is_lost(home: Home, older: object) -> None:
    home.opened("alone")
    with home.open() as store:
        store.session(AGENT, "lost").raise_taint(Level.RESTRICTED)
    home.backend.put_back(older)
    with home.open() as store:
        for name in ("lost", "another"):
            with pytest.raises(Refused, match="older copy"):
                store.session(AGENT, name)
            with pytest.raises(Refused, match="older copy"):
                store.sessions.new(AGENT, name, Level.PUBLIC)
        assert store.session(AGENT).taint is Level.PUBLIC  # without a name
        assert store.session(AGENT, "main").taint is Level.PUBLIC  # known
        assert store.session("second", "lost").taint is Level.PUBLIC  # P6


def test_what_was_opened_and_did_nothing_more_may_have_been_cut_short_and_keeps_nobody(
    home: Home, older: object
) -> None:
    home.opened("alone")
    home.backend.put_back(older)
    assert home.opened("alone", Level.INTERNAL) is Level.INTERNAL


def test_p7_the_owner_who_has_looked_ends_what_is_lost_and_names_are_given_again(home: Home, older: object) -> None:
    with home.open() as store:
        first, second = store.session(AGENT, "first"), store.session(AGENT, "second", Level.INTERNAL)
        first.conversation.append(["said"])
        second.raise_taint(Level.CONFIDENTIAL)
        store.sessions.reset(second.id)
        lost = [first.id, second.id]
    home.backend.put_back(older)
    with home.open() as store:
        owner = store.owner(AGENT)
        expected = [(lost[0], Level.PUBLIC, False), (lost[1], Level.CONFIDENTIAL, True)]
        assert sorted((row.id, row.taint, row.ended) for row in owner.lost()) == sorted(expected)
        assert owner.end_lost()
        assert owner.lost() == []
        assert store.session(AGENT, "first").taint is Level.PUBLIC
        for session in lost:
            with pytest.raises(Refused, match="ended"):
                store.sessions.living(session)
    assert home.entered(Level.PUBLIC).count("purge") == 1  # what was said in it


def test_p9_what_is_lost_is_not_ended_where_that_cannot_be_entered_and_it_can_be_run_again(
    home: Home, older: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    with home.open() as store:
        store.session(AGENT, "lost").memory.save("k", "words")
    home.backend.put_back(older)

    def fails(*_: object) -> None:
        raise StorageError("the disk is full")

    with home.open() as store:
        owner = store.owner(AGENT)
        with monkeypatch.context() as patch:
            patch.setattr(Chain, "append", fails)
            with pytest.raises(StorageError):
                owner.end_lost()
        (row,) = owner.lost()
        assert owner.end_lost()
        assert witness.end_lost(store._provider, store._audit_log, row)  # as if another had looked at the same moment
        assert owner.lost() == []
    assert home.entered(Level.PUBLIC)[-1] == "reset"
    assert home.entered(Level.PUBLIC).count("reset") == 1


def test_a_lost_session_is_found_behind_those_that_were_opened_since(home: Home, older: object) -> None:
    with home.open() as store:
        store.session(AGENT, "lost").memory.save("k", "words")
    home.backend.put_back(older)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(witness.Witnesses, "require_all_known", lambda *_: None)
        home.opened("since")
    with home.open() as store:
        assert len(store.owner(AGENT).lost()) == 1


def test_an_id_that_somebody_bears_as_a_name_is_lent_to_no_other(home: Home, older: object) -> None:
    with home.open() as store:
        session = store.session(AGENT, "lost")
        session.memory.save("k", "words")
    home.backend.put_back(older)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(witness.Witnesses, "require_all_known", lambda *_: None)
        home.opened(session.id)
    with home.open() as store:
        assert [row.name for row in store.owner(AGENT).lost()] == [f"{session.id}'"]


def test_p4_a_raise_during_the_look_is_not_undone_by_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    older = home.backend.control()
    home.opened(level=Level.INTERNAL)
    home.backend.put_back(older)
    with home.open() as store:
        asked = witness._testimony

        def overtaken(*arguments: object) -> witness.Testimony:
            said = asked(*arguments)  # type: ignore[arg-type]
            store.sessions.raise_taint(store.sessions.named(AGENT, "main").id, Level.CONFIDENTIAL)
            return said

        monkeypatch.setattr(witness, "_testimony", overtaken)
        assert store.resume(AGENT, "main").taint is Level.CONFIDENTIAL


def test_p4_whoever_marks_by_the_taint_is_told_of_it(home: Home, older: object) -> None:
    home.opened(level=Level.INTERNAL)
    home.backend.put_back(older)
    told: list[Level] = []
    with home.open() as store:
        store.sessions.on_raise(store.sessions.named(AGENT, "main").id, told.append)
        store.resume(AGENT, "main")
    assert told == [Level.INTERNAL]


def test_p7_a_reset_clears_what_was_said_above_the_level_of_an_older_copy(home: Home, older: object) -> None:
    with home.open() as store:
        store.session(AGENT, "main", Level.INTERNAL).conversation.append(["said"])
    home.backend.put_back(older)
    with home.open() as store:
        assert store.sessions.reset(store.sessions.named(AGENT, "main").id)
    assert home.entered(Level.INTERNAL).count("purge") == 1


def test_a_restored_agent_gets_new_sessions_though_a_name_in_its_backup_was_taken(home: Home, tmp_path: object) -> None:
    path = f"{tmp_path}/backup"
    with home.open() as store:
        ended = store.session(AGENT, "main").id
        store.transfer(AGENT).backup(path)
    other = Home(type(home.backend)())
    other._ids = numbered("other")
    with other.open() as store:
        store.session(AGENT, "main").memory.save("k", "words")
        store.owner(AGENT).erase()
        store.transfer(AGENT).restore_backup(path)
        assert store.sessions.living(store.session(AGENT, "new").id).name == "new"
        row = store.sessions.read(ended)
        assert row is not None
        assert (row.name, row.ended) == ("main'", True)
    other.backend.close()


def test_erased_agents_have_no_chain_and_new_lives_begin(home: Home) -> None:
    with home.open() as store:
        store.owner(AGENT).erase()
        with pytest.raises(Refused, match="ended"):
            store.resume(AGENT, "main")
        assert store.session(AGENT, "new").taint is Level.PUBLIC


def test_p7_what_was_lost_in_a_later_life_of_its_agent_is_ended_with_what_was_said_in_it(home: Home) -> None:
    with home.open() as store:
        store.owner(AGENT).erase()
        store.session(AGENT, "first").memory.save("k", "words")
    older = home.backend.control()
    with home.open() as store:
        store.session(AGENT, "second").conversation.append(["said"])
    home.backend.put_back(older)
    with home.open() as store:
        assert store.owner(AGENT).end_lost()
        assert store.owner(AGENT).lost() == []
    assert home.entered(Level.PUBLIC)[-2:] == ["purge", "reset"]


@pytest.mark.parametrize("level", Level)
def test_p17_a_chain_that_cannot_be_read_refuses_the_session_in_the_same_words(level: Level) -> None:
    backend = SqliteBackend()
    home = Home(backend)
    home.opened()
    (backend.home / "agents" / AGENT / f"{level.name.lower()}.db").write_bytes(b"no database at all " * 1000)
    said: set[str] = set()
    with home.open() as store:
        for name in ("main", "new"):
            with pytest.raises(StorageError) as refused:
                store.session(AGENT, name)
            said.add(str(refused.value))
    (words,) = said
    assert not any(each.name in words for each in Level)
    backend.close()


def test_p17_an_entry_that_is_no_text_refuses_the_session_in_those_words_too() -> None:
    backend = SqliteBackend()
    home = Home(backend)
    home.opened()
    with closing(apsw.Connection(str(backend.home / "agents" / AGENT / "restricted.db"))) as connection:
        entry = "(1, 0, CAST(x'ff' AS TEXT), 'open', '', '', '', '')"
        connection.execute(f"INSERT INTO audit VALUES {entry}").fetchall()
    with home.open() as store, pytest.raises(StorageError, match="the audit cannot be read"):
        store.session(AGENT, "new")
    backend.close()


def test_p5_nothing_but_opening_asks_the_chains(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with home.open() as store:
        session = store.session(AGENT, "main")
        asked: list[str] = []
        monkeypatch.setattr(type(store._provider), "witnesses", lambda *_: asked.append("asked"))
        session.memory.save("k", "other")
        session.memory.get("k")
        session.raise_taint(Level.INTERNAL)
        store.session(AGENT).memory.search("words")
    assert asked == []
    assert Action.RAISE in home.entered(Level.INTERNAL)
