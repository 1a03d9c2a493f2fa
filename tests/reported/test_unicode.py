"""Text that other systems lost, cut or choked on."""

from __future__ import annotations

import unicodedata

import pytest

from tidegate.errors import InvalidArgument
from tidegate.session import Session

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
EXCERPT_CHARS = 500
LONE = "x\ud83d y"


def keys(session: Session, query: str) -> list[str]:
    return [hit["key"] for hit in session.call_tool("memory_search", {"query": query})["results"]]


@pytest.mark.parametrize(("query", "key"), [("下周三", "u01"), ("끝말잇기", "u01k"), ("会议", "u01")])
def test_u01_words_of_scripts_without_spaces_are_found(session: Session, query: str, key: str) -> None:
    session.memory.save("u01", "会议改到下周三下午三点")
    session.memory.save("u01k", "오늘은끝말잇기를했다")
    assert keys(session, query) == [key]


@pytest.mark.parametrize("query", ["a", "resume", "naive", "RÉSUMÉ", "ắ", "NAÏVE"])
def test_u06_accents_and_case_make_no_difference_to_what_is_found(session: Session, query: str) -> None:
    session.memory.save("u06", "Ắ Ố Ế résumé naïve")
    assert keys(session, query) == ["u06"]


@pytest.mark.parametrize(
    ("tool", "name", "arguments"),
    [
        ("memory_save", "content", {"key": "k", "content": LONE}),
        ("memory_save", "key", {"key": "k\udc00", "content": "c"}),
        ("memory_save", "tags", {"key": "k", "content": "c", "tags": [LONE]}),
        ("memory_search", "query", {"query": LONE}),
        ("memory_get", "key", {"key": LONE}),
    ],
)
def test_u07_a_lone_surrogate_is_refused_by_name_and_nothing_is_stored(
    session: Session, tool: str, name: str, arguments: dict[str, object]
) -> None:
    with pytest.raises(InvalidArgument, match=name) as refused:
        session.call_tool(tool, arguments)
    assert refused.value.message.encode()
    assert session.call_tool("memory_list", {})["memories"] == []


NULS: list[tuple[str, dict[str, object]]] = [
    ("memory_save", {"key": "k", "content": "left\0right"}),
    ("memory_save", {"key": "k\0", "content": "c"}),
    ("memory_save", {"key": "k", "content": "c", "tags": ["t\0"]}),
    ("memory_get", {"key": "k\0"}),
    ("memory_list", {"tag": "t\0"}),
    ("memory_search", {"query": "right\0"}),
]


def test_u10_nul_is_refused_in_every_argument_and_nothing_is_cut(either: Session) -> None:
    for tool, arguments in NULS:
        with pytest.raises(InvalidArgument):
            either.call_tool(tool, arguments)
    assert either.call_tool("memory_list", {})["memories"] == []


@pytest.mark.parametrize("before", range(EXCERPT_CHARS - 6, EXCERPT_CHARS + 2))
def test_u11_no_excerpt_ends_within_an_emoji_and_get_is_whole(session: Session, before: int) -> None:
    content = "x" * (before - 1) + FAMILY + "tail" * 20
    session.memory.save("u11", content)
    for answer in (
        session.call_tool("memory_list", {})["memories"][0],
        session.call_tool("memory_search", {"query": "u11"})["results"][0],
    ):
        shown = answer["content"]
        assert answer["truncated"]
        assert content.startswith(shown)
        assert FAMILY in shown or set(shown) == {"x"}
        assert not unicodedata.category(shown[-1]).startswith("M")
    assert session.call_tool("memory_get", {"key": "u11"})["content"] == content


def test_u14_an_emoji_is_a_word(session: Session) -> None:
    session.memory.save("u14", "shipped 🚀 today")
    session.memory.save("family", f"the {FAMILY} went out")
    assert keys(session, "🚀") == ["u14"]
    assert keys(session, FAMILY) == ["family"]
