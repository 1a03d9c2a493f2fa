"""Results as JSON objects: exactly the documented fields, always in the same order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.records.memory import Deleted, Explanation, Hits, Memory, Page, Saved, SavedWithSimilar, ScoreParts
from tidegate.records.record import Origin
from tidegate.records.times import write_timestamp


def origins_in(result: object) -> Iterator[Origin]:
    """Yield the origins of the records in a result."""
    if isinstance(result, Mapping):
        if "origin" in result:
            yield Origin(result["origin"])
        for each in result.values():
            yield from origins_in(each)
    elif isinstance(result, list):
        for each in result:
            yield from origins_in(each)


def saved(value: Saved) -> dict[str, Any]:
    """Return the result of a save."""
    return {
        "saved": True,
        "key": value.key,
        "classification": str(value.classification),
        "version": value.version,
        "status": str(value.status),
    }


def saved_with_similar(value: SavedWithSimilar) -> dict[str, Any]:
    """Return the result of a model's save: with the similar keys, if there are any."""
    result = saved(value)
    similar = [
        {"key": each.key, "classification": str(each.classification), "origin": str(each.origin)}
        for each in value.similar
    ]
    return {**result, "similar": similar} if similar else result


def found(key: str, memory: Memory | None) -> dict[str, Any]:
    """Return the result of a get: a hidden memory and one that never existed look alike (P8)."""
    if memory is None:
        return {"found": False, "key": key}
    updated_at = write_timestamp(memory.updated_at)
    once = memory.created_at == memory.updated_at  # as most were: to write a time takes as long as all the rest
    result = {
        "found": True,
        "key": memory.key,
        "content": memory.content,
        "classification": str(memory.classification),
        "tags": list(memory.tags),
        "version": memory.version,
        "origin": str(memory.origin),
        "created_at": updated_at if once else write_timestamp(memory.created_at),
        "updated_at": updated_at,
    }
    return result if memory.newer_below is None else {**result, "newer_below": str(memory.newer_below)}


def searched(query: str, hits: Hits) -> dict[str, Any]:
    """Return the result of a search."""
    results = [{**_memory(hit), "score": hit.score} for hit in hits]
    return {"query": query, "results": results, "complete": hits.complete}


def explained(query: str, explanation: Explanation) -> dict[str, Any]:
    """Return the result of a search, with its explanation: for the owner, not a tool's result."""
    how = {
        "words": {word: list(terms) for word, terms in explanation.words.items()},
        "looked_up": list(explanation.looked_up),
        "common": [list(terms) for terms in explanation.common],
        "parts": [_parts(parts) for parts in explanation.parts],
    }
    return {**searched(query, explanation.found), "explanation": how}


def listed(page: Page) -> dict[str, Any]:
    """Return the result of a list."""
    return {"memories": [_memory(memory) for memory in page.memories], "next_cursor": page.next_cursor}


def deleted(value: Deleted) -> dict[str, Any]:
    """Return the result of a delete."""
    result = {"deleted": True, "key": value.key, "classification": str(value.classification)}
    return result if value.still_visible is None else {**result, "still_visible": str(value.still_visible)}


def _parts(parts: ScoreParts) -> dict[str, Any]:
    return {
        "score": parts.score,
        "bm25": parts.bm25,
        "common": parts.common,
        "ngrams": parts.ngrams,
        "feedback": parts.feedback,
    }


def _memory(memory: Memory) -> dict[str, Any]:
    result = {
        "key": memory.key,
        "content": memory.content,
        "classification": str(memory.classification),
        "tags": list(memory.tags),
        "origin": str(memory.origin),
        "updated_at": write_timestamp(memory.updated_at),
    }
    return {**result, "truncated": True} if memory.truncated else result
