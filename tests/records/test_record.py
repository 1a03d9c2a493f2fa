"""Records and drafts: what a version is, and what only a compartment may say of it."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from datetime import UTC, datetime

import pytest

from tidegate.policy.levels import Level
from tidegate.records.memory import Deleted, Hit, Memory, Page, Saved
from tidegate.records.record import Draft, Origin, Record, RecordKind

AT = datetime(2030, 1, 1, tzinfo=UTC)
VERSION = {
    "kind": RecordKind.MEMORY,
    "key": "k",
    "content": "c",
    "tags": ("t",),
    "origin": Origin.AGENT,
    "version": 1,
    "nonce": "n",
    "created_at": AT,
    "updated_at": AT,
}


def record(**changes: object) -> Record:
    return Record(**{**VERSION, "agent": "a", "level": Level.PUBLIC, **changes})  # type: ignore[arg-type]


def test_a_draft_names_no_level_and_no_agent() -> None:
    assert {field.name for field in fields(Draft)} == {*VERSION, "pinned"}
    for name, value in (("level", Level.PUBLIC), ("agent", "a"), ("deleted_at", AT)):
        with pytest.raises(TypeError):
            Draft(**VERSION, **{name: value})  # type: ignore[arg-type]


def test_a_record_adds_what_its_compartment_vouches_for() -> None:
    assert {field.name for field in fields(Record)} - {*VERSION, "pinned"} == {"agent", "level", "deleted_at"}
    with pytest.raises(TypeError):
        Record(**VERSION)  # type: ignore[call-arg,arg-type]


def test_a_record_lives_until_it_is_deleted() -> None:
    assert record().live
    assert not record(deleted_at=AT).live


@pytest.mark.parametrize("name", [*VERSION, "agent", "level", "deleted_at"])
def test_nothing_in_a_record_can_be_changed(name: str) -> None:
    with pytest.raises(FrozenInstanceError):
        setattr(record(), name, None)


def test_nothing_can_be_added_to_a_record() -> None:
    with pytest.raises((AttributeError, TypeError)):
        record().note = "x"  # type: ignore[attr-defined]
    assert not hasattr(record(), "__dict__")


@pytest.mark.parametrize("kind", [Memory, Hit, Page, Saved, Deleted])
def test_what_the_verbs_answer_is_frozen_too(kind: type) -> None:
    assert kind.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert hasattr(kind, "__slots__")


def test_the_words_of_origin_are_the_documented_ones() -> None:
    assert [str(origin) for origin in Origin] == ["agent", "owner", "tool", "import"]


def test_kinds_have_names_of_their_own() -> None:
    assert len({str(kind) for kind in RecordKind}) == len(RecordKind)
    assert str(RecordKind.MEMORY) == "memory"
