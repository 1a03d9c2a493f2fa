"""Channels: where answers go. Each has a clearance, and nothing above it gets there (PRE_OUTPUT)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidegate.core.session import Session
from tidegate.errors import Refused
from tidegate.policy.levels import Level


@dataclass(frozen=True, slots=True)
class Said:
    """A bit of the model's answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Used:
    """A tool call that is done. tool: a name that is known, or "unknown tool".

    failed: it was refused, or gave an error. refused: the policy said no. reason: why, in our own words.
    """

    tool: str
    failed: bool
    refused: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Waited:
    """The model did not answer, and is asked again. reason: in our own words."""

    reason: str


Shown = Said | Used | Waited


class Channel(Protocol):
    """A terminal, a file, a chat room. clearance: the highest level that it may show; None: nothing may be shown."""

    name: str
    clearance: Level | None

    def show(self, event: Shown) -> None:
        """Show what the gate let through. Returns soon."""


class Outlet:
    """A channel behind the gate, for one answer. Asked at every bit: the taint may have risen since the one before."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._released: list[str] = []
        self.refusal: Refused | None = None

    @property
    def released(self) -> str:
        """What was let through of the answer."""
        return "".join(self._released)

    def show(self, event: Shown) -> None:
        """Show it, or hold it back and all that follows. Raises: Refused when the session has ended."""
        if not self.is_open():
            return
        if isinstance(event, Said):
            self._released.append(event.text)
        self._channel.show(event)

    def is_open(self) -> bool:
        """Whether the session may still be heard here. Raises: Refused when it has ended (P7)."""
        if self.refusal is None:
            try:
                self._session.check_output(self._channel.clearance, channel=self._channel.name)
            except Refused as refused:
                if refused.details.get("rule") != "P14":
                    raise
                self.refusal = refused
        return self.refusal is None


class Silent:
    """A channel that shows nothing, for answers that are only kept."""

    name = "silent"

    def __init__(self, clearance: Level | None = Level.RESTRICTED) -> None:
        self.clearance = clearance

    def show(self, event: Shown) -> None:
        """Nothing."""
