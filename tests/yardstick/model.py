"""The reference model: what every operation must answer, said as plainly as Python allows.

It keeps dicts and lists and looks at everything on every question. It shares with the code under test the levels, the
shape of the contract, and the pure text analysis and ranking; it knows nothing of core, storage, gate or policy rules.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from tests.yardstick import traces as t

from tidegate.policy.levels import Level
from tidegate.records.times import write_timestamp
from tidegate.search import analysis as text
from tidegate.search import nearness as near
from tidegate.search import ranking as rank
from tidegate.search import reranking as rerank
from tidegate.search import spelling

LEVELS = list(Level)
GROUPS = ("rule", "preference", "persona", "project")
Cursor: TypeAlias = tuple[str, Level, str | None, str]  # agent, taint, tag, the last key shown
Answer: TypeAlias = dict[str, object]


class ModelError(Exception):
    """The operation is answered by an error: its code, and the details that a program may rely on."""

    def __init__(self, code: str, **details: object) -> None:
        super().__init__(code)
        self.answer: Answer = {"error": code, **details}


@dataclass
class Item:
    """A key at one level: its newest version, live or deleted."""

    key: str
    level: Level
    content: str
    tags: tuple[str, ...]
    version: int
    created_at: datetime
    updated_at: datetime
    live: bool = True
    origin: str = "agent"
    pinned: bool = False


@dataclass(eq=False)
class Session:
    """A conversation; it is over when it or any session above it is."""

    seat: t.Seat
    taint: Level
    own_ceiling: Level
    parent: Session | None
    own_end: bool = False
    messages: list[tuple[str, Level]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.own_end or (self.parent is not None and self.parent.ended)

    @property
    def ceiling(self) -> Level:
        return self.own_ceiling if self.parent is None else min(self.own_ceiling, self.parent.ceiling)

    @property
    def ancestors(self) -> list[Session]:
        return [] if self.parent is None else [self.parent, *self.parent.ancestors]

    @property
    def depth(self) -> int:
        return 1 if self.parent is None else 1 + self.parent.depth


@dataclass
class Model:
    """The whole system. `answer` takes the next operation.

    lost: the compartments whose files are gone. Nothing can be entered there, or above.
    renewed: of each renewed name, how often, and the session that had it. known: how often it had been when it
    was first looked up.
    """

    items: dict[tuple[str, Level], dict[str, Item]] = field(default_factory=dict)
    sessions: dict[t.Seat, Session] = field(default_factory=dict)
    audit: dict[tuple[str, Level], list[str]] = field(default_factory=dict)
    cursors: dict[int, Cursor | None] = field(default_factory=dict)
    todos: dict[tuple[str, Level], tuple[str, ...]] = field(default_factory=dict)
    lost: set[tuple[str, Level]] = field(default_factory=set)
    renewed: dict[t.Seat, tuple[int, Session]] = field(default_factory=dict)
    known: dict[t.Seat, int] = field(default_factory=dict)
    now: datetime = datetime.min

    def answer(self, step: t.Step, now: datetime) -> Answer:
        """What the operation must answer; errors as {"error": code, …}."""
        self.now = now
        try:
            return self._act(step)
        except ModelError as error:
            return error.answer

    def _act(self, step: t.Step) -> Answer:
        match step.op:
            case t.Restart():
                return self.restart()
            case t.Erase() | t.Purge() | t.Lose() as op:
                return self.owned(op)
            case t.Schedule() | t.Scheduled() | t.Unschedule() | t.Wake():
                return {}  # no session of a trace changes by it; what it answers, this model does not say
            case t.Open() as op:
                return self.open(op)
            case t.Raise() as op:
                return {"taint": self.raise_taint(self.session(op.seat), op.level)}
            case t.Ceiling() as op:
                return self.set_ceiling(self.living(op.seat), op.level)
            case t.Resume() as op:
                return {"taint": self.living(op.seat).taint}
            case t.Reset() as op:
                return self.reset(self.living(op.seat))
            case t.Renew() as op:
                return self.renew(op.seat)
            case t.End() as op:
                return self.join(self.living(op.seat))
            case op:
                return self._verb(step.index, op, self.living(op.seat))

    def _verb(self, index: int, op: t.Verb, s: Session) -> Answer:
        match op:
            case t.Save():
                answer = self.save(s, op.key, op.content, op.tags, "tool" if op.outside else "agent")
                return answer | self.similar(s, op.key, op.content) if op.tool else answer
            case t.SaveMany():
                return {"saved": [self.save(s, *item) for item in op.items]}
            case t.Get():
                return self.get(s, op.key)
            case t.Search():
                return self.search(s, op)
            case t.Pages():
                return {"memories": [shown(item) for item in self.tagged(s, op.tag)]}
            case t.Page():
                return self.page(s, index, op.tag, op.limit, "")
            case t.More():
                return self.more(s, index, op)
            case t.Delete():
                return self.delete(s, op.key)
            case t.Call():
                return self.call(s, op)
            case _:
                return self._other(op, s)

    def _other(self, op: t.Other, s: Session) -> Answer:
        match op:
            case t.Context():
                return self.context(s, op.query)
            case t.Pin() | t.Unpin():
                return self.pin(s, op.key, isinstance(op, t.Pin))
            case t.Plan():
                self.todos[s.seat.agent, s.taint] = op.todos
                self.enter(s, s.taint, "save")
                return {"todos": list(op.todos)}
            case t.Planned():
                lists = [self.todos.get((s.seat.agent, level)) for level in reversed(LEVELS) if level <= s.taint]
                return {"todos": next((list(each) for each in lists if each is not None), [])}
            case t.Say():
                s.messages.append((op.content, s.taint))
                self.enter(s, s.taint, "save")
                return {}
            case t.Said():
                told: list[Answer] = [{"content": content, "level": level} for content, level in s.messages]
                return {"messages": told}

    # Sessions

    def restart(self) -> Answer:
        """Nothing was stored about ephemeral sessions, so they are gone, and their children with them."""
        for seat in [seat for seat in self.sessions if not seat.named]:
            self.sessions.pop(seat).own_end = True
        self.known = {}
        return {}

    def owned(self, op: t.Owned) -> Answer:
        """What becomes of sessions and conversations. What the owner is answered, this model does not say."""
        mine = [s for s in self.sessions.values() if s.seat.agent == op.agent]
        match op:
            case t.Erase():
                for s in mine:
                    s.own_end = True
                    s.messages.clear()
                for table in (self.items, self.audit, self.todos):
                    for place in [place for place in table if place[0] == op.agent]:
                        del table[place]  # type: ignore[attr-defined]
                self.lost = {place for place in self.lost if place[0] != op.agent}
            case t.Purge():
                for s in mine if (op.agent, op.level) not in self.lost else ():
                    if s.own_end or not s.seat.named or s.taint != op.level:
                        s.messages = [said for said in s.messages if said[1] != op.level]
            case t.Lose():
                if self.audit.get((op.agent, op.level)):
                    self.lost.add((op.agent, op.level))
                self.restart()
        return {}

    def holder(self, seat: t.Seat) -> Session | None:
        """The session that answers to a seat; of a name renewed too late to be known, the one that had it."""
        number, before = self.renewed.get(seat, (0, None))
        return before if number > self.known.get(seat, number) else self.sessions.get(seat)

    def look_up(self, seat: t.Seat) -> None:
        """A named session is looked up: at the first time, all renewals of the name until then are known."""
        number, _ = self.renewed.get(seat, (0, None))
        if seat.named and number > self.known.setdefault(seat, number):
            raise ModelError("REFUSED", rule="P7")

    def session(self, seat: t.Seat) -> Session:
        self.look_up(seat)
        if seat not in self.sessions:
            raise ModelError("REFUSED", rule="P13")
        return self.sessions[seat]

    def living(self, seat: t.Seat) -> Session:
        s = self.session(seat)
        if s.ended:
            raise self.refuse(s, "P7")
        return s

    def refuse(self, s: Session, rule: str) -> ModelError:
        if not s.ended or self.audit.get((s.seat.agent, s.taint)):
            self.enter(s, s.taint, "refuse")  # else it is of what was erased, or was never used
        return ModelError("REFUSED", rule=rule)

    def open(self, op: t.Open) -> Answer:
        parent = self.living(op.parent) if op.parent else None
        self.look_up(op.seat)
        known = op.seat.named and op.seat in self.sessions
        asked = t.DEFAULT if op.level is None and not (known or parent) else op.level or Level.PUBLIC
        level = max(asked, parent.taint) if parent else asked
        if known:
            return {"taint": self.resume(self.sessions[op.seat], op, level)}
        ceiling = op.ceiling if op.ceiling is not None else parent.ceiling if parent else Level.RESTRICTED
        if parent and (parent.depth > 4 or ceiling > parent.ceiling):
            raise self.refuse(parent, "P15")
        if level > ceiling and op.level is None and not parent:
            raise ModelError("INVALID_ARGUMENT", argument="ceiling")
        if level > ceiling:
            raise self.refuse(parent, "P4") if parent else ModelError("REFUSED", rule="P4")
        s = Session(op.seat, level, ceiling, parent)
        if op.seat.named:
            self.enter(s, level, "open")
        self.sessions[op.seat] = s
        return {"taint": level}

    def resume(self, s: Session, op: t.Open, level: Level) -> Level:
        if op.ceiling not in (None, s.own_ceiling):
            raise ModelError("INVALID_ARGUMENT", argument="ceiling")
        if op.parent and (s.parent is None or s.parent.seat != op.parent):
            raise ModelError("INVALID_ARGUMENT", argument="parent")
        return self.raise_taint(s, level) if level > s.taint else self.living(s.seat).taint

    def raise_taint(self, s: Session, level: Level) -> Level:
        if s.ended:
            raise self.refuse(s, "P7")
        if max(s.taint, level) > s.ceiling:
            raise self.refuse(s, "P4")
        if level > s.taint:
            self.enter(s, level, "raise")
            s.taint = level
        return s.taint

    def set_ceiling(self, s: Session, level: Level) -> Answer:
        if level < s.taint:
            raise self.refuse(s, "P4")
        if any(s in each.ancestors and not each.ended and each.taint > level for each in self.sessions.values()):
            raise self.refuse(s, "P15")
        self.enter(s, s.taint, "ceiling")
        s.own_ceiling = level
        return {}

    def end(self, s: Session) -> Answer:
        self.enter(s, s.taint, "reset")
        s.own_end = True
        return {}

    def reset(self, s: Session) -> Answer:
        self.clear(s)
        return self.end(s)

    def renew(self, seat: t.Seat) -> Answer:
        s = self.sessions.get(seat) if seat.named else None
        if s is None:
            raise ModelError("REFUSED", rule="P13")
        if s.parent:
            raise ModelError("INVALID_ARGUMENT", argument="name")
        if not s.ended:
            self.reset(s)
        if any((seat.agent, level) in self.lost for level in LEVELS if level <= s.taint):
            raise ModelError("STORAGE")
        if self.audit.get((seat.agent, s.taint)):
            self.enter(s, s.taint, "renew")  # else its agent was erased
        self.renewed[seat] = self.renewed.get(seat, (0, None))[0] + 1, self.sessions.pop(seat)
        return {}

    def join(self, s: Session) -> Answer:
        if s.parent:
            self.raise_taint(s.parent, s.taint)
        self.end(s)
        return {}

    def clear(self, s: Session) -> None:
        """Remove what was said in a session and in those below it, for good."""
        for each in self.sessions.values():
            if each is s or s in each.ancestors:
                for _, level in each.messages:
                    self.enter(each, level, "purge")
                each.messages.clear()

    def enter(self, s: Session, level: Level, action: str) -> None:
        if any((s.seat.agent, each) in self.lost for each in LEVELS if each <= level):
            raise ModelError("STORAGE")
        self.audit.setdefault((s.seat.agent, level), []).append(action)

    # What a session sees

    def at(self, agent: str, level: Level) -> dict[str, Item]:
        return self.items.setdefault((agent, level), {})

    def live(self, s: Session) -> list[Item]:
        """Every live variant at or below the taint, shadowed ones too."""
        return [i for level in LEVELS if level <= s.taint for i in self.at(s.seat.agent, level).values() if i.live]

    def variants(self, s: Session, key: str) -> list[Item]:
        """The live variants of a key, highest first."""
        return sorted((i for i in self.live(s) if i.key == nfc(key)), key=lambda i: -i.level)

    def visible(self, s: Session) -> list[Item]:
        """Of each key the highest variant, in key order. Shadow first: all else comes after."""
        return sorted((i for i in self.live(s) if self.variants(s, i.key)[0] is i), key=lambda i: i.key)

    def tagged(self, s: Session, tag: str | None) -> list[Item]:
        return [i for i in self.visible(s) if tag is None or tag.lower() in map(str.lower, i.tags)]

    # The verbs

    def save(self, s: Session, key: str, content: str, tags: tuple[str, ...], origin: str = "agent") -> Answer:
        alike = {nfc(tag).strip().lower(): nfc(tag).strip() for tag in reversed(tags)}  # of alike ones, the first
        key, stored = nfc(key), tuple(sorted(alike.values()))
        own, old = self.at(s.seat.agent, s.taint), self.at(s.seat.agent, s.taint).get(key)
        self.enter(s, s.taint, "save")
        if old and old.live and (old.content, old.tags) == (content, stored):
            old.updated_at = self.now
            return self.saved(old, "unchanged")
        version, status = (old.version + 1 if old else 1), ("updated" if old and old.live else "created")
        created_at = old.created_at if old and old.live else self.now
        stays = bool(old and old.live and old.pinned and not (old.origin == "agent" and origin == "tool"))
        own[key] = Item(key, s.taint, content, stored, version, created_at, self.now, True, origin, stays)
        return self.saved(own[key], status)

    def saved(self, item: Item, status: str) -> Answer:
        fields: Answer = {"classification": item.level, "version": item.version, "status": status}
        return {"saved": True, "key": item.key, **fields}

    def similar(self, s: Session, key: str, content: str) -> Answer:
        """What a tool adds to a save: the nearest visible memories, by words that are rare in all that is visible."""
        others = [(i, text.analyse(i.key, i.tags, i.content).terms) for i in self.live(s) if i.key != nfc(key)]
        held = [[id(i) for i, terms in others if terms & set(word)] for word in near.telling_words(nfc(key), content)]
        scores = near.nearness(held)
        found = best_first([(scores[id(i)], i) for i in self.visible(s) if id(i) in scores])[: near.NEAR_MAX]
        named: list[Answer] = [{"key": i.key, "classification": i.level, "origin": i.origin} for _, i in found]
        return {"similar": named} if named else {}

    def pin(self, s: Session, key: str, pinned: bool) -> Answer:
        item = self.at(s.seat.agent, s.taint).get(nfc(key))
        if item is None or not item.live:
            raise ModelError("NOT_FOUND")
        status = "unchanged" if item.pinned is pinned else "updated"
        if status == "updated":
            self.enter(s, s.taint, "pin" if pinned else "unpin")
            item.pinned = pinned
        return {"key": item.key, "classification": item.level, "version": item.version, "status": status}

    def context(self, s: Session, query: str) -> Answer:
        """All that belongs in the block, in its order: a trace has fewer memories than there is room for."""
        results: list[Answer] = self.search(s, t.Search(s.seat, query, 50))["results"]  # type: ignore[assignment]
        ranks = {each["key"]: rank for rank, each in enumerate(results)}
        found = []
        for i in self.visible(s):
            group = next((n for n, tag in enumerate(GROUPS) if tag in map(str.lower, i.tags)), len(GROUPS))
            why = (0, 0) if i.pinned else (1, ranks[i.key]) if i.key in ranks else (2, 0)
            if i.pinned or group < len(GROUPS):
                found.append((-i.level, group, why, -i.updated_at.timestamp(), i.key))
        return {"keys": [each[-1] for each in sorted(found)], "included": len(found), "left_out": 0}

    def get(self, s: Session, key: str) -> Answer:
        variants = self.variants(s, key)
        if not variants:
            return {"found": False, "key": nfc(key)}
        top = variants[0]
        times: Answer = {"version": top.version, "created_at": top.created_at}
        newest = max(variants, key=lambda i: i.updated_at)
        below: Answer = {"newer_below": newest.level} if newest.updated_at > top.updated_at else {}
        return {"found": True, **shown(top, whole=True), **times, **below}

    def search(self, s: Session, op: t.Search) -> Answer:
        asked, live = text.analyse_query(op.query), self.live(s)
        columns = {id(i): text.analyse(i.key, i.tags, i.content) for i in live}
        asked = corrected(asked, list(columns.values()))
        matches = {id(i): match(columns[id(i)], asked.terms) for i in live}
        totals = sum((rank.Statistics(1, matches[id(i)].lengths) for i in live), rank.Statistics())
        held = {t: sum(at in m.counts[::4] for m in matches.values()) for at, t in enumerate(asked.terms)}
        scorer = rank.Scorer(asked, asked.terms, held, totals)
        found = [(scorer.score(matches[id(i)]), i) for i in self.tagged(s, op.tag) if in_time(i, op)]
        found = best_first([(score, i) for score, i in found if matches[id(i)].counts])
        texts = [(score, " ".join((i.key, *i.tags, i.content))) for score, i in found]
        gains = rerank.rerank(asked, texts, rank.select_terms(asked, held), held, totals)
        found = best_first([(round(score + gain.total, 6), i) for (score, i), gain in zip(found, gains, strict=True)])
        results = [{**shown(i), "score": score} for score, i in found[: op.max_results]]
        return {"query": op.query, "results": results, "complete": True}

    def page(self, s: Session, index: int, tag: str | None, limit: int, after: str) -> Answer:
        rest = [i for i in self.tagged(s, tag) if i.key > after]
        more = len(rest) > limit
        self.cursors[index] = (s.seat.agent, s.taint, tag, rest[limit - 1].key) if more else None
        return {"memories": [shown(i) for i in rest[:limit]], "more": more}

    def more(self, s: Session, index: int, op: t.More) -> Answer:
        cursor = self.cursors.get(op.of)
        if cursor is None or cursor[:3] != (s.seat.agent, s.taint, op.tag):
            raise ModelError("INVALID_ARGUMENT", argument="cursor")
        return self.page(s, index, op.tag, op.limit, cursor[3])

    def delete(self, s: Session, key: str) -> Answer:
        below = [i.level for i in self.variants(s, key) if i.level < s.taint]
        item = self.at(s.seat.agent, s.taint).get(nfc(key))
        if item is None or not item.live:
            raise ModelError("NOT_FOUND", **({"visible_at": below[0]} if below else {}))
        item.live = item.pinned = False
        self.enter(s, s.taint, "delete")
        again: Answer = {"still_visible": below[0]} if below else {}
        return {"deleted": True, "key": item.key, "classification": item.level, **again}

    def call(self, s: Session, op: t.Call) -> Answer:
        """A call whose arguments are odd; the operation itself says what is wrong with them."""
        if op.error and op.error[0] == "REFUSED":
            raise self.refuse(s, op.error[1])
        sent = dict(op.arguments)
        if {"classification", "level", "taint", "security_level", "sensitivity"} & set(sent):
            self.enter(s, s.taint, "attempt")
        if op.error:
            raise ModelError(op.error[0], argument=op.error[1])
        match op.tool:
            case "memory_save":
                key, content = str(sent["key"]), str(sent["content"])
                return self.save(s, key, content, ()) | self.similar(s, key, content)
            case "memory_get":
                return self.get(s, str(sent["key"]))
            case "memory_delete":
                return self.delete(s, str(sent["key"]))
            case "memory_search":
                return self.search(s, t.Search(op.seat, str(sent["query"])))
            case _:
                return {"memories": [shown(i) for i in self.visible(s)], "next_cursor": None}


def nfc(label: str) -> str:
    return unicodedata.normalize("NFC", label)


def shown(item: Item, *, whole: bool = False) -> Answer:
    """A memory as search and list show it, or get, which gives it whole. Traces are ASCII where they are long."""
    cut: Answer = {} if whole or len(item.content) <= 500 else {"truncated": True}
    content = item.content if whole else item.content[:500]
    labels: Answer = {"classification": item.level, "tags": list(item.tags), "origin": item.origin}
    return {"key": item.key, "content": content, **labels, "updated_at": item.updated_at, **cut}


def in_time(item: Item, op: t.Search) -> bool:
    """Whether a memory was last saved within the bounds of a search."""
    at = write_timestamp(item.updated_at)  # the texts sort like the times
    return (op.since or at) <= at <= (op.until or at)


def best_first(found: list[tuple[float, Item]]) -> list[tuple[float, Item]]:
    """By score, then newest, then key. All are scored again by their texts: a trace has fewer than that takes."""
    by_key = sorted(found, key=lambda pair: pair[1].key)
    return sorted(by_key, key=lambda pair: (pair[0], pair[1].updated_at), reverse=True)


def corrected(asked: text.Query, columns: list[text.Columns]) -> text.Query:
    """The query, with what the words in no live memory may have been meant to be."""
    counts = Counter(term for each in columns for term in {*each.key, *each.tags, *each.content})
    suggestions = {}
    for word in spelling.unknown(asked, counts):
        near = [
            t for first, below in spelling.ranges(word) for t in counts if first <= t < below and spelling.is_word(t)
        ]
        suggestions[word.text] = spelling.closest(word, near)
    return spelling.corrected(asked, suggestions, counts)


def match(columns: text.Columns, terms: tuple[str, ...]) -> rank.Match:
    """How often each term stands in each column, counted one by one."""
    parts = (columns.key, columns.tags, columns.content)
    counts = [(at, parts[0].count(t), parts[1].count(t), parts[2].count(t)) for at, t in enumerate(terms)]
    lengths = (len(parts[0]), len(parts[1]), len(parts[2]))
    return rank.Match([number for each in counts if any(each[1:]) for number in each], lengths)
