"""The five memory tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidegate.records.limits import PAGE_DEFAULT, PAGE_MAX, RESULTS_DEFAULT, RESULTS_MAX
from tidegate.records.memory import Status
from tidegate.records.record import Origin
from tidegate.records.validation import check_key
from tidegate.tools import results, schema
from tidegate.tools.tool import Annotations, Arguments, Schema, Tool

if TYPE_CHECKING:
    from tidegate.session import Session

_READS = Annotations(read_only=True, destructive=False, idempotent=True)

_KEY = schema.text("Key", "The memory's name, exactly as it was saved.")
_FOUND_KEY = schema.text("Key", "The memory's name.")
_CLASSIFICATION = schema.level("Classification", "The memory's level. It is set by the session, never by an argument.")
_TAGS = schema.array("Tags", "The memory's tags, in order.", schema.text("Tag", "One tag."))
_ORIGIN = schema.choice(
    "Origin",
    "Where it came from: saved by an agent, by the owner, by a tool, or imported.",
    [str(each) for each in Origin],
)
_UPDATED_AT = schema.time("Updated at", "When it was last saved.")
_VERSION = schema.count("Version", "Counts the changes under this key at this level.")

_SHORT: dict[str, Schema] = {
    "key": _FOUND_KEY,
    "content": schema.text("Content", "What was saved, or its first 500 characters."),
    "classification": _CLASSIFICATION,
    "tags": _TAGS,
    "origin": _ORIGIN,
    "updated_at": _UPDATED_AT,
    "truncated": schema.flag("Truncated", "There, and true, when the content was cut; memory_get gives all of it."),
}


def _save(session: Session, arguments: Arguments) -> dict[str, Any]:
    return results.saved(session.memory.save(**arguments))


def _get(session: Session, arguments: Arguments) -> dict[str, Any]:
    key = check_key(arguments["key"], session.limits)  # a key that is not there is answered in the form it would have
    return results.found(key, session.memory.get(key))


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
        "Remember something for later conversations: a fact, a preference, a rule, the state of a project. "
        "Use it unasked, whenever you learn something worth knowing next time. "
        "Saving under a key that exists replaces that memory; earlier versions are kept for the owner."
    ),
    input_schema=schema.inputs(
        {
            "key": schema.text(
                "Key",
                "A short, stable name in lower case with hyphens, such as user-name or project-apollo-deadline. "
                "Use the same key to update the same fact.",
            ),
            "content": schema.text(
                "Content", "What to remember, in full sentences that make sense without this conversation."
            ),
            "tags": schema.array(
                "Tags",
                "A few words to list it by, such as persona, preference, rule or project. When you save it again, give "
                "again those that are to stay.",
                schema.text("Tag", "One word or short phrase."),
            ),
        },
        required=["key", "content"],
    ),
    output_schema=schema.outputs(
        {
            "saved": schema.flag("Saved", "True: it is stored."),
            "key": _FOUND_KEY,
            "classification": _CLASSIFICATION,
            "version": _VERSION,
            "status": schema.choice(
                "Status", "Whether it is new, replaces another, or was there already.", [str(each) for each in Status]
            ),
        }
    ),
    annotations=Annotations(read_only=False, destructive=False, idempotent=True),
    work=_save,
)

GET = Tool(
    name="memory_get",
    title="Get a memory",
    description=(
        "Read one memory in full by its exact key. "
        "Use it when you know the key, or to see all of a memory that memory_search or memory_list cut short."
    ),
    input_schema=schema.inputs({"key": _KEY}, required=["key"]),
    output_schema=schema.outputs(
        {
            "found": schema.flag("Found", "Whether there is such a memory. If not, only the key comes with it."),
            "key": _FOUND_KEY,
            "content": schema.text("Content", "What was saved, whole."),
            "classification": _CLASSIFICATION,
            "tags": _TAGS,
            "version": _VERSION,
            "origin": _ORIGIN,
            "created_at": schema.time("Created at", "When it was first saved."),
            "updated_at": _UPDATED_AT,
            "newer_below": schema.level(
                "Newer below", "There when a lower level holds a later memory under this key: this one may be stale."
            ),
        }
    ),
    annotations=_READS,
    work=_get,
)

SEARCH = Tool(
    name="memory_search",
    title="Search memories",
    description=(
        "Find memories by meaningful words; the best match comes first. "
        "Use it at the start of a conversation, and before you ask the user something you may have been told already. "
        "Plain words in any language, also a whole question; nothing in the query is syntax."
    ),
    input_schema=schema.inputs(
        {
            "query": schema.text("Query", "The words or the question to look for."),
            "max_results": schema.limit(
                "Maximum results", "How many memories to return at most.", most=RESULTS_MAX, default=RESULTS_DEFAULT
            ),
        },
        required=["query"],
    ),
    output_schema=schema.outputs(
        {
            "query": schema.text("Query", "The query, as it was asked."),
            "results": schema.array(
                "Results",
                "Memories that match, best first; none is an empty list.",
                schema.record(
                    "Result",
                    "One memory that matches.",
                    {
                        **_SHORT,
                        "score": {
                            "type": "number",
                            "title": "Score",
                            "description": "How well it matches: higher is better, comparable within this answer only.",
                        },
                    },
                ),
            ),
            "complete": schema.flag("Complete", "False when the search ended early, so that more may match."),
        }
    ),
    annotations=_READS,
    work=_search,
)

LIST = Tool(
    name="memory_list",
    title="List memories",
    description=(
        "Go through the memories in the order of their keys, all of them or those with one tag. "
        "Use it to see what is known, for example all memories tagged preference; to find something, use memory_search."
    ),
    input_schema=schema.inputs(
        {
            "tag": schema.text("Tag", "Only memories that carry exactly this tag."),
            "limit": schema.limit("Limit", "How many memories to return at most.", most=PAGE_MAX, default=PAGE_DEFAULT),
            "cursor": schema.text(
                "Cursor", "next_cursor of the answer before, to go on after it, with the same tag. Left out: the start."
            ),
        }
    ),
    output_schema=schema.outputs(
        {
            "memories": schema.array(
                "Memories",
                "The memories of this page; none is an empty list.",
                schema.record("Memory", "One memory.", _SHORT),
            ),
            "next_cursor": {
                "type": ["string", "null"],
                "title": "Next cursor",
                "description": "Where the next page starts; null at the end.",
            },
        }
    ),
    annotations=_READS,
    work=_list,
)

DELETE = Tool(
    name="memory_delete",
    title="Delete a memory",
    description=(
        "Forget one memory by its exact key. Use it when the user asks for that, or when a memory is wrong and nothing "
        "replaces it; to correct one, save it again under its key. Only this session's own level is touched."
    ),
    input_schema=schema.inputs({"key": _KEY}, required=["key"]),
    output_schema=schema.outputs(
        {
            "deleted": schema.flag("Deleted", "True: it is gone from every later answer."),
            "key": _FOUND_KEY,
            "classification": _CLASSIFICATION,
            "still_visible": schema.level(
                "Still visible", "There when a memory of a lower level shows again under this key: its level."
            ),
        }
    ),
    annotations=Annotations(read_only=False, destructive=True, idempotent=True),
    work=_delete,
)
