"""Verification: a changed, removed, moved or cut entry is found and named, and so is a change without an entry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import apsw
import pytest
from tests.core.scene import AGENT, Scene
from tests.storage.scene import database

import tidegate
from tidegate.audit.anchors import Anchor
from tidegate.audit.chain import GENESIS, Entry, Pen, Place, chain, commitment_of
from tidegate.audit.verify import PROBLEMS_MAX, ChainVerdict
from tidegate.errors import InvalidArgument, NotFound, StorageError
from tidegate.policy.levels import Level
from tidegate.records.record import Record
from tidegate.storage.inmemory.provider import InMemoryProvider
from tidegate.store import Store
from tidegate.tools import TOOLS

PUBLIC = Level.PUBLIC
FORGED = "0" * 64
MOVED = "level, content, tags, origin, nonce, created_at, updated_at, deleted_at"
COPY = f"kind, key, version + 40, {MOVED}"
MOVE = f"INSERT INTO versions SELECT kind, key, version, {MOVED} FROM records WHERE key = 'k'"
SET_ASIDE = "CREATE TEMP TABLE aside AS SELECT * FROM records WHERE key = 'k'"
ROLL_BACK = """UPDATE records SET (content, tags, nonce) =
    (SELECT content, tags, nonce FROM versions WHERE key = 'k') WHERE key = 'k'"""
EXCHANGE = f"{ROLL_BACK}; UPDATE records SET version = 1 WHERE key = 'k'"
TAKE_PLACE = "UPDATE versions SET (content, tags, nonce) = (SELECT content, tags, nonce FROM aside)"


@pytest.fixture
def store(home: Path) -> Store:
    """A home with ten entries in the chain of PUBLIC: k saved twice, six others, one deleted, one left."""
    with tidegate.open(home) as made:
        memory = made.session(AGENT, level=Level.PUBLIC).memory
        memory.save("k", "one")
        memory.save("k", "two")
        for number in range(7):
            memory.save(f"k{number}", f"text {number}")
        memory.delete("k0")
        return made


def spoil(home: Path, *statements: str) -> None:
    """Change a file behind the program's back."""
    connection = apsw.Connection(str(database(home)), flags=apsw.SQLITE_OPEN_READWRITE)
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def verdict(home: Path, anchors: Sequence[Anchor] = ()) -> ChainVerdict:
    with tidegate.open(home) as store:
        (found,) = store.owner(AGENT).verify(PUBLIC, anchors=anchors)
        return found


def problems(home: Path, anchors: Sequence[Anchor] = ()) -> list[tuple[int | None, str]]:
    return [(problem.sequence, problem.text) for problem in verdict(home, anchors).problems]


def contents(home: Path) -> tuple[list[Record], list[Entry]]:
    with tidegate.open(home) as store, store._provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        return [record for record, _ in owner_compartment.every_version()], list(owner_compartment.entries())


def place_of(home: Path) -> Place:
    with tidegate.open(home) as store, store._provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        return owner_compartment.place


def heads(home: Path) -> list[Anchor]:
    with tidegate.open(home) as store:
        return store.owner(AGENT).anchor()


