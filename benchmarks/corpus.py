"""Made-up memories with the word frequencies of real text, the same at every run."""

from __future__ import annotations

import random
from collections.abc import Iterator

WORDS = 60_000
COMMON = ("the", "is", "of", "to", "and", "in", "meeting", "project")
"""Words that occur in about half of all memories, with the function words first."""

Item = tuple[str, str, list[str]]


def memories(count: int, *, seed: int = 7) -> Iterator[Item]:
    """Return key, content of 20 to 60 words, tags."""
    chance = random.Random(seed)
    weights = [1 / (rank + 10) for rank in range(WORDS)]
    vocabulary = [word(number) for number in range(WORDS)]
    pool = chance.choices(vocabulary, weights, k=2_000_000)
    for number in range(count):
        start = chance.randrange(len(pool) - 60)
        words = pool[start : start + chance.randrange(20, 60)]
        for common in COMMON:
            if chance.random() < 0.5:
                words[chance.randrange(len(words))] = common
        yield f"note-{number:07d}", " ".join(words), [f"topic-{number % 50}"]


def word(number: int) -> str:
    """Return the word of that rank: letters only, so that it is one term."""
    letters = ""
    number += 26
    while number:
        number, digit = divmod(number, 26)
        letters += chr(ord("a") + digit)
    return f"{letters}o"
