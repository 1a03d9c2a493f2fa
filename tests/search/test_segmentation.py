"""Segmentation: a word is found however it is joined to its neighbours, and in whatever signs it is written."""

import random
import sys
import unicodedata

import pytest

from tidegate.search.analysis import analyse, analyse_query
from tidegate.search.segmentation import WORD_CHARS_MAX, PieceKind, pieces, skeleton


def finds(query: str, content: str) -> bool:
    """Whether the longest word of the query is found, or every one that is no joined form."""
    held = analyse("", [], content).terms
    words = analyse_query(query).words
    found = [word for word in words if not held.isdisjoint(word.terms)]
    parts = [word for word in words if word.kind is not PieceKind.JOINED]
    return max(words, key=lambda word: len(word.text)) in found or all(word in found for word in parts)


def texts(text: str) -> list[str]:
    return [text for text, _ in pieces(text)]


# Words beside scripts that write without spaces


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("用GitHub登录", ["github", "登录"]),
        ("B2B平台", ["b2b", "平台"]),
        ("Wi-Fi密码", ["wi-fi", "wifi", "密码"]),
        ("iPhone15を買う", ["iphone15", "iphone", "iphone 15", "買う"]),
        ("v2.0发布", ["v2.0", "2.0", "发布"]),
        ("C++代码", ["c++", "代码"]),
        ("我会C#和F#", ["c#", "f#"]),
        ("TCP/IP协议", ["tcp", "ip", "tcp/ip", "tcpip", "协议"]),
        ("第3章", ["3", "章"]),
        ("5G网络", ["5g", "网络"]),
        ("카카오Talk으로", ["talk", "카카오"]),
        ("ใช้GitHubเข้าสู่ระบบ", ["github", "เข้าสู่ระบบ"]),
        ("ໃຊ້GitHubເຂົ້າ", ["github", "ເຂົ້າ"]),
        ("ប្រើGitHubចូល", ["github", "ចូល"]),
        ("GitHubသုံးပါ", ["github", "သုံးပါ"]),
        ("ꦒꦸꦤꦏ꧀ꦏꦺGitHub", ["github"]),
        ("写信给ada@example.org吧", ["ada@example.org", "example.org"]),
        ("看main.py文件", ["main.py", "mainpy"]),
        ("ＧｉｔＨｕｂで", ["github"]),
        ("使用наш сервер的Müller", ["наш", "muller"]),
    ],
)
def test_a_word_inside_text_without_spaces_is_found_by_itself_in_any_capitals(content: str, words: list[str]) -> None:
    for word in (*words, content):
        for query in (word, word.upper(), word.lower(), word.title()):
            assert finds(query, content), query


def test_a_word_has_the_same_pieces_with_and_without_spaces_around_it() -> None:
    for word in ("GitHub", "Wi-Fi", "C++", "TCP/IP", "v2.0", "naïve", "книга", "3pm", "1,234,567"):
        for before, after in (("用", "登录"), ("ใช้", "เข้า"), ("を", "に"), ("으로", "카카오")):
            assert texts(f"{before}{word}{after}") == texts(f"{before} {word} {after}")
            assert skeleton(f"{before}{word}{after}").split() == skeleton(f"{before} {word} {after}").split()


# Digits


@pytest.mark.parametrize("zero", "٠۰०০੦૦୦௦౦೦൦๐໐༠၀០᠐᭐꧐０𝟎𞥐")
def test_digits_of_every_script_are_one(zero: str) -> None:
    number = "".join(chr(ord(zero) + digit) for digit in (4, 5, 6, 7))
    assert finds("4567", f"शाखा {number}")
    assert finds(number, "room 4567")
    assert finds(number, number)
    assert skeleton(number).strip() == "4567"


def test_every_decimal_digit_that_unicode_has_folds_to_its_value() -> None:
    digits = [chr(point) for point in range(sys.maxunicode + 1) if unicodedata.category(chr(point)) == "Nd"]
    assert len(digits) > 600
    for digit in digits:
        assert texts(f"x {digit}") == ["x", str(unicodedata.decimal(digit))]


def test_a_number_with_the_separators_of_its_script_is_found() -> None:
    assert finds("3.14", "٣٫١٤")
    assert finds("1234567", "١٬٢٣٤٬٥٦٧")


# Apostrophes

APOSTROPHES = "'’‘‛`´ʼʻʽʾʿʹˈ′＇ꞌꞋ՚׳ߴߵ"


@pytest.mark.parametrize("written", APOSTROPHES)
@pytest.mark.parametrize("name", ["O{}Brien", "Hawai{}i", "п{}ять", "o{}zbek", "Qur{}an"])
def test_apostrophes_of_every_kind_are_one(written: str, name: str) -> None:
    for asked in APOSTROPHES:
        assert set(texts(name.format(asked))) == set(texts(name.format(written)))


# Compounds


