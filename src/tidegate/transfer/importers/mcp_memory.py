"""The knowledge graph of the Model Context Protocol's memory server: its file, or the answer of `read_graph`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tidegate.files import TextLine
from tidegate.transfer.importers.labels import highest, label_beside, label_in
from tidegate.transfer.importers.own_labels import label_in_text
from tidegate.transfer.importers.raw_memory import RawMemory, Rejected
from tidegate.transfer.importers.source_file import (
    OWN,
    SHARED,
    Clue,
    Document,
    Line,
    Memories,
    Read,
    SourceFile,
    object_of,
    read_document,
)

_LISTS = ("entities", "relations")
_EXPECTED = "is not a graph of the MCP memory server; expected `entities` and `relations`, or one of them a line"
_ENTITY_FIELDS = ("name", "entityType", "observations")
_RELATION_FIELDS = ("from", "to", "relationType")


@dataclass(slots=True)
class _Node:
    """An entity with its outgoing relations: it becomes one memory."""

    place: str
    kind: str | None = None
    observations: list[str] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    relations: list[str] = field(default_factory=list)
    label: object = None


def weigh(clue: Clue) -> int:
    """Return how much a clue belongs to a graph: its entities and relations; other programs have lists of that name."""
    match clue:
        case Line({"type": "entity" | "relation"}):
            return OWN
        case Document(dict() as graph):
            lists = {name: graph[name] for name in _LISTS if isinstance(graph.get(name), list)}
            known = [*filter(_is_entity, lists.get("entities", ())), *filter(_is_relation, lists.get("relations", ()))]
            return SHARED * len(lists) + OWN * len(known)
    return 0


def reader(file: SourceFile) -> Read:
    """Return a reader of a graph."""
    if file.in_lines:
        return lambda: read_lines(file.lines())
    return lambda: read_document(file, read_graph, lists=_LISTS, expected=_EXPECTED)


def read_lines(lines: Iterable[TextLine]) -> Memories:
    """Yield the memories of `memory.jsonl`, which older versions called `memory.json`."""
    nodes: dict[str, _Node] = {}
    for line in lines:
        item = object_of(line)
        problem = item if isinstance(item, Rejected) else _take(nodes, line.place, item, item.get("type"))
        if problem:
            yield problem
    yield from _memories(nodes)


def read_graph(graph: object) -> Memories:
    """Yield the memories of one object with lists of entities and relations."""
    nodes: dict[str, _Node] = {}
    if not isinstance(graph, dict):
        yield Rejected("file", "has neither entities nor relations")
        return
    label = label_beside(graph, _LISTS)
    known = any(isinstance(graph.get(name), list) for name in _LISTS)
    for kind, name in zip(("entity", "relation"), _LISTS, strict=True):
        items = graph.get(name)
        if known and not isinstance(items, list | None):
            yield Rejected(name, "is not a list")
        for number, item in enumerate(items if isinstance(items, list) else (), 1):
            problem = _take(nodes, f"{kind} {number}", item, kind)
            if problem:
                yield problem
    yield from _memories(nodes, label)


def _take(nodes: dict[str, _Node], place: str, item: object, kind: object) -> Rejected | None:
    if kind == "entity" and _is_entity(item):
        node = nodes.setdefault(item["name"], _Node(place))
        node.kind = item["entityType"]
        node.observations += [text for text in item["observations"] if text not in node.known]
        node.known.update(item["observations"])
        node.label = highest((node.label, *map(label_in_text, item["observations"])))
    elif kind == "relation" and _is_relation(item):
        start, end, relation = (item[name] for name in _RELATION_FIELDS)
        node = nodes.setdefault(start, _Node(place))
        node.relations.append(f"{start} {relation} {end}")
    else:
        return Rejected(place, "is neither an entity nor a relation")
    node.label = highest((node.label, label_in(item)))
    return None


def _is_entity(item: object) -> TypeGuard[dict[str, Any]]:
    if not isinstance(item, dict):
        return False
    name, kind, observations = (item.get(name) for name in _ENTITY_FIELDS)
    texts = [name, kind, *observations] if isinstance(observations, list) else [None]
    return all(isinstance(text, str) for text in texts)


def _is_relation(item: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(item, dict) and all(isinstance(item.get(name), str) for name in _RELATION_FIELDS)


def _memories(nodes: Mapping[str, _Node], label: object = None) -> Iterator[RawMemory]:
    for name, node in nodes.items():
        lines = [*node.observations, *node.relations] or [f"{name}: {node.kind}"]
        yield RawMemory(
            place=node.place,
            key=name,
            content="\n".join(lines),
            tags=[node.kind] if node.kind else [],
            label=highest((label, node.label)),
        )
