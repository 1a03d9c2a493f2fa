"""Leaks in the verbs: get, search, list, delete and save look, or count, beyond their view."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.yardstick.leaks import Fault, Patch, above, beside, fresh_in_every_world, holding, leak, live, replaced

from tidegate import session
from tidegate.core import conversation, memory, search
from tidegate.core import variants as records
from tidegate.core.conversation_purge import Clearing
from tidegate.core.gate import Act, Answer
from tidegate.core.variants import NewRecord
from tidegate.errors import NotFound, Refused
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.records import cursor as cursors
from tidegate.records.memory import Status
from tidegate.records.record import RecordKind
from tidegate.session import SessionMemory
from tidegate.storage.base import Candidate, CompartmentReader, View, WritableView

IDS = "ids, sequence numbers, versions"
LIMITS = "LIMIT before filter; tag filter or match before shadowing"
ABSENCE = "not found against not allowed"
CURSORS = "cursors, totals, has-more"
CACHES = "caches keyed without agent and taint (P11)"


# The verbs


@leak(ABSENCE)
def a_failed_delete_names_a_level_above(patch: Patch) -> None:
    @replaced(patch, memory, "delete")
    def delete(real: Fault, view: WritableView, act: Act, key: str) -> Any:
        try:
            return real(view, act, key)
        except NotFound as error:
            hidden = holding(above(view.own), key)
            if hidden:
                error.details["visible_at"] = hidden[0].level.name
            raise


@leak(ABSENCE)
def a_failed_delete_says_that_the_key_is_hidden(patch: Patch) -> None:
    @replaced(patch, memory, "delete")
    def delete(real: Fault, view: WritableView, act: Act, key: str) -> Any:
        try:
            return real(view, act, key)
        except NotFound as error:
            if holding(above(view.own), key):
                raise NotFound("key: not allowed at this level", **error.details) from None
            raise


@leak(ABSENCE)
def a_delete_is_refused_while_a_variant_stands_above(patch: Patch) -> None:
    @replaced(patch, memory, "delete")
    def delete(real: Fault, view: WritableView, act: Act, key: str) -> Any:
        if holding(above(view.own), key):
            raise Refused("this memory is shadowed", rule=PolicyRule.P1)
        return real(view, act, key)


@leak(ABSENCE)
def still_visible_names_a_level_above(patch: Patch) -> None:
    @replaced(patch, memory, "delete")
    def delete(real: Fault, view: WritableView, act: Act, key: str) -> Any:
        answer = real(view, act, key)
        hidden = holding(above(view.own), key)
        return replace(answer, value=replace(answer.value, still_visible=hidden[0].level)) if hidden else answer


@leak(ABSENCE)
def a_miss_falls_through_to_the_level_above(patch: Patch) -> None:
    @replaced(patch, records, "variants")
    def variants(real: Fault, visible: Any, kind: RecordKind, key: str) -> Any:
        return real(visible, kind, key) or [each for own in visible[:1] for each in holding(above(own), key)]


@leak(ABSENCE)
def a_miss_falls_through_to_another_agent(patch: Patch) -> None:
    @replaced(patch, records, "variants")
    def variants(real: Fault, visible: Any, kind: RecordKind, key: str) -> Any:
        others = [replace(each, agent=own.agent) for own in visible[:1] for each in holding(beside(own), key)]
        return real(visible, kind, key) or others


@leak("own level only (P2)")
def a_delete_falls_to_the_level_below(patch: Patch) -> None:
    @replaced(patch, memory, "delete")
    def delete(real: Fault, view: WritableView, act: Act, key: str) -> Any:
        visible: tuple[Any, ...] = view.visible
        for own in visible:
            if own.live(RecordKind.MEMORY, [key]):
                lower = tuple(each for each in visible if each.level <= own.level)
                return real(WritableView(lower, own), act, key)
        return real(view, act, key)


@leak("own level only (P2)")
def a_save_goes_to_where_the_key_is(patch: Patch) -> None:
    @replaced(patch, records, "save")
    def save(real: Fault, view: WritableView, act: Act, item: NewRecord, *rest: Any) -> Any:
        visible: tuple[Any, ...] = view.visible
        own = next((each for each in visible if each.live(item.kind, [item.key])), view.own)
        return real(WritableView(view.visible, own), act, item, *rest)


@leak("still another agent's (P6)")
def newer_below_looks_at_other_agents(patch: Patch) -> None:
    _newer_below(patch, beside)


@leak("shadowing by what is hidden")
def get_tells_of_a_newer_variant_above(patch: Patch) -> None:
    _newer_below(patch, above)


def _newer_below(patch: Patch, elsewhere: Callable[[Any], Any]) -> None:
    @replaced(patch, memory, "get")
    def get(real: Fault, view: View, key: str) -> Any:
        answer = real(view, key)
        hidden = holding(elsewhere(view.visible[0]), key)
        shown = answer.value
        if shown and any(each.updated_at > shown.updated_at for each in hidden):
            return replace(answer, value=replace(shown, newer_below=hidden[0].level))
        return answer


@leak("uniqueness and duplicate errors")
def a_save_is_an_update_when_the_key_is_known_above(patch: Patch) -> None:
    @replaced(patch, records, "save")
    def save(real: Fault, view: WritableView, act: Act, item: NewRecord, *rest: Any) -> Any:
        saved = real(view, act, item, *rest)
        known = saved.status is Status.CREATED and holding(above(view.own), item.key)
        return replace(saved, status=Status.UPDATED) if known else saved


@leak("uniqueness and duplicate errors")
def contents_are_stored_once_for_all_levels(patch: Patch) -> None:
    @replaced(patch, records, "save")
    def save(real: Fault, view: WritableView, act: Act, item: NewRecord, *rest: Any) -> Any:
        if any(each.content == item.content for each in live(above(view.own))):
            act = replace(act, ids=lambda: "shared")
        return real(view, act, item, *rest)


@leak(IDS)
def randomness_is_drawn_more_often_when_a_variant_is_hidden(patch: Patch) -> None:
    @replaced(patch, records, "save")
    def save(real: Fault, view: WritableView, act: Act, item: NewRecord, *rest: Any) -> Any:
        for _ in holding(above(view.own), item.key):
            act.ids()
        return real(view, act, item, *rest)


@leak("bm25 statistics, vocabulary, spelling help, tag counts")
def scores_are_relative_to_the_best_hidden_match(patch: Patch) -> None:
    @replaced(patch, search, "search")
    def searched(real: Fault, view: View, *args: Any, **rest: Any) -> Any:
        answer = real(view, *args, **rest)
        hidden = len(live(above(view.visible[0])))
        hits = tuple(replace(hit, score=hit.score / (1 + hidden)) for hit in answer.value.hits)
        return replace(answer, value=replace(answer.value, hits=hits))


@leak(LIMITS)
def the_best_hits_are_counted_before_hidden_ones_are_taken_out(patch: Patch) -> None:
    @replaced(patch, search, "search")
    def searched(real: Fault, view: View, query: Any, *, max_results: int, **rest: Any) -> Any:
        hidden = len(live(above(view.visible[0])))
        return real(view, query, max_results=max(1, max_results - hidden), **rest)


@leak("an answer's size counts what is hidden")
def hidden_hits_use_up_the_answer(patch: Patch) -> None:
    @replaced(patch, search, "search")
    def searched(real: Fault, view: View, *args: Any, **rest: Any) -> Any:
        answer = real(view, *args, **rest)
        size = sum(len(each.content) for each in live(above(view.visible[0])))
        return replace(answer, value=replace(answer.value, complete=size < 60))


@leak("order")
def equal_scores_are_ordered_by_what_is_hidden(patch: Patch) -> None:
    @replaced(patch, search, "search")
    def searched(real: Fault, view: View, *args: Any, **rest: Any) -> Any:
        answer = real(view, *args, **rest)
        hidden = {each.key for each in live(above(view.visible[0]))}
        hits = tuple(sorted(answer.value.hits, key=lambda hit: hit.key in hidden))
        return replace(answer, value=replace(answer.value, hits=hits))


@leak(LIMITS, by_model=True)
def shadowing_comes_after_matching(patch: Patch) -> None:
    @replaced(patch, search, "_unshadowed")
    def unshadowed(_: Fault, view: View, depth: int, candidates: Any) -> Any:
        return candidates

    @replaced(patch, search, "_ranked")
    def ranked(real: Fault, *args: Any) -> Any:
        ranking = real(*args)
        highest = {each.key: each for each in sorted(ranking.best, key=lambda each: -each.depth)}
        return replace(ranking, best=[each for each in ranking.best if highest[each.key] is each])


@leak(LIMITS, by_model=True)
def a_tag_is_filtered_before_shadowing(patch: Patch) -> None:
    @replaced(patch, records, "merged")
    def merged(_: Fault, view: View, kind: RecordKind, *, batch: int, **rest: Any) -> Any:
        found = [record for each in view.visible for record in each.page(kind, limit=1_000, **rest)]
        highest = {record.key: record for record in reversed(found)}
        return iter(sorted(highest.values(), key=lambda record: record.key))


@leak(LIMITS, by_model=True)
def a_search_is_filtered_before_shadowing(patch: Patch) -> None:
    """A filter uncovers the lower variant of a memory that does not pass it."""

    @replaced(patch, search, "_chosen")
    def chosen(_: Fault, view: View, depth: int, wanted: search.SearchFilter, candidates: Any) -> Any:
        def passes(upper: CompartmentReader, key: str) -> bool:
            variant = upper.read(RecordKind.MEMORY, key)
            as_candidate = [Candidate(key, variant.updated_at)] if variant is not None and variant.live else []
            return any(wanted.of(upper, iter(as_candidate)))

        uppers = view.visible[:depth]
        passing = wanted.of(view.visible[depth], candidates)
        return (each for each in passing if not any(passes(upper, each.key) for upper in uppers))


@leak("statistics of what is hidden behind a filter")
def a_filtered_search_says_that_more_is_hidden(patch: Patch) -> None:
    @replaced(patch, search, "search")
    def searched(real: Fault, view: View, *args: Any, wanted: search.SearchFilter, **rest: Any) -> Any:
        answer = real(view, *args, wanted=wanted, **rest)
        hidden = [each for each in live(above(view.visible[0])) if wanted.tag in each.tags]
        return replace(answer, value=replace(answer.value, complete=not hidden))


@leak("bm25 statistics", by_model=True)
def scores_use_the_statistics_of_one_level(patch: Patch) -> None:
    @replaced(patch, search, "Scorer")
    def scorer(real: Fault, query: Any, terms: Any, frequencies: Any, statistics: Any) -> Any:
        return real(query, terms, frequencies, replace(statistics, documents=1))


# The prompt block, to-dos, conversations


@leak("the prompt block counts what is hidden")
def the_context_says_how_much_is_hidden(patch: Patch) -> None:
    @replaced(patch, session, "context")
    def context(real: Fault, view: View, **rest: Any) -> Any:
        answer = real(view, **rest)
        left_out = answer.value.left_out + len(live(above(view.visible[0])))
        return replace(answer, value=replace(answer.value, left_out=left_out))


@leak("other kinds of records")
def to_dos_are_read_from_above(patch: Patch) -> None:
    @replaced(patch, records, "variants")
    def variants(real: Fault, visible: Any, kind: RecordKind, key: str) -> Any:
        hidden = [each.read(kind, key) for own in visible[:1] for each in above(own) if kind is RecordKind.TODO]
        return [each for each in hidden if each] or real(visible, kind, key)


@leak("other kinds of records", by_model=True)
def a_conversation_is_read_by_every_session(patch: Patch) -> None:
    @replaced(patch, conversation, "_messages")
    def messages(_: Fault, view: View, session: str) -> Any:
        return records.merged(view, RecordKind.MESSAGE, tag=None, after="", batch=100, chars_max=records.WHOLE)


@leak("reset (P7)", by_model=True)
def a_reset_keeps_the_conversation(patch: Patch) -> None:
    @replaced(patch, Clearing, "clear")
    def clear(_: Fault, self: Clearing, rows: Any) -> Any:
        return set()


# Cursors


@leak(CURSORS)
def a_cursor_carries_a_total(patch: Patch) -> None:
    @replaced(patch, memory, "page")
    def page(real: Fault, view: View, **rest: Any) -> Any:
        total = len(live([*above(view.visible[0])]))
        shown = rest | {"cursor": rest["cursor"] and rest["cursor"].split(".")[0]}
        answer = real(view, **shown)
        following = answer.value.next_cursor
        return replace(answer, value=replace(answer.value, next_cursor=following and f"{following}.{total}"))


@leak(CURSORS)
def there_is_more_when_the_rest_is_hidden(patch: Patch) -> None:
    @replaced(patch, memory, "page")
    def page(real: Fault, view: View, **rest: Any) -> Any:
        answer = real(view, **rest)
        value = answer.value
        if value.next_cursor or not value.memories:
            return answer
        last, own = value.memories[-1].key, view.visible[0]
        if any(each.key > last for each in live(above(own))):
            following = cursors.write_cursor(last, own.agent, own.level, rest["tag"])
            return replace(answer, value=replace(value, next_cursor=following))
        return answer


@leak(CURSORS)
def a_cursor_is_not_bound_to_its_agent(patch: Patch) -> None:
    @replaced(patch, cursors, "_seal")
    def seal(real: Fault, position: bytes, agent: str, taint: Level, tag: str | None) -> Any:
        return real(position, "", taint, tag)


@leak(CURSORS)
def a_cursor_is_not_bound_to_its_taint(patch: Patch) -> None:
    @replaced(patch, cursors, "_seal")
    def seal(real: Fault, position: bytes, agent: str, taint: Level, tag: str | None) -> Any:
        return real(position, agent, Level.PUBLIC, tag)


@leak(CURSORS, by_model=True)
def a_cursor_is_not_bound_to_its_tag(patch: Patch) -> None:
    @replaced(patch, cursors, "_seal")
    def seal(real: Fault, position: bytes, agent: str, taint: Level, tag: str | None) -> Any:
        return real(position, agent, taint, None)


@leak(CURSORS)
def cursors_are_numbered_in_the_whole_process(patch: Patch) -> None:
    given: dict[str, str] = {}

    @replaced(patch, memory, "write_cursor")
    def write_cursor(real: Fault, *args: Any) -> Any:
        name = base64.urlsafe_b64encode(str(len(given)).encode()).decode()
        given[name] = real(*args)
        return name

    @replaced(patch, memory, "read_cursor")
    def read_cursor(real: Fault, cursor: str | None, *args: Any) -> Any:
        return real(given.get(cursor or "", cursor), *args)

    fresh_in_every_world(patch, given)


# Caches


@leak(CACHES)
def searches_are_cached_by_the_query_alone(patch: Patch) -> None:
    cache: dict[Any, Any] = {}

    @replaced(patch, SessionMemory, "search")
    def find(real: Fault, self: SessionMemory, query: str, **rest: Any) -> Any:
        asked = (query, *sorted(rest.items()))
        if asked not in cache:
            cache[asked] = real(self, query, **rest)
        return cache[asked]

    fresh_in_every_world(patch, cache)


@leak(CACHES)
def memories_are_cached_by_agent_and_key_without_the_taint(patch: Patch) -> None:
    cache: dict[Any, Any] = {}

    @replaced(patch, memory, "get")
    def get(real: Fault, view: View, key: str) -> Any:
        place = view.visible[0].agent, key
        fresh = real(view, key)
        kept = cache.setdefault(place, Answer(fresh.value, ()))
        return kept if kept.value else fresh

    fresh_in_every_world(patch, cache)


@leak(CACHES)
def pages_are_cached_without_the_agent(patch: Patch) -> None:
    cache: dict[Any, Any] = {}

    @replaced(patch, memory, "page")
    def page(real: Fault, view: View, **rest: Any) -> Any:
        place = (view.visible[0].level, *sorted(rest.items(), key=lambda item: item[0]))
        fresh = real(view, **rest)
        return cache.setdefault(place, Answer(fresh.value, ()))

    fresh_in_every_world(patch, cache)
