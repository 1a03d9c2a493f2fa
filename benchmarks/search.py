"""Search beside bare FTS5 on the same terms: rare and common words, a question, no match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from benchmarks import corpus
from benchmarks.measure import compare
from benchmarks.verbs import AGENT, session_at
from tidegate import Level, Store
from tidegate.search.analysis import analyse_query

QUERIES = {
    "rare word": corpus.word(40_000),
    "medium word": corpus.word(900),
    "common word": "meeting",
    "question with common words": f"what is the {corpus.word(9_000)} of the project meeting in {corpus.word(20_000)}?",
    "no match": "xylophonequartz",
}
GOAL_MS = {100_000: 8, 1_000_000: 25}
_BARE = "SELECT rowid FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT 10"


def search(store: Store, home: Path, size: int) -> dict[str, Any]:
    """Measure microseconds of each query for a PUBLIC and a RESTRICTED session, and over every file with FTS5 alone."""
    report: dict[str, Any] = {}
    for name, query in QUERIES.items():
        report[name] = {level.name: _search(store, home, level, query) for level in (Level.PUBLIC, Level.RESTRICTED)}
    return {"us": report, "goal": {"bare": "2x + 500", "ms": GOAL_MS.get(size)}}


def _search(store: Store, home: Path, level: Level, query: str) -> dict[str, float]:
    session = session_at(store, level)
    expression = " OR ".join(f'"{term}"' for term in analyse_query(query).terms)
    files = [home / "agents" / AGENT / f"{each.name.lower()}.db" for each in Level if each.can_flow_to(level)]
    bare = [apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY) for file in files]
    figures = compare(
        {
            "bare": lambda: [each.execute(_BARE, (expression,)).fetchall() for each in bare],
            "analysis": lambda: analyse_query(query),
            "search": lambda: session.memory.search(query),
        },
        calls=3,
        rounds=7,
    )
    for each in bare:
        each.close()
    return figures
