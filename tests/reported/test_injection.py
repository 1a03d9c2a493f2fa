"""Text that means something to an engine, a shell or a log elsewhere, and nothing here."""

from __future__ import annotations

import logging

import pytest

from tidegate.policy.levels import Level
from tidegate.session import Session
from tidegate.store import Store

FRAGMENTS = [
    "'; DROP TABLE memories;--",
    '" OR 1=1 --',
    "%",
    "?",
    ":a",
    "$1",
    "\\",
    "/*",
    "x'||char(0)",
    "$(touch p)",
    "{{config}}",
    "%s%n",
]
SECRETS = [
    "sk-live-1234567890abcdefghij",
    "-----BEGIN PRIVATE KEY-----\nMIIEvQ\n-----END PRIVATE KEY-----",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln",
]


def test_j08_pieces_of_sql_are_keys_tags_contents_and_queries_like_any(either: Session) -> None:
    either.memory.save("other", "stays")
    for text in FRAGMENTS:
        either.memory.save(text, text, [text])
        got = either.call_tool("memory_get", {"key": text})
        assert (got["content"], got["tags"]) == (text, [text])
        assert [each["key"] for each in either.call_tool("memory_list", {"tag": text})["memories"]] == [text]
        assert "other" not in [each["key"] for each in either.call_tool("memory_search", {"query": text})["results"]]
        either.memory.delete(text)
    assert [memory.key for memory in either.memory.list()] == ["other"]


@pytest.mark.parametrize("secret", SECRETS)
def test_j09_what_looks_like_a_credential_is_kept_exactly_at_its_level_and_copied_nowhere(
    store: Store, secret: str, caplog: pytest.LogCaptureFixture
) -> None:
    session = store.session("assistant", "main", Level.CONFIDENTIAL)
    with caplog.at_level(logging.DEBUG):
        saved = session.memory.save("token", secret)
    kept = session.memory.get("token")
    assert saved.classification is Level.CONFIDENTIAL
    assert kept is not None
    assert kept.content == secret
    assert secret not in caplog.text
