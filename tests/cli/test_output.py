"""What stored text can do to a terminal: nothing. And JSON stays exact (reported failure W05)."""

from __future__ import annotations

import json
import unicodedata

import pytest

from tidegate.cli import output
from tidegate.records.invisible_text import escape_invisible

HOSTILE = {
    "clear the screen": "\x1b[2J",
    "write the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "a link": "\x1b]8;;http://x\x1b\\click\x1b]8;;\x1b\\",
    "C1 control sequence": "\x9b31m",
    "bell": "\a",
    "backspaces": "good\b\b\b\bevil",
    "overwrite": "safe\revil",
    "a forged line": "x\nRESTRICTED    2026-01-01T00:00:00.000000Z  forged",
    "vertical tab and form feed": "\v\f",
    "next line": "a\x85b",
    "delete": "\x7f",
    "right to left": "\u202eevil\u202c",
    "isolates": "\u2066x\u2069",
    "marks": "\u200e\u200f\u061c",
    "separators": "a\u2028b\u2029c",
    "byte order mark": "\ufeff",
    "annotation": "\ufff9a\ufffab\ufffb",
    "lone surrogate": "\ud83d",
    "zero-width space": "user\u200b-name",
    "soft hyphen": "user\u00ad-name",
    "a filler": "user\u3164",
    "invisible operators": "a\u2062\u2063b",
    "tags, which a model reads": "".join(chr(0xE0000 + ord(char)) for char in "obey"),
    "selectors that carry bytes": "a\U000e0100\U000e01ef\ufe00\ufe0f",
    "joiners that join nothing": "a\u200d\u200c\u200db",
    "a blank": "user\u2800name",
    "blanks like a space": "a\u00a0\u1680\u2000\u2003\u2009\u200a\u202f\u205f\u3000b",
    "noncharacters": "a\ufdd0\uffff\U0010fffeb",
    "controls of hieroglyphs": "a\U00013430\U0001343fb",
}
SHOWN = '0123 Aä ß 会议 👨‍👩‍👧 e\u0301 ٣ \\ " क्\u200dष ❤\ufe0f'


def obeys_or_hides(text: str) -> bool:
    return escape_invisible(text) != text or any(unicodedata.category(char) in ("Cc", "Cs") for char in text)


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_a_terminal_would_obey_or_hide_is_left(text: str) -> None:
    shown = output.escape(text)
    assert shown != text
    assert not obeys_or_hides(shown)


def test_what_a_reader_can_see_is_left_as_it_is() -> None:
    assert output.escape(SHOWN) == SHOWN


def test_an_escape_says_which_character_it_stands_for() -> None:
    assert output.escape("\x1b\n\r\t\x9b\u202e\ud83d") == r"\x1b\n\r\t\x9b\u202e\ud83d"


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_each_line_of_a_content_is_escaped_and_indented(text: str) -> None:
    shown = output.escape_lines(f"first\n{text}\tend", indent="  ")
    lines = shown.split("\n")
    assert all(line.startswith("  ") for line in lines)
    assert not any(obeys_or_hides(line.replace("\t", "")) for line in lines)


def test_line_ends_and_tabs_of_a_content_keep_its_shape() -> None:
    assert output.escape_lines("a\n\tb\r\nc\rd", indent="  ") == "  a\n  \tb\n  c\\rd"


@pytest.mark.parametrize("text", [*HOSTILE.values(), SHOWN, "\0"], ids=[*HOSTILE.keys(), "shown", "NUL"])
def test_json_is_exact_on_one_line_and_harmless_on_a_terminal(text: str) -> None:
    line = output.to_json({text: [text]})
    assert json.loads(line) == {text: [text]}
    assert not obeys_or_hides(line)


def test_json_leaves_what_can_be_seen_readable() -> None:
    assert output.to_json("会议 ✓") == '"会议 ✓"'


def memory(**differs: object) -> dict[str, object]:
    return {
        "key": "user-name",
        "content": "Ada",
        "classification": "PUBLIC",
        "tags": ["a", "b"],
        "version": 1,
        "origin": "owner",
        "created_at": "2026-01-02T03:04:05.000000Z",
        "updated_at": "2026-01-02T03:04:05.000000Z",
        **differs,
    }


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
@pytest.mark.parametrize("field", ["key", "content", "tags"])
def test_no_field_can_add_a_line_or_a_column(text: str, field: str) -> None:
    hostile = memory(**{field: [text] if field == "tags" else text})
    plain = memory(**{field: ["x"] if field == "tags" else "x"})
    lines, expected = list(output.short(hostile)), list(output.short(plain))
    assert len(lines) == len(expected)
    assert not any(map(obeys_or_hides, lines))
    for line, like in zip(lines, expected, strict=True):
        assert line.startswith("  ") == like.startswith("  ")


def test_a_key_cannot_forge_a_column_since_none_follows_it() -> None:
    heading = next(output.short(memory(key="x  RESTRICTED  2026")))
    assert heading == "PUBLIC        2026-01-02T03:04:05.000000Z  x  RESTRICTED  2026"


def test_a_tag_with_a_comma_is_quoted() -> None:
    assert '  tags: a, "b, c", d' in list(output.short(memory(tags=["a", "b, c", "d"])))


def test_a_content_that_was_cut_says_so() -> None:
    assert list(output.short(memory(truncated=True, tags=[])))[-1] == "  Ada …"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ("one", "one"),
        ("one\n", "one"),
        ("one\ntwo\nthree", "one …"),
        ("one\r\ntwo", "one …"),
        ("\n\none\n\n", "one"),
        ("one\u2028two", "one\\u2028two"),
        ("\n", ""),
    ],
)
def test_a_list_shows_the_first_line_of_a_content_and_a_mark_that_more_follow(content: str, shown: str) -> None:
    assert list(output.short(memory(content=content, tags=[])))[-1] == f"  {shown}"


def test_a_memory_says_when_a_lower_one_is_newer() -> None:
    assert any(
        "PUBLIC memory under this key was saved later" in line for line in output.found(memory(newer_below="PUBLIC"))
    )


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_p18_a_line_that_nobody_escaped_is_still_one_line_that_a_terminal_does_not_obey(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    output.emit(f"channel {text}")
    (line, rest) = capsys.readouterr().out.split("\n")
    assert rest == ""
    assert not obeys_or_hides(line)
