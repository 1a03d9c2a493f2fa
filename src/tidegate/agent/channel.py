"""Channels: the destinations of answers. A channel shows nothing above its clearance (PRE_OUTPUT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.errors import Refused
from tidegate.policy.decisions import PolicyRule
from tidegate.policy.levels import Level
from tidegate.session import Session


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCalled:
    """A finished tool call. tool: a known name, or "unknown tool".

    failed: it was refused or gave an error. refused: by the policy. reason: why, in our own words.
    """

    tool: str
    failed: bool
    refused: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retrying:
    """The model did not answer; the request is sent again. reason: in our own words."""

    reason: str


@dataclass(frozen=True, slots=True)
class TextWithdrawn:
    """Thoughts were shown as text, before their end told what they were. chars: how many of the last characters."""

    chars: int


Shown = TextDelta | TextWithdrawn | ToolCalled | Retrying


class Channel(Protocol):
    """A terminal, a file, a chat room. clearance: the highest level that it may show; None: nothing."""

    name: str
    clearance: Level | None

    def show(self, event: Shown) -> None:
        """Show an event that passed the gate. Returns soon."""


class GatedChannel:
    """A channel behind the gate, for one answer. It checks each event: the taint may have risen after the last."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._shown: list[Shown] = []
        self._refusal: Refused | None = None

    @property
    def text(self) -> str:
        """Return the text of the answer that passed the gate, without what was withdrawn."""
        text = ""
        for event in self._shown:
            if isinstance(event, TextDelta):
                text += event.text
            elif isinstance(event, TextWithdrawn):
                text = text[: len(text) - event.chars]
        return text

    @property
    def used(self) -> tuple[ToolCalled, ...]:
        """Return the tool calls that passed the gate, in order."""
        return tuple(event for event in self._shown if isinstance(event, ToolCalled))

    def show(self, event: Shown) -> None:
        """Show the event, or hold back it and all that follow. Raises: Refused when the session has ended."""
        if self.refusal() is None:
            self._shown.append(event)
            self._channel.show(event)

    def refusal(self) -> Refused | None:
        """Return why the channel may show nothing more, or None. Raises: Refused when the session has ended (P7)."""
        if self._refusal is None:
            try:
                self._session.check_output(self._channel.clearance, channel=self._channel.name)
            except Refused as refused:
                if refused.rule is not PolicyRule.P14:
                    raise
                self._refusal = refused
        return self._refusal


class Silent:
    """A channel that shows nothing, for answers that are only stored."""

    name = "silent"

    def __init__(self, clearance: Level | None = Level.RESTRICTED) -> None:
        self.clearance = clearance

    def show(self, event: Shown) -> None:
        """Show nothing."""
