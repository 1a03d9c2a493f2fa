"""The public names, pinned: whoever adds or takes away one says so here."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import import_module, metadata
from typing import get_args

import pytest

import tidegate


def test_the_root_exports_exactly_these_names() -> None:
    assert sorted(tidegate.__all__) == [
        "Action",
        "Anchor",
        "AuditEvent",
        "AuditFilter",
        "AuditLine",
        "BackedUp",
        "ChainProblem",
        "ChainVerdict",
        "Context",
        "Conversation",
        "Deleted",
        "DeliveryState",
        "Entry",
        "Erased",
        "Explanation",
        "Exported",
        "Hit",
        "Hits",
        "Imported",
        "InvalidArgument",
        "Job",
        "Level",
        "LimitExceeded",
        "Limits",
        "Listing",
        "Memory",
        "Message",
        "NotFound",
        "Notice",
        "Origin",
        "Owner",
        "Page",
        "Pinned",
        "Plan",
        "PolicyRule",
        "Purged",
        "RecordKind",
        "Refused",
        "Relabelled",
        "Restored",
        "Rules",
        "Run",
        "RunState",
        "Saved",
        "SavedWithSimilar",
        "ScoreParts",
        "Session",
        "SessionJobs",
        "SessionMemory",
        "SessionRow",
        "SessionTodos",
        "Sessions",
        "SimilarKey",
        "Source",
        "Status",
        "StorageError",
        "Store",
        "TidegateError",
        "Todo",
        "TodoState",
        "Transfer",
        "Version",
        "VersionState",
        "open",
        "open_in_memory",
    ]


def test_the_version_is_that_of_the_package() -> None:
    assert tidegate.__version__ == metadata.version("tidegate")
    assert "__version__" in dir(tidegate)
    with pytest.raises(AttributeError, match="__author__"):
        tidegate.__author__  # type: ignore[attr-defined]  # noqa: B018


def test_dir_shows_them_before_any_was_asked_for() -> None:
    code = "import tidegate; print(sorted(set(tidegate.__all__) - set(dir(tidegate))), '__doc__' in dir(tidegate))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown == "[] True\n"


@pytest.mark.parametrize("name", tidegate.__all__)
def test_every_exported_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(tidegate, name))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (tidegate.InvalidArgument, "INVALID_ARGUMENT"),
        (tidegate.LimitExceeded, "LIMIT"),
        (tidegate.NotFound, "NOT_FOUND"),
        (tidegate.Refused, "REFUSED"),
        (tidegate.StorageError, "STORAGE"),
    ],
)
def test_every_error_has_its_code_and_one_root(error: type[tidegate.TidegateError], code: str) -> None:
    assert issubclass(error, tidegate.TidegateError)
    assert error.code == code


def test_levels_are_four_in_one_order() -> None:
    assert [level.name for level in sorted(tidegate.Level)] == ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"]


def test_open_takes_a_home_and_injectable_clock_and_ids() -> None:
    parameters = inspect.signature(tidegate.open).parameters
    assert list(parameters) == ["home", "clock", "ids"]
    assert parameters["clock"].kind is parameters["ids"].kind is inspect.Parameter.KEYWORD_ONLY
    assert list(inspect.signature(tidegate.open_in_memory).parameters) == ["clock", "ids"]


# Named without an underscore, and yet for the worker and the policy alone: docs/python.md does not name them.
INTERNAL = {"Session.runs", "Store.tidy_runs", "Store.flow", "SessionRow.state", "AuditFilter.accepts"}
OF_SESSIONS = {"find", "list", "new", "raise_taint", "read", "reset", "set_ceiling"}


def exported_classes() -> list[type]:
    return [found for name in tidegate.__all__ if inspect.isclass(found := getattr(tidegate, name))]


def public_members(kind: type) -> Iterator[tuple[str, object]]:
    for name, member in vars(kind).items():
        inner = kind is tidegate.Sessions and name not in OF_SESSIONS
        if not name.startswith("_") and not inner and f"{kind.__name__}.{name}" not in INTERNAL:
            yield name, member


@cache
def names_in(module: str) -> dict[str, object]:
    """All that the annotations of a module may name: its globals, and what it imports for the type checker alone."""
    loaded = import_module(module)
    names = dict(vars(loaded))
    for node in ast.walk(ast.parse(inspect.getsource(loaded))):
        if isinstance(node, ast.ImportFrom) and node.module:
            source = import_module(node.module)
            names |= {alias.asname or alias.name: getattr(source, alias.name, None) for alias in node.names}
    return names


def types_in(annotation: str, module: str) -> Iterator[type]:
    """The types of this project that an annotation names, also by an alias."""
    for node in ast.walk(ast.parse(annotation, mode="eval")):
        if isinstance(node, ast.Name):
            yield from _types(names_in(module).get(node.id))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from types_in(node.value, module)


def _types(found: object) -> Iterator[type]:
    if inspect.isclass(found) and not get_args(found):
        yield from [found] if found.__module__.startswith("tidegate") else []
    for each in get_args(found):
        yield from _types(each)


def annotations_of(kind: type) -> Iterator[tuple[str, str]]:
    """Each public field, parameter and answer of a class, with its annotation."""
    for name, member in public_members(kind):
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if inspect.isfunction(function):
            for parameter, annotation in function.__annotations__.items():
                yield f"{kind.__name__}.{name}({parameter})", annotation
    for field, annotation in inspect.get_annotations(kind).items() if is_dataclass(kind) else ():
        if not field.startswith("_"):
            yield f"{kind.__name__}.{field}", annotation


def reached() -> Iterator[tuple[str, type]]:
    """Where the public calls and values name a type of this project, and which."""
    for kind in exported_classes():
        for place, annotation in annotations_of(kind):
            yield from ((place, found) for found in types_in(annotation, kind.__module__))
    for call in (tidegate.open, tidegate.open_in_memory):
        for parameter, annotation in call.__annotations__.items():
            yield from ((f"{call.__name__}({parameter})", found) for found in types_in(annotation, "tidegate"))


def test_every_type_that_a_public_call_takes_or_gives_is_exported() -> None:
    exported = exported_classes()
    assert [f"{place}: {found.__name__}" for place, found in reached() if found not in exported] == []


def test_the_walk_over_annotations_reaches_what_it_should() -> None:
    assert {(place, found.__name__) for place, found in reached()} >= {
        ("open(return)", "Store"),
        ("Store.session(return)", "Session"),
        ("Store.owner(return)", "Owner"),  # imported for the type checker alone
        ("SessionMemory.search(return)", "Hits"),
        ("Hits.hits", "Hit"),
        ("Owner.verify(return)", "ChainVerdict"),
        ("Session.jobs(return)", "SessionJobs"),
        ("Transfer.import_from(notice)", "Notice"),
    }


def test_what_a_store_and_a_session_hold_is_of_exported_types() -> None:
    with tidegate.open_in_memory() as store:
        held = {**vars(store), **vars(store.session("assistant"))}
    kinds = {type(value) for name, value in held.items() if not name.startswith("_")}
    mine = {kind for kind in kinds if kind.__module__.startswith("tidegate")}
    assert {kind.__name__ for kind in mine if getattr(tidegate, kind.__name__, None) is not kind} == set()
    assert len(mine) == 5


CHOICES = {tidegate.AuditFilter, tidegate.Rules}  # taken, and never given


def test_every_answer_has_a_form_for_json() -> None:
    assert [
        kind.__name__
        for kind in exported_classes()
        if is_dataclass(kind) and kind not in CHOICES and not hasattr(kind, "to_dict")
    ] == []


def test_in_json_levels_and_other_choices_are_text_and_times_iso() -> None:
    with tidegate.open_in_memory(clock=lambda: datetime(2031, 5, 6, 7, 8, 9, 10, UTC)) as store:
        session = store.session("assistant", level=tidegate.Level.INTERNAL)
        saved = session.memory.save("tea", "green tea", ["drink"])
        session.todos.write([{"content": "buy tea"}])
        hits = session.memory.search("tea")
        assert saved.to_dict() == {"key": "tea", "classification": "INTERNAL", "version": 1, "status": "created"}
        assert hits.to_dict() == {
            "hits": [
                {
                    "key": "tea",
                    "content": "green tea",
                    "classification": "INTERNAL",
                    "tags": ["drink"],
                    "version": 1,
                    "origin": "agent",
                    "created_at": "2031-05-06T07:08:09.000010Z",
                    "updated_at": "2031-05-06T07:08:09.000010Z",
                    "truncated": False,
                    "newer_below": None,
                    "score": hits[0].score,
                }
            ],
            "complete": True,
        }
        answers = [
            *store.owner("assistant").find_audit_lines(),
            *store.owner("assistant").history("tea"),
            *store.owner("assistant").verify(),
            *session.todos.read(),
            *store.sessions.list("assistant"),
            session.memory.explain("tea"),
            session.memory.list().page(),
            session.context(),
            session.limits,
        ]
        for answer in answers:
            assert json.loads(json.dumps(answer.to_dict())) == answer.to_dict()


def test_hits_are_a_sequence_that_says_whether_it_is_complete() -> None:
    with tidegate.open_in_memory() as store:
        memory = store.session("assistant").memory
        memory.save_many([("a", "green tea", None), ("b", "black tea", None)])
        hits = memory.search("tea")
        assert ([hit.key for hit in hits], len(hits), hits.complete) == (["a", "b"], 2, True)
        assert (hits[0].key, [hit.key for hit in hits[1:]], hits[1] in hits) == ("a", ["b"], True)
        assert hits == [*hits] == list(memory.search("tea"))
        assert hits == memory.search("tea")
        assert hash(hits) == hash(memory.search("tea"))
        assert hits != tidegate.Hits(hits.hits, complete=False)
        assert hits != hits.hits
        assert not memory.search("coffee")