@pytest.mark.usefixtures("store")
class TestAChain:
    """What `verify` finds in a chain."""

    def test_that_was_left_alone_holds_to_its_head(self, home: Path) -> None:
        found = verdict(home)
        assert (found.holds, found.entries, found.keyed_from, found.anchored_to) == (True, 10, None, None)
        assert found.head == next(head.hash for head in heads(home) if head.level is PUBLIC)

    @pytest.mark.parametrize(
        "change",
        [
            "session = 'another'",
            "action = 'read'",
            "action = 'no such action'",
            "detail = detail || ' '",
            f"commitment = '{FORGED}'",
            "at = at + 1",
            "at = 9000000000000000000",
            "at = -1",
            f"hash = '{FORGED}'",
            "detail = CAST(x'ff' AS TEXT)",
        ],
    )
    def test_with_a_changed_entry_breaks_at_that_entry(self, home: Path, change: str) -> None:
        spoil(home, f"UPDATE audit SET {change} WHERE sequence = 4")
        ((sequence, text),) = problems(home)
        assert (sequence, verdict(home).entries) == (4, 3)
        assert "changed" in text

    def test_with_a_removed_entry_breaks_where_it_is_missing(self, home: Path) -> None:
        spoil(home, "DELETE FROM audit WHERE sequence = 4")
        assert problems(home) == [(4, "the entry is missing")]

    def test_with_a_removed_entry_whose_gap_was_closed_breaks_there(self, home: Path) -> None:
        spoil(
            home,
            "DELETE FROM audit WHERE sequence = 4",
            "UPDATE audit SET sequence = -sequence WHERE sequence > 4",
            "UPDATE audit SET sequence = -sequence - 1 WHERE sequence < 0",
        )
        ((sequence, text),) = problems(home)
        assert (sequence, "does not follow" in text) == (4, True)

    def test_with_two_entries_exchanged_breaks_at_the_first_of_them(self, home: Path) -> None:
        spoil(
            home, *(f"UPDATE audit SET sequence = {to} WHERE sequence = {at}" for at, to in ((4, -1), (5, 4), (-1, 5)))
        )
        ((sequence, text),) = problems(home)
        assert (sequence, "does not follow" in text) == (4, True)

    def test_with_an_entry_before_the_first_breaks_at_once(self, home: Path) -> None:
        spoil(
            home, "INSERT INTO audit SELECT 0, at, session, action, detail, '', previous_hash, hash FROM audit LIMIT 1"
        )
        assert [sequence for sequence, _ in problems(home)] == [1]

    def test_whose_tail_was_cut_is_found_only_by_its_anchor(self, home: Path) -> None:
        anchors = heads(home)
        # Those who cut the entries also take back what they tell of.
        spoil(home, "DELETE FROM audit WHERE sequence > 9", "UPDATE records SET deleted_at = NULL")
        assert problems(home) == []
        ((sequence, text),) = problems(home, anchors)
        assert (sequence, "anchored at 10" in text) == (10, True)

    def test_that_was_emptied_is_found_by_its_anchor(self, home: Path) -> None:
        anchors = heads(home)
        spoil(home, "DELETE FROM audit", "DELETE FROM records", "DELETE FROM versions")
        assert problems(home) == []
        assert [sequence for sequence, _ in problems(home, anchors)] == [1]

    def test_that_was_made_anew_is_found_by_its_anchor_alone(self, home: Path) -> None:
        anchors = heads(home)
        with tidegate.open(home) as store:
            store.owner(AGENT).erase()
            for number in range(10):
                store.session(AGENT, level=Level.PUBLIC).memory.save(f"forged {number}", "text")
        assert problems(home) == []
        ((sequence, text),) = problems(home, anchors)
        assert (sequence, "was rebuilt" in text) == (10, True)

    def test_says_up_to_which_anchor_it_is_proven(self, home: Path) -> None:
        anchors = heads(home)
        with tidegate.open(home) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.save("later", "text")
            later = store.owner(AGENT).anchor()
        assert verdict(home, anchors).anchored_to == 10
        assert verdict(home, [*anchors, *later]).anchored_to == 11

    def test_of_another_agent_is_not_proven_by_an_anchor(self, home: Path) -> None:
        anchors = [replace(anchor, agent="another") for anchor in heads(home)]
        with pytest.raises(InvalidArgument, match="no anchor of this agent"):
            verdict(home, anchors)


