"""Similar keys: what a tool's save names, only from what its session may see, and only if it is still the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from tests.core.scene import AGENT, Open, Scene

from tidegate import Level, Refused
from tidegate.audit.chain import Action
from tidegate.core import gate as core_gate
from tidegate.errors import StorageError
from tidegate.owner.audit_query import AuditFilter
from tidegate.policy.decisions import Deny, PolicyRule
from tidegate.records.expiry import Expiry
from tidegate.records.memory import SimilarKey, Status
from tidegate.records.record import Origin
from tidegate.search import nearness
from tidegate.session import Session

PUBLIC, INTERNAL, CONFIDENTIAL, RESTRICTED = Level
NAME = "The user is called Ada Lovelace"


def similar(scene: Scene, key: str, content: str, level: Level = PUBLIC, agent: str = AGENT) -> list[str]:
    saved = scene.store.session(agent, level=level).memory.save_with_similar(key, content)
    return [each.key for each in saved.similar]


def tool(session: Session, key: str, content: str) -> dict[str, Any]:
    return session.call_tool("memory_save", {"key": key, "content": content})


def test_the_tool_names_a_key_whose_content_is_near(scene: Scene) -> None:
    scene.store.session(AGENT, level=PUBLIC, origin=Origin.TOOL).memory.save("user-name", NAME)
    result = tool(scene.store.session(AGENT, level=INTERNAL), "name-of-user", NAME)
    assert result["similar"] == [{"key": "user-name", "classification": "PUBLIC", "origin": "tool"}]
    assert list(result)[-2:] == ["status", "similar"]


def test_without_any_the_field_is_absent(scene: Scene) -> None:
    session = scene.store.session(AGENT, level=PUBLIC)
    assert "similar" not in tool(session, "user-name", NAME)
    assert "similar" not in tool(session, "user-name", f"{NAME}, Countess"), "never the saved key itself"
    assert "similar" not in tool(session, "tea", "green, without sugar")


def test_the_library_names_none_unless_it_is_asked_to(scene: Scene) -> None:
    memory = scene.store.session(AGENT, level=PUBLIC).memory
    memory.save("user-name", NAME)
    plain = [memory.save("name", NAME), *memory.save_many([("called", NAME, None)])]
    assert [list(saved.to_dict()) for saved in plain] == [["key", "classification", "version", "status"]] * 2
    saved = memory.save_with_similar("name", NAME, "persona")
    assert (saved.status, saved.version) == (Status.UPDATED, 2)
    assert set(saved.similar) == {
        SimilarKey("user-name", PUBLIC, Origin.AGENT),
        SimilarKey("called", PUBLIC, Origin.AGENT),
    }


def test_at_most_three_are_named_the_nearest_first_then_the_newest_then_by_key(scene: Scene) -> None:
    for key in ("old", "b", "a"):
        scene.save(key, "Ada Lovelace, countess", PUBLIC)
        scene.wait(0 if key == "b" else 1)
    scene.save("nearest", "Ada Lovelace, countess and mathematician", PUBLIC)
    assert similar(scene, "new", "Ada Lovelace, countess, mathematician") == ["nearest", "a", "b"]


@pytest.mark.parametrize(
    ("before", "now", "near"),
    [
        ("Apollo is due on 1 May", "The deadline of Apollo is 1 May", True),
        ("the user drinks green tea", "the user likes green tea", True),
        ("生日五月一号", "我的生日是五月一号", True),
        ("Das WLAN-Passwort liegt in der Küche", "Passwort fürs WLAN: in der Kuche", True),
        ("green tea", "black coffee", False),
        ("Apollo is due on 1 May", "Apollo has a budget of three million euros and forty people", False),
        ("what is it for?", "who is it for?", False),
        ("?!", "?!", False),
    ],
)
def test_only_shared_rare_words_count(scene: Scene, before: str, now: str, near: bool) -> None:
    scene.save("k", before, PUBLIC)
    assert similar(scene, "z", now) == (["k"] if near else [])


def test_a_word_that_many_memories_hold_counts_for_nothing(scene: Scene) -> None:
    for number in range(nearness.RARE_MAX):
        scene.save(f"m{number}", "meeting notes", PUBLIC)
    assert len(similar(scene, "x", "meeting notes")) == 3
    scene.save("one-more", "meeting notes", PUBLIC)
    assert similar(scene, "y", "meeting notes") == []


def test_p5_only_what_the_session_may_see_is_named_or_counted(scene: Scene) -> None:
    for level in (CONFIDENTIAL, RESTRICTED):
        for number in range(nearness.RARE_MAX + 1):
            scene.save(f"high-{number}", "meeting notes", level)
    scene.save("beside", "meeting notes", PUBLIC, agent="other")
    scene.save("low", "meeting notes", PUBLIC)
    assert similar(scene, "new", "meeting notes", INTERNAL) == ["low"]
    assert similar(scene, "new", "meeting notes", RESTRICTED) == []
    assert similar(scene, "new", "meeting notes", agent="other") == ["beside"]


def test_a_shadowed_deleted_or_expired_memory_is_not_named(opening: Open) -> None:
    scene = opening(expiry=Expiry(tags={"brief": timedelta(hours=1)}))
    scene.save("shadowed", NAME, PUBLIC)
    scene.save("shadowed", "something else", INTERNAL)
    scene.save("deleted", NAME, PUBLIC)
    scene.delete("deleted", PUBLIC)
    scene.save("expired", NAME, PUBLIC, "brief")
    scene.wait(3600)
    assert similar(scene, "new", NAME, INTERNAL) == []
    assert similar(scene, "newer", NAME, PUBLIC) == ["shadowed"]


def during(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen after the save, while similar keys are looked for."""
    real = core_gate.Gate._extended

    def extended(self: Any, handle: Any, row: Any, tool: Any, value: Any, then: Any) -> Any:
        def later(view: Any, value: Any) -> Any:
            found = then(view, value)
            act()
            return found

        return real(self, handle, row, tool, value, later)

    monkeypatch.setattr(core_gate.Gate, "_extended", extended)


