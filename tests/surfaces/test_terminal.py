"""What a terminal shows of an answer as it grows."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from tidegate.agent.channels import Said, Used, Waited
from tidegate.policy.levels import Level
from tidegate.surfaces.terminal import Plain, Terminal, described, markdown, split_blocks


@pytest.mark.parametrize(
    ("text", "done"),
    [
        ("", ""),
        ("one", ""),
        ("one\n", ""),
        ("one\n\n", "one\n\n"),
        ("one\n\ntwo", "one\n\n"),
        ("one\n \t\ntwo\n\nthree", "one\n \t\ntwo\n\n"),
        ("```\na\n\nb", ""),
        ("```py\na\n\nb\n```\n", ""),
        ("```py\na\n\nb\n```\n\nx", "```py\na\n\nb\n```\n\n"),
        ("~~~~\n```\n\n~~~\n\n~~~~\n\nx", "~~~~\n```\n\n~~~\n\n~~~~\n\n"),
        ("one\n\n```\na\n\nb", "one\n\n"),
    ],
)
def test_blocks_are_done_at_a_blank_line_that_no_fence_holds(text: str, done: str) -> None:
    assert split_blocks(text) == (done, text[len(done) :])


@pytest.mark.parametrize("size", [1, 2, 7])
def test_however_it_comes_all_of_it_is_shown_once(size: int, capsys: pytest.CaptureFixture[str]) -> None:
    text = "# Title\n\nA paragraph.\n\n```\ncode\n\nmore\n```\n\n- item\n- other"
    terminal = Terminal(Level.RESTRICTED)
    terminal.begin()
    for at in range(0, len(text), size):
        terminal.show(Said(text[at : at + size]))
    terminal.end()
    shown = capsys.readouterr().out
    for word in ("Title", "A paragraph.", "code", "more", "item", "other"):
        assert shown.count(word) == 1, word


def test_what_goes_on_is_said_between_the_parts_of_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(Level.RESTRICTED)
    for event in (
        Said("one"),
        Used("memory_save", failed=False),
        Used("x", True, True, "no\x1b"),
        Waited("busy"),
        Said("two"),
    ):
        terminal.show(event)
    terminal.end()
    shown = [line.strip() for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert shown == ["one", "· memory_save", "· x (refused: no\\x1b)", "· busy; trying again", "two"]


@pytest.mark.parametrize("hostile", ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202eabc", "a\rb", "\x00", "\x1bc"])
def test_a_terminal_obeys_nothing_in_an_answer(hostile: str, capsys: pytest.CaptureFixture[str]) -> None:
    for view in (Terminal(Level.RESTRICTED), Plain(Level.RESTRICTED)):
        view.show(Said(f"before {hostile} after"))
        view.end()
        view.say(f"said {hostile}")
    told = capsys.readouterr()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", told.out + told.err)


def test_what_failed_is_told_from_what_was_refused() -> None:
    assert described(Used("x", True, False, "too long")) == "· x (failed: too long)"


def test_html_is_shown_as_what_it_is() -> None:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(markdown("<div onload=x>\n\nand <b>bold</b>"))
    assert "<div onload=x>" in captured.get()
    assert "<b>bold</b>" in captured.get()


def test_plain_output_ends_with_one_line_end(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("one", "one\n", ""):
        view = Plain(Level.RESTRICTED)
        view.begin()
        view.show(Said(text))
        view.end()
    assert capsys.readouterr().out == "one\none\n"


def test_a_quiet_view_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    view = Plain(Level.RESTRICTED, quiet=True)
    for event in (Said("one"), Used("x", failed=True), Waited("busy")):
        view.show(event)
    view.end()
    assert capsys.readouterr() == ("", "")
    with pytest.raises(EOFError):
        view.ask("?")
