"""What is not seen is shown, wherever it could be used: on a terminal, in a result, in the block of memories (P18)."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.cli import output
from tidegate.gateway.replies import Reply, outside
from tidegate.records.invisible_text import Escaper, escape_invisible
from tidegate.records.jsonl import json_line, to_line

# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, and blanks that no property tells.
IGNORABLE = (
    "00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 "
    "1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)
BLANK = "2800 FFFC 13441-13442 16FE4 1D159"
DRAWN = "0600-0605 06DD 070F 0890-0891 08E2 110BD 110CD"  # Prepended_Concatenation_Mark of PropList.txt
NONCHARACTERS = "FDD0-FDEF " + " ".join(f"{plane:X}FFFE-{plane:X}FFFF" for plane in range(17))
EGYPTIAN = "13430-1343F"  # format controls, some of which came with Unicode 15
EVERY = [chr(number) for number in range(0x110000)]


def points(ranges: str) -> set[str]:
    bounds = [each.split("-") for each in ranges.split()]
    return {chr(code) for each in bounds for code in range(int(each[0], 16), int(each[-1], 16) + 1)}


def of(*categories: str) -> set[str]:
    return {char for char in EVERY if unicodedata.category(char) in categories}


HIDDEN = points(IGNORABLE) | points(BLANK) | points(NONCHARACTERS) | points(EGYPTIAN) | (of("Zs", "Co") - {" "})
DECEIVING = of("Cc", "Cs", "Zl", "Zp")
EXPECTED = (HIDDEN | DECEIVING | (of("Cf") - points(DRAWN))) - set("\n\t")
SMUGGLED = "a" + "".join(sorted(HIDDEN)) + "z"


@pytest.mark.long
def test_of_all_characters_exactly_those_are_escaped() -> None:
    escaped = {char for char in EVERY[:128] if char not in escape_invisible(f"a{char}b")}
    for start in range(128, len(EVERY), 4_096):  # together, since an escape is made of ASCII alone
        block = EVERY[start : start + 4_096]
        escaped |= set(block) - set(escape_invisible("".join(f"a{char}b" for char in block)))
    # Which characters there are is a matter of the version of Unicode; what no version has yet may become anything.
    assert escaped - of("Cn") == EXPECTED - of("Cn")
    assert escaped >= EXPECTED


def test_the_sixteen_blanks_that_look_like_a_space_are_escaped() -> None:
    blanks = of("Zs") - {" "}
    assert len(blanks) == 16
    assert not blanks & set(escape_invisible("".join(blanks)))


def test_the_tables_agree_with_the_categories_of_unicode() -> None:
    assert {unicodedata.category(char) for char in points(IGNORABLE)} <= {"Cf", "Mn", "Lo", "Cn"}
    assert {unicodedata.category(char) for char in points(BLANK)} <= {"Lo", "Mn", "So", "Cn"}
    assert {unicodedata.category(char) for char in points(DRAWN)} <= {"Cf", "Cn"}
    # Whatever is a format character is in one of the tables, or an annotation, or lays out hieroglyphs.
    known = points(IGNORABLE) | points(DRAWN) | points(EGYPTIAN) | set("\ufff9\ufffa\ufffb")
    assert of("Cf") <= known


def test_pictographs_of_a_later_unicode_stay() -> None:
    assert escape_invisible("\U0001fc00 \U0001fae8") == "\U0001fc00 \U0001fae8"


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
    text = "".join(sorted(EXPECTED - DECEIVING)) + "\x00\x1f\x7f\x85\u2028\\ufe0f\U0001f468\u200d\U0001f469"
    assert json.loads(write({text: [text]})) == {text: [text]}


@pytest.mark.parametrize(
    "text",
    [
        "👩\u200d💻 👨\u200d👩\u200d👧",  # joined
        "❤\ufe0f ☀\ufe0f ✔\ufe0f ™\ufe0f ❤\ufe0f\u200d🔥 🏳\ufe0f\u200d🌈",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        "می\u200cخواهم",  # Persian: I want
        "क्\u200dष",  # Devanagari
        "می\u064e\u200cخواهم",  # with a mark on the letter
        "ه\u200d",  # Arabic: as if it went on
        "न\u094d\u200d",  # half a letter, at the end
        "র\u200d\u09cdয",  # Bengali: before the sign
        "ക\u0d4d\u200cത",  # Malayalam: not as one
        "👩🏽\u200d💻 👁\ufe0f\u200d🗨\ufe0f",
        "日本語 naïve e\u0301\n\tx \u0600",
    ],
)
def test_what_spells_stays(text: str) -> None:
    assert escape_invisible(text) == text
    assert json.loads(json_line(text)) == text
    assert json_line({"text": text.replace("\n\t", "")}) == json.dumps(
        {"text": text.replace("\n\t", "")}, ensure_ascii=False
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\u200db", "a\\u200db"),
        ("x\u200c\u200d\u200cy", "x\\u200c\\u200d\\u200cy"),
        ("é\u200c\u200dé", "é\\u200c\\u200dé"),
        ("日\u200d本\u200c語", "日\\u200d本\\u200c語"),
        ("д\u200cд", "д\\u200cд"),
        ("م\u200dم", "م\\u200dم"),  # they join without it
        ("م\u200cܡ", "م\\u200cܡ"),  # of two scripts
        ("م\u200c م", "م\\u200c م"),
        ("م\u200c\u200cم", "م\\u200c\\u200cم"),
        ("م\u034f\u200cم", "م\\u034f\\u200cم"),
        ("a\u200d\u094d", "a\\u200d\u094d"),
        ("म\u200dम", "म\\u200dम"),
        ("क\u094d\u200d\u200dष", "क\u094d\u200d\\u200dष"),
        ("क\u094d\u200c", "क\u094d\\u200c"),
        ("😀\u200d", "😀\\u200d"),
        ("😀\u200da", "😀\\u200da"),
        ("😀\ufe0f\ufe0f\u200d😀", "😀\ufe0f\\ufe0f\\u200d😀"),
        ("\u200d\u200c\ufe0f", "\\u200d\\u200c\\ufe0f"),
        ("a\ufe0f\ufe0f", "a\\ufe0f\\ufe0f"),
        ("❤\ufe0f\ufe0f\ufe0e", "❤\ufe0f\\ufe0f\\ufe0e"),
        ("1\ufe0f2", "1\\ufe0f2"),
    ],
)
def test_what_spells_nothing_where_it_stands_is_shown(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown


SPELLING = "aé1*म\u094d\u09cdم\u064eܡ日😀🏽❤\ufe0f\u20e3\u200c\u200d\u202e\u00a0\r\n\t \\"
TEXTS = st.text(st.one_of(st.sampled_from(SPELLING), st.characters()))


@given(TEXTS)
def test_p18_what_is_escaped_holds_nothing_more_to_escape(text: str) -> None:
    assert escape_invisible(escape_invisible(text)) == escape_invisible(text)


@given(TEXTS)
def test_json_is_exact_whatever_the_neighbours(text: str) -> None:
    assert json.loads(to_line([text])) == [text]
    assert escape_invisible(to_line([text])) == to_line([text])


@given(st.lists(TEXTS))
def test_p18_in_whatever_pieces_it_comes_it_is_escaped_as_if_whole(pieces: list[str]) -> None:
    escaper = Escaper()
    shown = "".join(map(escaper.feed, pieces)) + escaper.end()
    assert shown == escape_invisible("".join(pieces).replace("\r\n", "\n"))


@given(st.text(st.sampled_from(SPELLING)))
def test_p18_one_character_at_a_time_it_is_escaped_as_if_whole(text: str) -> None:
    escaper = Escaper()
    assert "".join(map(escaper.feed, text)) + escaper.end() == escape_invisible(text.replace("\r\n", "\n"))


def test_a_joiner_waits_for_the_character_that_decides_on_it() -> None:
    escaper = Escaper()
    assert [escaper.feed(char) for char in "م\u200cم\u200ca"] == ["م", "", "\u200cم", "", "\\u200ca"]
