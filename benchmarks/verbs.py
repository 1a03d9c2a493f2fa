"""The five verbs at several sizes, over four levels, beside their floors."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path
from typing import Any

import apsw

import tidegate
from benchmarks import corpus, floors
from benchmarks.measure import compare, ratios
from tidegate import Level, Session, Store

AGENT = "bench"
BATCH = 1_000
_POINT_READ = (
    "SELECT content, key, tags, origin, version, created_at, updated_at FROM records WHERE kind = ? AND key = ?"
)


def fill(store: Store, size: int) -> float:
    """Save `size` memories, a quarter at each level; microseconds a memory in batches of `BATCH`."""
    start = time.perf_counter()
    items = corpus.memories(size)
    for level in Level:
        session = store.session(AGENT, level=level)
        share = list(itertools.islice(items, size // len(Level)))
        for at in range(0, len(share), BATCH):
            session.memory.save_many(share[at : at + BATCH])
            print(f"\rfilling {size:,}: {level.name} {at + BATCH:,}   ", end="", file=sys.stderr)
    print(file=sys.stderr)
    return round((time.perf_counter() - start) / size * 1e6, 1)


def get(store: Store, home: Path) -> dict[str, Any]:
    """Measure against a prepared point read of the same row."""
    key = "note-0000007"
    bare = apsw.Connection(str(home / "agents" / AGENT / "public.db"), flags=apsw.SQLITE_OPEN_READONLY)
    public, restricted = session_at(store, Level.PUBLIC), session_at(store, Level.RESTRICTED)
    figures = compare(
        {
            "point read": lambda: bare.execute(_POINT_READ, ("memory", key)).fetchone(),
            "PUBLIC": lambda: public.memory.get(key),
            "RESTRICTED": lambda: restricted.memory.get(key),
        },
        calls=300,
    )
    return {"us": figures, "ratio": ratios(figures, "point read"), "goal": {"PUBLIC": 5, "RESTRICTED": 8}}


def call(store: Store) -> dict[str, Any]:
    """Measure a get as a surface makes it, through `call_tool`, against `memory.get` of the same session."""
    key = "note-0000007"
    report: dict[str, Any] = {}
    for level in (Level.PUBLIC, Level.RESTRICTED):
        session = session_at(store, level)
        figures = compare(
            {
                "get": lambda session=session: session.memory.get(key),
                "call_tool": lambda session=session: session.call_tool("memory_get", {"key": key}),
            },
            calls=300,
        )
        over = round(figures["call_tool"] - figures["get"], 1)
        report[level.name] = {"us": figures, "ratio": ratios(figures, "get"), "us over get": over}
    return {**report, "goal": {"ratio": 1.2, "us over get": 6}}


def save(store: Store, home: Path) -> dict[str, Any]:
    """Measure against a bare insert of the same rows and terms, into an empty index and a large one; analysis apart."""
    session = session_at(store, Level.PUBLIC)
    items = itertools.cycle([(f"new-{key}", content, tags) for key, content, tags in corpus.memories(2_000, seed=8)])
    fresh = (
        (f"{next(counter)}-{key}", content, tags) for counter in [itertools.count()] for key, content, tags in items
    )
    own = home / "agents" / AGENT / "public.db"
    bare = floors.bare_save(floors.bare_store(home / "bare.db"))
    among_as_many = floors.bare_save(floors.bare_store(home / "bare-as-large.db", own))
    prepared = [(item, floors.terms_of(item)) for item in itertools.islice(fresh, 50 * 16)]
    turns, others = itertools.cycle(prepared), itertools.cycle(prepared)
    figures = compare(
        {
            "bare insert": lambda: bare(*next(turns)),
            "bare insert, as large": lambda: among_as_many(*next(others)),
            "analysis": lambda: floors.terms_of(next(fresh)),
            "save": lambda: session.memory.save(*next(fresh)),
        },
        calls=50,
    )
    stored = figures["save"] - figures["analysis"]
    floor_names = ("bare insert", "bare insert, as large")
    ratio = {f"save without analysis, over {name}": round(stored / figures[name], 2) for name in floor_names}
    return {"us": figures, "per second": round(1e6 / figures["save"]), "ratio": ratio, "goal": 2}


def similar(store: Store) -> dict[str, Any]:
    """Measure what a tool's save adds to name similar keys, against the library's save."""
    numbers = itertools.count()
    items = itertools.cycle(list(corpus.memories(500, seed=9)))
    fresh = ((f"similar-{next(numbers)}", content, tags) for _, content, tags in items)
    report: dict[str, Any] = {}
    for level in (Level.PUBLIC, Level.RESTRICTED):
        session = session_at(store, level)
        figures = compare(
            {
                "save": lambda session=session: session.memory.save(*next(fresh)),
                "save with similar": lambda session=session: session.memory.save_with_similar(*next(fresh)),
            },
            calls=50,
        )
        report[level.name] = {"us": figures, "us over save": round(figures["save with similar"] - figures["save"], 1)}
    return {**report, "goal": {"us over save": 1_000}}


def context(store: Store) -> dict[str, Any]:
    """Measure the block of memories, without a message and chosen by one, from a session that sees all levels."""
    session = session_at(store, Level.RESTRICTED)
    note = ("the project meeting", ["project"])
    session.memory.save_many([(f"context-{number}", *note) for number in range(200)])
    figures = compare(
        {
            "no message": session.context,
            "by a message": lambda: session.context(query="when is the meeting of the project?"),
        },
        calls=20,
    )
    return {"us": figures, "ratio": ratios(figures, "no message")}


def listing(store: Store) -> dict[str, Any]:
    """Measure one page of 50 from a session that sees all levels: the first, the last, and one of a tag."""
    session = session_at(store, Level.RESTRICTED)
    last = _last_cursor(session)
    figures = compare(
        {
            "first page": lambda: session.memory.list().page(50),
            "last page": lambda: session.memory.list().page(50, last),
            "page of a tag": lambda: session.memory.list("topic-3").page(50),
        },
        calls=20,
    )
    return {"us": figures, "ratio": ratios(figures, "first page"), "goal": {"us": 1_000, "last page": 2}}


def delete(store: Store) -> dict[str, Any]:
    """Measure deleting memories that were just saved."""
    session = session_at(store, Level.PUBLIC)
    keys = [f"gone-{number}" for number in range(50 * 15)]
    session.memory.save_many(
        [(key, content, []) for key, (_, content, _) in zip(keys, corpus.memories(750), strict=True)]
    )
    left = iter(keys)
    return {"us": compare({"delete": lambda: session.memory.delete(next(left))}, calls=50)}


def hidden(folder: Path) -> dict[str, Any]:
    """Measure a public session's search with 0 and with 10,000 matches above it."""
    sessions = {}
    for name, matches in (("nothing above", 0), ("10,000 above", 10_000)):
        store = tidegate.open(folder / name.replace(",", ""))
        store.session(AGENT, level=Level.PUBLIC).memory.save_many(list(corpus.memories(1_000)))
        if matches:
            high = store.session(AGENT, level=Level.RESTRICTED)
            high.memory.save_many([(f"h-{key}", content, tags) for key, content, tags in corpus.memories(matches)])
        sessions[name] = store.session(AGENT, level=Level.PUBLIC)
    figures = compare(
        {
            name: lambda session=session: session.memory.search("the project meeting")
            for name, session in sessions.items()
        },
        calls=20,
    )
    return {"us": figures, "ratio": ratios(figures, "nothing above"), "goal": 1.0}


def session_at(store: Store, level: Level) -> Session:
    """Return the session of the benchmarks at a level."""
    return store.session(AGENT, f"bench-{level.name.lower()}", level)


def _last_cursor(session: Session) -> str | None:
    """Return the cursor of the last page: found from the second last key, since cursors come in order only."""
    cursor: str | None = None
    while True:
        page = session.memory.list().page(200, cursor)
        if page.next_cursor is None:
            return cursor
        cursor = page.next_cursor
