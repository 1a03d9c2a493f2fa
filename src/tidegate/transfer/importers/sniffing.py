"""What a source is, by the names of the fields in it."""

from __future__ import annotations

from tidegate.transfer.export import FORMAT
from tidegate.transfer.importers.raw_memory import Source

_CLAUDE = frozenset({"conversations_memory", "project_memories", "memory_files"})
_MEM0 = frozenset({"memory", "user_id", "hash", "state", "categories", "category_ids"})


def source_of_line(value: object) -> Source | None:
    """Whose line of JSON Lines a value is; None for no line of any that is known."""
    if not isinstance(value, dict):
        return None
    if value.get("format") == FORMAT or "key" in value:
        return Source.TIDEGATE
    if value.get("type") in ("entity", "relation"):
        return Source.MCP
    return Source.MEM0 if "id" in value and _source_of_entry(value) is Source.MEM0 else None


def source_of_document(value: object) -> Source | None:
    """Whose JSON document a value is; None for none that is known."""
    if isinstance(value, list):
        return _source_of_entry(value[0]) if value else None
    if not isinstance(value, dict):
        return None
    if _CLAUDE & value.keys():
        return Source.CLAUDE
    if isinstance(value.get("entities"), list) or isinstance(value.get("relations"), list):
        return Source.MCP
    lists = (value[name] for name in ("results", "memories") if isinstance(value.get(name), list))
    return next((_source_of_entry(each[0]) for each in lists if each), None)


def _source_of_entry(entry: object) -> Source | None:
    if isinstance(entry, str):
        return Source.CHATGPT
    if not isinstance(entry, dict):
        return None
    if _CLAUDE & entry.keys():
        return Source.CLAUDE
    if _MEM0 & entry.keys():
        return Source.MEM0
    return Source.CHATGPT if "content" in entry else None
