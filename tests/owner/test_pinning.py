"""Pins: the owner's mark on a memory at one level, which no model sets and no less trusted version keeps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.core.scene import AGENT, Open, Scene

from tidegate import InvalidArgument, Level, LimitExceeded, NotFound, Refused
from tidegate.audit.chain import Action
from tidegate.records.expiry import Expiry
from tidegate.records.memory import Status
from tidegate.records.record import Origin
from tidegate.records.version import Pinned
from tidegate.storage.base import Compartment
from tidegate.tools import AGENT_TOOLS

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level


def pin(scene: Scene, key: str, level: Level = PUBLIC) -> Pinned:
    return scene.store.owner(AGENT).pin(key, level)


def pinned(scene: Scene, level: Level | None = None) -> list[tuple[str, Level]]:
    return [(each.key, each.classification) for each in scene.store.owner(AGENT).pinned(level)]


def save(scene: Scene, origin: Origin, content: str, key: str = "k") -> None:
    scene.store.session(AGENT, level=PUBLIC, origin=origin).memory.save(key, content)


def entries(scene: Scene, level: Level = PUBLIC) -> list[tuple[Action, str]]:
    with scene.provider.view(AGENT, level) as view:
        return [(each.event.action, each.event.detail) for each in view.visible[0].entries()]


def holds(scene: Scene) -> bool:
    return all(verdict.holds for verdict in scene.store.owner(AGENT).verify())


def test_a_pin_touches_the_variant_of_its_own_level_alone(scene: Scene) -> None:
    for level in Level:
        scene.save("k", f"at {level}", level)
    assert pin(scene, "k", INTERNAL) == Pinned("k", INTERNAL, 1, Status.UPDATED)
    assert pinned(scene) == [("k", INTERNAL)]
    assert pinned(scene, PUBLIC) == []
    assert [version.classification for version in scene.store.owner(AGENT).history("k") if version.pinned] == [INTERNAL]


def test_pins_are_listed_highest_level_first_then_last_saved_first_then_by_key(scene: Scene) -> None:
    for key in ("old", "b", "a"):
        scene.save(key, "x", PUBLIC)
        scene.wait(0 if key == "b" else 1)
        pin(scene, key)
    scene.save("high", "x", RESTRICTED)
    pin(scene, "high", RESTRICTED)
    assert pinned(scene) == [("high", RESTRICTED), ("a", PUBLIC), ("b", PUBLIC), ("old", PUBLIC)]


def test_a_second_pin_or_unpin_changes_nothing_and_is_not_entered(scene: Scene) -> None:
    scene.save("k", "x")
    owner = scene.store.owner(AGENT)
    assert owner.unpin("k", PUBLIC) == Pinned("k", PUBLIC, 1, Status.UNCHANGED)
    assert [owner.pin("k", PUBLIC).status for _ in range(2)] == [Status.UPDATED, Status.UNCHANGED]
    assert [owner.unpin("k", PUBLIC).status for _ in range(2)] == [Status.UPDATED, Status.UNCHANGED]
    assert entries(scene)[1:] == [(Action.PIN, "version 1 pinned"), (Action.UNPIN, "version 1")]
    assert pinned(scene) == []


def test_what_does_not_live_at_the_level_cannot_be_pinned(scene: Scene) -> None:
    scene.save("low", "x", PUBLIC)
    scene.save("gone", "x", INTERNAL)
    scene.delete("gone", INTERNAL)
    owner = scene.store.owner(AGENT)
    for change in (owner.pin, owner.unpin):
        for key in ("low", "gone", "never"):
            with pytest.raises(NotFound, match="at this level"):
                change(key, INTERNAL)
        with pytest.raises(InvalidArgument):
            change("", INTERNAL)
    with pytest.raises(NotFound, match="agent"):
        scene.store.owner("nobody").pin("low", PUBLIC)
    assert scene.store.owner("nobody").pinned() == []
    assert scene.store.agents() == [AGENT]  # looking made nothing


def test_a_session_pins_at_its_own_level_only(scene: Scene) -> None:
    scene.save("k", "x", PUBLIC)
    session = scene.store.session(AGENT, "main", PUBLIC)
    assert scene.store.owner(AGENT).pin("k", PUBLIC, session=session.id).status is Status.UPDATED
    session.raise_taint(INTERNAL)
    with pytest.raises(Refused):
        scene.store.owner(AGENT).unpin("k", PUBLIC, session=session.id)
    assert pinned(scene) == [("k", PUBLIC)]


def test_p5_the_limit_counts_one_compartment_alone(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.owner.pinning.PINNED_MAX", 2)
    for level in Level:
        for number in range(3):
            scene.save(f"k{number}", "x", level)
    for level in Level:
        for key in ("k0", "k1"):
            pin(scene, key, level)
        with pytest.raises(LimitExceeded, match=f"2 memories are pinned at {level}") as caught:
            pin(scene, "k2", level)
        assert caught.value.details == {"argument": "key", "limit": 2, "actual": 3}
    scene.save("k0", "x", PUBLIC, agent="other")
    assert scene.store.owner("other").pin("k0", PUBLIC).status is Status.UPDATED
    assert pin(scene, "k1").status is Status.UNCHANGED
    assert len(pinned(scene)) == 8


def test_deleted_expired_and_unpinned_memories_free_their_pin(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.owner.pinning.PINNED_MAX", 1)
    scene = opening(expiry=Expiry(tags={"brief": timedelta(hours=1)}))
    for key in ("deleted", "unpinned", "last"):
        scene.save(key, "x")
    pin(scene, "deleted")
    scene.delete("deleted")
    pin(scene, "unpinned")
    scene.store.owner(AGENT).unpin("unpinned", PUBLIC)
    scene.save("expired", "x", PUBLIC, "brief")
    pin(scene, "expired")
    scene.wait(3600)
    assert pinned(scene) == []
    pin(scene, "last")
    scene.save("expired", "again", PUBLIC, "brief")
    assert pinned(scene) == [("last", PUBLIC)]
    assert holds(scene)


@pytest.mark.parametrize("revive", ["save", "restore"])
def test_what_comes_back_after_a_deletion_is_not_pinned(scene: Scene, revive: str) -> None:
    save(scene, Origin.AGENT, "x")
    pin(scene, "k")
    scene.delete("k")
    if revive == "save":
        save(scene, Origin.OWNER, "x")
    else:
        scene.store.owner(AGENT).restore("k", PUBLIC)
    assert pinned(scene) == []
    scene.delete("k")
    scene.store.owner(AGENT).purge(timedelta())
    assert pinned(scene) == []
    assert holds(scene)


TRUST = [Origin.TOOL, Origin.IMPORT, Origin.AGENT, Origin.OWNER]


@pytest.mark.parametrize("before", TRUST)
@pytest.mark.parametrize("after", TRUST)
def test_p18_a_version_stays_pinned_unless_its_origin_is_less_trusted(
    scene: Scene, before: Origin, after: Origin
) -> None:
    save(scene, before, "one")
    pin(scene, "k")
    save(scene, after, "two")
    stays = TRUST.index(after) >= TRUST.index(before)
    assert pinned(scene) == ([("k", PUBLIC)] if stays else [])
    assert entries(scene)[-1] == (Action.SAVE, f"version 2 updated{' pinned' if stays else ''}")
    save(scene, Origin.OWNER, "three")
    assert bool(pinned(scene)) is stays, "a lost pin does not come back"
    assert holds(scene)


def test_a_save_of_the_same_text_leaves_the_pin_whoever_saves_it(scene: Scene) -> None:
    save(scene, Origin.OWNER, "x")
    pin(scene, "k")
    save(scene, Origin.TOOL, "x")
    assert pinned(scene) == [("k", PUBLIC)]
    assert entries(scene)[-1] == (Action.SAVE, "version 1 unchanged pinned")
    assert holds(scene)


def test_an_import_over_a_pinned_memory_takes_its_pin_and_never_pins(scene: Scene) -> None:
    save(scene, Origin.AGENT, "mine")
    pin(scene, "k")
    scene.wait()
    when = scene.now.isoformat()
    rows = [{"key": key, "content": "theirs", "updated_at": when} for key in ("k", "new")]
    assert scene.take(scene.lines(*rows)).done.updated == 1
    assert pinned(scene) == []
    pin(scene, "k")
    scene.wait()
    later = {"key": "k", "content": "later", "updated_at": scene.now.isoformat()}
    forged = {"key": "new", "content": "mine", "pinned": True}
    taken = scene.take(scene.lines(later, forged))
    assert taken.counts == (0, 1, 0, 0, 1)
    assert "'pinned' is not a field of an export" in taken.said[0]
    assert pinned(scene) == [("k", PUBLIC)]
    assert holds(scene)


def test_a_copy_at_another_level_is_not_pinned(scene: Scene) -> None:
    save(scene, Origin.AGENT, "x")
    pin(scene, "k")
    scene.store.owner(AGENT).relabel("k", INTERNAL)
    assert pinned(scene) == [("k", PUBLIC)]
    assert holds(scene)


def test_no_tool_pins_and_no_compartment_of_a_session_can(scene: Scene) -> None:
    save(scene, Origin.AGENT, "x")
    session = scene.store.session(AGENT, level=PUBLIC)
    with pytest.raises(InvalidArgument, match="has an unknown name"):
        session.call_tool("memory_save", {"key": "k", "content": "y", "pinned": True})
    fields = {name for tool in AGENT_TOOLS.values() for name in tool.input_schema["properties"]}
    assert not {name for name in fields if "pin" in name}
    assert not hasattr(Compartment, "set_pinned")
    assert pinned(scene) == []


def test_p9_a_pin_that_no_entry_explains_is_found(scene: Scene) -> None:
    for key in ("pinned", "plain"):
        scene.save(key, "x")
    pin(scene, "pinned")
    with scene.provider.owner_compartment(AGENT, PUBLIC) as compartment, compartment.transaction():
        compartment.set_pinned("pinned", pinned=False)
        compartment.set_pinned("plain", pinned=True)
    (verdict,) = scene.store.owner(AGENT).verify(PUBLIC)
    assert sorted((problem.key, problem.text, problem.sequence) for problem in verdict.problems) == [
        ("pinned", "a memory is no longer pinned, but no entry says so", 3),
        ("plain", "a memory is pinned, but no entry says so", 2),
    ]


def test_p9_a_pin_that_cannot_be_entered_is_not_set(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    save(scene, Origin.AGENT, "x")

    def fails(*_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.core.variants.version_event", fails)
        with pytest.raises(RuntimeError):
            pin(scene, "k")
    assert pinned(scene) == []


def test_p10_a_backup_keeps_pins(scene: Scene, opening: Open) -> None:
    for level in Level:
        scene.save("k", f"at {level}", level)
        scene.save("k", f"at {level} again", level)
    pin(scene, "k", PUBLIC)
    pin(scene, "k", RESTRICTED)
    path = scene.folder / "backup"
    scene.store.transfer(AGENT).backup(path)
    other = opening()
    other.store.transfer(AGENT).restore_backup(path)
    assert pinned(other) == [("k", RESTRICTED), ("k", PUBLIC)]
    assert holds(other)
    save(other, Origin.TOOL, "less trusted")
    assert pinned(other) == [("k", RESTRICTED)]
