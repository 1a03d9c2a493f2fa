"""The five memory tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.records.limits import PAGE_DEFAULT, PAGE_MAX, RESULTS_DEFAULT, RESULTS_MAX
from tidegate.records.validation import check_key
from tidegate.tools import results, schema
from tidegate.tools.tool import Annotations, Arguments, Schema, Tool

if TYPE_CHECKING:
    from tidegate.session import Session

_READS = Annotations(read_only=True, destructive=False, idempotent=True)

_KEY = schema.text("Key", "The exact key.")
_SHORT: dict[str, Schema] = {
    "key": schema.TEXT,
    "content": schema.TEXT,
    "classification": schema.TEXT,
    "tags": schema.TEXTS,
    "origin": schema.TEXT,
    "updated_at": schema.TEXT,
    "truncated": schema.FLAG,
}


def _save(session: Session, arguments: Arguments) -> dict[str, Any]:
    return results.saved_with_similar(session.memory.save_with_similar(**arguments))


def _get(session: Session, arguments: Arguments) -> dict[str, Any]:
    memory = session.memory.get(arguments["key"])
    # An unknown key is answered in its stored form.
    return results.found(memory.key if memory else check_key(arguments["key"], session.limits), memory)


def _search(session: Session, arguments: Arguments) -> dict[str, Any]:
    return results.searched(arguments["query"], session.memory.search(**arguments))


def _list(session: Session, arguments: Arguments) -> dict[str, Any]:
    return results.listed(session.memory.list(arguments.pop("tag", None)).page(**arguments))


def _delete(session: Session, arguments: Arguments) -> dict[str, Any]:
    return results.deleted(session.memory.delete(**arguments))


SAVE = Tool(
    name="memory_save",
    title="Save a memory",
    description=(
        "Save a fact for later conversations. Use it without being asked when you learn something that will "
        "matter. A save under an existing key replaces that memory and its tags."
    ),
    input_schema=schema.inputs(
        {
            "key": schema.text(
                "Key",
                "A short, stable name, such as user-name or project-apollo-deadline. One fact, one key.",
            ),
            "content": schema.text("Content", "What to remember, in sentences that make sense on their own."),
            "tags": schema.array(
                "Tags",
                "Such as persona, preference, rule or project. Send all tags each time.",
                schema.TEXT,
            ),
        },
        required=["key", "content"],
    ),
    output_schema=schema.outputs(
        {
            "saved": schema.FLAG,
            "key": schema.TEXT,
            "classification": schema.TEXT,
            "version": schema.COUNT,
            "status": schema.TEXT,
            "similar": schema.OBJECTS,
        }
    ),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True),
    work=_save,
)

GET = Tool(
    name="memory_get",
    title="Get a memory",
    description="Read one memory in full. Use it when you know the key, or when a result is truncated.",
    input_schema=schema.inputs({"key": _KEY}, required=["key"]),
    output_schema=schema.outputs(
        {
            "found": schema.FLAG,
            "key": schema.TEXT,
            "content": schema.TEXT,
            "classification": schema.TEXT,
            "tags": schema.TEXTS,
            "version": schema.COUNT,
            "origin": schema.TEXT,
            "created_at": schema.TEXT,
            "updated_at": schema.TEXT,
            "newer_below": {
                **schema.TEXT,
                "description": "This key was saved later at this lower level.",
            },
        }
    ),
    annotations=_READS,
    work=_get,
)

SEARCH = Tool(
    name="memory_search",
    title="Search memories",
    description=(
        "Find memories by words or a question, in any language, best match first. Use it when a conversation starts "
        "and before you ask the user a question."
    ),
    input_schema=schema.inputs(
        {
            "query": schema.text("Query", "The words or the question."),
            "max_results": schema.limit(
                "Maximum results", "How many to return.", most=RESULTS_MAX, default=RESULTS_DEFAULT
            ),
            "tag": schema.text("Tag", "Only with this tag."),
            "since": schema.text("Since", "Saved at this time or later, such as 2030-05-01."),
            "until": schema.text("Until", "Saved until this time."),
        },
        required=["query"],
    ),
    output_schema=schema.outputs(
        {
            "query": schema.TEXT,
            "results": schema.list_of({**_SHORT, "score": schema.NUMBER}),
            "complete": {**schema.FLAG, "description": "False: more may match."},
        }
    ),
    annotations=_READS,
    work=_search,
)

LIST = Tool(
    name="memory_list",
    title="List memories",
    description=(
        "List memories by key. Use it to see all of them, or all with one tag. To find one fact, use memory_search."
    ),
    input_schema=schema.inputs(
        {
            "tag": schema.text("Tag", "Only with this tag."),
            "limit": schema.limit("Limit", "How many to return.", most=PAGE_MAX, default=PAGE_DEFAULT),
            "cursor": schema.text("Cursor", "next_cursor of the previous page. Send the same tag again."),
        }
    ),
    output_schema=schema.outputs(
        {
            "memories": schema.list_of(_SHORT),
            "next_cursor": {"type": ["string", "null"], "description": "Null on the last page."},
        }
    ),
    annotations=_READS,
    work=_list,
)

DELETE = Tool(
    name="memory_delete",
    title="Delete a memory",
    description=(
        "Delete one memory. Use it when the user asks you to, or when a memory is wrong and nothing replaces it. "
        "To correct it, save the new fact under its key."
    ),
    input_schema=schema.inputs({"key": _KEY}, required=["key"]),
    output_schema=schema.outputs(
        {
            "deleted": schema.FLAG,
            "key": schema.TEXT,
            "classification": schema.TEXT,
            "still_visible": {
                **schema.TEXT,
                "description": "This key is still visible at this level.",
            },
        }
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_delete,
)
