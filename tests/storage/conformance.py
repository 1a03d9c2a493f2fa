"""What every provider must do: the contract of `storage.base`, claim by claim. A new one adds a backend, no test."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.storage.scene import START, columns_of, draft, event_of, put
from tests.yardstick.backends import Backend
from tests.yardstick.chains import first_break

from tidegate.audit.chain import GENESIS, Action, AuditEvent, Place, chain
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.expiry import Bygone
from tidegate.records.record import Record, RecordKind
from tidegate.search.ranking import Statistics
from tidegate.storage.base import Compartment, CompartmentReader, StorageProvider
from tidegate.storage.control import SessionRow

CODE_POINT_ORDER = ["A", "B", "Z", "a", "a b", "a-b", "aa", "b", "\u00e9", "\u65e5\u672c", "\uff5e", "\U0001f600"]


class Conformance:
    """Mixed into a test class that gives the fixtures `backend` and `provider`."""

    # Views

    @pytest.mark.parametrize("taint", Level)
    def test_a_view_holds_its_own_level_and_those_below_highest_first(
        self, provider: StorageProvider, taint: Level
    ) -> None:
        expected = [level for level in sorted(Level, reverse=True) if level <= taint]
        with provider.writable_view("a", taint) as view:
            assert [each.level for each in view.visible] == expected
            assert view.own is view.visible[0]
            assert {each.agent for each in view.visible} == {"a"}
        with provider.view("a", taint) as seen:
            assert [each.level for each in seen.visible] == expected

    def test_a_view_of_an_unknown_agent_is_empty_and_makes_nothing(self, provider: StorageProvider) -> None:
        with provider.view("nobody", Level.RESTRICTED) as view:
            assert [each.level for each in view.visible] == sorted(Level, reverse=True)
            for each in view.visible:
                assert contents(each) == ([], Statistics(), [])
        assert provider.agents() == []

    def test_the_first_writable_view_makes_the_agent_at_every_level(self, provider: StorageProvider) -> None:
        with provider.writable_view("b", Level.INTERNAL):
            pass
        with provider.writable_view("a", Level.PUBLIC):
            pass
        assert provider.agents() == ["a", "b"]
        with provider.view("b", Level.RESTRICTED) as view:
            assert all(contents(each) == ([], Statistics(), []) for each in view.visible)

    def test_levels_of_one_agent_share_nothing(self, provider: StorageProvider) -> None:
        for level in Level:
            with writing(provider, level) as own:
                put(own, draft("k", f"at {level.name}", [level.name.lower()]))
        with provider.view("a", Level.RESTRICTED) as view:
            for each in view.visible:
                record = each.read(RecordKind.MEMORY, "k")
                assert record is not None
                assert (record.content, record.level, record.agent) == (f"at {each.level.name}", each.level, "a")
                assert each.statistics().documents == 1
                assert [entry.sequence for entry in each.entries()] == [1]

    @pytest.mark.parametrize(
        ("one", "other"), [("acme", "acme-corp"), ("kim", "kim1"), ("a.b", "a"), ("a_b", "a-b"), ("a", "ab")]
    )
    def test_l02_agents_with_like_names_share_nothing(self, provider: StorageProvider, one: str, other: str) -> None:
        with writing(provider, Level.PUBLIC, agent=other) as own:
            put(own, draft("secret", "of the other", ["tag"]))
        with writing(provider, Level.PUBLIC, agent=one) as own:
            assert contents(own) == ([], Statistics(), [])
            assert own.read(RecordKind.MEMORY, "secret") is None
        with provider.view(one, Level.PUBLIC) as view:
            assert contents(view.visible[0]) == ([], Statistics(), [])

    def test_what_was_written_is_there_when_opened_again(self, backend: Backend) -> None:
        version = draft("k", "kept", ["t"])
        with open_again(backend) as provider, writing(provider) as own:
            put(own, version)
        with open_again(backend) as provider, reading(provider) as own:
            assert own.read(RecordKind.MEMORY, "k") == record_of(version)
            assert [record.key for record in page(own)] == ["k"]
            assert [entry.event for entry in own.entries()] == [event_of(own.place, version)]

    # Records

    def test_a_record_is_read_as_it_was_put_with_the_compartments_own_label(self, provider: StorageProvider) -> None:
        version = draft("k", "line\r\none\n\U0001f600 e\u0301 ' \" ;", ["b", "a", "\u00e9"])
        with writing(provider, Level.INTERNAL) as own:
            put(own, version)
            assert own.read(RecordKind.MEMORY, "k") == record_of(version, Level.INTERNAL)

    def test_nothing_is_read_under_a_key_that_differs_at_all(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("Key"), draft("caf\u00e9"))
            for key in ("key", "KEY", "Key ", " Key", "Ke", "Ke_", "Key%", "Key\u0301", "cafe", "cafe\u0301", ""):
                assert own.read(RecordKind.MEMORY, key) is None
                assert not own.live(RecordKind.MEMORY, [key])

    @pytest.mark.parametrize(
        ("chars", "expected"), [(1, "a"), (2, "a\U0001f600"), (3, "a\U0001f600b"), (9, "a\U0001f600b")]
    )
    def test_contents_are_cut_by_code_points(self, provider: StorageProvider, chars: int, expected: str) -> None:
        with writing(provider) as own:
            put(own, draft("k", "a\U0001f600b"))
            record = own.read(RecordKind.MEMORY, "k", chars_max=chars)
            assert record is not None
            assert record.content == expected
            assert [each.content for each in page(own, chars_max=chars)] == [expected]

    def test_several_are_read_at_once_as_each_is_read_alone(self, provider: StorageProvider) -> None:
        keys = ["k'\"", "caf\u00e9", "gone"]
        with writing(provider) as own:
            put(own, *(draft(key, f"a\U0001f600b {key}", ["t"]) for key in keys), draft("other"))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "gone", START)
            alone = {key: own.read(RecordKind.MEMORY, key, chars_max=2) for key in keys}
            assert own.read_several(RecordKind.MEMORY, [*keys, "absent"], chars_max=2) == alone
            assert own.read_several(RecordKind.MEMORY, [], chars_max=2) == {}
            assert own.read_several(RecordKind.TODO, keys, chars_max=2) == {}

    def test_a_new_version_takes_the_place_of_the_one_before(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k", "apple", ["old"]))
            put(own, draft("k", "pear", ["new"], version=2, at=5))
            record = own.read(RecordKind.MEMORY, "k")
            assert record is not None
            assert (record.content, record.tags, record.version) == ("pear", ("new",), 2)
            assert [each.content for each in page(own)] == ["pear"]
            assert page(own, tag="old") == []
            assert [each.key for each in page(own, tag="new")] == ["k"]
            assert hits(own, ["apple"]) == []
            assert hits(own, ["pear"]) == ["k"]
            assert own.statistics() == statistics_of([record])

    def test_a_buried_record_is_hidden_everywhere_and_still_read_as_deleted(self, provider: StorageProvider) -> None:
        at = START + timedelta(seconds=9)
        with writing(provider) as own:
            put(own, draft("k", "apple", ["t"]), draft("other", "apple"))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k", at)
            record = own.read(RecordKind.MEMORY, "k")
            assert record is not None
            assert (record.live, record.deleted_at, record.content) == (False, at, "apple")
            assert not own.live(RecordKind.MEMORY, ["k"])
            assert [each.key for each in page(own)] == ["other"]
            assert page(own, tag="t") == []
            assert hits(own, ["apple"]) == ["other"]
            assert own.frequencies(["apple"]).get("apple") == 1
            assert own.statistics().documents == 1

    def test_which_of_many_keys_stand_is_told_key_by_key(self, provider: StorageProvider) -> None:
        odd = ['"', "\\", "[]", "null", "7", "\u00e9", "\U0001f600", "a b", "gone"]
        with writing(provider) as own:
            put(own, *map(draft, odd))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "gone", START)
            assert own.live(RecordKind.MEMORY, [*odd, "e\u0301", "8", ""]) == set(odd) - {"gone"}
            assert own.live(RecordKind.TODO, odd) == own.live(RecordKind.MEMORY, []) == set()

    def test_d13_what_is_deleted_is_found_by_nobody_who_had_it_open(self, backend: Backend) -> None:
        with open_again(backend) as one, open_again(backend) as two:
            with writing(one) as own:
                put(own, draft("k", "apple", ["t"]))
            with reading(two) as seen:
                assert hits(seen, ["apple"]) == ["k"]
            with writing(one) as own, own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k", START)
            for provider in (one, two):
                with reading(provider) as seen:
                    assert (hits(seen, ["apple"]), page(seen), bool(seen.live(RecordKind.MEMORY, ["k"]))) == (
                        [],
                        [],
                        False,
                    )

    def test_a_deleted_key_lives_again_with_its_next_version(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k", "apple", ["t"]))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k", START)
            put(own, draft("k", "pear", version=2, at=5))
            assert own.read(RecordKind.MEMORY, "k") == record_of(draft("k", "pear", version=2, at=5))
            assert [each.key for each in page(own)] == ["k"]
            assert (hits(own, ["apple"]), hits(own, ["pear"])) == ([], ["k"])

    def test_touching_moves_the_time_of_the_last_save_and_nothing_else(self, provider: StorageProvider) -> None:
        version = draft("k", "apple", ["t"])
        later = START + timedelta(seconds=30, microseconds=1)
        with writing(provider) as own:
            put(own, version)
            with own.transaction():
                own.touch(RecordKind.MEMORY, "k", later)
            assert own.read(RecordKind.MEMORY, "k") == replace(record_of(version), updated_at=later)

    # Pages

    def test_pages_come_in_the_order_of_code_points(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, *map(draft, reversed(CODE_POINT_ORDER)))
            assert [each.key for each in page(own)] == CODE_POINT_ORDER
            for at, key in enumerate(CODE_POINT_ORDER):
                assert [each.key for each in page(own, after=key)] == CODE_POINT_ORDER[at + 1 :]

    @pytest.mark.parametrize("limit", [1, 2, 3, 50])
    def test_pages_join_without_gap_or_repeat(self, provider: StorageProvider, limit: int) -> None:
        with writing(provider) as own:
            put(own, *map(draft, CODE_POINT_ORDER))
            seen: list[str] = []
            while batch := page(own, after=seen[-1] if seen else "", limit=limit):
                assert len(batch) <= limit
                seen += [each.key for each in batch]
        assert seen == CODE_POINT_ORDER

    def test_a_tag_is_matched_whole_and_in_any_case(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k1", tags=["red", "blue"]), draft("k2", tags=["Red"]), draft("k3", tags=["redder"]))
            for tag in ("red", "RED", "ＲＥＤ"):
                assert [each.key for each in page(own, tag=tag)] == ["k1", "k2"]
            assert [each.key for each in page(own, tag="blue")] == ["k1"]
            for tag in ("re", "red%", "re_", '["red"]', ""):
                assert page(own, tag=tag) == []

    # The index

    def test_statistics_and_frequencies_are_those_of_what_lives(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k1", "red apple", ["fruit"]), draft("k2", "green apple apple"), draft("k3", "blue sky"))
            put(own, draft("k3", "grey sky", version=2))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k1", START)
            living = page(own)
            assert [each.key for each in living] == ["k2", "k3"]
            assert own.statistics() == statistics_of(living)
            terms = sorted({term for each in living for term in all_terms(each)})
            expected = {term: sum(term in all_terms(each) for each in living) for term in terms}
            found = own.frequencies([*terms, "absent", "red", "fruit", "blue"])
            assert {term: number for term, number in found.items() if number} == expected

    def test_candidates_say_how_often_each_term_stands_where(self, provider: StorageProvider) -> None:
        version = draft("apple", "apple pear apple", ["pear"])
        with writing(provider) as own:
            put(own, version, draft("k2", "sky"))
            (found,) = own.candidates(["nowhere", "apple", "pear"])
            columns = columns_of(version)
            assert (found.key, found.updated_at) == ("apple", version.updated_at)
            lengths = (len(columns.key), len(columns.tags), len(columns.content))
            assert tuple(found.match.lengths) == lengths
            parts = (columns.key, columns.tags, columns.content)
            apple, pear = ([part.count(term) for part in parts] for term in ("apple", "pear"))
            assert list(found.match.counts) == [1, *apple, 2, *pear]

    def test_the_rarer_term_comes_first_among_candidates(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, *(draft(f"k{number}", "common words") for number in range(9)), draft("rare", "unusual words"))
            assert hits(own, ["common", "unusual"])[0] == "rare"

    # The latest of a tag, pins, holders of a word

    @pytest.mark.parametrize("limit", [1, 2, 3, 50])
    def test_the_latest_of_a_tag_come_last_saved_first_then_by_key(self, provider: StorageProvider, limit: int) -> None:
        with writing(provider) as own:
            for at, key in enumerate("cabcdb"):
                put(own, draft(key, f"text {at}", ["t"], version=at + 1, at=at // 2))
            put(own, draft("deleted", "x", ["t"], at=9), draft("tagless", "x", at=9), draft("other", "x", ["u"], at=9))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "deleted", START)
                own.touch(RecordKind.MEMORY, "a", START + timedelta(days=1))
            found, after = list[Record](), None
            while batch := own.latest("t", after=after, limit=limit, chars_max=4):
                found, after = found + batch, batch[-1]
                assert len(batch) <= limit
            assert [(each.key, each.content) for each in found] == [(key, "text") for key in "abdc"]
            with own.transaction():
                own.touch(RecordKind.MEMORY, "b", START + timedelta(seconds=1))
            assert [each.key for each in own.latest("t", after=None, limit=9, chars_max=0)] == list("adbc")

    def test_the_latest_skip_what_is_bygone_however_many(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            for at in range(20):
                put(own, draft(f"k{at:02}", "x", ["t", "brief"] if at % 2 else ["t"], at=at))
            first = START + timedelta(seconds=10)
            for bygone, left in (
                (Bygone(first), range(19, 10, -1)),
                (Bygone(tags={"t": first}), range(19, 10, -1)),
                (Bygone(tags={"brief": START + timedelta(days=1)}), range(18, -1, -2)),
            ):
                found = own.latest("t", after=None, limit=50, chars_max=0, bygone=bygone)
                assert [each.key for each in found] == [f"k{at:02}" for at in left]

    def test_a_pin_is_of_the_live_version_alone(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, *(draft(key, "apple", at=at) for at, key in enumerate(("old", "gone", "new"))))
        with provider.owner_compartment("a", Level.PUBLIC) as owned:
            with owned.transaction():
                for key in ("old", "gone", "new"):
                    owned.set_pinned(key, pinned=True)
            assert [(each.key, each.content, each.pinned) for each in owned.pinned(chars_max=3)] == [
                (key, "app", True) for key in ("new", "gone", "old")
            ]
            with owned.transaction():
                owned.soft_delete(RecordKind.MEMORY, "gone", START)
                owned.set_pinned("old", pinned=False)
            put(owned, replace(draft("new", "pear", version=2, at=9), pinned=True), draft("gone", version=2))
            assert [(each.key, each.version) for each in owned.pinned(chars_max=0)] == [("new", 2)]
            assert [each.pinned for each in owned.versions(RecordKind.MEMORY, "new")] == [True, False]
            put(owned, draft("new", "plum", version=3, at=9))
            assert owned.pinned(chars_max=0) == []

    def test_a_pin_that_is_undone_was_never_set(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k"))
        with provider.owner_compartment("a", Level.PUBLIC) as owned:
            with pytest.raises(ZeroDivisionError), owned.transaction():  # noqa: PT012 - the point is where it is raised
                owned.set_pinned("k", pinned=True)
                raise ZeroDivisionError
            assert owned.pinned(chars_max=0) == []

    def test_the_holders_of_a_word_are_live_and_at_most_so_many(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("a", "apple"), draft("p", "pear"), draft("both", "apple pear"), draft("gone", "apple"))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "gone", START)
            assert sorted(own.holders(["apple"], limit=9)) == ["a", "both"]
            assert sorted(own.holders(["apple", "pear"], limit=9)) == ["a", "both", "p"]
            assert len(own.holders(["apple", "pear"], limit=2)) == 2
            assert own.holders(["plum", '"'], limit=9) == []

    # Transactions and snapshots

    def test_a_transaction_that_fails_leaves_no_trace(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("kept", "apple", ["t"]), draft("gone", "pear"))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "gone", START)
            before = everything(own)
            with pytest.raises(ZeroDivisionError), own.transaction():  # noqa: PT012 - the point is where it is raised
                own.put(draft("new", "plum", ["u"]), columns_of(draft("new", "plum", ["u"])))
                own.put(draft("kept", "other", ["v"], version=2), columns_of(draft("kept", "other", ["v"], version=2)))
                own.put(draft("gone", "back", version=2), columns_of(draft("gone", "back", version=2)))
                own.append(event_of(own.place, draft("new")))
                own.soft_delete(RecordKind.MEMORY, "new", START)
                own.touch(RecordKind.MEMORY, "kept", START + timedelta(days=1))
                raise ZeroDivisionError
            assert everything(own) == before

    def test_a_transaction_after_one_that_failed_stands(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            with pytest.raises(ZeroDivisionError), own.transaction():  # noqa: PT012 - the point is where it is raised
                own.append(event_of(own.place, draft("k")))
                raise ZeroDivisionError
            put(own, draft("k"))
            assert [entry.sequence for entry in own.entries()] == [1]
            assert first_break(own.entries(), own.place, provider.audit_secret) is None

    def test_a_durable_transaction_is_one_like_any_other(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            with own.transaction(durable=True):
                own.append(event_of(own.place, draft("k")))
            put(own, draft("k", version=2))
            assert [entry.sequence for entry in own.entries()] == [1, 2]

    def test_a_snapshot_is_one_moment(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k", "apple"))

        def write_more() -> None:
            with writing(provider) as own:
                put(own, draft("k2", "apple"))

        writer = threading.Thread(target=write_more)
        with reading(provider) as seen, seen.snapshot():
            assert seen.statistics().documents == 1
            writer.start()
            writer.join(timeout=0.2)  # done by now, or waiting for us: the claim is the same
            assert (seen.statistics().documents, [each.key for each in page(seen)]) == (1, ["k"])
            assert seen.read(RecordKind.MEMORY, "k2") is None
        writer.join()
        with reading(provider) as seen:
            assert [each.key for each in page(seen)] == ["k", "k2"]

    def test_transactions_are_alone(self, provider: StorageProvider) -> None:
        threads, turns = 6, 20
        with writing(provider) as own:
            put(own, draft("n", "0"))

        def count_up() -> None:
            for _ in range(turns):
                with writing(provider) as own, own.transaction():
                    before = own.read(RecordKind.MEMORY, "n")
                    assert before is not None
                    after = draft("n", str(int(before.content) + 1), version=before.version + 1)
                    own.put(after, columns_of(after))
                    own.append(event_of(own.place, after))

        together([count_up] * threads)
        with reading(provider) as seen:
            record = seen.read(RecordKind.MEMORY, "n")
            assert record is not None
            assert (record.content, record.version) == (str(threads * turns), threads * turns + 1)
            assert first_break(seen.entries(), seen.place, provider.audit_secret) is None

    # The audit chain

    def test_entries_form_one_chain_from_the_first(self, provider: StorageProvider) -> None:
        events = [
            AuditEvent(START + timedelta(seconds=n), f"s{n}", Action.RAISE, f"d{n} \u00e9 'x'", "c") for n in range(5)
        ]
        with writing(provider) as own:
            assert own.last_entry() is None
            for event in events:
                with own.transaction():
                    own.append(event)
            entries = list(own.entries())
            assert [entry.event for entry in entries] == events
            assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5]
            assert [entry.previous for entry in entries] == [GENESIS, *(entry.hash for entry in entries[:-1])]
            assert first_break(entries, own.place, provider.audit_secret) is None
            assert list(own.entries(after=3)) == entries[3:]
            assert list(own.entries(after=5)) == []
            assert own.last_entry() == entries[-1]

    def test_p9_nothing_is_appended_to_a_chain_that_is_kept_with_another_key(self, provider: StorageProvider) -> None:
        with writing(provider) as own, own.transaction():
            event = event_of(own.place, draft("k"))
            own.append(event)
        with provider.owner_compartment("a", Level.PUBLIC) as owner_compartment:
            with owner_compartment.transaction():
                owner_compartment.import_entry(
                    chain(event, owner_compartment.last_entry(), owner_compartment.place, b"another key")
                )
            before = everything(owner_compartment)
            with pytest.raises(StorageError, match="key"):
                put(owner_compartment, draft("k", version=2))
            assert everything(owner_compartment) == before
        with writing(provider) as own, pytest.raises(StorageError, match="key"):  # it wrote the one before
            put(own, draft("k", version=2))

    # The archive

    def test_every_version_is_kept_newest_first(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k", "one"), draft("other"))
            put(own, draft("k", "two", version=2, at=1))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k", START + timedelta(seconds=2))
            put(own, draft("k", "three", version=3, at=3))
        with provider.owner_compartment("a", Level.PUBLIC) as owner_compartment:
            found = owner_compartment.versions(RecordKind.MEMORY, "k")
            assert [(each.version, each.content, each.live) for each in found] == [
                (3, "three", True),
                (2, "two", False),
                (1, "one", True),
            ]
            every = sorted((each.key, each.version, newest) for each, newest in owner_compartment.every_version())
            assert every == [("k", 1, False), ("k", 2, False), ("k", 3, True), ("other", 1, True)]

    def test_an_index_made_anew_answers_as_the_old_one(self, provider: StorageProvider) -> None:
        with writing(provider) as own:
            put(own, draft("k1", "red apple", ["t"]), draft("k2", "green apple"), draft("k3", "sky"))
            with own.transaction():
                own.soft_delete(RecordKind.MEMORY, "k3", START)
            before = (own.statistics(), dict(own.frequencies(["apple", "red", "t"])), sorted(hits(own, ["apple"])))
        with provider.owner_compartment("a", Level.PUBLIC) as owner_compartment, owner_compartment.transaction():
            owner_compartment.clear_index()
            assert owner_compartment.index_started()
            for record in owner_compartment.unindexed(after="", limit=10):
                owner_compartment.index(record, columns_of(record))
            owner_compartment.mark_index_complete()
            assert owner_compartment.unindexed(after="", limit=10) == []
        with reading(provider) as seen:
            after = (seen.statistics(), dict(seen.frequencies(["apple", "red", "t"])), sorted(hits(seen, ["apple"])))
            assert after == before

    def test_an_erased_agent_is_unknown_and_begins_anew(self, provider: StorageProvider) -> None:
        for agent in ("a", "b"):
            with writing(provider, agent=agent) as own:
                put(own, draft("k"))
        assert set(provider.erase("a", dry_run=True)) == set(Level)
        assert provider.agents() == ["a", "b"]
        assert set(provider.erase("a", dry_run=False)) == set(Level)
        assert provider.agents() == ["b"]
        with provider.view("a", Level.RESTRICTED) as view:
            assert all(contents(each) == ([], Statistics(), []) for each in view.visible)
        with writing(provider) as own:
            put(own, draft("k2"))
            assert [each.key for each in page(own)] == ["k2"]
        with reading(provider, agent="b") as seen:
            assert [each.key for each in page(seen)] == ["k"]

    # The witnesses

    def test_of_an_agent_without_compartments_no_chain_says_anything_and_none_is_made(
        self, provider: StorageProvider
    ) -> None:
        with provider.witnesses("nobody") as witnesses:
            assert list(witnesses) == []
        assert provider.agents() == []

    def test_each_chain_tells_where_a_session_stood_and_of_no_other_session_or_agent(
        self, provider: StorageProvider
    ) -> None:
        spoken = {
            Level.PUBLIC: [("s", action) for action in (Action.OPEN, Action.SAVE, Action.CALL, Action.CALL)],
            Level.RESTRICTED: [("s", Action.RAISE), ("s", Action.RESET), ("s", Action.REFUSE), ("ss", Action.RAISE)],
        }
        for level, events in spoken.items():
            with writing(provider, level) as own, own.transaction():
                for session, action in events:
                    own.append(AuditEvent(START, session, action))
        with writing(provider, agent="b") as own, own.transaction():
            own.append(AuditEvent(START, "s", Action.RAISE))
        with provider.witnesses("a") as witnesses:
            assert [each.level for each in witnesses] == list(Level)
            assert [set(each.state_actions("s")) for each in witnesses] == [
                {Action.OPEN, Action.CALL},
                set(),
                set(),
                {Action.RAISE, Action.RESET},
            ]
            assert all(not each.state_actions("") and not each.state_actions("S") for each in witnesses)

    def test_each_chain_tells_what_was_opened_the_latest_first_and_whether_it_was_heard_again(
        self, provider: StorageProvider
    ) -> None:
        with writing(provider) as own, own.transaction():
            for session, action in (("1", Action.OPEN), ("2", Action.OPEN), ("1", Action.SAVE), ("3", Action.OPEN)):
                own.append(AuditEvent(START, session, action))
        with provider.witnesses("a") as (lowest, *others):
            assert list(lowest.opened()) == [("3", 4), ("2", 2), ("1", 1)]
            assert lowest.heard("1", after=1)
            assert not lowest.heard("1", after=3)
            assert not lowest.heard("2", after=2)
            assert not any(list(each.opened()) for each in others)

    # The control store

    def test_sessions_are_found_by_id_and_by_exact_name(self, provider: StorageProvider) -> None:
        rows = [row("1", "a", "main"), row("2", "a", "Main"), row("3", "b", "main"), row("4", "a", "caf\u00e9")]
        insert(provider, *rows)
        for each in rows:
            assert provider.control.read(each.id) == each
            assert provider.control.find(each.agent, each.name or "") == each
        assert provider.control.sessions("a") == [rows[1], rows[3], rows[0]]
        assert provider.control.sessions("c") == []
        for agent, name in (("a", "mai"), ("a", "main "), ("a", "MAIN"), ("a", "cafe\u0301"), ("", "main"), ("a", "")):
            assert provider.control.find(agent, name) is None
        assert provider.control.read("") is None
        assert provider.control.read("12") is None

    def test_sessions_change_one_field_at_a_time(self, provider: StorageProvider) -> None:
        one, other = row("1", "a", "one"), row("2", "a", "other")
        insert(provider, one, other)
        with provider.control.transaction():
            provider.control.set_taint("1", Level.CONFIDENTIAL)
        with provider.control.transaction():
            provider.control.set_ceiling("1", Level.CONFIDENTIAL)
        with provider.control.transaction():
            provider.control.end("1")
        changed = replace(one, taint=Level.CONFIDENTIAL, ceiling=Level.CONFIDENTIAL, ended=True)
        assert provider.control.sessions("a") == [changed, other]

    def test_a_control_transaction_reads_what_it_wrote_and_leaves_no_trace_when_it_fails(
        self, provider: StorageProvider
    ) -> None:
        insert(provider, row("1", "a", "one"))
        with pytest.raises(ZeroDivisionError), provider.control.transaction():  # noqa: PT012 - as above
            provider.control.set_taint("1", Level.RESTRICTED)
            provider.control.insert(row("2", "a", "two"))
            found = provider.control.read("1")
            assert found is not None
            assert found.taint is Level.RESTRICTED
            raise ZeroDivisionError
        assert provider.control.sessions("a") == [row("1", "a", "one")]

    def test_a_renamed_session_frees_its_name_and_each_renewal_has_a_number(self, backend: Backend) -> None:
        with open_again(backend) as provider:
            control = provider.control
            insert(provider, row("1", "a", "one"), row("2", "a", "two"), row("3", "b", "one"))
            assert (control.renewals_count(), control.last_renewal("a", "one")) == (0, 0)
            with control.transaction():
                control.rename("1", "old")
            insert(provider, row("4", "a", "one"))
            with control.transaction():
                control.rename("3", "old")
        with open_again(backend) as provider:
            control = provider.control
            assert [control.find("a", name) for name in ("old", "one", "two")] == [
                row("1", "a", "old"),
                row("4", "a", "one"),
                row("2", "a", "two"),
            ]
            assert [control.last_renewal(*name) for name in (("a", "one"), ("b", "one"), ("a", "old"))] == [1, 2, 0]
            with suppress(ZeroDivisionError), control.transaction():
                control.rename("4", "newer")
                assert control.last_renewal("a", "one") == control.renewals_count() == 3
                raise ZeroDivisionError
            assert (control.last_renewal("a", "one"), control.renewals_count()) == (1, 2)

    def test_p7_the_end_of_an_agents_life_ends_its_sessions_and_nobody_elses(self, backend: Backend) -> None:
        with open_again(backend) as provider:
            with writing(provider), provider.writable_view("aa", Level.PUBLIC):
                pass
            insert(provider, row("1", "a", "one"))
            insert(provider, row("2", "aa", "one"))
            with provider.control.transaction():
                provider.control.end_life("a")
            insert(provider, replace(row("3", "a", "three"), life=1))
        with open_again(backend) as provider:
            assert [(each.id, each.ended) for each in provider.control.sessions("a")] == [("1", True), ("3", False)]
            assert [(each.id, each.ended) for each in provider.control.sessions("aa")] == [("2", False)]
            assert [provider.control.life(agent) for agent in ("a", "aa", "b")] == [1, 0, 0]
            assert provider.control.compartment("a", Level.PUBLIC) is None
            assert provider.control.compartment("aa", Level.PUBLIC) is not None

    def test_p9_each_compartment_is_known_by_the_id_that_the_control_store_has(self, backend: Backend) -> None:
        with open_again(backend) as provider, writing(provider):
            pass
        with open_again(backend) as provider, provider.view("a", Level.RESTRICTED) as view:
            assert all(each.id == provider.control.compartment("a", each.level) for each in view.visible)
            for each in view.visible:
                with provider.owner_compartment("a", each.level) as owner_compartment:
                    assert owner_compartment.place == each.place == Place("a", each.level, each.id)

    def test_sessions_are_there_when_opened_again(self, backend: Backend) -> None:
        with open_again(backend) as provider:
            insert(provider, row("1", "a", "one"))
        with open_again(backend) as provider:
            assert provider.control.read("1") == row("1", "a", "one")

    def test_the_control_store_is_changed_in_transactions_only(self, provider: StorageProvider) -> None:
        insert(provider, row("1", "a", "one"))
        changes = (
            lambda: provider.control.insert(row("2", "a", "two")),
            lambda: provider.control.set_taint("1", Level.INTERNAL),
            lambda: provider.control.end("1"),
            lambda: provider.control.end_life("a"),
            lambda: provider.control.set_compartment("a", Level.PUBLIC, "c"),
        )
        for change in changes:
            with pytest.raises(StorageError, match="transactions only"):
                change()
        assert provider.control.sessions("a") == [row("1", "a", "one")]

    def test_control_transactions_are_alone_and_never_wait_for_a_compartment_that_waits_for_them(
        self, provider: StorageProvider
    ) -> None:
        with writing(provider):
            insert(provider, row("1", "a", "one"))

        def save() -> None:
            for _ in range(20):
                with writing(provider) as own, own.transaction():
                    assert provider.control.read("1") is not None
                    own.append(event_of(own.place, draft("k")))

        def change() -> None:
            for _ in range(20):
                with provider.control.transaction():
                    with writing(provider) as own, own.transaction(durable=True):
                        own.append(event_of(own.place, draft("k")))
                    provider.control.set_taint("1", Level.INTERNAL)

        together([save, save, change, change])
        with reading(provider) as seen:
            assert sum(1 for _ in seen.entries()) == 80


def row(session: str, agent: str, name: str) -> SessionRow:
    return SessionRow(session, agent, name, Level.PUBLIC, Level.RESTRICTED, None)


def insert(provider: StorageProvider, *rows: SessionRow) -> None:
    with provider.control.transaction():
        for each in rows:
            provider.control.insert(each)


@contextmanager
def open_again(backend: Backend) -> Iterator[StorageProvider]:
    provider = backend.provider()
    try:
        yield provider
    finally:
        provider.close()


@contextmanager
def writing(provider: StorageProvider, level: Level = Level.PUBLIC, *, agent: str = "a") -> Iterator[Compartment]:
    with provider.writable_view(agent, level) as view:
        yield view.own


@contextmanager
def reading(provider: StorageProvider, level: Level = Level.PUBLIC, *, agent: str = "a") -> Iterator[CompartmentReader]:
    with provider.view(agent, level) as view:
        yield view.visible[0]


def page(
    compartment: CompartmentReader, *, after: str = "", tag: str | None = None, limit: int = 100, chars_max: int = 1000
) -> list[Record]:
    return compartment.page(RecordKind.MEMORY, after=after, tag=tag, limit=limit, chars_max=chars_max)


def hits(compartment: CompartmentReader, terms: Sequence[str]) -> list[str]:
    return [candidate.key for candidate in compartment.candidates(terms)]


def contents(compartment: CompartmentReader) -> tuple[object, ...]:
    return page(compartment), compartment.statistics(), list(compartment.entries())


def everything(compartment: CompartmentReader) -> list[object]:
    """All that can be asked of the few keys, tags and words that these tests use."""
    keys, tags = ("kept", "gone", "new"), ("t", "u", "v")
    words = ["apple", "pear", "plum", "other", "back"]
    return [
        contents(compartment),
        [compartment.read(RecordKind.MEMORY, key) for key in keys],
        [page(compartment, tag=tag) for tag in tags],
        {term: number for term, number in compartment.frequencies(words).items() if number},
        [hits(compartment, [word]) for word in words],
    ]


def record_of(version: object, level: Level = Level.PUBLIC) -> Record:
    fields = {name: getattr(version, name) for name in type(version).__slots__}
    return Record(agent="a", level=level, **fields)


def all_terms(record: Record) -> set[str]:
    columns = columns_of(record)
    return {*columns.key, *columns.tags, *columns.content}


def statistics_of(records: Sequence[Record]) -> Statistics:
    total = Statistics()
    for record in records:
        columns = columns_of(record)
        total += Statistics(1, (len(columns.key), len(columns.tags), len(columns.content)))
    return total


def together(works: Sequence[object]) -> None:
    """Run all at once in threads; the first failure is raised here."""
    failures: list[BaseException] = []

    def guarded(work: object) -> None:
        try:
            work()  # type: ignore[operator]
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    if failures:
        raise failures[0]
