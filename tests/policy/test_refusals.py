"""The words of the refusals: true wherever they are read, and with a way on."""

from __future__ import annotations

import pytest

from tidegate.policy import refusals
from tidegate.policy.decisions import Deny

EVERY = {name: value for name, value in vars(refusals).items() if isinstance(value, Deny)}


@pytest.mark.parametrize("name", EVERY)
def test_a_refusal_is_one_line_that_says_what_to_do(name: str) -> None:
    assert ": " in EVERY[name].hint
    assert "\n" not in EVERY[name].hint
    assert len(EVERY[name].hint) <= 220


@pytest.mark.parametrize("name", ["ABOVE_SINK", "ABOVE_CLEARANCE"])
def test_a_level_that_is_too_high_is_said_without_a_claim_on_what_was_read(name: str) -> None:
    hint = EVERY[name].hint
    assert hint.startswith("this session's level is above ")
    assert "holds" not in hint
    assert "the owner can start a new session at a lower level with `--level`, or raise the " in hint
    assert hint.endswith("in config.toml")


def test_an_ended_session_that_was_renewed_needs_a_new_start_and_no_second_renewal() -> None:
    start, renew = refusals.ENDED.hint.split("; otherwise ")
    assert start == "session ended: if it was renewed, start this program again"
    assert "session renew" in renew
