"""What a terminal shows of an answer as it grows."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable
from contextlib import redirect_stdout

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tidegate.agent.channel import Retrying, TextDelta, TextWithdrawn, ToolCalled
from tidegate.cli.terminal import Blocks, PlainView, TerminalView, described, markdown
from tidegate.policy.levels import Level


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("", []),
        ("one", []),
        ("one\n", []),
        ("one\n\n", ["one\n\n"]),
        ("one\n\ntwo", ["one\n\n"]),
        ("one\n \t\ntwo\r\n\r\nthree", ["one\n \t\n", "two\r\n\r\n"]),
        ("```\na\n\nb", []),
        ("```py\na\n\nb\n```\n", []),
        ("```py\na\n\nb\n```\n\nx", ["```py\na\n\nb\n```\n\n"]),
        ("~~~~\n```\n\n~~~\n\n~~~~\n\nx", ["~~~~\n```\n\n~~~\n\n~~~~\n\n"]),
        ("one\n\n```\na\n\nb", ["one\n\n"]),
        ("```a``` b\n\nc", ["```a``` b\n\n"]),  # a span of code on one line is no fence
        ("one\n\u2003\ntwo", []),  # a blank that is shown makes no blank line
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_block_ends_at_a_blank_line_that_no_fence_holds(text: str, blocks: list[str], size: int) -> None:
    splitter = Blocks()
    assert [block for piece in cut(text, size) for block in splitter.feed(piece)] == blocks
    assert splitter.tail == text[len("".join(blocks)) :]
    assert splitter.rest() == text[len("".join(blocks)) :]
    assert splitter.tail == ""


def cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def shown(pieces: Iterable[str], view: type[PlainView | TerminalView] = TerminalView) -> str:
    """What a view writes, without the codes of its own that give colour."""
    with redirect_stdout(io.StringIO()) as written:
        terminal = view(Level.RESTRICTED)
        terminal.begin()
        for piece in pieces:
            terminal.show(TextDelta(piece))
        terminal.end()
    return written.getvalue()


@pytest.mark.parametrize("language", ["make", "python", "ts", "no-such"])
def test_an_answer_chooses_no_highlighter_for_its_code(language: str) -> None:
    (fence,) = [token for token in markdown(f"```{language}\n1\n```").parsed if token.type == "fence"]
    assert (fence.info, fence.content) == ("", "1\n")


@pytest.mark.parametrize("size", [1, 2, 7])
def test_however_it_comes_all_of_it_is_shown_once(size: int) -> None:
    text = "# Title\n\nA paragraph.\n\n```\ncode\n\nmore\n```\n\n- item\n- other"
    told = shown(cut(text, size))
    for word in ("Title", "A paragraph.", "code", "more", "item", "other"):
        assert told.count(word) == 1, word


def test_what_goes_on_is_said_between_the_parts_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = TerminalView(Level.RESTRICTED)
    for event in (
        TextDelta("one"),
        ToolCalled("memory_save", failed=False),
        ToolCalled("x", True, True, "no\x1b"),
        Retrying("busy"),
        TextDelta("two"),
    ):
        terminal.show(event)
    terminal.end()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert lines == ["one", "· memory_save", "· x (refused: no\\x1b)", "· busy; trying again", "two"]


def test_thoughts_that_were_shown_are_told_from_the_answer_after_them(capsys: pytest.CaptureFixture[str]) -> None:
    said = "· the text above was the model's thoughts, and not part of its answer"
    for view, lines in ((TerminalView(Level.RESTRICTED), ["hmm", said, "Hi."]), (PlainView(None), ["hmm", "Hi."])):
        for event in (TextDelta("hmm"), TextWithdrawn(3), TextDelta("Hi.")):
            view.show(event)
        view.end()
        told = capsys.readouterr()
        assert [line.strip() for line in told.out.splitlines() if line.strip()] == lines
        assert (said in told.err) is (said not in lines)


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202eabc", "a\rb", "\x00", "\x1bc"])
def test_a_terminal_obeys_nothing_in_an_answer(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    for view in (TerminalView(Level.RESTRICTED), PlainView(Level.RESTRICTED)):
        view.show(TextDelta(f"before {hostile} after"))
        view.end()
        view.say(f"said {hostile}")
    told = capsys.readouterr()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", told.out + told.err)


def test_what_failed_is_told_from_what_was_refused() -> None:
    assert described(ToolCalled("x", True, False, "too long")) == "· x (failed: too long)"


def test_html_is_shown_as_what_it_is() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(markdown("<div onload=x>\n\nand <b>bold</b>"))
    assert "<div onload=x>" in captured.get()
    assert "<b>bold</b>" in captured.get()


def test_plain_output_ends_with_one_line_end(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "one\n", ""):
        view = PlainView(Level.RESTRICTED)
        view.begin()
        view.show(TextDelta(text))
        view.end()
    assert capsys.readouterr().out == "one\none\n"


def test_a_quiet_view_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(Level.RESTRICTED, quiet=True)
    for event in (TextDelta("one"), ToolCalled("x", failed=True), Retrying("busy")):
        view.show(event)
    view.end()
    assert capsys.readouterr() == ("", "")
    with pytest.raises(EOFError):
        view.ask("?")


# What no eye sees; joiners and the selector of emoji are judged by their neighbours, in test_unseen.py.
UNSEEN = {
    char
    for char in map(chr, range(0x110000))
    if (unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zs", "Zl", "Zp") or char in "\u034f\u115f\u3164\u2800\uffff")
    and unicodedata.name(char, "").split(" ")[0] not in ("ARABIC", "SYRIAC", "KAITHI")
    and char not in " \n\t\u200c\u200d\ufe0f"
} | {"\u061c"}
MARKDOWN = [
    *"ab1é😀म م\u094d\u200c\u200d\ufe0f\u202e\u00a0\u3164\x1b\r\n\t *`#|[](){}!<>\\",
    *"\n\n;\r\n;```\n;~~~\n;**;- ;1. ;> ;    ;|a|b|\n|-|-|\n;---\n;[a](b);](;<b>;<!--;-->;<div>\n".split(";"),
    *re.findall("&[^;]*;", "&#x202E;&#8238;&zwj;&zwnj;&nbsp;&ZeroWidthSpace;&shy;&#x3164;&#xE0041;"),
    *("<http://a.b>", "![a](http://e/&#8238;)", "[a]: http://e\n"),
]
PIECES = st.lists(st.one_of(st.sampled_from(MARKDOWN), st.text()), max_size=30)


@given(PIECES)
def test_p18_a_terminal_gets_nothing_unseen_whatever_it_is_told_and_however_it_is_cut(pieces: list[str]) -> None:
    for view in (TerminalView, PlainView):
        told = shown(pieces, view)
        assert not set(told) & UNSEEN
        assert told == shown(["".join(pieces)], view)
        assert told == shown("".join(pieces), view)  # one character at a time


@given(PIECES)
def test_p18_what_is_shown_of_an_answer_as_it_grows_hides_nothing(pieces: list[str]) -> None:
    terminal = TerminalView(Level.RESTRICTED)
    console = Console(file=io.StringIO(), width=80)
    for piece in pieces:
        for _ in terminal._blocks.feed(piece):
            pass
        with console.capture() as captured:
            console.print(terminal._growing())
        assert not set(captured.get()) & UNSEEN


@pytest.mark.parametrize(
    ("entity", "escape"),
    [
        ("&#x202E;", "\\u202e"),
        ("&#8238;", "\\u202e"),
        ("&nbsp;", "\\xa0"),
        ("&ZeroWidthSpace;", "\\u200b"),
        ("&zwj;", "\\u200d"),
        ("&#xE0041;", "\\U000e0041"),
    ],
)
@pytest.mark.parametrize(
    "place",
    ["a{}b", "# a{}b", "- a{}b", "> a{}b", "**a{}b**", "|a{}b|\n|-|\n|c|", "|c|\n|-|\n|a{}b|", "[a{}b](http://e)"],
)
def test_p18_an_entity_is_escaped_after_it_is_decoded(entity: str, escape: str, place: str) -> None:
    assert f"a{escape}b" in shown([place.format(entity)])


def test_a_blank_at_the_end_of_a_line_is_shown() -> None:
    assert shown(["a\u2003"]).strip() == "a\\u2003"
    assert shown(["\u2003"]).strip() == "\\u2003"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("![cat](http://evil.example/?q=1)", "cat (http://evil.example/?q=1)"),
        ("![](http://evil.example/1)", "(http://evil.example/1)"),
        ("a ![cat][1] b\n\n[1]: http://evil.example/1", "a ![cat][1] b"),
        ("a ![cat][1] b\n[1]: x", "a ![cat][1] b [1]: x"),
        ("[1]: http://evil.example/1\n![cat][1]", "cat (http://evil.example/1)"),
        (
            "[![cat](http://evil.example/1)](http://evil.example/2)",
            "cat (http://evil.example/1) (http://evil.example/2)",
        ),
    ],
)
def test_p18_an_image_shows_its_address(text: str, told: str) -> None:
    assert shown([text]).strip() == told


def test_blocks_stand_apart() -> None:
    assert [line.strip() for line in shown(["one\n\ntwo\n\n"]).splitlines()] == ["one", "", "two"]


@pytest.mark.parametrize("line", ["a", "a b ", "[", "*a", "`"])
def test_the_work_for_a_long_line_grows_with_its_length_alone(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    work = []
    for name in ("markdown", "plain"):
        monkeypatch.setattr(f"tidegate.cli.terminal.{name}", lambda text: work.append(len(text)) or "")
    monkeypatch.setattr("tidegate.cli.terminal.re.match", lambda _, text: work.append(len(text)))
    terminal = TerminalView(Level.RESTRICTED)
    text = (line * 40_000)[:40_000]
    for piece in text:
        terminal.show(TextDelta(piece))
        terminal._growing()
    growing = sum(work)
    assert max(work) <= 2_000
    assert growing <= 2_000 * len(text)
    work.clear()
    terminal.end()
    assert sum(work) == len(text)


def test_a_block_that_is_too_long_for_markdown_is_shown_as_it_is() -> None:
    text = "**a** &#x202e; \u202e" + "x" * 20_000
    assert shown([text]) == f"**a** &#x202e; \\u202e{'x' * 20_000}\n"


def test_a_joiner_that_the_next_character_decides_on_is_not_shown_as_an_escape_until_then() -> None:
    terminal = TerminalView(Level.RESTRICTED)
    console = Console(file=io.StringIO(), width=80)
    told = []
    for piece in ("م", "\u200c", "م", "\u200d", "a"):
        terminal.show(TextDelta(piece))
        with console.capture() as captured:
            console.print(terminal._growing())
        told.append(captured.get().strip())
    assert told == ["م", "م", "م\u200cم", "م\u200cم", "م\u200cم\u200da"]


@pytest.mark.parametrize("address", ["<http://e/%E2%80%AE>", "[a](http://e/&#8238;)", "[a](<http://e/\u202e>)"])
def test_p18_an_address_is_shown_with_what_it_hides(address: str) -> None:
    told = shown([address])
    assert "\u202e" not in told
    assert re.search(r"u202e|%E2%80%AE", told)
