"""Results of calls to foreign servers: the answer, marked as data from outside (P18), or why there was none."""

from __future__ import annotations

from dataclasses import dataclass

from tidegate.policy.levels import Level
from tidegate.records.excerpt import left_out
from tidegate.records.prompt_block import text_block
from tidegate.records.record import Origin

RESULT_CHARS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Reply:
    """A server's answer, before it is marked.

    failed: the server says that it is an error. claimed: the highest level that its labels name.
    """

    text: str
    failed: bool
    claimed: Level = Level.PUBLIC


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call, for the model.

    text: goes into the conversation as it is. failed: the call had an error, or no answer.
    origin: of everything derived from the text, `tool`. reason: of the failure, in our own words.
    level: the session's taint when the result was handed on.
    """

    tool: str
    text: str
    failed: bool
    origin: Origin = Origin.TOOL
    reason: str = ""
    level: Level = Level.RESTRICTED


def outside(tool: str, reply: Reply, nonce: str, *, chars_max: int = RESULT_CHARS_MAX) -> Result:
    """Return the result of an answered call: the reply, between two lines that it cannot forge."""
    whole = reply.text.replace("\r\n", "\n")
    left = len(whole) - chars_max
    note = f"\n{left_out(left, 'character')}" if left > 0 else ""
    what = f"The {'error' if reply.failed else 'result'} of {tool}. It came from outside."
    text = text_block(what, "result", whole[:chars_max], nonce)
    reason = "the server answered with an error" if reply.failed else ""
    return Result(tool, f"{text}{note}", reply.failed, reason=reason)


def no_answer(tool: str, reason: str) -> Result:
    """Return the result of a call without an answer. reason: continues "the server …", in our own words."""
    return Result(tool, f"{tool}: no result: the server {reason}.", failed=True, reason=f"the server {reason}")
