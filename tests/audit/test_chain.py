"""The audit chain (P9): whatever is changed, taken out, put in or moved is found, at its place."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.yardstick.chains import first_break

from tidegate.audit.chain import GENESIS, Action, AuditEvent, Entry, Pen, Place, chain, commitment_of, nonce_of
from tidegate.errors import StorageError
from tidegate.policy.levels import Level
from tidegate.records.record import Draft, Origin, RecordKind

START = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = b"a secret of the owner's"
HALF = "\ud800"
PLACE = Place("assistant", Level.PUBLIC, "c1")
PLACES = [
    Place("other", Level.PUBLIC, "c1"),
    Place("assistant", Level.RESTRICTED, "c1"),
    Place("assistant", Level.PUBLIC, "c2"),
    Place("assistant", Level.PUBLIC, ""),
]


def chained(*events: AuditEvent, secret: bytes | None = None) -> list[Entry]:
    entries: list[Entry] = []
    for event in events:
        entries.append(chain(event, entries[-1] if entries else None, PLACE, secret))
    return entries


def some(count: int = 6, secret: bytes | None = None) -> list[Entry]:
    events = [
        AuditEvent(
            START + timedelta(seconds=number), f"s{number % 2}", list(Action)[number], f"detail {number}", f"c{number}"
        )
        for number in range(count)
    ]
    return chained(*events, secret=secret)


def version(nonce: str, key: str, content: str, tags: tuple[str, ...]) -> Draft:
    return Draft(
        kind=RecordKind.MEMORY,
        key=key,
        content=content,
        tags=tags,
        origin=Origin.AGENT,
        version=1,
        nonce=nonce,
        created_at=START,
        updated_at=START,
    )


@pytest.mark.parametrize("secret", [None, SECRET])
def test_a_chain_that_was_not_touched_holds(secret: bytes | None) -> None:
    entries = some(secret=secret)
    assert first_break(entries, PLACE, secret) is None
    assert [entry.sequence for entry in entries] == [1, 2, 3, 4, 5, 6]
    assert [entry.previous for entry in entries] == [GENESIS, *(entry.hash for entry in entries[:-1])]
    assert first_break([], PLACE, secret) is None


CHANGES = {
    "sequence": lambda entry: replace(entry, sequence=entry.sequence + 1),
    "previous": lambda entry: replace(entry, previous="f" * 64),
    "hash": lambda entry: replace(entry, hash="0" * 64),
    "hash cut": lambda entry: replace(entry, hash=entry.hash[:-1]),
    "hash empty": lambda entry: replace(entry, hash=""),
    "hash of other letters": lambda entry: replace(entry, hash="\u00e9" * 64),
    "hash in capitals": lambda entry: replace(entry, hash=entry.hash.upper()),
    "at": lambda entry: replace(entry, event=replace(entry.event, at=entry.event.at + timedelta(microseconds=1))),
    "session": lambda entry: replace(entry, event=replace(entry.event, session="other")),
    "action": lambda entry: replace(entry, event=replace(entry.event, action=Action.READ)),
    "unknown action": lambda entry: replace(entry, event=replace(entry.event, action=Action("no such word"))),
    "detail": lambda entry: replace(entry, event=replace(entry.event, detail=entry.event.detail + " ")),
    "commitment": lambda entry: replace(entry, event=replace(entry.event, commitment="")),
    "fields run together": lambda entry: replace(
        entry,
        event=replace(entry.event, session=entry.event.session + entry.event.detail[0], detail=entry.event.detail[1:]),
    ),
}


@pytest.mark.parametrize(("change", "at", "secret"), [*product(CHANGES, range(6), [None, SECRET])])
def test_a_changed_entry_is_found_at_its_place(change: str, at: int, secret: bytes | None) -> None:
    entries = some(secret=secret)
    entries[at] = CHANGES[change](entries[at])
    assert first_break(entries, PLACE, secret) == at + 1


@pytest.mark.parametrize("at", range(5))
def test_a_removed_entry_is_found_at_its_place(at: int) -> None:
    entries = some()
    del entries[at]
    assert first_break(entries, PLACE) == at + 1


@pytest.mark.parametrize(("one", "other"), [(one, other) for one in range(6) for other in range(one)])
def test_entries_in_another_order_are_found_at_the_first(one: int, other: int) -> None:
    entries = some()
    entries[one], entries[other] = entries[other], entries[one]
    assert first_break(entries, PLACE) == other + 1


@pytest.mark.parametrize("at", range(7))
def test_an_entry_put_in_is_found_where_the_chain_no_longer_fits(at: int) -> None:
    entries = some()
    forged = chain(AuditEvent(START, "forged", Action.SAVE), entries[at - 1] if at else None, PLACE)
    assert first_break([*entries[:at], forged, *entries[at:]], PLACE) == (at + 2 if at < 6 else None)


def test_a_chain_written_anew_holds_without_a_secret_and_is_found_with_one() -> None:
    forged = [replace(entry.event, detail="forged") for entry in some()]
    assert first_break(chained(*forged), PLACE) is None  # which is why heads are anchored elsewhere
    assert first_break(chained(*forged), PLACE, SECRET) == 1
    assert first_break(chained(*forged, secret=b"another secret"), PLACE, SECRET) == 1
    assert first_break(some(secret=SECRET), PLACE) == 1


def test_a_hash_is_what_the_documentation_says() -> None:
    event = AuditEvent(datetime(2030, 1, 2, 3, 4, 5, 678, UTC), "s", Action.SAVE, "version 1 created", "c")
    fields = [1, "2030-01-02T03:04:05.000678+00:00", "s", "save", "version 1 created", "c", "0" * 64]
    data = json.dumps(fields, separators=(",", ":")).encode()
    assert chain(event, None, None).hash == hashlib.sha256(data).hexdigest()
    assert chain(event, None, None, SECRET).hash == hmac.new(SECRET, data, hashlib.sha256).hexdigest()
    data = json.dumps([*fields, "assistant", "PUBLIC", "c1"], separators=(",", ":")).encode()
    assert chain(event, None, PLACE).hash == hashlib.sha256(data).hexdigest()
    assert chain(event, None, PLACE, SECRET).hash == hmac.new(SECRET, data, hashlib.sha256).hexdigest()


@pytest.mark.parametrize("secret", [None, SECRET])
@pytest.mark.parametrize("place", PLACES)
def test_p9_a_chain_holds_in_its_own_place_and_in_no_other(place: Place, secret: bytes | None) -> None:
    assert first_break(some(secret=secret), place, secret) == 1
    with pytest.raises(StorageError):
        Pen(place, secret).write(AuditEvent(START, "s", Action.SAVE), some(secret=secret)[-1])


@pytest.mark.parametrize("place", PLACES)
def test_p9_a_commitment_is_to_a_version_in_one_place(place: Place) -> None:
    made = version(nonce_of("0f"), "k", "c", ())
    assert commitment_of(made, place) != commitment_of(made, PLACE)


@pytest.mark.parametrize("hours", [-11, 0, 2, 5.75])
def test_an_hour_is_the_same_in_whatever_zone_the_clock_gives_it(hours: float) -> None:
    zone = timezone(timedelta(hours=hours))
    here = AuditEvent(START, "s", Action.SAVE)
    there = replace(here, at=START.astimezone(zone))
    assert chain(there, None, PLACE).hash == chain(here, None, PLACE).hash
    assert first_break(chained(there, here, there), PLACE) is None


# Commitments


def test_a_commitment_depends_on_each_part_and_on_where_one_ends() -> None:
    texts = [
        ("n", "k", "c", ("t",)),
        ("m", "k", "c", ("t",)),
        ("n", "l", "c", ("t",)),
        ("n", "k", "d", ("t",)),
        ("n", "k", "c", ()),
        ("n", "k", "c", ("u",)),
        ("n", "k", "c", ("t", "t")),
        ("nk", "", "c", ("t",)),
        ("", "nk", "c", ("t",)),
        ("n", "kc", "", ("t",)),
        ("n", "k", 'c","t', ()),
        ("n", "k", "c", ('t","t',)),
        ("n", "k", "C", ("t",)),
        ("n", "caf\u00e9", "c", ()),
        ("n", "cafe\u0301", "c", ()),
    ]
    versions = [version(nonce, key, content, tags) for nonce, key, content, tags in texts]
    versions += [replace(each, nonce=nonce_of(each.nonce)) for each in versions]
    first = versions[len(texts)]
    versions += [replace(first, kind=RecordKind.JOB), replace(first, version=2), replace(first, origin=Origin.OWNER)]
    commitments = [commitment_of(each, PLACE) for each in versions]
    assert len(set(commitments)) == len(versions)
    assert [commitment_of(each, PLACE) for each in versions] == commitments
    assert all(len(each) == 64 for each in commitments)


def test_a_commitment_is_what_it_was_for_versions_of_each_format() -> None:
    data = b'["0f","k","c",["t"]]'
    assert commitment_of(version("0f", "k", "c", ("t",)), PLACE) == hashlib.sha256(data).hexdigest()
    data = b'["2.0f","k","c",["t"],"memory",1,"agent"]'
    assert commitment_of(version("2.0f", "k", "c", ("t",)), PLACE) == hashlib.sha256(data).hexdigest()
    data = b'["3.0f","k","c",["t"],"memory",1,"agent","assistant","PUBLIC","c1"]'
    assert commitment_of(version(nonce_of("0f"), "k", "c", ("t",)), PLACE) == hashlib.sha256(data).hexdigest()


def test_a_commitment_reveals_nothing_without_its_nonce() -> None:
    empty, zero, real = (version(nonce, "user-name", "Ada Lovelace", ()) for nonce in ("", "0" * 32, "f" * 32))
    assert commitment_of(real, PLACE) not in {commitment_of(empty, PLACE), commitment_of(zero, PLACE)}


texts = st.text(max_size=20)
events = st.builds(
    AuditEvent,
    st.datetimes(timezones=st.just(UTC)),
    texts,
    st.sampled_from(Action),
    texts,
    texts,
)


@given(st.lists(events, max_size=8), st.one_of(st.none(), st.binary(min_size=1)), st.data())
def test_any_chain_holds_and_none_holds_once_an_entry_is_changed(
    made: list[AuditEvent], secret: bytes | None, data: st.DataObject
) -> None:
    entries = chained(*made, secret=secret)
    assert first_break(iter(entries), PLACE, secret) is None
    if entries:
        at = data.draw(st.integers(0, len(entries) - 1))
        other = data.draw(events.filter(lambda event: event != entries[at].event))
        entries[at] = replace(entries[at], event=other)
        assert first_break(entries, PLACE, secret) == at + 1


@given(st.text(st.characters(), max_size=9))
def test_any_text_can_be_entered(text: str) -> None:
    assert first_break(chained(AuditEvent(START, text, Action.SAVE, text + HALF, text)), PLACE) is None
    assert len(commitment_of(version(text, text, text, (text,)), PLACE)) == 64