@pytest.mark.usefixtures("store")
class TestNoChangeWithoutItsEntry:
    """What `verify` finds in what is stored, where the chain itself holds."""

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("UPDATE records SET content = 'forged' WHERE key = 'k1'", "changed or inserted"),
            ("UPDATE records SET tags = '[\"forged\"]' WHERE key = 'k1'", "changed or inserted"),
            ("UPDATE records SET key = 'forged' WHERE key = 'k1'", "changed or inserted"),
            ("UPDATE records SET nonce = 'forged' WHERE key = 'k1'", "changed or inserted"),
            ("UPDATE versions SET content = 'forged'", "changed or inserted"),
            ("UPDATE records SET deleted_at = 1 WHERE key = 'k1'", "is hidden"),
            ("UPDATE records SET deleted_at = NULL WHERE key = 'k0'", "is live again"),
            ("DELETE FROM records WHERE key = 'k1'", "no longer exists"),
            ("DELETE FROM versions", "no longer exists"),
            ("UPDATE records SET tags = 'no list' WHERE key = 'k1'", "cannot be read"),
            ("UPDATE records SET origin = 'nobody' WHERE key = 'k1'", "cannot be read"),
            ("UPDATE records SET content = CAST(x'ff' AS TEXT) WHERE key = 'k1'", "cannot be read"),
            ("UPDATE records SET kind = 'nothing' WHERE key = 'k1'", "cannot be read"),
        ],
    )
    def test_a_change_by_hand_is_found(self, home: Path, change: str, said: str) -> None:
        spoil(home, change)
        found = verdict(home)
        assert (found.entries, found.holds) == (10, False)
        assert any(said in problem.text for problem in found.problems)

    @pytest.mark.parametrize(
        ("changes", "said"),
        [
            (["UPDATE records SET kind = 'job' WHERE key = 'k1'"], "version 1 was changed or inserted"),
            (["UPDATE records SET origin = 'tool' WHERE key = 'k1'"], "version 1 was changed or inserted"),
            (["UPDATE versions SET origin = 'tool'"], "version 1 was changed or inserted"),
            (["UPDATE records SET version = 99 WHERE key = 'k'"], "version 99 was changed or inserted"),
            (["UPDATE versions SET version = 99"], "version 99 was changed or inserted"),
            ([f"INSERT INTO versions SELECT {COPY} FROM versions"], "version 41 was changed or inserted"),
            (
                [f"INSERT INTO versions SELECT {COPY} FROM records WHERE key = 'k1'"],
                "version 41 was changed or inserted",
            ),
            ([SET_ASIDE, ROLL_BACK, TAKE_PLACE], "version 2 was changed or inserted"),
            ([SET_ASIDE, EXCHANGE, f"{TAKE_PLACE}; UPDATE versions SET version = 2"], "version 2 is hidden"),
            ([MOVE, "DELETE FROM records WHERE key = 'k'"], "version 2 is hidden"),
            ([MOVE.replace("'k'", "'k0'"), "DELETE FROM records WHERE key = 'k0'"], "version 1 is hidden"),
            (
                [
                    "CREATE TABLE other AS SELECT * FROM records",
                    "DROP TABLE records",
                    "ALTER TABLE other RENAME TO records",
                    "INSERT INTO records SELECT 99, kind, key, level, version, content, tags, origin, nonce, "
                    "created_at, updated_at, deleted_at, 0, 0, 0, 0 FROM versions",
                    "DELETE FROM versions",
                ],
                "one key has two current versions",
            ),
        ],
    )
    def test_each_version_is_where_and_what_the_entries_say(self, home: Path, changes: list[str], said: str) -> None:
        spoil(home, *changes)
        found = verdict(home)
        assert (found.entries, found.holds) == (10, False)
        assert any(said in problem.text for problem in found.problems)

    def test_what_was_hidden_is_not_purged_so_that_nothing_tells_of_it(self, home: Path) -> None:
        spoil(home, MOVE, "DELETE FROM records WHERE key = 'k'")
        with tidegate.open(home) as store:
            store.owner(AGENT).purge(timedelta())
        assert "version 2 is hidden, but no later one replaced it" in {text for _, text in problems(home)}

    def test_an_earlier_version_of_what_was_deleted_does_not_live_again(self, home: Path) -> None:
        with tidegate.open(home) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.delete("k")
        revived = "UPDATE records SET deleted_at = NULL WHERE key = 'k'"
        spoil(home, SET_ASIDE, ROLL_BACK, revived, TAKE_PLACE, "UPDATE versions SET deleted_at = 1")
        assert {text for _, text in problems(home)} >= {"version 2 was changed or inserted without an entry"}

    def test_p18_what_was_said_does_not_become_a_memory(self, home: Path) -> None:
        with tidegate.open(home) as store:
            store.session(AGENT, "main", Level.PUBLIC).conversation.append(["said"])
        assert problems(home) == []
        spoil(home, "UPDATE records SET kind = 'memory' WHERE kind = 'message'")
        assert any("changed or inserted" in text for _, text in problems(home))

    def test_the_memory_concerned_is_named(self, home: Path) -> None:
        spoil(home, "UPDATE records SET deleted_at = 1 WHERE key = 'k1'")
        ((key, sequence),) = [(problem.key, problem.sequence) for problem in verdict(home).problems]
        assert (key, sequence) == ("k1", 4)

    def test_what_was_purged_and_is_there_again_is_found(self, home: Path) -> None:
        kept = "CREATE TABLE temp.kept AS SELECT * FROM versions"
        connection = apsw.Connection(str(database(home)))
        connection.execute(kept)
        with tidegate.open(home) as store:
            store.owner(AGENT).purge(timedelta(), PUBLIC)
        connection.execute("INSERT INTO versions SELECT * FROM temp.kept")
        connection.close()
        assert [text for _, text in problems(home)] == ["a purged version is back"]

    def test_only_so_many_problems_are_named(self, home: Path) -> None:
        with tidegate.open(home) as store:
            store.session(AGENT, level=Level.PUBLIC).memory.save_many(
                (f"many {n}", "text", ()) for n in range(PROBLEMS_MAX)
            )
        spoil(home, "UPDATE records SET content = 'forged'")
        assert len(problems(home)) == PROBLEMS_MAX


