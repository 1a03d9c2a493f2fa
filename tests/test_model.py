"""The reference model says what the design says: each claim of the contract once, by hand."""

from __future__ import annotations

from itertools import pairwise

from tests.yardstick import traces as t
from tests.yardstick.model import Answer, Model
from tests.yardstick.worlds import plain, time_of

from tidegate.policy.levels import Level

LOW = t.Seat("ada", "low")
HIGH = t.Seat("ada", "high")
OTHER = t.Seat("adam", "low")
KID = t.Seat("ada", "kid")
OPENED = (t.Open(LOW), t.Open(HIGH, Level.RESTRICTED), t.Open(OTHER))


def answers(*ops: t.Op) -> list[Answer]:
    """The answers to `ops`, after the sessions above were opened."""
    model = Model()
    steps = t.trace((*OPENED, *ops))
    told = [model.answer(step, time_of(step.index)) for step in steps]
    return [dict(answer) for answer in (plain(each) for each in told[len(OPENED) :]) if isinstance(answer, dict)]


def last(*ops: t.Op) -> Answer:
    return answers(*ops)[-1]


def keys(answer: Answer) -> list[object]:
    found = answer.get("memories", answer.get("results"))
    return [each["key"] for each in found] if isinstance(found, list) else []


def test_a_save_lands_at_the_sessions_taint() -> None:
    assert last(t.Save(LOW, "k", "v"))["classification"] == "PUBLIC"
    assert last(t.Save(HIGH, "k", "v"))["classification"] == "RESTRICTED"
    assert last(t.Raise(LOW, Level.INTERNAL), t.Save(LOW, "k", "v"))["classification"] == "INTERNAL"


def test_a_session_sees_its_own_level_and_below_of_its_own_agent_only() -> None:
    assert last(t.Save(LOW, "k", "v"), t.Get(HIGH, "k"))["found"] is True
    assert last(t.Save(HIGH, "k", "v"), t.Get(LOW, "k")) == {"found": False, "key": "k"}
    assert last(t.Save(LOW, "k", "v"), t.Get(OTHER, "k")) == {"found": False, "key": "k"}


def test_the_highest_visible_variant_shadows_the_others_before_tag_match_and_limit() -> None:
    saved = (t.Save(LOW, "k", "old tea", ("x",)), t.Save(HIGH, "k", "milk"), t.Save(LOW, "l", "tea"))
    assert keys(last(*saved, t.Search(HIGH, "tea", 1))) == ["l"]
    assert keys(last(*saved, t.Pages(HIGH, "x"))) == []
    assert keys(last(*saved, t.Pages(LOW, "x"))) == ["k"]
    assert last(*saved, t.Get(HIGH, "k"))["content"] == "milk"


def test_versions_count_over_deletions_and_creation_starts_anew() -> None:
    told = answers(
        t.Save(LOW, "k", "one"), t.Save(LOW, "k", "two"), t.Delete(LOW, "k"), t.Save(LOW, "k", "three"), t.Get(LOW, "k")
    )
    assert [each.get("version") for each in told] == [1, 2, None, 3, 3]
    assert [each.get("status") for each in told] == ["created", "updated", None, "created", None]
    assert told[-1]["created_at"] == plain(time_of(6))


def test_an_update_keeps_the_time_of_creation() -> None:
    shown = last(t.Save(LOW, "k", "one"), t.Save(LOW, "k", "two"), t.Get(LOW, "k"))
    assert (shown["created_at"], shown["updated_at"]) == (plain(time_of(3)), plain(time_of(4)))


def test_the_same_again_is_unchanged_and_moves_only_the_time() -> None:
    told = answers(t.Save(LOW, "k", "v", ("y", "x", "x")), t.Save(LOW, "k", "v", (" x ", "y")), t.Get(LOW, "k"))
    assert (told[1]["status"], told[1]["version"]) == ("unchanged", 1)
    assert (told[2]["tags"], told[2]["updated_at"]) == (["x", "y"], plain(time_of(4)))


def test_a_save_compares_with_its_own_level_only() -> None:
    assert last(t.Save(LOW, "k", "v"), t.Save(HIGH, "k", "v"))["status"] == "created"


def test_get_tells_of_a_newer_variant_below_but_not_of_an_older_or_hidden_one() -> None:
    fresh = (t.Save(HIGH, "k", "v"), t.Get(HIGH, "x"), t.Save(LOW, "k", "w"))
    assert last(*fresh, t.Get(HIGH, "k"))["newer_below"] == "PUBLIC"
    assert "newer_below" not in last(*fresh, t.Get(LOW, "k"))
    assert "newer_below" not in last(t.Save(LOW, "k", "w"), t.Save(HIGH, "k", "v"), t.Get(HIGH, "k"))


