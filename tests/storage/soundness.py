"""Whether a home is sound: every page, every entry, every change with its entry, the index as its records say."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
from tests.yardstick.chains import first_break

from tidegate.audit.chain import Action, commitment_of
from tidegate.policy.levels import Level
from tidegate.search.analysis import Columns, analyse
from tidegate.search.spelling import is_word
from tidegate.storage.base import OwnerCompartment
from tidegate.storage.sqlite.compartment import stamp
from tidegate.storage.sqlite.provider import SqliteProvider


def unsound(home: Path) -> list[str]:
    """What is wrong with a home, in words; nothing when it is sound. Opens it as the program does."""
    return list(_unsound(home))


def _unsound(home: Path) -> Iterator[str]:
    for path in sorted(home.rglob("*.db")):
        for wrong in _pages(path):
            yield f"{path.relative_to(home)}: {wrong}"
    with closing(SqliteProvider(home)) as provider:
        for agent in provider.agents():
            for level in Level:
                with provider.owner_compartment(agent, level) as owner_compartment:
                    for wrong in (*_chain(owner_compartment), *_index(owner_compartment, home)):
                        yield f"{agent}/{level.name}: {wrong}"


def _pages(path: Path) -> list[str]:
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        wrong = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        if path.name != "control.db":
            connection.execute("INSERT INTO terms (terms) VALUES ('integrity-check')")
        return wrong


def _chain(owner_compartment: OwnerCompartment) -> Iterator[str]:
    if (place := first_break(owner_compartment.entries(), owner_compartment.place)) is not None:
        yield f"the chain breaks at {place}"
    entered = Counter(
        entry.event.commitment for entry in owner_compartment.entries() if entry.event.action is Action.SAVE
    )
    buried = Counter(
        entry.event.commitment for entry in owner_compartment.entries() if entry.event.action is Action.DELETE
    )
    kept: set[str] = set()
    for record, _ in owner_compartment.every_version():
        commitment = commitment_of(record, owner_compartment.place)
        kept.add(commitment)
        if not entered[commitment]:
            yield f"version {record.version} of {record.key!r} was never entered"
        if buried[commitment] != (not record.live):
            yield f"version {record.version} of {record.key!r}: deleted and entered differ"
    if lost := (set(entered) | set(buried)) - kept:
        yield f"{len(lost)} entries without their change"


def _index(owner_compartment: OwnerCompartment, home: Path) -> Iterator[str]:
    path = home / "agents" / owner_compartment.agent / f"{owner_compartment.level.name.lower()}.db"
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
        live = {(row[0]): row[1] for row in connection.execute("SELECT key, id FROM records WHERE deleted_at IS NULL")}
        indexed = {row[0] for row in connection.execute("SELECT id FROM terms_docsize")}
        tags = sorted(connection.execute("SELECT key, tag, saved_at FROM tagged").fetchall())
        connection.execute("CREATE VIRTUAL TABLE temp.indexed USING fts5vocab(main, terms, 'row')")
        counted = dict(connection.execute("SELECT term, doc FROM temp.indexed").fetchall())
        vocabulary = {word for (word,) in connection.execute("SELECT word FROM vocabulary")}
        total = connection.execute("SELECT documents, key_terms, tags_terms, content_terms FROM statistics").fetchone()
    records = [record for record, newest in owner_compartment.every_version() if record.live and newest]
    columns = [analyse(record.key, record.tags, record.content) for record in records]
    if set(live) != {record.key for record in records}:
        yield "rows and records differ"
    if indexed != set(live.values()):
        yield f"index of {sorted(indexed)}, records {sorted(live.values())}"
    if tags != sorted((record.key, tag, stamp(record.updated_at)) for record in records for tag in record.tags):
        yield f"tags {tags}"
    expected: Counter[str] = Counter()
    for each in columns:
        expected.update({*each.key, *each.tags, *each.content})
    if counted != dict(expected):
        yield f"indexed terms {json.dumps(counted)}, expected {json.dumps(expected)}"
    if unknown := {term for term in expected if is_word(term)} - vocabulary:
        yield f"words that are not in the vocabulary: {sorted(unknown)}"
    if total != statistics_of(columns):
        yield f"statistics {total}"


def statistics_of(columns: Iterable[Columns]) -> tuple[int, int, int, int]:
    """How many documents, and how many terms in their keys, tags and contents."""
    lengths = [(1, len(each.key), len(each.tags), len(each.content)) for each in columns]
    first, second, third, fourth = (sum(each) for each in zip((0, 0, 0, 0), *lengths, strict=True))
    return first, second, third, fourth
