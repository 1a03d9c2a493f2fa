"""Queries that broke other systems' search: here every character of a query is literal, and none is an error."""

from __future__ import annotations

import random
import string

import pytest

from tidegate.errors import InvalidArgument
from tidegate.session import Session

ENGINE_WORDS = ("fts5", "sqlite", "no such column", "syntax error", "select ", "traceback")
HOSTILE = "\"'()*:^+-/\\.,;{}<>|&%_\t\n🚀👍"


def keys(session: Session, query: str) -> list[str]:
    return [hit["key"] for hit in session.call_tool("memory_search", {"query": query})["results"]]


@pytest.mark.parametrize(
    ("query", "found"), [("notes.txt", ["s03"]), ("v2.7.", ["s03"]), (".", []), ("notes", ["s03"])]
)
def test_s03_dots_are_literal(session: Session, query: str, found: list[str]) -> None:
    session.memory.save("s03", "read notes.txt before v2.7.")
    assert keys(session, query) == found


@pytest.mark.parametrize("query", ["standup 2031-04-09", "C++", "2031-04"])
def test_s05_dates_and_signs_are_words(session: Session, query: str) -> None:
    session.memory.save("s05", "standup 2031-04-09: C++ build green")
    session.memory.save("other", "C is green")
    assert keys(session, query)[0] == "s05"


def test_s07_a_query_without_words_is_an_empty_list(either: Session) -> None:
    either.memory.save("s07", "anything *** at all")
    for query in ("", "   ", "***", '"""', "(){}[]^~"):
        answer = either.call_tool("memory_search", {"query": query})
        assert answer == {"query": query, "results": [], "complete": True}


def test_s10_words_match_in_any_order_and_apart(session: Session) -> None:
    session.memory.save("s10", "postgres is the store we migrate to in May")
    assert keys(session, "migrate postgres") == ["s10"]


def test_s11_a_memory_with_more_of_the_questions_words_stands_higher(session: Session) -> None:
    session.memory.save("s11", "staging database password rotates on Mondays")
    session.memory.save("less", "the staging area of the warehouse is closed")
    assert keys(session, "why did the staging database stop on Monday?") == ["s11", "less"]


def test_s12_no_punctuation_is_an_error_alone_doubled_or_between_words(either: Session) -> None:
    either.memory.save("s12", "alpha beta")
    for sign in string.punctuation:
        for query in (sign, sign * 2, f"alpha{sign}beta", f"{sign}alpha", f"alpha{sign}"):
            answer = either.call_tool("memory_search", {"query": query})
            assert not any(word in str(answer).lower() for word in ENGINE_WORDS)
            assert [hit["key"] for hit in answer["results"]] == (["s12"] if "alpha" in query else [])


@pytest.mark.parametrize(("query", "found"), [("access*", ["s13"]), ("*access", ["s13"]), ("*cess", []), ("ac*", [])])
def test_s13_a_star_is_no_prefix(session: Session, query: str, found: list[str]) -> None:
    session.memory.save("s13", "access granted")
    assert keys(session, query) == found


def test_s15_two_thousand_hostile_queries_raise_nothing(either: Session) -> None:
    either.memory.save("s15", "still here")
    rng = random.Random(15)
    for _ in range(2_000):
        query = "".join(rng.choices(HOSTILE, k=rng.randint(1, 12)))
        assert either.call_tool("memory_search", {"query": query})["results"] == [], repr(query)
    assert keys(either, "still here") == ["s15"]


def test_s15_a_nul_in_a_query_is_refused_by_name(session: Session) -> None:
    with pytest.raises(InvalidArgument, match="query"):
        session.call_tool("memory_search", {"query": "a\0b"})


JOINED = {
    "account": "用GitHub登录",
    "wifi": "Wi-Fi密码在门后",
    "branch": "शाखा ४५६७",
    "book": "ISBN 978-3-16-148410-0",
    "call": "the call is at 3pm",
    "disk": "the disk holds 16 GB",
    "wish": "من می‌خواهم بروم",
    "name": "Oʼbrien is away",
    "other": "room 3 holds 16 people, 978 books, a wall and O",
}


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("github", "account"),
        ("WIFI", "wifi"),
        ("4567", "branch"),
        ("۴۵۶۷", "branch"),
        ("9783161484100", "book"),
        ("3 pm", "call"),
        ("16GB", "disk"),
        ("می خواهم", "wish"),
        ("میخواهم", "wish"),
        ("o'brien", "name"),
    ],
)
def test_words_meet_however_they_are_joined(either: Session, query: str, key: str) -> None:
    for each, content in JOINED.items():
        either.memory.save(each, content)
    assert keys(either, query)[0] == key
