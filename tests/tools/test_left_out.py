"""Arguments that a strict client has to send although the model has nothing to say: they count as left out."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.errors import InvalidArgument
from tidegate.store import Store
from tidegate.tools import AGENT_TOOLS

SAYS_NOTHING = (None, "", " \t\n", [])
SENT: dict[str, Any] = {
    "key": "k",
    "content": "word",
    "query": "word",
    "todos": [{"content": "x"}],
    "name": "job",
    "schedule": "@daily",
    "prompt": "do it",
}
OPTIONAL = [
    (tool.name, name)
    for tool in AGENT_TOOLS.values()
    for name in tool.input_schema["properties"]
    if name not in tool.input_schema["required"]
]


def result(store: Store, agent: str, name: str, **more: Any) -> dict[str, Any]:
    """What a tool answers to an agent that has one memory and one job, without the times."""
    session, tool = store.session(agent), AGENT_TOOLS[name]
    session.memory.save("k", "word", ["t"])
    session.jobs.create("job", "@hourly", "do it")
    answered = tool.run(session, {**{each: SENT[each] for each in tool.input_schema["required"]}, **more})
    return timeless(answered)


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if not key.endswith("_at")}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def test_there_are_optional_arguments_of_every_kind() -> None:
    kinds = {AGENT_TOOLS[name].input_schema["properties"][argument]["type"] for name, argument in OPTIONAL}
    assert kinds == {"string", "array", "integer"}


@pytest.mark.parametrize(("name", "argument"), OPTIONAL)
@pytest.mark.parametrize("value", SAYS_NOTHING)
def test_an_optional_argument_that_says_nothing_is_as_if_left_out(
    store: Store, name: str, argument: str, value: object
) -> None:
    assert result(store, "one", name, **{argument: value}) == result(store, "two", name)


@pytest.mark.parametrize("name", AGENT_TOOLS)
def test_a_strict_client_can_call_every_tool_with_nothing_optional(store: Store, name: str) -> None:
    optional = {argument: "" for tool, argument in OPTIONAL if tool == name}
    assert result(store, "one", name, **optional) == result(store, "two", name)


@pytest.mark.parametrize("state", [None, "", []])
def test_the_state_of_a_to_do_may_say_nothing_too(store: Store, state: object) -> None:
    answered = AGENT_TOOLS["todo_write"].run(store.session("one"), {"todos": [{"content": "x", "state": state}]})
    assert answered == {"todos": [{"content": "x", "state": "pending"}]}


def test_a_required_argument_stays_required(store: Store) -> None:
    session = store.session("one")
    for name, argument in (("memory_get", "key"), ("memory_save", "content"), ("cron_delete", "name")):
        tool = AGENT_TOOLS[name]
        sent = {each: SENT[each] for each in tool.input_schema["required"]}
        with pytest.raises(InvalidArgument, match=f"^{argument}: "):
            tool.run(session, {**sent, argument: ""})


def test_an_empty_query_and_an_empty_list_say_something_where_they_are_required(store: Store) -> None:
    session = store.session("one")
    assert AGENT_TOOLS["memory_search"].run(session, {"query": ""})["results"] == []
    session.todos.write([{"content": "x"}])
    assert AGENT_TOOLS["todo_write"].run(session, {"todos": []}) == {"todos": []}


@pytest.mark.parametrize("value", [0, False, {}, [""], ["x"]])
def test_what_says_something_of_another_kind_is_still_refused(store: Store, value: object) -> None:
    with pytest.raises(InvalidArgument, match=r"^limit: "):
        AGENT_TOOLS["memory_list"].run(store.session("one"), {"limit": value})
