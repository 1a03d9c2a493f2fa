"""What is not seen is shown, wherever it could be used: on a terminal, in a result, in the block of memories (P18)."""

from __future__ import annotations

import json
import unicodedata

import pytest

from tidegate.domain.framing import json_line
from tidegate.domain.jsonlines import to_line
from tidegate.domain.unseen import escape
from tidegate.gateway.results import Reply, outside
from tidegate.surfaces import output

# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, and blanks like nothing or like a space.
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
BLANK = "2800 13441-13442 16FE4 1D159"


def points(ranges: str) -> set[str]:
    bounds = [each.split("-") for each in ranges.split()]
    return {chr(code) for each in bounds for code in range(int(each[0], 16), int(each[-1], 16) + 1)}


HIDDEN = points(IGNORABLE) | points(BLANK)
DECEIVING = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("Cc", "Cs", "Zl", "Zp")}
EXPECTED = (HIDDEN | DECEIVING | set("\ufff9\ufffa\ufffb")) - set("\n\t")
SMUGGLED = "a" + "".join(sorted(HIDDEN)) + "z"


def test_of_all_characters_exactly_those_are_escaped() -> None:
    assert {chr(code) for code in range(0x110000) if chr(code) not in escape(f"a{chr(code)}b")} == EXPECTED


@pytest.mark.parametrize(
    "show",
    [json_line, to_line, output.to_json, output.escape, lambda text: outside("t", Reply(text, False), "n").text],
    ids=["the block of memories", "a file", "JSON on a terminal", "a terminal", "a result of another server"],
)
def test_p18_nothing_unseen_gets_anywhere_as_it_is(show: object) -> None:
    assert callable(show)
    assert not set(show(SMUGGLED)) & HIDDEN


@pytest.mark.parametrize("write", [json_line, to_line, output.to_json])
def test_json_is_exact_when_parsed(write: object) -> None:
    assert callable(write)
    text = SMUGGLED + "".join(sorted(EXPECTED - DECEIVING)) + "\x00\x1f\x7f\x85\u2028\\ufe0f\U0001f468\u200d\U0001f469"
    assert json.loads(write({text: [text]})) == {text: [text]}


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 👨\u200d👩\u200d👧",  # joined
        "❤\ufe0f ☀\ufe0f ✔\ufe0f ™\ufe0f ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        "می\u200cخواهم",  # Persian: I want
        "क्\u200dष",  # Devanagari
        "日本\u3000語 a\u00a0b naïve e\u0301\n\tx",
    ],
)
def test_what_spells_stays(text: str) -> None:
    assert escape(text) == text
    assert json.loads(json_line(text)) == text
    assert json_line({"text": text.replace("\n\t", "")}) == json.dumps(
        {"text": text.replace("\n\t", "")}, ensure_ascii=False
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("x\u200c\u200d\u200cy", "x\\u200c\\u200d\\u200cy"),
        ("é\u200c\u200dé", "é\u200c\\u200dé"),
        ("a\ufe0f\ufe0f", "a\\ufe0f\\ufe0f"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f\\ufe0f\\ufe0e"),
        ("1\ufe0f2", "1\\ufe0f2"),
    ],
)
def test_what_spells_nothing_where_it_stands_is_shown(text: str, shown: str) -> None:
    assert escape(text) == shown