def test_a_delete_shows_what_lay_below() -> None:
    told = answers(t.Save(LOW, "k", "v"), t.Save(HIGH, "k", "w"), t.Delete(HIGH, "k"), t.Get(HIGH, "k"))
    assert told[2] == {"deleted": True, "key": "k", "classification": "RESTRICTED", "still_visible": "PUBLIC"}
    assert told[3]["content"] == "v"


def test_nothing_at_the_own_level_is_not_found_and_only_a_visible_variant_is_named() -> None:
    assert last(t.Save(LOW, "k", "v"), t.Delete(HIGH, "k")) == {"error": "NOT_FOUND", "visible_at": "PUBLIC"}
    hidden, missing = last(t.Save(HIGH, "k", "v"), t.Delete(LOW, "k")), last(t.Delete(LOW, "k"))
    gone = last(t.Save(LOW, "k", "v"), t.Delete(LOW, "k"), t.Delete(LOW, "k"))
    assert hidden == missing == gone == {"error": "NOT_FOUND"}


def test_a_cursor_goes_on_after_the_last_key_and_holds_for_agent_taint_and_tag() -> None:
    saved: tuple[t.Op, ...] = tuple(t.Save(seat, key, "v") for seat in (LOW, OTHER) for key in ("a", "b", "c"))
    paged, at = (*saved, t.Page(LOW, None, 1)), len(OPENED) + len(saved)
    assert last(*paged)["more"] is True
    assert keys(last(*paged, t.More(LOW, at, None, 9))) == ["b", "c"]
    refused = {"error": "INVALID_ARGUMENT", "argument": "cursor"}
    assert (
        last(*paged, t.More(OTHER, at))
        == last(*paged, t.More(HIGH, at))
        == last(*paged, t.More(LOW, at, "x"))
        == refused
    )
    assert last(*paged, t.Raise(LOW, Level.INTERNAL), t.More(LOW, at)) == refused


def test_a_page_that_ends_exactly_has_no_more() -> None:
    assert last(t.Save(LOW, "a", "v"), t.Page(LOW, None, 1))["more"] is False


def test_search_statistics_pool_the_visible_levels_and_nothing_else() -> None:
    def score(*ops: t.Op) -> object:
        results = last(*ops)["results"]
        return results[0]["score"] if isinstance(results, list) else None

    alone = score(t.Save(LOW, "k", "tea"), t.Search(LOW, "tea"))
    assert score(t.Save(LOW, "k", "tea"), t.Save(HIGH, "l", "milk milk"), t.Search(LOW, "tea")) == alone
    assert score(t.Save(LOW, "k", "tea"), t.Save(HIGH, "l", "milk milk"), t.Search(HIGH, "tea")) != alone


def test_equal_scores_go_newest_first_and_then_by_key() -> None:
    saved = (t.Save(LOW, "b", "tea"), t.Save(LOW, "a", "tea"), t.Get(LOW, "a"), t.Save(LOW, "c", "tea"))
    assert keys(last(*saved, t.Search(LOW, "tea"))) == ["c", "a", "b"]
    tied = (t.Get(LOW, "a"), t.Save(LOW, "b", "tea"), t.Save(LOW, "a", "tea"))
    assert keys(last(*tied, t.Search(LOW, "tea"))) == ["a", "b"]


def test_taint_only_rises_and_never_over_the_ceiling() -> None:
    told = answers(
        t.Raise(LOW, Level.CONFIDENTIAL), t.Raise(LOW, Level.PUBLIC), t.Ceiling(LOW, Level.INTERNAL),
        t.Ceiling(LOW, Level.CONFIDENTIAL), t.Raise(LOW, Level.RESTRICTED), t.Open(LOW, Level.PUBLIC),
    )  # fmt: skip
    refused = {"error": "REFUSED", "rule": "P4"}
    stays = {"taint": "CONFIDENTIAL"}
    assert told == [stays, stays, refused, {}, refused, stays]


def test_an_ended_session_is_refused_for_ever_and_its_children_with_it() -> None:
    ended = (t.Open(KID, parent=LOW), t.Reset(LOW))
    told = answers(*ended, t.Get(LOW, "k"), t.Open(LOW, Level.RESTRICTED), t.Get(KID, "k"), t.Raise(KID, Level.PUBLIC))
    assert told[2:] == [{"error": "REFUSED", "rule": "P7"}] * 4


def test_a_child_starts_at_its_parents_taint_and_hands_its_own_back() -> None:
    told = answers(
        t.Open(KID, parent=HIGH),
        t.Open(t.Seat("ada", "two"), Level.INTERNAL, parent=LOW),
        t.End(t.Seat("ada", "two")),
        t.Resume(LOW),
    )
    assert [each.get("taint") for each in told] == ["RESTRICTED", "INTERNAL", None, "INTERNAL"]


