"""The limits, in one place. Each names its unit."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.records.json_object import JsonObject


@dataclass(frozen=True, slots=True)
class Limits(JsonObject):
    """The limits on arguments. Lengths are in code points unless the name says bytes."""

    key_chars_max: int = 256
    content_bytes_max: int = 1024 * 1024
    tags_max: int = 64
    tag_chars_max: int = 64
    query_chars_max: int = 4096


EXCERPT_CHARS_MAX = 500  # content in search and list
ANSWER_BYTES_MAX = 100_000  # one answer of search or list, as JSON
RESULTS_MAX = 100  # max_results of a search
RESULTS_DEFAULT = 10
PINNED_MAX = 50  # pinned memories of one agent at one level
PAGE_MAX = 200  # limit of a list
PAGE_DEFAULT = 50