# Keys


def keyed(secret: bytes | None, provider: InMemoryProvider | None = None) -> tuple[Store, InMemoryProvider]:
    provider = provider or InMemoryProvider()
    provider.audit_secret = secret
    for compartment in provider._compartments.values():
        compartment._pen = Pen(compartment.place, secret)
    return Store(provider, toolset=TOOLS, default_level=Level.PUBLIC), provider


def test_a_keyed_chain_holds_with_its_key_and_not_with_another_or_none() -> None:
    store, provider = keyed(b"k" * 32)
    store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
    (found,) = store.owner(AGENT).verify(PUBLIC)
    assert (found.holds, found.keyed_from) == (True, 1)
    for secret in (b"x" * 32, None):
        store, _ = keyed(secret, provider)
        (found,) = store.owner(AGENT).verify(PUBLIC)
        assert (found.holds, found.entries) == (False, 0)


def test_a_chain_that_was_begun_without_a_key_is_keyed_from_where_the_key_came() -> None:
    store, provider = keyed(None)
    store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
    anchors = store.owner(AGENT).anchor()
    store, _ = keyed(b"k" * 32, provider)
    store.session(AGENT, level=Level.PUBLIC).memory.save("k", "two")
    (found,) = store.owner(AGENT).verify(PUBLIC, anchors=anchors)
    assert (found.holds, found.keyed_from) == (True, 2)


def test_p9_what_is_not_keyed_is_believed_only_as_far_as_an_anchor_reaches() -> None:
    store, provider = keyed(None)
    heads: list[Anchor] = []
    for number in range(3):
        heads += store.owner(AGENT).anchor(PUBLIC) if number else []
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", f"text {number}")
    before_the_key = store.owner(AGENT).anchor(PUBLIC)
    store, _ = keyed(b"k" * 32, provider)
    store.session(AGENT, level=Level.PUBLIC).memory.save("k", "keyed")
    since_the_key = store.owner(AGENT).anchor(PUBLIC)
    for anchors, first in (((), 1), (heads, 3), (before_the_key, None), (since_the_key, None)):
        (found,) = store.owner(AGENT).verify(PUBLIC, anchors=anchors)
        assert [problem.sequence for problem in found.problems] == ([] if first is None else [first])
        assert all("from here up to 3 no entry is keyed" in problem.text for problem in found.problems)


def test_p9_a_keyed_chain_cannot_be_made_anew_without_the_key(home: Path) -> None:
    with_key(home, b"k" * 32)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("iban", "DE00 genuine")
    ((record,), (entry,)) = contents(home)
    place = place_of(home)
    event = replace(entry.event, commitment=commitment_of(replace(record, content="DE66 forged"), place))
    spoil(
        home,
        "UPDATE records SET content = 'DE66 forged'",
        f"UPDATE audit SET commitment = '{event.commitment}', hash = '{chain(event, None, place).hash}'",
    )
    ((sequence, text),) = problems(home)
    assert (sequence, "no entry is keyed" in text) == (1, True)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("more", "text")  # which keys the chain from here on
    assert [sequence for sequence, _ in problems(home)] == [1]


def test_once_keyed_an_entry_without_the_key_breaks_the_chain() -> None:
    store, provider = keyed(b"k" * 32)
    store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
    with provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        last = owner_compartment.last_entry()
        assert last is not None
        owner_compartment.import_entry(chain(replace(last.event, detail="forged"), last, owner_compartment.place))
    (found,) = store.owner(AGENT).verify(PUBLIC)
    assert (found.holds, found.entries) == (False, 1)
    assert found.problems[0].text == "the entry was written without the key, after entries that were written with it"