@pytest.mark.parametrize(
    ("content", "together"),
    [
        ("ISBN 978-3-16-148410-0", "9783161484100"),
        ("at 192.168.0.1", "19216801"),
        ("on 2024-05-01", "20240501"),
        ("on 2024-05-01T10:30:00Z", "20240501"),
        ("on 20240501T103000Z", "20240501"),
        ("on 2024/05/01 at 10:30", "1030"),
        ("state-of-the-art", "stateoftheart"),
        ("foo_bar_baz", "foobarbaz"),
        ("call 555-1234", "5551234"),
        ("at 192.168.0.1:8080", "19216801"),
        ("at 192.168.0.0/16", "19216800"),
        ("from 2024-05-01/2024-05-07", "20240507"),
        ("log_2024-05-01.txt", "20240501"),
        ("2024-05-01_10-30-00", "103000"),
        ("see my-long-file-name.txt", "mylongfilename"),
        ("see src/foo_bar_baz.py", "foobarbaz"),
        ("see src/foo_bar_baz.py", "srcfoobarbazpy"),
        ("ada@mail.example.org", "mailexampleorg"),
        ("call +49 (0)30 123456", "4930123456"),
        ("call +49 30 123456", "4930123456"),
        ("call (555) 123-4567", "5551234567"),
        ("card 4111 1111 1111 1111", "4111111111111111"),
        ("1,234,567 people", "1234567"),
        ("12,34,567 rupees", "1234567"),
        ("1.234.567 Leute", "1234567"),
        ("1 234 567 gens", "1234567"),
        ("1\u202f234\u202f567 gens", "1234567"),
        ("1'234'567 Franken", "1234567"),
        ("1’234’567 Franken", "1234567"),
        ("550e8400-e29b-41d4-a716-446655440000", "550e8400e29b41d4a716446655440000"),
        ("Wi\u2011Fi", "wifi"),
        ("2019–2024", "20192024"),
        ("Wi\u2010Fi", "wifi"),
        ("x−y−z", "xyz"),
        ("MAC 00:1B:44:11:3A:B7", "001b44113ab7"),
        ("parts A-1-b-2", "a1b2"),
    ],
)
def test_a_compound_of_any_number_of_parts_is_found_written_together(content: str, together: str) -> None:
    assert finds(together, content)
    assert finds(together.upper(), content)


@pytest.mark.parametrize(
    ("query", "content"),
    [
        ("978-3-16-148410-0", "ISBN 9783161484100"),
        ("2024-05-01", "on 20240501"),
        ("state-of-the-art", "stateoftheart"),
        ("foo_bar_baz", "fooBarBaz"),
        ("fooBarBaz", "foo-bar-baz"),
        ("+49 (0)30 123456", "+4930123456"),
        ("4111 1111 1111 1111", "4111111111111111"),
        ("1,234,567", "1234567"),
        ("1,234,567", "1 234 567"),
    ],
)
def test_what_is_written_together_is_found_by_its_compound(query: str, content: str) -> None:
    assert finds(query, content)


def test_a_compound_longer_than_a_word_has_no_whole() -> None:
    assert "ab" * 32 in texts("ab-" * 31 + "ab")
    assert "ab" * 32 in texts("ab-" * 31 + "ab.txt")
    assert max(map(len, texts("ab-" * 32 + "ab"))) < WORD_CHARS_MAX


def test_numbers_in_a_list_or_a_table_are_not_put_together() -> None:
    assert texts("1,2,3") == ["1", "2", "3"]
    assert len(texts("10 20 " * 10)) == 20
    assert texts("1 2, 3 4") == ["1", "2", "3", "4"]
    assert texts("1-2, 300 400").count("12") == 1


def test_every_word_of_a_text_is_found_by_the_same_text_and_is_whole_to_the_tokenizer() -> None:
    source = random.Random(13)
    signs = "0123456789,'’-.T:()+#_/ aAbB用ก٤۴ʼ\u2011می\u200c"
    for _ in range(2_000):
        text = "".join(source.choices(signs, k=source.randrange(1, 30)))
        held = analyse("", [], text).terms
        assert all(not held.isdisjoint(word.terms) for word in analyse_query(text).words), text
        assert all(sign > "\x7f" or sign.isalnum() for term in held for sign in term), text


# Numbers and their units


@pytest.mark.parametrize(
    ("together", "apart"),
    [
        ("3pm", "3 pm"),
        ("10km", "10 km"),
        ("5GB", "5 GB"),
        ("16GB", "16 gb"),
        ("iPhone15", "iPhone 15"),
        ("iphone15pro", "iphone 15 pro"),
        ("COVID19", "covid-19"),
        ("5кг", "5 кг"),
        ("1990s", "1990 s"),
        ("अंक४", "अंक 4"),
        ("२५कि", "25 कि"),
        ("5µm", "5 μm"),
        ("12h30", "12 h 30"),
        ("3h30m", "3 h 30 m"),
        ("2x4", "2 x 4"),
    ],
)
def test_a_number_and_its_unit_are_found_together_and_apart(together: str, apart: str) -> None:
    assert finds(together, f"it is {apart}.")
    assert finds(apart, f"it is {together}.")
    assert finds(together.upper(), f"it is {together.lower()}.")


@pytest.mark.parametrize("name", ["b2b", "h264x", "1a2b3c4d", "a550e8400", "w3c", "ab12cd34ef"])
def test_a_mixture_of_letters_and_numbers_is_one_word(name: str) -> None:
    assert texts(name) == [name]


# The joiner that Persian writes between parts of a word


@pytest.mark.parametrize(
    ("prefix", "rest"),
    [("می", "خواهم"), ("نمی", "دانم"), ("کتاب", "ها"), ("کتاب", "های"), ("بزرگ", "ترین"), ("مي", "خواهم")],
)
def test_persian_parts_meet_with_a_joiner_a_space_or_together(prefix: str, rest: str) -> None:
    ways = [f"{prefix}{between}{rest}" for between in ("\u200c", " ", "")]
    for query in ways:
        for content in ways:
            assert finds(query, f"من {content} اینجا"), (query, content)


def test_a_joiner_of_other_scripts_only_shapes_their_letters() -> None:
    assert texts("क्\u200cष Auf\u200clage") == ["क्ष", "auflage"]