def test_a_childs_ceiling_is_never_above_its_parents() -> None:
    capped = (t.Ceiling(LOW, Level.INTERNAL), t.Open(KID, parent=LOW))
    assert last(*capped, t.Raise(KID, Level.CONFIDENTIAL)) == {"error": "REFUSED", "rule": "P4"}
    assert last(capped[0], t.Open(KID, Level.PUBLIC, Level.RESTRICTED, LOW)) == {"error": "REFUSED", "rule": "P15"}


def test_children_end_at_a_depth_of_four() -> None:
    seats = [LOW, *(t.Seat("ada", f"kid{depth}") for depth in range(1, 6))]
    told = answers(*(t.Open(kid, parent=parent) for parent, kid in pairwise(seats)))
    assert told[-2:] == [{"taint": "PUBLIC"}, {"error": "REFUSED", "rule": "P15"}]


def test_a_restart_forgets_what_was_never_stored_and_nothing_else() -> None:
    passing = t.Seat("ada", "e", named=False)
    opened = (t.Open(passing, Level.INTERNAL), t.Save(passing, "k", "v"), t.Raise(LOW, Level.INTERNAL), t.Restart())
    assert last(*opened, t.Get(passing, "k")) == {"error": "REFUSED", "rule": "P13"}
    assert last(*opened, t.Get(LOW, "k"))["content"] == "v"


def test_changes_raises_and_refusals_are_entered_where_they_belong() -> None:
    model = Model()
    ops = (t.Save(LOW, "k", "v"), t.Raise(LOW, Level.INTERNAL), t.Delete(LOW, "k"), t.Reset(LOW), t.Get(LOW, "k"))
    for step in t.trace((*OPENED, *ops)):
        model.answer(step, time_of(step.index))
    assert model.audit["ada", Level.PUBLIC] == ["open", "save"]
    assert model.audit["ada", Level.INTERNAL] == ["raise", "reset", "refuse"]


def test_a_level_argument_has_no_effect_but_an_entry() -> None:
    model = Model()
    call = t.Call(LOW, "memory_save", (("key", "k"), ("content", "v"), ("level", "RESTRICTED")))
    told = [model.answer(step, time_of(step.index)) for step in t.trace((t.Open(LOW), call))]
    assert told[-1]["classification"] is Level.PUBLIC
    assert model.audit["ada", Level.PUBLIC] == ["open", "attempt", "save"]


def test_the_context_holds_what_is_tagged_for_it_once_and_unshadowed() -> None:
    saved = (t.Save(LOW, "k", "v", ("rule", "persona")), t.Save(LOW, "l", "v", ("rule",)), t.Save(HIGH, "l", "v"))
    assert last(*saved, t.Context(LOW)) == {"keys": ["l", "k"], "included": 2, "left_out": 0}
    assert last(*saved, t.Context(HIGH)) == {"keys": ["k"], "included": 1, "left_out": 0}


def test_to_dos_are_one_list_a_level_and_the_highest_shadows() -> None:
    planned = (t.Plan(LOW, ("tea",)), t.Plan(HIGH, ("milk", "tea")))
    assert last(planned[0], t.Planned(HIGH)) == {"todos": ["tea"]}
    assert [last(*planned, t.Planned(seat)) for seat in (LOW, HIGH)] == [{"todos": ["tea"]}, {"todos": ["milk", "tea"]}]
    assert last(*planned, t.Planned(OTHER)) == {"todos": []}


def test_a_conversation_is_its_sessions_alone_and_goes_with_it() -> None:
    told = answers(t.Say(LOW, "one"), t.Raise(LOW, Level.INTERNAL), t.Say(LOW, "two"), t.Said(LOW), t.Said(HIGH))
    levels = [("one", "PUBLIC"), ("two", "INTERNAL")]
    assert told[-2] == {"messages": [{"content": content, "level": level} for content, level in levels]}
    assert told[-1] == {"messages": []}
    model = Model()
    for step in t.trace((t.Open(LOW), t.Say(LOW, "one"), t.Raise(LOW, Level.INTERNAL), t.Reset(LOW))):
        model.answer(step, time_of(step.index))
    assert model.audit["ada", Level.PUBLIC] == ["open", "save", "purge"]
    assert model.audit["ada", Level.INTERNAL] == ["raise", "reset"]


def test_long_content_is_cut_in_search_and_list_and_whole_in_get() -> None:
    saved = t.Save(LOW, "k", "milk " * 120)
    found = last(saved, t.Search(LOW, "milk"))["results"]
    assert isinstance(found, list)
    assert (len(found[0]["content"]), found[0]["truncated"]) == (500, True)
    assert len(str(last(saved, t.Get(LOW, "k"))["content"])) == 600
