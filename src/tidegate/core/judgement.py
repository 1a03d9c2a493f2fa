"""Judging a session, and judging it again under the locks of its change (P4, P13).

A change is judged to find its compartment, and again once its transaction holds the locks. A difference is raised
inside the transaction, which undoes it: after `OvertakenError` the change starts over, `DeniedError` is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tidegate.policy.decisions import Decision, Deny
from tidegate.policy.levels import Level
from tidegate.policy.refusals import UNKNOWN_SESSION
from tidegate.storage.control import SessionRow

Judgement = tuple[SessionRow, Level]
"""A session as read at one moment, and the level that the policy allowed it then."""


class OvertakenError(Exception):
    """Undoes a transaction: the session changed after it was judged. The caller judges again."""


@dataclass(eq=False)
class DeniedError(Exception):
    """Undoes a transaction: the policy refuses. `AuditLog.refusing` turns it into the one `Refused`.

    row: the session in whose chain the refusal is entered, if any.
    """

    row: SessionRow | None
    deny: Deny


def allowed(row: SessionRow | None, decision: Decision) -> Judgement:
    """Return the session and the level allowed. Raises: DeniedError for anything else (P17)."""
    if row is None or isinstance(decision, Deny):
        raise DeniedError(row, decision if isinstance(decision, Deny) else UNKNOWN_SESSION)
    return row, decision.level


def judge_again(judge: Callable[[], object], judged: object) -> None:
    """Judge again, inside the transaction of the change. Raises: OvertakenError if the result differs; as `judge`."""
    if judge() != judged:
        raise OvertakenError


class EnteredLater:
    """A context that is entered inside another one and left after it: its lock is taken last and released last.

    No ExitStack: an interrupted one forms a cycle with its error and keeps the lock.
    """

    def __init__(self, inner: AbstractContextManager[None]) -> None:
        self._inner = inner
        self._entered = False

    def __enter__(self) -> Self:
        return self

    def enter(self) -> None:
        """Enter the context. It is left when the block of this object ends."""
        self._inner.__enter__()
        self._entered = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            self._inner.__exit__(kind, error, trace)