@pytest.mark.parametrize("other", [None, b"x" * 32])
def test_p9_a_save_while_the_key_is_not_set_breaks_no_chain(home: Path, other: bytes | None) -> None:
    with_key(home, b"k" * 32)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
    with_key(home, other)
    with tidegate.open(home) as store:
        memory = store.session(AGENT, level=Level.PUBLIC).memory
        with pytest.raises(StorageError, match=r"audit\.key_file"):
            memory.save("k", "two")
        assert memory.get("k").content == "one"
        with pytest.raises(StorageError, match=r"audit\.key_file"):
            store.owner(AGENT).relabel("k", Level.INTERNAL)
        with pytest.raises(StorageError, match=r"audit\.key_file"):
            memory.delete("k")
    with_key(home, b"k" * 32)
    with tidegate.open(home) as store:
        assert store.session(AGENT, level=Level.PUBLIC).memory.save("k", "two").version == 2
        assert all(found.holds for found in store.owner(AGENT).verify())


def test_nothing_follows_an_entry_that_was_changed(store: Store, home: Path) -> None:
    spoil(home, "UPDATE audit SET detail = 'forged' WHERE sequence = 10")
    with tidegate.open(home) as opened, pytest.raises(StorageError, match="run `tidegate doctor`"):
        opened.session(AGENT, level=Level.PUBLIC).memory.save("k", "more")
    assert [sequence for sequence, _ in problems(home)] == [10]


def test_a_chain_that_is_keyed_while_no_key_is_set_is_named_as_that(home: Path) -> None:
    with_key(home, None)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
    with_key(home, b"k" * 32)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "two")
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "three")
    with_key(home, None)
    (problem,) = verdict(home).problems
    assert (problem.sequence, problem.text[:47]) == (2, "the entries from here on need a key, but none i")
    assert "audit.key_file" in problem.advice


def with_key(home: Path, key: bytes | None) -> None:
    home.mkdir(exist_ok=True)
    if key is not None:
        (home / "key").write_bytes(key)
    (home / "config.toml").write_text("" if key is None else '[audit]\nkey_file = "key"\n')


def test_a_key_file_keys_the_chains_of_a_home(home: Path) -> None:
    with_key(home, b"k" * 32)
    with tidegate.open(home) as store:
        store.session(AGENT, level=Level.PUBLIC).memory.save("k", "one")
        (found,) = store.owner(AGENT).verify(PUBLIC)
    assert (found.holds, found.keyed_from) == (True, 1)
    (home / "config.toml").unlink()
    assert not verdict(home).holds


# Anchors


def test_an_anchor_is_the_head_of_each_chain_highest_first(scene: Scene) -> None:
    scene.save("k", "one", Level.INTERNAL)
    scene.save("k", "two", Level.INTERNAL)
    anchors = scene.store.owner(AGENT).anchor()
    assert [(anchor.level, anchor.sequence) for anchor in anchors] == [
        (Level.RESTRICTED, 0),
        (Level.CONFIDENTIAL, 0),
        (Level.INTERNAL, 2),
        (PUBLIC, 0),
    ]
    assert {anchor.hash for anchor in anchors if not anchor.sequence} == {GENESIS}
    assert {anchor.at for anchor in anchors} == {scene.now}


def test_an_empty_chain_meets_the_anchor_of_an_empty_chain(scene: Scene) -> None:
    scene.save("k", "one", Level.INTERNAL)
    owner = scene.store.owner(AGENT)
    assert [found.anchored_to for found in owner.verify(anchors=owner.anchor())] == [0, 0, 1, 0]


def test_everything_that_the_program_does_verifies(scene: Scene) -> None:
    session = scene.store.session(AGENT, "main", Level.INTERNAL)
    session.memory.save("k", "one", ["t"])
    session.memory.save("k", "one", ["t"])
    session.memory.save("k", "two")
    session.memory.delete("k")
    owner = scene.store.owner(AGENT)
    owner.restore("k", Level.INTERNAL)
    owner.relabel("k", PUBLIC)
    owner.relabel("k", Level.RESTRICTED)
    session.call_tool("memory_save", {"key": "x", "content": "y", "level": "PUBLIC"})
    session.raise_taint(Level.CONFIDENTIAL, reason="because")
    session.call_tool("todo_write" if "todo_write" in scene.store._toolset else "memory_get", {"key": "x"})
    owner.reindex()
    assert all(verdict.holds for verdict in owner.verify(anchors=owner.anchor()))


def test_an_unknown_agent_has_no_chains(scene: Scene) -> None:
    for act in (scene.store.owner("nobody").verify, scene.store.owner("nobody").anchor):
        with pytest.raises(NotFound):
            act()
