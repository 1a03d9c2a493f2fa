"""Reranking: score the best matches again, by what a lookup of words cannot find.

It reads three things from the texts of the candidates. Common words, which the lookup left out. Ngrams: three letters
in a row that a text shares with the query find other endings, compounds and typing errors in any language. Feedback:
words that the best candidates share are probably about the question, even if the query does not contain them. It reads
nothing else, so hidden memories do not affect it (P5).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegate.search.analysis import Query, Word
from tidegate.search.language import is_function_word
from tidegate.search.ranking import Statistics, idf
from tidegate.search.segmentation import PieceKind, grams, is_unspaced, skeleton

RERANKED_MAX = 64
"""How many of the best candidates are scored again."""

TEXT_CHARS_MAX = 2_000
"""How many characters of each text are read, from its start."""

_NGRAMS_WEIGHT = 0.2
_FEEDBACK_WEIGHT = 0.45
_LENGTH = 0.15  # the penalty for long texts, which share more ngrams by chance
_LEADERS = 8  # candidates whose words are feedback
_CONSIDERED_MAX = 40  # words from them, of which only the rarest count:
_FEEDBACK_WORDS_MAX = 20
_INSIDE_CHARS_MIN = 5  # shorter words are not searched inside others


@dataclass(frozen=True, slots=True)
class Gain:
    """The amount that reranking adds to a candidate's score."""

    common: float = 0.0
    ngrams: float = 0.0
    feedback: float = 0.0

    @property
    def total(self) -> float:
        """Return the sum."""
        return self.common + self.ngrams + self.feedback

    def rounded(self) -> tuple[float, float, float]:
        """Return each part, to 6 decimals."""
        return round(self.common, 6), round(self.ngrams, 6), round(self.feedback, 6)


def rerank(
    query: Query,
    candidates: Sequence[tuple[float, str]],
    probe: Collection[str],
    frequencies: Mapping[str, int],
    statistics: Statistics,
) -> list[Gain]:
    """Return the gain of each candidate, in their order.

    candidates: score and text (key, tags and content) of the best RERANKED_MAX, best first. probe: the terms that
    were looked up. frequencies, statistics: as for `ranking.Scorer`. A gain depends on these arguments alone.
    """
    if not candidates:
        return []
    texts = [skeleton(text[:TEXT_CHARS_MAX]) for _, text in candidates]
    mean = sum(map(len, texts)) / len(texts)
    discounts = [1 + _LENGTH * (len(text) / mean - 1) for text in texts]
    common = _common(query, texts, probe, frequencies, statistics)
    ngrams = [_NGRAMS_WEIGHT * gain for gain in _ngrams(query, texts, discounts)]
    scores = [score + found + ngram for (score, _), found, ngram in zip(candidates, common, ngrams, strict=True)]
    mass = sum(word.weight * idf(max(frequencies.get(word.terms[0], 0), 1), statistics) for word in query.words)
    feedback = [_FEEDBACK_WEIGHT * mass * gain for gain in _feedback(query, texts, scores, discounts)]
    return [Gain(*each) for each in zip(common, ngrams, feedback, strict=True)]


def _common(
    query: Query,
    texts: Sequence[str],
    probe: Collection[str],
    frequencies: Mapping[str, int],
    statistics: Statistics,
) -> list[float]:
    """Return for each text the weight of its query words that are in too many memories to be looked up."""
    gains = [0.0] * len(texts)
    for word in query.words:
        frequency = max((frequencies.get(term, 0) for term in word.terms), default=0)
        if frequency and not any(term in probe for term in word.terms):
            worth, start = word.weight * idf(frequency, statistics), f" {word.text}"
            for number, text in enumerate(texts):
                gains[number] += worth if start in text else 0.0
    return gains


def _ngrams(query: Query, texts: Sequence[str], discounts: Sequence[float]) -> list[float]:
    """Return the weight of the query words' ngrams in each text: the fewer candidates have one, the more it counts."""
    weights: dict[str, float] = {}
    for word in query.words:
        for ngram in _ngrams_of(word):
            weights[ngram] = max(weights.get(ngram, 0.0), word.weight)
    gains = [0.0] * len(texts)
    for ngram, weight in weights.items():
        holders = _holders(ngram, texts)
        worth = weight * _rarity(len(holders), len(texts))
        for number in holders:
            gains[number] += worth
    return [gain / discount for gain, discount in zip(gains, discounts, strict=True)]


def _ngrams_of(word: Word) -> list[str]:
    if word.kind is PieceKind.GRAM:
        return [word.text]
    if word.kind is not PieceKind.WORD or word.weight < 1:
        return []
    text = word.text if len(word.text) > 2 else f" {word.text} "
    return [text[start : start + 3] for start in range(len(text) - 2)]


def _feedback(query: Query, texts: Sequence[str], scores: Sequence[float], discounts: Sequence[float]) -> list[float]:
    """Return the share, from 0 to about 1, of the leading texts' common words that each text has."""
    asked = {word.text for word in query.words}
    leaders = sorted(range(len(texts)), key=lambda number: -scores[number])[:_LEADERS]
    best, mean = scores[leaders[0]], sum(map(len, texts)) / len(texts)
    support: dict[str, float] = {}
    for number in leaders if best > 0 else ():
        relevance = (scores[number] / best) ** 2 / (0.5 + 0.5 * len(texts[number]) / mean)
        for word in _words(texts[number], asked):
            support[word] = support.get(word, 0.0) + relevance
    weighed: list[tuple[float, str, float, list[int]]] = []
    for word in sorted(support, key=lambda word: (-support[word], word))[:_CONSIDERED_MAX]:
        holders = _holders(word, texts)
        if len(holders) > 1:
            rarity = _rarity(len(holders), len(texts))
            weighed.append((support[word] * rarity, word, rarity, holders))
    weighed.sort(key=lambda each: (-each[0], each[1]))
    gains, whole = [0.0] * len(texts), 0.0
    for weight, _, rarity, holders in weighed[:_FEEDBACK_WORDS_MAX]:
        whole += weight * rarity
        for number in holders:
            gains[number] += weight * rarity
    return [gain / whole / discount if whole else 0.0 for gain, discount in zip(gains, discounts, strict=True)]


def _words(text: str, asked: set[str]) -> dict[str, None]:
    """Return the words of a text that may be feedback, each once, short ones with spaces around them."""
    found: dict[str, None] = {}
    for word in dict.fromkeys(text.split()):
        if is_unspaced(word):
            found |= dict.fromkeys(gram for gram in grams(word) if gram not in asked)
        elif len(word) > 1 and word not in asked and not is_function_word(word):
            found[word if len(word) >= _INSIDE_CHARS_MIN else f" {word} "] = None
    return found


def _holders(part: str, texts: Sequence[str]) -> list[int]:
    return [number for number, text in enumerate(texts) if part in text]


def _rarity(holders: int, total: int) -> float:
    return math.log1p((total - holders + 0.5) / (holders + 0.5))
