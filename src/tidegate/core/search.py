"""Search over a view: shadow first, then match, rank and limit, using only visible data (P5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import NamedTuple

from tidegate.core import variants as records
from tidegate.core.gate import Answer
from tidegate.records.excerpt import LOOK_AHEAD, AnswerSize, excerpt
from tidegate.records.memory import Explanation, Hit, Hits, ScoreParts
from tidegate.records.record import Record, RecordKind
from tidegate.records.tags import found_under
from tidegate.search import ranking as rank
from tidegate.search import reranking as rerank
from tidegate.search import spelling
from tidegate.search.analysis import Query, Word
from tidegate.search.ranking import Scorer, Statistics
from tidegate.search.reranking import Gain
from tidegate.storage.base import BudgetSpentError, Candidate, CompartmentReader, View

_BATCH = rank.CANDIDATES_MAX
PASSED_MAX = 5_000
"""Candidates that one index lookup passes over because of a filter; then the search is reported as incomplete."""


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which memories a search may find. tag: folded. since, until: of the last save, inclusive. None: any."""

    tag: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def of(self, compartment: CompartmentReader, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
        """Yield the candidates that pass, all of one compartment. Raises: BudgetSpentError, after those before it."""
        if self == EVERYTHING:
            yield from candidates
            return
        passed_over, last = 0, False
        while not last:
            batch, spent = _batch(candidates)
            kept = self._kept(compartment, batch)
            yield from kept
            passed_over += len(batch) - len(kept)
            last = len(batch) < _BATCH
            if spent or (passed_over > PASSED_MAX and not last):
                raise BudgetSpentError

    def _kept(self, compartment: CompartmentReader, batch: list[Candidate]) -> list[Candidate]:
        found = [each for each in batch if self._in_time(each.updated_at)]
        if self.tag is None or not found:
            return found
        records = compartment.read_several(RecordKind.MEMORY, [each.key for each in found], chars_max=0)
        tags = {key: found_under(RecordKind.MEMORY, record.tags) for key, record in records.items()}
        return [each for each in found if self.tag in tags.get(each.key, ())]

    def _in_time(self, at: datetime) -> bool:
        return (self.since is None or self.since <= at) and (self.until is None or at <= self.until)


EVERYTHING = SearchFilter()


def search(
    view: View, query: Query, *, echoed: str, max_results: int, wanted: SearchFilter = EVERYTHING
) -> Answer[Hits]:
    """Return the visible memories that match, best first. echoed: other text that the answer will hold."""
    with view.snapshot():
        return _hits(view, _ranked(view, query, max_results, wanted), echoed, max_results)


def explain(view: View, query: Query, *, max_results: int, wanted: SearchFilter = EVERYTHING) -> Answer[Explanation]:
    """Return the same hits, with the terms of the query and the parts of each score."""
    with view.snapshot():
        ranking = _ranked(view, query, max_results, wanted)
        found = _hits(view, ranking, "", max_results)
    words = {word.text: word.terms for word in ranking.query.words}
    parts = [ScoreParts(each.score, each.base, *each.gain.rounded()) for each in ranking.best[: len(found.value.hits)]]
    return Answer(Explanation(words, ranking.probe, ranking.common, found.value, tuple(parts)), found.records)


def best_variants(view: View, query: Query, *, most: int) -> Answer[list[tuple[int, str]]]:
    """Return the depth and key of the best visible matches, best first."""
    with view.snapshot():
        best = _ranked(view, query, most, EVERYTHING).best
    drawn_on = [each.record for each in best if each.record is not None]
    return Answer([(each.depth, each.key) for each in best[:most]], drawn_on)


class _Found(NamedTuple):  # a search creates hundreds: a dataclass is slower
    """A candidate, its depth in the view, and its BM25 score."""

    key: str
    depth: int
    updated_at: datetime
    score: float


@dataclass(frozen=True, slots=True)
class _RankedCandidate:
    """A candidate with its score: the base, which is BM25, and the gain from its text.

    record: with the start of its content, once read.
    """

    key: str
    depth: int
    updated_at: datetime
    base: float
    score: float
    record: Record | None
    gain: Gain


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The best candidates in order, as many as requested or read, and the terms that found them."""

    query: Query
    probe: tuple[str, ...]
    common: tuple[tuple[str, ...], ...]
    best: list[_RankedCandidate]
    complete: bool


class _Corpus:
    """Statistics on the words in a view, pooled over its compartments so that scores are comparable."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.statistics = sum((compartment.statistics() for compartment in view.visible), Statistics())
        self.frequencies: Counter[str] = Counter()
        self._held: list[set[str]] = [set() for _ in view.visible]

    def count(self, terms: Collection[str]) -> None:
        """Count in how many memories the terms occur. A term that is already common is not counted further down."""
        for compartment, held in zip(self._view.visible, self._held, strict=True):
            rare = [term for term in terms if self.frequencies[term] < rank.FREQUENCY_MAX]
            found = compartment.frequencies(rare)
            self.frequencies.update(found)
            held.update(term for term, number in found.items() if number)

    def held(self, depth: int, terms: Sequence[str]) -> list[str]:
        """Return the terms that a compartment holds, of those counted there."""
        return [term for term in terms if term in self._held[depth]]

    def words_like(self, word: Word) -> Iterator[str]:
        """Yield words of the vocabulary that begin like the word, or nearly so."""
        for compartment in self._view.visible:
            for first, below in spelling.ranges(word):
                yield from compartment.vocabulary(first, below, limit=spelling.VOCABULARY_MAX)


def _ranked(view: View, query: Query, max_results: int, wanted: SearchFilter) -> _Ranking:
    corpus = _Corpus(view)
    corpus.count(query.terms)
    query = _corrected(query, corpus)
    probe = rank.select_terms(query, corpus.frequencies)
    common = rank.select_common(query, corpus.frequencies, probe)
    found: dict[tuple[str, int], _Found] = {}
    complete = all(compartment.index_whole() for compartment in view.visible)
    for depth, compartment in enumerate(view.visible):
        newest = list[Candidate]()
        chosen = partial(_chosen, view, depth, wanted)
        held = corpus.held(depth, probe)  # no term of the probe was too common to be counted
        scorer = Scorer(query, held, corpus.frequencies, corpus.statistics)
        try:
            if held:
                for each in chosen(compartment.candidates(held)):
                    found[each.key, depth] = _Found(each.key, depth, each.updated_at, scorer.score(each.match))
            if common:  # too common to be looked up: the texts of the newest decide their scores
                for each in chosen(compartment.newest(common)):
                    newest.append(each)
                    found.setdefault((each.key, depth), _Found(each.key, depth, each.updated_at, 0.0))
        except BudgetSpentError:
            complete = False
        complete = complete and len(newest) < rank.CANDIDATES_MAX  # else older ones were not read
    best = rank.best_first(found.values())[: max(max_results, rerank.RERANKED_MAX)]
    return _Ranking(query, probe, common, _reranked(view, query, best, probe, corpus), complete)


def _corrected(query: Query, corpus: _Corpus) -> Query:
    """Return the query, with likely corrections for words that no visible memory has."""
    unknown = spelling.unknown(query, corpus.frequencies)
    suggestions = {word.text: spelling.closest(word, corpus.words_like(word)) for word in unknown}
    if not any(suggestions.values()):
        return query
    corpus.count({term for terms in suggestions.values() for term in terms})
    return spelling.corrected(query, suggestions, corpus.frequencies)


def _chosen(view: View, depth: int, wanted: SearchFilter, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Yield the first candidates that count: shadow first, then filter, then limit (P5). Raises: BudgetSpentError."""
    return islice(wanted.of(view.visible[depth], _unshadowed(view, depth, candidates)), rank.CANDIDATES_MAX)


def _unshadowed(view: View, depth: int, candidates: Iterator[Candidate]) -> Iterator[Candidate]:
    """Yield the candidates without a variant above. Raises: BudgetSpentError, after the candidates found before it."""
    last = False
    while not last:
        batch, spent = _batch(candidates)
        yield from records.unshadowed(view, depth, RecordKind.MEMORY, batch)
        last = len(batch) < _BATCH
        if spent:
            raise BudgetSpentError


def _batch(candidates: Iterator[Candidate]) -> tuple[list[Candidate], bool]:
    """Return the next candidates, and whether the work limit ended them: those found before it count."""
    batch: list[Candidate] = []
    try:
        for each in islice(candidates, _BATCH):
            batch.append(each)
    except BudgetSpentError:
        return batch, True
    return batch, False


def _reranked(
    view: View, query: Query, best: list[_Found], probe: Sequence[str], corpus: _Corpus
) -> list[_RankedCandidate]:
    """Return the best candidates, scored again by their texts, then the others."""
    head, tail = best[: rerank.RERANKED_MAX], best[rerank.RERANKED_MAX :]
    read = _read(view, head, chars_max=rerank.TEXT_CHARS_MAX)
    texts = [
        (each.score, "" if record is None else " ".join((record.key, *record.tags, record.content)))
        for each, record in zip(head, read, strict=True)
    ]
    gains = rerank.rerank(query, texts, probe, corpus.frequencies, corpus.statistics)
    again = [
        _RankedCandidate(*each, round(each.score + gain.total, 6), record, gain)
        for each, record, gain in zip(head, read, gains, strict=True)
    ]
    return rank.best_first(again) + [_RankedCandidate(*each, each.score, None, Gain()) for each in tail]


def _read(view: View, candidates: Sequence[_Found | _RankedCandidate], *, chars_max: int) -> list[Record | None]:
    """Return the record of each candidate, read at once from each compartment."""
    found: list[dict[str, Record]] = []
    for depth, compartment in enumerate(view.visible):
        keys = [each.key for each in candidates if each.depth == depth]
        found.append(compartment.read_several(RecordKind.MEMORY, keys, chars_max=chars_max) if keys else {})
    return [found[each.depth].get(each.key) for each in candidates]


def _hits(view: View, ranking: _Ranking, echoed: str, max_results: int) -> Answer[Hits]:
    size, hits = AnswerSize(echoed=echoed), list[Hit]()
    drawn_on = [each.record for each in ranking.best if each.record is not None]
    for each in ranking.best[:max_results]:
        record = each.record or _read(view, [each], chars_max=LOOK_AHEAD)[0]
        if record is None or not size.takes(hit := _hit(record, each.score)):
            return Answer(Hits(tuple(hits), complete=False), drawn_on)
        hits.append(hit)
        drawn_on.append(record)
    return Answer(Hits(tuple(hits), ranking.complete), drawn_on)


def _hit(record: Record, score: float) -> Hit:
    content, truncated = excerpt(record.content)
    return Hit(
        key=record.key,
        content=content,
        classification=record.level,
        tags=record.tags,
        version=record.version,
        origin=record.origin,
        created_at=record.created_at,
        updated_at=record.updated_at,
        truncated=truncated,
        score=score,
    )
