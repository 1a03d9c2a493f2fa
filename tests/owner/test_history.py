"""History, restore and relabel: every version kept, at every level; and what lives again or is copied."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.core.scene import AGENT, Open, Scene

from tidegate.audit.chain import Action
from tidegate.errors import InvalidArgument, LimitExceeded, NotFound, Refused, StorageError
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.levels import Level
from tidegate.records.expiry import Expiry
from tidegate.records.record import Origin
from tidegate.records.version import VersionState

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level


def seen(scene: Scene, key: str = "k", level: Level | None = None) -> list[tuple[Level, int, VersionState, str]]:
    versions = scene.store.owner(AGENT).history(key, level)
    return [(each.classification, each.version, each.state, each.content) for each in versions]


def details(scene: Scene, level: Level, action: Action) -> list[str]:
    lines = scene.store.owner(AGENT).find_audit_lines(AuditFilter(level=level, actions=[action]))
    return [line.entry.event.detail for line in lines]


# History


def test_history_shows_every_version_at_every_level_newest_first(scene: Scene) -> None:
    for number, level in enumerate([PUBLIC, RESTRICTED, PUBLIC, INTERNAL]):
        scene.save("k", f"text {number}", level)
        scene.wait()
    assert seen(scene) == [
        (INTERNAL, 1, VersionState.LIVE, "text 3"),
        (PUBLIC, 2, VersionState.LIVE, "text 2"),
        (RESTRICTED, 1, VersionState.LIVE, "text 1"),
        (PUBLIC, 1, VersionState.SUPERSEDED, "text 0"),
    ]


def test_history_at_one_level_shows_no_other(scene: Scene) -> None:
    scene.save("k", "low")
    scene.save("k", "high", RESTRICTED)
    assert seen(scene, level=PUBLIC) == [(PUBLIC, 1, VersionState.LIVE, "low")]


def test_history_marks_what_was_deleted_also_after_it_was_saved_anew(scene: Scene) -> None:
    scene.save("k", "one")
    scene.wait()
    scene.delete("k")
    deleted_at = scene.now
    assert [state for _, _, state, _ in seen(scene)] == [VersionState.DELETED]
    scene.wait()
    scene.save("k", "two")
    assert [state for _, _, state, _ in seen(scene)] == [VersionState.LIVE, VersionState.DELETED]
    assert [each.deleted_at for each in scene.store.owner(AGENT).history("k")] == [None, deleted_at]


def test_history_keeps_tags_origin_and_times_of_each_version(scene: Scene) -> None:
    scene.store.session(AGENT, origin=Origin.TOOL).memory.save("k", "one", ["t"])
    start = scene.now
    scene.wait()
    scene.save("k", "two")
    first = scene.store.owner(AGENT).history("k")[1]
    assert (first.tags, first.origin, first.created_at, first.updated_at) == (("t",), Origin.TOOL, start, start)


def test_history_of_a_key_without_versions_is_empty_and_of_an_unknown_agent_not_found(scene: Scene) -> None:
    scene.save("k", "one")
    assert seen(scene, "other") == []
    with pytest.raises(NotFound, match="agent"):
        scene.store.owner("nobody").history("k")
    assert scene.store.agents() == [AGENT]  # looking made nothing


def test_keys_are_checked_before_anything_is_looked_up(scene: Scene) -> None:
    owner = scene.store.owner("nobody")
    for act in (owner.history, lambda key: owner.restore(key, PUBLIC), lambda key: owner.relabel(key, PUBLIC)):
        with pytest.raises(InvalidArgument, match="key"):
            act("a\nb")
        with pytest.raises(LimitExceeded, match="key"):
            act("k" * 257)


# Restore


def test_restore_brings_back_what_was_deleted_as_a_new_version(scene: Scene) -> None:
    scene.save("k", "one", PUBLIC, "t")
    scene.delete("k")
    scene.wait()
    done = scene.store.owner(AGENT).restore("k", PUBLIC)
    assert (done.version, done.status, done.restored_version) == (2, "created", 1)
    memory = scene.store.session(AGENT).memory.get("k")
    assert memory is not None
    assert (memory.content, memory.tags, memory.created_at) == ("one", ("t",), scene.now)
    assert [hit.key for hit in scene.store.session(AGENT).memory.search("one")] == ["k"]
    assert details(scene, PUBLIC, Action.RESTORE) == ["version 2 created"]


def test_restore_of_a_live_memory_takes_the_version_before(scene: Scene) -> None:
    scene.save("k", "one")
    scene.save("k", "two")
    assert scene.store.owner(AGENT).restore("k", PUBLIC).restored_version == 1
    assert scene.content("k") == "one"
    assert [number for _, number, _, _ in seen(scene)] == [3, 2, 1]


def test_restore_of_a_chosen_version(scene: Scene) -> None:
    for text in ("one", "two", "three"):
        scene.save("k", text)
    assert scene.store.owner(AGENT).restore("k", PUBLIC, version=2).version == 4
    assert scene.content("k") == "two"


def test_restore_of_what_lives_already_changes_nothing_but_its_time(scene: Scene) -> None:
    scene.save("k", "one")
    assert scene.store.owner(AGENT).restore("k", PUBLIC, version=1).status == "unchanged"
    assert len(seen(scene)) == 1


def test_restore_keeps_the_origin_so_that_nobody_passes_for_the_author(scene: Scene) -> None:
    scene.store.session(AGENT, origin=Origin.TOOL).memory.save("k", "from a page")
    scene.delete("k")
    scene.store.owner(AGENT).restore("k", PUBLIC)
    memory = scene.store.session(AGENT).memory.get("k")
    assert memory is not None
    assert memory.origin is Origin.TOOL


def test_restore_looks_at_its_own_level_alone(scene: Scene) -> None:
    scene.save("k", "low")
    with pytest.raises(NotFound, match="no version"):
        scene.store.owner(AGENT).restore("k", INTERNAL)


def test_restore_says_when_there_is_nothing_to_restore(scene: Scene) -> None:
    scene.save("k", "one")
    owner = scene.store.owner(AGENT)
    with pytest.raises(NotFound, match="is live"):
        owner.restore("k", PUBLIC)
    with pytest.raises(NotFound, match="version"):
        owner.restore("k", PUBLIC, version=2)
    assert details(scene, PUBLIC, Action.RESTORE) == []


def test_restore_in_a_session_is_entered_as_that_sessions(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    session = scene.store.session(AGENT).id
    scene.store.owner(AGENT).restore("k", PUBLIC, session=session)
    (line,) = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.RESTORE]))
    assert line.entry.event.session == session


def test_p4_p13_nothing_is_restored_in_a_session_that_ended_or_stands_elsewhere(scene: Scene) -> None:
    scene.save("k", "one")
    scene.delete("k")
    raised, ended = scene.store.session(AGENT, level=INTERNAL), scene.store.session(AGENT, "main")
    scene.store.sessions.reset(ended.id)
    for session, reason in ((raised, "has just risen"), (ended, "session ended")):
        with pytest.raises(Refused, match=reason):
            scene.store.owner(AGENT).restore("k", PUBLIC, session=session.id)
    assert scene.content("k") is None
    assert details(scene, PUBLIC, Action.REFUSE) == ["restore P7"]
    assert details(scene, INTERNAL, Action.REFUSE) == ["restore P4"]


def test_what_has_expired_shows_so_and_can_be_restored(opening: Open) -> None:
    scene = opening(expiry=Expiry(levels={PUBLIC: timedelta(days=1)}))
    scene.save("k", "one")
    expires_at = scene.now + timedelta(days=1)
    scene.wait(2 * 86_400)
    (version,) = scene.store.owner(AGENT).history("k")
    assert (version.state, version.deleted_at) == (VersionState.EXPIRED, expires_at)
    assert scene.store.owner(AGENT).restore("k", PUBLIC).status == "created"
    assert scene.content("k") == "one"


# Relabel


def test_relabel_copies_and_the_original_stays(scene: Scene) -> None:
    scene.save("k", "one", CONFIDENTIAL, "t")
    done = scene.store.owner(AGENT).relabel("k", PUBLIC)
    assert (done.copied_from, done.classification, done.version, done.status) == (CONFIDENTIAL, PUBLIC, 1, "created")
    assert scene.content("k", PUBLIC) == "one"
    assert seen(scene, level=CONFIDENTIAL) == [(CONFIDENTIAL, 1, VersionState.LIVE, "one")]


def test_relabel_takes_the_highest_variant_unless_told_which(scene: Scene) -> None:
    scene.save("k", "low")
    scene.save("k", "high", CONFIDENTIAL)
    owner = scene.store.owner(AGENT)
    assert owner.relabel("k", RESTRICTED).copied_from is CONFIDENTIAL
    assert owner.relabel("k", RESTRICTED, PUBLIC).copied_from is PUBLIC
    assert scene.content("k", RESTRICTED) == "low"


def test_relabel_upward_and_downward_are_told_apart(scene: Scene) -> None:
    scene.save("k", "one", INTERNAL)
    owner = scene.store.owner(AGENT)
    assert owner.relabel("k", PUBLIC, dry_run=True).lowers
    assert not owner.relabel("k", RESTRICTED, dry_run=True).lowers


def test_relabel_as_a_dry_run_changes_nothing(scene: Scene) -> None:
    scene.save("k", "one", INTERNAL)
    done = scene.store.owner(AGENT).relabel("k", PUBLIC, dry_run=True)
    assert (done.version, done.status) == (None, None)
    assert scene.content("k", PUBLIC) is None
    assert details(scene, INTERNAL, Action.RELABEL) == []


@pytest.mark.parametrize(("source", "target"), [(CONFIDENTIAL, PUBLIC), (PUBLIC, CONFIDENTIAL)])
def test_relabel_is_entered_at_both_levels_and_the_lower_chain_names_no_higher_one(
    scene: Scene, source: Level, target: Level
) -> None:
    scene.save("k", "one", source)
    scene.store.owner(AGENT).relabel("k", target)
    lower = details(scene, min(source, target), Action.RELABEL)
    assert len(lower) == len(details(scene, max(source, target), Action.RELABEL)) == 1
    assert not any(level.name in lower[0] for level in Level)


def test_relabel_downward_names_the_target_in_the_higher_chain(scene: Scene) -> None:
    scene.save("k", "one", CONFIDENTIAL)
    scene.store.owner(AGENT).relabel("k", PUBLIC)
    assert details(scene, CONFIDENTIAL, Action.RELABEL) == ["version 1 to PUBLIC"]


def test_relabel_to_where_it_is_is_refused(scene: Scene) -> None:
    scene.save("k", "one", INTERNAL)
    with pytest.raises(InvalidArgument, match="to:"):
        scene.store.owner(AGENT).relabel("k", INTERNAL)


def test_relabel_of_what_is_deleted_or_was_never_there_is_not_found(scene: Scene) -> None:
    scene.save("k", "one", INTERNAL)
    scene.delete("k", INTERNAL)
    for key in ("k", "other"):
        with pytest.raises(NotFound, match="key"):
            scene.store.owner(AGENT).relabel(key, PUBLIC)


@pytest.mark.parametrize("act", ["restore", "relabel", "purge", "reindex", "expire"])
def test_an_act_whose_entry_cannot_be_written_does_not_happen(
    opening: Open, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    scene = opening(expiry=Expiry(tags={"scratch": timedelta(days=1)}))
    scene.save("k", "one", PUBLIC, "scratch")
    scene.save("other", "one")
    scene.save("other", "two")
    scene.delete("other")
    scene.wait(2 * 86_400)
    owner = scene.store.owner(AGENT)
    acts = {
        "restore": lambda: owner.restore("other", PUBLIC),
        "relabel": lambda: owner.relabel("other", INTERNAL),
        "purge": lambda: owner.purge(timedelta()),
        "reindex": lambda: owner.reindex(),
        "expire": lambda: scene.save("new", "text"),
    }
    if act == "relabel":
        owner.restore("other", PUBLIC)
    before = seen(scene), seen(scene, "other"), [line.entry for line in owner.find_audit_lines()]
    with scene.provider.owner_compartment(AGENT, PUBLIC) as owner_compartment:
        compartment = type(owner_compartment)

    def refuse(*_: object) -> None:
        raise StorageError("the disk is full; nothing was changed")

    with monkeypatch.context() as patch:
        patch.setattr(compartment, "append", refuse)
        with pytest.raises(StorageError):
            acts[act]()
    assert (seen(scene), seen(scene, "other"), [line.entry for line in owner.find_audit_lines()]) == before
    assert all(verdict.holds for verdict in owner.verify())


def test_relabel_copies_nothing_when_the_memory_changes_meanwhile(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene.save("k", "what was seen", INTERNAL)
    owner = scene.store.owner(AGENT)
    act = type(owner._context).act

    def slow(context: object, session: str = "") -> object:
        scene.save("k", "what came after", INTERNAL)
        return act(context, session)  # type: ignore[arg-type]

    monkeypatch.setattr(type(owner._context), "act", slow)
    with pytest.raises(NotFound, match="changed meanwhile"):
        owner.relabel("k", PUBLIC)
    assert scene.content("k", PUBLIC) is None
