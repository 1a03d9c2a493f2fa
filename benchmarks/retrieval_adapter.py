"""Drives the real library on the real SQLite store for a retrieval evaluation.

One JSON object per line in, one per line out:
    {"op": "index", "agent": A, "memories": [{"id": I, "text": T}, ...]}  ->  {"ok": true}
    {"op": "search", "agent": A, "query": Q, "k": K}                      ->  {"ids": [I, ...]}
Ids are opaque: each memory gets a key without meaning, which is mapped back.
"""

from __future__ import annotations

import json
import sys
import tempfile
from typing import Any

import tidegate
from tidegate import Store

BATCH = 500


class Adapter:
    """One store, one agent of it for each agent of the evaluation."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._agents: dict[str, str] = {}
        self._ids: dict[tuple[str, str], str] = {}

    def index(self, agent: str, memories: list[dict[str, str]]) -> None:
        """Save all memories of an agent."""
        name = self._agents.setdefault(agent, f"agent-{len(self._agents)}")
        session = self._store.session(name)
        for start in range(0, len(memories), BATCH):
            items = []
            for number, memory in enumerate(memories[start : start + BATCH], start):
                key = _wordless(number)
                self._ids[name, key] = memory["id"]
                items.append((key, memory["text"], None))
            session.memory.save_many(items)

    def search(self, agent: str, query: str, k: int) -> list[str]:
        """Return the ids of the best `k`."""
        name = self._agents[agent]
        hits = self._store.session(name).memory.search(query, max_results=k)
        return [self._ids[name, hit.key] for hit in hits]


def _wordless(number: int) -> str:
    """Return a key that names nothing: its number in signs that no analysis takes for words."""
    return f"{number:b}".translate({ord("0"): "-", ord("1"): "_"})


def main() -> None:
    with tempfile.TemporaryDirectory() as home, tidegate.open(home) as store:
        adapter = Adapter(store)
        for line in sys.stdin:
            request: dict[str, Any] = json.loads(line)
            if request["op"] == "index":
                adapter.index(request["agent"], request["memories"])
                answer: dict[str, Any] = {"ok": True}
            else:
                answer = {"ids": adapter.search(request["agent"], request["query"], request["k"])}
            print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
