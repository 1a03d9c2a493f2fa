"""Random traces from a seed: short, with few keys, common words, limits of 1, ties, and agents of similar names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import TypeVar, get_args

from tests.yardstick import traces as t
from tests.yardstick.interference import Observer
from tests.yardstick.model import Model, Session
from tests.yardstick.worlds import time_of

from tidegate.policy.levels import Level
from tidegate.records.times import write_timestamp

Chosen = TypeVar("Chosen")
AGENT, OTHERS = "ada", ("adam", "ad_", "a-da", "ada.restricted")
KEYS = ("tea", "Tea", "te_", "tea-time", "user-name", "caf\u00e9", "cafe\u0301", "a:b", "%")
WORDS = ("tea", "green", "black", "milk", "the", "drinks", "teas", "secret")
TAGS = ("x", "rule", "tea", "Rule")
LABELS = ("main", "side", "Main")
LONG = "milk " * 120  # more than an excerpt holds

CALLS: tuple[tuple[str, tuple[tuple[str, t.Frozen], ...], tuple[str, str] | None], ...] = (
    ("memory_save", (("key", "tea"), ("content", "forced tea"), ("classification", "PUBLIC")), None),
    ("memory_save", (("key", "tea"), ("content", "forced tea"), ("level", 3)), None),
    ("memory_get", (("key", "tea"), ("level", "RESTRICTED"), ("taint", "RESTRICTED")), None),
    ("memory_search", (("query", "tea"), ("security_level", "RESTRICTED")), None),
    ("memory_list", (("sensitivity", "RESTRICTED"),), None),
    ("memory_delete", (("key", "tea"), ("classification", "PUBLIC")), None),
    ("memory_save", (("key", "tea"), ("content", ""), ("taint", "PUBLIC")), ("INVALID_ARGUMENT", "content")),
    ("memory_get", (("key", "tea"), ("agent", "adam")), ("INVALID_ARGUMENT", "arguments")),
    ("memory_list", (("session", "main"),), ("INVALID_ARGUMENT", "arguments")),
    ("memory_get", (), ("INVALID_ARGUMENT", "key")),
    ("memory_get", (("key", "k" * 257),), ("LIMIT", "key")),
    ("memory_get", (("key", "te\0a"),), ("INVALID_ARGUMENT", "key")),
    ("memory_delete", (("key", "  "),), ("INVALID_ARGUMENT", "key")),
    ("memory_save", (("key", "tea"), ("content", "x"), ("tags", 5)), ("INVALID_ARGUMENT", "tags")),
    ("memory_search", (("query", "tea"), ("max_results", 0)), ("INVALID_ARGUMENT", "max_results")),
    ("memory_search", (("query", "tea"), ("max_results", True)), ("INVALID_ARGUMENT", "max_results")),
    ("memory_search", (("query", 'te* OR "tea'), ("max_results", 10.0)), None),
    ("memory_search", (("query", "q" * 4097),), ("LIMIT", "query")),
    ("memory_list", (("limit", 201),), ("INVALID_ARGUMENT", "limit")),
    ("memory_list", (("cursor", "tea"),), ("INVALID_ARGUMENT", "cursor")),
    ("memory_purge", (("key", "tea"),), ("REFUSED", "P17")),
)


class Generator:
    """Makes one trace. It follows the model, so that operations mostly meet sessions that exist."""

    def __init__(
        self, random: Random, other: str, *, jobs: bool = False, themes: Sequence[type[t.Op] | None] = (None,)
    ) -> None:
        self._random = random
        self._model = Model()
        self._steps: list[t.Step] = []
        self._agents = (AGENT, other)
        self._keys = random.sample(KEYS, 3)
        self._opened = 0
        self._jobs = jobs
        self._theme = random.choice(themes) if len(themes) > 1 else themes[0]
        self._erased: set[str] = set()
        self._scheduled: list[tuple[str, Level]] = []

    def trace(self, length: int) -> t.Trace:
        """Sessions at some levels, then `length` operations."""
        for _ in range(self._random.randint(2, 4)):
            self._take(self._open())
        for _ in range(length):
            self._take(self._any())
        return tuple(self._steps)

    def pages(self) -> list[t.Op]:
        """First pages, as two sessions get them at the end."""
        return [t.Page(self._seat(), None, 1) for _ in range(2)]

    def _take(self, op: t.Op) -> None:
        step = t.Step(len(self._steps), op)
        self._steps.append(step)
        self._model.answer(step, time_of(step.index))
        if isinstance(op, t.Erase):
            self._erased.add(op.agent)

    def _any(self) -> t.Op:
        makers, weights = zip(*self._makers(), strict=True)
        maker: Callable[[], t.Op] = self._random.choices(makers, weights)[0]
        return maker()

    def _makers(self) -> list[tuple[Callable[[], t.Op], int]]:
        return [
            (self._save, 40),
            (self._save_many, 4),
            (lambda: t.Get(self._seat(), self._key(), self._coin()), 12),
            (self._search, 15),
            (lambda: t.Pages(self._seat(), self._tag(), self._random.choice((1, 1, 2, 50))), 6),
            (lambda: t.Page(self._seat(), self._tag(), 1), 4),
            (self._more, 5),
            (lambda: t.Delete(self._seat(), self._key(), self._coin()), 18),
            (lambda: t.Call(self._seat(), *self._random.choice(CALLS)), 6),
            (lambda: t.Context(self._seat(), self._words(2) if self._coin() else ""), 4),
            (lambda: t.Pin(self._seat(), self._key()), 5),
            (lambda: t.Unpin(self._seat(), self._key()), 1),
            (lambda: t.Plan(self._seat(), tuple(self._random.sample(WORDS, self._random.randint(0, 2)))), 3),
            (lambda: t.Planned(self._seat()), 3),
            (lambda: t.Say(self._seat(), self._words(3)), 4),
            (lambda: t.Said(self._seat()), 3),
            (self._raise, 6),
            (self._ceiling, 2),
            (lambda: t.Reset(self._seat()), 2),
            (self._end, 4),
            (self._open, 5),
            (self._child, 4),
            (self._resume, 3),
            (t.Restart, 2),
            *self._job_makers(),
            *self._owned_makers(),
        ]

    def _raise(self) -> t.Op:
        """A raise; not past a lost file: where it began would be told of that, and which files there are is no P5."""
        seat, level = self._seat(), self._level()
        lost = any(agent == seat.agent for agent, _ in self._model.lost)
        return t.Get(seat, self._key(), False) if lost else t.Raise(seat, level)

    def _job_makers(self) -> list[tuple[Callable[[], t.Op], int]]:
        if not self._jobs:
            return []
        return [
            (self._schedule, 80),
            (lambda: t.Scheduled(self._seat(), self._key()), 20),
            (lambda: t.Unschedule(self._seat(), self._key()), 6),
            (self._wake, 90),
        ]

    def _owned_makers(self) -> list[tuple[Callable[[], t.Op], int]]:
        """The owner's acts and losses, and what tells of them: each trace has much of one."""
        sessions = [s for s in self._model.sessions.values() if not s.ended]
        said = [s for s in sessions if any(level is s.taint for _, level in s.messages)]
        rose = [s for s in self._model.sessions.values() if any(level < s.taint for _, level in s.messages)]
        over = [s for s in self._model.sessions.values() if s.ended and s.seat.agent in self._erased]
        used = [place for place, entries in self._model.audit.items() if entries and place not in self._model.lost]
        if self._theme is t.Purge:
            return [
                (lambda: t.Say(self._seat(), self._words(3)), 80),
                *self._of(said, lambda s: t.Raise(s.seat, Level.RESTRICTED), 100),
                *self._of([s for s in rose if not s.ended], lambda s: t.End(s.seat), 200),
                *self._of(rose, self._purge_of, 150),
            ]
        if self._theme is t.Erase:
            return [
                (lambda: t.Erase(self._agent()), 25),
                *self._of(over, lambda s: t.Get(s.seat, self._key()), 150),
                *self._of(over, lambda s: self._passing(s.seat.agent), 80),
            ]
        if self._theme is t.Renew:
            seats = [s.seat for s in sessions if s.seat.named and s.parent is None]
            return [
                (lambda: t.Renew(self._seat()), 5),
                *self._of(seats, t.Renew, 30),
                *self._of(list(self._model.renewed), lambda seat: t.Open(seat, self._level()), 60),
                (t.Restart, 10),
            ]
        if self._theme is t.Lose:
            return [
                (lambda: self._passing(self._agent()), 40),
                *self._of(sessions, lambda s: t.End(s.seat), 10),
                *self._of(used, lambda place: t.Lose(*place), 30),
            ]
        return []

    def _of(
        self, among: Sequence[Chosen], made: Callable[[Chosen], t.Op], weight: int
    ) -> list[tuple[Callable[[], t.Op], int]]:
        """What is made of one of these, if there is any."""
        return [(lambda: made(self._random.choice(among)), weight)] if among else []

    def _passing(self, agent: str) -> t.Op:
        """A session that nothing is stored about."""
        self._opened += 1
        return self._opening(t.Seat(agent, f"e{self._opened}", named=False), self._level())

    def _purge_of(self, session: Session) -> t.Op:
        return t.Purge(session.seat.agent, self._random.choice(session.messages)[1])

    # What operations are made of

    def _coin(self) -> bool:
        return self._random.random() < 0.5

    def _level(self) -> Level:
        return self._random.choice(list(Level))

    def _opening(
        self, seat: t.Seat, level: Level, ceiling: Level | None = None, parent: t.Seat | None = None
    ) -> t.Open:
        """An opening at this level; every other time without one, where that means the same."""
        stood = [self._model.sessions[each].taint for each in (seat, parent) if each in self._model.sessions]
        same = level <= max(stood) if stood else level is t.DEFAULT
        unsaid = same and len(self._model.sessions) % 2 == 0
        return t.Open(seat, None if unsaid else level, ceiling, parent)

    def _agent(self) -> str:
        return self._random.choice(self._agents)

    def _key(self) -> str:
        return self._random.choice(self._keys)

    def _tag(self) -> str | None:
        return self._random.choice((None, None, *TAGS))

    def _tags(self) -> tuple[str, ...]:
        return tuple(self._random.sample(TAGS, self._random.choice((0, 0, 1, 2))))

    def _words(self, most: int) -> str:
        return " ".join(self._random.choices(WORDS, k=self._random.randint(1, most)))

    def _content(self) -> str:
        return LONG if self._random.random() < 0.05 else self._words(4)

    def _seat(self) -> t.Seat:
        """Any session there is; mostly living ones, so that traces do not peter out."""
        seats = list(self._model.sessions.values())
        if not seats:  # a restart forgets those about which nothing is stored
            return t.Seat(self._agent(), self._random.choice(LABELS))
        living = [session for session in seats if not session.ended]
        return self._random.choice(living if living and self._random.random() < 0.9 else seats).seat

    def _schedule(self) -> t.Op:
        """A job that will mostly have come to its time before the trace ends."""
        seat = self._seat()
        session = self._model.sessions.get(seat)
        if session is not None and not session.ended:
            self._scheduled.append((seat.agent, session.taint))
        seconds = len(self._steps) // 2 + self._random.choice((1, 1, 1, 2, 5))
        return t.Schedule(seat, self._key(), seconds, self._random.choice(WORDS))

    def _wake(self) -> t.Op:
        """Mostly where there is a job."""
        place = (self._agent(), self._level())
        if self._scheduled and self._random.random() < 0.9:
            place = self._random.choice(self._scheduled)
        rises = self._random.choice([each for each in Level if each >= place[1]]) if self._coin() else None
        return t.Wake(t.Seat(place[0], "worker", named=False), place[1], rises)

    # Operations with a little more to them

    def _save(self) -> t.Op:
        """Something new, or now and then what was saved before, by the same session or another."""
        before = [step.op for step in self._steps if isinstance(step.op, t.Save)]
        if before and self._random.random() < 0.25:
            again = self._random.choice(before)
            return again if self._coin() else replace(again, seat=self._seat())
        outside = self._random.random() < 0.1
        return t.Save(self._seat(), self._key(), self._content(), self._tags(), self._coin(), outside)

    def _save_many(self) -> t.Op:
        items = tuple((self._key(), self._content(), self._tags()) for _ in range(self._random.randint(1, 3)))
        return t.SaveMany(self._seat(), items)

    def _search(self) -> t.Op:
        search = t.Search(self._seat(), self._words(3), self._random.choice((1, 1, 2, 10)), self._coin())
        if self._random.random() < 0.4:
            return search
        bounds = sorted(self._random.randint(0, len(self._steps)) for _ in range(2))
        since, until = (write_timestamp(time_of(at)) if self._coin() else None for at in bounds)
        return replace(search, tag=self._tag(), since=since, until=until)

    def _more(self) -> t.Op:
        """Go on where a page ended; now and then with another's cursor, or another tag."""
        pages = [(step.index, step.op) for step in self._steps if isinstance(step.op, t.Page | t.More)]
        pages = [page for page in pages if self._model.cursors.get(page[0])] or pages
        if not pages:
            return t.Page(self._seat(), None, 1)
        index, page = self._random.choice(pages)
        seat = self._seat() if self._random.random() < 0.4 else page.seat
        tag = self._tag() if self._random.random() < 0.2 else page.tag
        return t.More(seat, index, tag, self._random.choice((1, 2)))

    def _open(self) -> t.Op:
        """Mostly a session that is new or known; sometimes one that nothing is stored about."""
        if self._random.random() < 0.2:
            return self._passing(self._agent())
        over = [s.seat for s in self._model.sessions.values() if s.ended and s.seat.named and s.parent is None]
        if over and self._coin():  # what a client does that reconnects (P7)
            return t.Open(self._random.choice(over), Level.PUBLIC)
        seat = t.Seat(self._agent(), self._random.choice(LABELS))
        ceiling = self._level() if seat not in self._model.sessions and self._random.random() < 0.2 else None
        return self._opening(seat, self._level(), ceiling)

    def _child(self) -> t.Op:
        """A new child of a session, or one of its own opened again by it."""
        parent = self._seat()
        if any(agent == parent.agent for agent, _ in self._model.lost):  # as in `_raise`
            return t.Get(parent, self._key(), False)
        kids = [s.seat for s in self._model.sessions.values() if s.parent and s.parent.seat == parent and s.seat.named]
        if kids and self._coin():
            return self._opening(self._random.choice(kids), self._level(), None, parent)
        self._opened += 1
        ceiling = self._level() if self._random.random() < 0.3 else None
        kid = t.Seat(parent.agent, f"kid{self._opened}", self._coin())
        return self._opening(kid, self._level(), ceiling, parent)

    def _end(self) -> t.Op:
        """Mostly of a child, since it has a taint to hand back."""
        kids = [session.seat for session in self._model.sessions.values() if session.parent and not session.ended]
        return t.End(self._random.choice(kids) if kids and self._random.random() < 0.7 else self._seat())

    def _ceiling(self) -> t.Op:
        """The owner's act, which P5 leaves out where it takes what lies above into account."""
        seat, level = self._seat(), self._level()
        higher = [s for s in self._model.sessions.values() if _descends(s, seat) and s.taint > level]
        return t.Raise(seat, level) if higher else t.Ceiling(seat, level)

    def _resume(self) -> t.Op:
        named = [seat for seat in self._model.sessions if seat.named]
        unknown = t.Seat(self._agent(), self._random.choice(LABELS))
        return t.Resume(self._random.choice([*named, unknown]))


