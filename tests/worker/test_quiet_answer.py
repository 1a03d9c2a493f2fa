"""The word for nothing to tell is known in any dressing, and no sentence is taken for it."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.worker.quiet_answer import is_quiet

QUIET = [
    "",
    " \n",
    "NOTHING",
    " nothing.\n",
    "**NOTHING**",
    "“NOTHING”",
    "„NOTHING“",
    "«NOTHING»",
    "「NOTHING」",
    "NOTHING。",
    "NOTHING!",
    "_NOTHING_",
    "~~NOTHING~~",
    "(NOTHING)",
    "[NOTHING]",
    "{NOTHING}",
    "# NOTHING",
    "> NOTHING",
    "- NOTHING",
    "1. NOTHING\n2. NOTHING",
    "> 3) NOTHING",
    "- [ ] NOTHING",
    "```\nNOTHING\n```",
    "```text\nNOTHING\n```",
    "~~~ markdown\nNOTHING\n~~~",
    "`NOTHING`",
    "NOTHING NOTHING",
    "NOTHING\n\nNothing.",
    "NOTHINGNOTHING",
    "<think>Is there anything? No.</think>NOTHING",
    "<think>a</think>\n<think>b</think> NOTHING",
    "<THINKING>\na\n</THINKING>\nNOTHING",
    "Is there anything? No.</think>NOTHING",
    "\uff2e\uff2f\uff34\uff28\uff29\uff2e\uff27",
    "\U0001d40d\U0001d40e\U0001d413\U0001d407\U0001d408\U0001d40d\U0001d406",
    "NOTH\u0130NG",
    "\ufeffNOTHING\u200b",
    "N\u200bOTHING",
    "\u202eNOTHING\u202c",
    "NOTHING ✅",
    "🤷‍♂️ NOTHING 🤷",
    "<b>NOTHING</b>",
    "<p>NOTHING</p><br/>",
    "<answer>NOTHING</answer>",
    "&ldquo;NOTHING&rdquo;&nbsp;",
    '"NOTHING"',
    '["NOTHING"]',
    r'"NOTHING\n"',
    r'"\u004eOTHING"',
    "NOTHING  \r\n---\r\n",
    "| NOTHING |",
    r"\NOTHING\ ",
    "$NOTHING$",
]
TOLD = [
    "NOTHING happened",
    "I looked everywhere.\nNOTHING",
    "Fire! <think>Is that all? Yes.</think> NOTHING",
    "NOTHINGS",
    "NOTHIN",
    "There is nothing to tell.",
    "NOTHING, but the heating is off",
    "NOTHING 1",
    "1. NOTHING\n2. the heating is off",
    "2.5 NOTHING",
    "10 NOTHING",
    "NOTHING①",
    "NOTHING 是",
    "НИЧЕГО",
    "👍",
    "✅",
    "🔥🔥",
    "❌ …",
    "<alarm>NOTHING</alarm>",
    "<b title='fire'>NOTHING</b>",
    "```fire\nNOTHING\n```",
    '{"answer": "NOTHING"}',
    '"fire"',
    "[" * 5_000 + "NOTHING" + "a",
    "5",
    "...",
    '"]}]',
    "€",
    "NOTHING " * 1_000,
]


@pytest.mark.parametrize("answer", QUIET)
def test_a_quiet_answer_is_known_in_any_dressing(answer: str) -> None:
    assert is_quiet(answer)


@pytest.mark.parametrize("answer", TOLD)
def test_an_answer_with_anything_else_is_told(answer: str) -> None:
    assert not is_quiet(answer)


@given(st.lists(st.text(st.characters(categories=("L", "N")), min_size=1), min_size=1), st.data())
def test_no_sentence_is_lost(words: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(words)))
    sentence = " ".join((*words[:place], "NOTHING", *words[place:]))
    bare = unicodedata.normalize("NFKC", "".join(words)).casefold()
    letters = "".join(filter(str.isalnum, bare))
    if re.fullmatch("[nothig]*", letters) is None:  # else the words may make up NOTHING
        assert not is_quiet(sentence)
        assert not is_quiet(f"**{sentence}.**")


@given(st.text(st.characters(categories=("P", "S", "Z", "Cc", "Cf")), max_size=20), st.booleans())
def test_no_punctuation_makes_it_heard(dressing: str, after: bool) -> None:
    bare = unicodedata.normalize("NFKC", dressing)
    if not any(map(str.isalnum, bare)):  # such as the sign of a telephone, which is three letters
        assert is_quiet(f"NOTHING{dressing}" if after else f"{dressing}NOTHING{dressing}")