def test_p4_nothing_is_named_if_the_session_rose_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.save("user-name", NAME, PUBLIC)
    session = scene.store.session(AGENT, "main", PUBLIC)
    during(monkeypatch, lambda: session.raise_taint(INTERNAL))
    result = tool(session, "name", NAME)
    assert (result["saved"], result["classification"], "similar" in result) == (True, "PUBLIC", False)


def test_p7_nothing_is_named_if_the_session_ended_meanwhile(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.save("user-name", NAME, PUBLIC)
    session = scene.store.session(AGENT, "main", PUBLIC)
    during(monkeypatch, session.end)
    assert "similar" not in tool(session, "name", NAME)
    with pytest.raises(Refused):
        tool(session, "name", NAME)


def test_a_save_is_acknowledged_also_if_similar_keys_cannot_be_read(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise StorageError("the disk failed")

    scene.save("user-name", NAME, PUBLIC)
    during(monkeypatch, fails)
    assert tool(scene.store.session(AGENT, level=PUBLIC), "name", NAME)["status"] == "created"
    assert scene.content("name") == NAME


def test_p1_what_the_policy_denies_is_not_named(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.save("user-name", NAME, PUBLIC)
    real = core_gate._judge
    deny = Deny(PolicyRule.P1, "not allowed")
    monkeypatch.setattr(core_gate, "_judge", lambda row, answer: deny if answer.records else real(row, answer))
    assert "similar" not in tool(scene.store.session(AGENT, level=PUBLIC), "name", NAME)


@pytest.mark.parametrize("audit_reads", [False, True])
def test_reading_for_it_is_entered_if_reads_are(opening: Open, audit_reads: bool) -> None:
    scene = opening(audit_reads=audit_reads)
    tool(scene.store.session(AGENT, level=PUBLIC), "name", NAME)
    lines = scene.store.owner(AGENT).find_audit_lines(AuditFilter(actions=[Action.READ]))
    assert [line.entry.event.detail for line in lines] == (["memory_save"] if audit_reads else [])