def _descends(session: Session, seat: t.Seat) -> bool:
    return session.parent is not None and (session.parent.seat == seat or _descends(session.parent, seat))


def probes(agent: str, level: Level, steps: t.Trace) -> t.Trace:
    """What a fresh session asks at the end of a trace, to see as much as can be seen.

    It also tries the cursors that others got on the way, and a level argument.
    """
    seat = t.Seat(agent, "probe", named=False)
    pages = [step.index for step in steps if isinstance(step.op, t.Page) and step.op.tag is None]
    keys = list(dict.fromkeys(step.op.key for step in steps if isinstance(step.op, t.Save)))
    ops: list[t.Op] = [
        t.Open(seat, level),
        t.Search(seat, " ".join(WORDS), 3),
        t.Search(seat, "tea", 1, tool=False),
        t.Search(seat, "tea milk", 10, tag="x"),
        t.Search(seat, "tea milk", 10, since=write_timestamp(time_of(len(steps) // 2))),
        t.Pages(seat, None, 1),
        t.Page(seat, "tea", 1),
        *(t.More(seat, index, None, 1) for index in pages[-2:]),
        t.Call(seat, *CALLS[2]),
        *(t.Get(seat, key) for key in keys[:3]),
        t.Context(seat),
        t.Context(seat, "green tea"),
        t.Planned(seat),
        t.Delete(seat, keys[0] if keys else "tea"),
        t.Save(seat, "tea", "green tea"),
        t.Pin(seat, "tea"),
        t.Search(seat, "green tea", 1),
    ]
    return tuple(t.Step(len(steps) + place, op) for place, op in enumerate(ops))


def random_trace(seed: str, length: int, *, parts: int = 1) -> t.Trace:
    """The trace of a seed: always the same. parts: so many of them, one after the other in one store."""
    random = Random(seed)
    themes = (None, None, t.Renew)
    return joined([Generator(random, random.choice(OTHERS), themes=themes).trace(length) for _ in range(parts)])


def observed_trace(
    seed: str, length: int, *, parts: int = 1, jobs: bool = False, owned: bool = False
) -> tuple[t.Trace, Observer]:
    """A trace with probes at its end, and an observer of it: either agent in it, at any level. parts: as above.

    The probes see what all parts have left. jobs, owned: whether they are in the alphabet, and the
    owner's acts and losses.
    """
    random = Random(seed)
    other = random.choice(OTHERS)
    observer = Observer(random.choice((AGENT, other)), random.choice(list(Level)))
    themes = (None, *get_args(t.Owned), t.Renew) if owned else (None,)
    generators = [Generator(random, other, jobs=jobs, themes=themes) for _ in range(parts)]
    before = [_mended(generator.trace(length)) for generator in generators[:-1]]
    return joined([*before, _observed(generators[-1], length, observer)]), observer


def _mended(steps: t.Trace) -> t.Trace:
    """A part after which nothing is lost, so that there is something to see in the next."""
    lost = sorted({step.op.agent for step in steps if isinstance(step.op, t.Lose)})
    return steps + tuple(t.Step(len(steps) + place, t.Erase(agent)) for place, agent in enumerate(lost))


def joined(traces: Sequence[t.Trace]) -> t.Trace:
    """Traces one after the other. What they saved stays; their sessions have names of their own."""
    steps: list[t.Step] = []
    for part, trace in enumerate(traces):
        start = len(steps)
        steps += [t.Step(start + step.index, _moved(step.op, start, f".{part}" if part else "")) for step in trace]
    return tuple(steps)


def _observed(generator: Generator, length: int, observer: Observer) -> t.Trace:
    steps = generator.trace(length)
    steps += tuple(t.Step(len(steps) + place, op) for place, op in enumerate(generator.pages()))
    return steps + probes(observer.agent, observer.level, steps)


def _moved(op: t.Op, start: int, suffix: str) -> t.Op:
    if isinstance(op, t.Restart | t.Owned) or not suffix:
        return op
    op = replace(op, seat=replace(op.seat, label=op.seat.label + suffix))
    if isinstance(op, t.Open) and op.parent:
        return replace(op, parent=replace(op.parent, label=op.parent.label + suffix))
    return replace(op, of=op.of + start) if isinstance(op, t.More) else op
