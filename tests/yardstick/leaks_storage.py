"""Leaks in the provider: it looks, or reaches, over the walls of the compartment."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.yardstick.leaks import Fault, Patch, above, below, beside, everyone, holding, leak, live, replaced

from tidegate.audit.chain import AuditEvent, chain
from tidegate.core.witness import Witnesses
from tidegate.errors import InvalidArgument, LimitExceeded, StorageError
from tidegate.policy.levels import Level
from tidegate.records.record import Draft, Record, RecordKind
from tidegate.search.analysis import Columns
from tidegate.storage.base import BudgetSpentError
from tidegate.storage.control import SessionRow
from tidegate.storage.inmemory.control_store import InMemoryControlStore
from tidegate.storage.inmemory.provider import InMemoryCompartment, InMemoryProvider

IDS = "ids, sequence numbers, versions, created-at inherited across levels"
LOCKS = "lock contention, busy errors"
RANKING = "bm25 statistics, vocabulary, spelling help, tag counts"
LIMITS = "LIMIT before filter; tag filter or match before shadowing"
UNIQUE = "uniqueness and duplicate errors, quotas, size limits"
ABSENCE = "not found against not allowed"
NAMES = "name prefixes, LIKE wildcards, case folding in agent ids and keys"
DELETED = "deleted terms left in index segments, WAL, backups"


@leak(IDS)
def versions_count_in_the_whole_agent(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        highest = max((record.version for record in holding(above(self), draft.key)), default=0)
        real(self, replace(draft, version=max(draft.version, highest + 1)), columns)


@leak(IDS)
def versions_count_across_agents(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        real(self, replace(draft, version=draft.version + len(holding(beside(self), draft.key))), columns)


@leak(IDS)
def creation_time_comes_from_a_variant_above(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        first = min((record.created_at for record in holding(above(self), draft.key)), default=draft.created_at)
        real(self, replace(draft, created_at=min(first, draft.created_at)), columns)


@leak(IDS)
def a_touch_above_moves_the_time_below(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "touch")
    def touch(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, at: datetime) -> Any:
        real(self, kind, key, at)
        for each in below(self):
            if each.live(kind, [key]):
                real(each, kind, key, at)


@leak(IDS)
def the_audit_counts_for_the_whole_home(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "append")
    def append(_: Fault, self: InMemoryCompartment, event: AuditEvent) -> Any:
        last, total = self.last_entry(), sum(len(each._entries) for each in everyone(self))
        entry = replace(chain(event, last, None), sequence=total + 1)
        self._set(self._entries, len(self._entries) + 1, entry)


@leak(IDS)
def one_audit_chain_runs_through_all_levels(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "append")
    def append(_: Fault, self: InMemoryCompartment, event: AuditEvent) -> Any:
        heads = [each.last_entry() for each in above(self)]
        head = next((entry for entry in heads if entry is not None), self.last_entry())
        entry = replace(chain(event, head, None), sequence=len(self._entries) + 1)
        self._set(self._entries, entry.sequence, entry)


@leak(RANKING)
def statistics_count_hidden_levels(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "statistics")
    def statistics(real: Fault, self: InMemoryCompartment) -> Any:
        return sum((real(each) for each in above(self)), real(self))


@leak(RANKING)
def statistics_count_other_agents(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "statistics")
    def statistics(real: Fault, self: InMemoryCompartment) -> Any:
        return sum((real(each) for each in beside(self)), real(self))


@leak(RANKING)
def document_frequencies_count_hidden_levels(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "frequencies")
    def frequencies(real: Fault, self: InMemoryCompartment, terms: Collection[str]) -> Any:
        return {term: sum(real(each, terms)[term] for each in (self, *above(self))) for term in terms}


@leak(RANKING)
def document_frequencies_count_other_agents(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "frequencies")
    def frequencies(real: Fault, self: InMemoryCompartment, terms: Collection[str]) -> Any:
        return {term: sum(real(each, terms)[term] for each in (self, *beside(self))) for term in terms}


@leak(RANKING)
def a_word_only_used_above_is_in_the_vocabulary(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "frequencies")
    def frequencies(real: Fault, self: InMemoryCompartment, terms: Collection[str]) -> Any:
        used = {term for each in above(self) for term, count in real(each, terms).items() if count}
        return {term: count or int(term in used) for term, count in real(self, terms).items()}


@leak(RANKING)
def tags_are_known_from_all_levels(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "page")
    def page(real: Fault, self: InMemoryCompartment, kind: RecordKind, *, tag: str | None, **rest: Any) -> Any:
        known = {each for record in live(list(everyone(self))) for each in record.tags}
        if tag is not None and known and tag not in known:
            raise InvalidArgument("tag: no memory carries it", argument="tag")
        return real(self, kind, tag=tag, **rest)


@leak(LIMITS)
def a_page_is_limited_before_the_level_is_filtered(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "page")
    def page(real: Fault, self: InMemoryCompartment, kind: RecordKind, **rest: Any) -> Any:
        found = sorted((r for each in (self, *above(self)) for r in real(each, kind, **rest)), key=lambda r: r.key)
        return [record for record in found[: rest["limit"]] if record.level is self.level]


@leak(LIMITS)
def a_page_is_limited_before_the_agent_is_filtered(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "page")
    def page(real: Fault, self: InMemoryCompartment, kind: RecordKind, **rest: Any) -> Any:
        found = sorted((r for each in (self, *beside(self)) for r in real(each, kind, **rest)), key=lambda r: r.key)
        return [record for record in found[: rest["limit"]] if record.agent == self.agent]


@leak(LIMITS)
def candidates_are_limited_before_the_level_is_filtered(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "candidates")
    def candidates(real: Fault, self: InMemoryCompartment, *terms: Sequence[str]) -> Any:
        hidden = sum(1 for each in above(self) for _ in real(each, *terms))
        return itertools.islice(real(self, *terms), max(0, 2 - hidden))


@leak("the work of one search is shared")
def hidden_matches_spend_the_work_budget(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "candidates")
    def candidates(real: Fault, self: InMemoryCompartment, *terms: Sequence[str]) -> Any:
        yield from real(self, *terms)
        if sum(1 for each in above(self) for _ in real(each, *terms)) > 1:
            raise BudgetSpentError


@leak("shadowing by what is hidden")
def a_hidden_variant_shadows(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "read")
    def read(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, **rest: Any) -> Any:
        return None if holding(above(self), key) else real(self, kind, key, **rest)


@leak("shadowing by what is another agent's")
def another_agents_variant_shadows(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "live")
    def stands(real: Fault, self: InMemoryCompartment, kind: RecordKind, keys: Collection[str]) -> Any:
        return real(self, kind, keys) | {key for key in keys if holding(beside(self), key)}


@leak(ABSENCE)
def what_is_hidden_is_not_allowed_instead_of_not_there(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "read")
    def read(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, **rest: Any) -> Any:
        found: Record | None = real(self, kind, key, **rest)
        if found is None and holding(above(self), key):
            raise StorageError("this memory is not for this session")
        return found


@leak(UNIQUE)
def keys_are_unique_in_the_whole_agent(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        if draft.version == 1 and holding(above(self), draft.key):
            raise InvalidArgument("key: exists already", argument="key")
        real(self, draft, columns)


@leak(UNIQUE)
def the_quota_is_shared_by_the_levels(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        if len(live([self, *above(self)])) >= 3:
            raise LimitExceeded("key: too many memories", argument="key")
        real(self, draft, columns)


@leak(UNIQUE)
def the_quota_is_shared_by_the_agents(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        used = len(live(list(everyone(self))))
        if used >= 4:
            raise LimitExceeded(f"key: {used} memories; the limit is 4", argument="key", limit=4, actual=used)
        real(self, draft, columns)


@leak(LOCKS)
def a_write_above_keeps_the_one_below_waiting(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "append")
    def append(real: Fault, self: InMemoryCompartment, event: AuditEvent) -> Any:
        heads = [entry for each in above(self) if (entry := each.last_entry()) is not None]
        if any(entry.event.at == event.at for entry in heads):
            raise StorageError("busy: try again")
        real(self, event)


@leak("own level only (P2)")
def a_save_is_copied_to_the_levels_below(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "put")
    def put(real: Fault, self: InMemoryCompartment, draft: Draft, columns: Columns | None) -> Any:
        for each in (self, *below(self)):
            real(each, draft, columns)


@leak("own level only (P2)")
def a_delete_hides_the_variants_below_too(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "soft_delete")
    def soft_delete(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, at: datetime) -> Any:
        for each in (self, *below(self)):
            if each.live(kind, [key]):
                real(each, kind, key, at)


@leak("own level only (P2)", by_model=True)
def a_delete_hides_the_variants_above_too(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "soft_delete")
    def soft_delete(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, at: datetime) -> Any:
        for each in (self, *above(self)):
            if each.live(kind, [key]):
                real(each, kind, key, at)


@leak("own level only (P2)")
def the_index_of_the_level_below_loses_what_is_deleted_above(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "soft_delete")
    def soft_delete(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, at: datetime) -> Any:
        real(self, kind, key, at)
        for each in below(self):
            each._columns.pop(key, None)


@leak(DELETED, by_model=True)
def the_index_keeps_what_is_deleted(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "soft_delete")
    def soft_delete(real: Fault, self: InMemoryCompartment, kind: RecordKind, key: str, at: datetime) -> Any:
        columns = self._columns.get(key)
        real(self, kind, key, at)
        if columns is not None:
            self._columns[key] = columns


@leak(DELETED, by_model=True)
def what_is_deleted_still_shadows(patch: Patch) -> None:
    @replaced(patch, InMemoryCompartment, "live")
    def stands(_: Fault, self: InMemoryCompartment, kind: RecordKind, keys: Collection[str]) -> Any:
        return {key for key in keys if (kind, key) in self._records}


@leak("tranquility (P3)", by_model=True)
def a_record_takes_the_level_of_who_reads_it(patch: Patch) -> None:
    @replaced(patch, InMemoryProvider, "_visible")
    def visible(real: Fault, self: InMemoryProvider, agent: str, taint: Level) -> Any:
        found = real(self, agent, taint)
        for each in found:
            for name, record in each._records.items():
                each._records[name] = replace(record, level=taint)
        return found


@leak(NAMES)
def agents_match_by_prefix(patch: Patch) -> None:
    @replaced(patch, InMemoryProvider, "_visible")
    def visible(real: Fault, self: InMemoryProvider, agent: str, taint: Level) -> Any:
        known = [name for name in self.agents() if name.startswith(agent)]
        return real(self, known[0] if known else agent, taint)


@leak(NAMES)
def agents_match_by_wildcard(patch: Patch) -> None:
    @replaced(patch, InMemoryProvider, "_visible")
    def visible(real: Fault, self: InMemoryProvider, agent: str, taint: Level) -> Any:
        def like(name: str) -> bool:
            return len(name) == len(agent) and all(a in (b, "_") for a, b in zip(agent, name, strict=True))

        return real(self, next((name for name in self.agents() if like(name)), agent), taint)


@leak(NAMES)
def agents_are_told_apart_by_letters_alone(patch: Patch) -> None:
    def slug(agent: str) -> Any:
        return "".join(char for char in agent if char.isalnum())

    @replaced(patch, InMemoryProvider, "_visible")
    def visible(real: Fault, self: InMemoryProvider, agent: str, taint: Level) -> Any:
        return real(self, next((name for name in self.agents() if slug(name) == slug(agent)), agent), taint)


@leak(NAMES)
def session_names_are_found_across_agents(patch: Patch) -> None:
    @replaced(patch, InMemoryControlStore, "find")
    def find(_: Fault, self: InMemoryControlStore, agent: str, name: str) -> Any:
        return next((row for row in self._rows.values() if row.name == name), None)


@leak(NAMES)
def session_names_fold_case(patch: Patch) -> None:
    @replaced(patch, InMemoryControlStore, "find")
    def find(_: Fault, self: InMemoryControlStore, agent: str, name: str) -> Any:
        return next((row for row in self.sessions(agent) if (row.name or "").lower() == name.lower()), None)


@leak("session lists that vary with what is hidden")
def session_lists_match_agents_by_prefix(patch: Patch) -> None:
    @replaced(patch, InMemoryControlStore, "sessions")
    def sessions(_: Fault, self: InMemoryControlStore, agent: str) -> Any:
        rows = (row for row in self._rows.values() if row.agent.startswith(agent))
        return sorted(rows, key=lambda row: (row.name or "", row.id))


@leak("monotone taint (P4)")
def a_raise_is_kept_in_memory_only(patch: Patch) -> None:
    raised: dict[str, Level] = {}
    patch.setattr(Witnesses, "_settle", lambda *_: None)  # else the audit, which has it, would be asked

    @replaced(patch, InMemoryControlStore, "set_taint")
    def set_taint(_: Fault, self: InMemoryControlStore, session: str, taint: Level) -> Any:
        raised[session] = taint

    @replaced(patch, InMemoryControlStore, "read")
    def read(real: Fault, self: InMemoryControlStore, session: str) -> Any:
        row: SessionRow | None = real(self, session)
        return row and replace(row, taint=max(row.taint, raised.get(session, Level.PUBLIC)))

    @replaced(patch, InMemoryProvider, "close")
    def close(_: Fault, self: InMemoryProvider) -> Any:
        raised.clear()
