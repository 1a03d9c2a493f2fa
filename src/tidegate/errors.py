"""The errors that a caller can get.

    TidegateError
    ├── InvalidArgument   INVALID_ARGUMENT   an argument is of the wrong kind or out of range
    ├── LimitExceeded     LIMIT              an argument is too long or there are too many
    ├── NotFound          NOT_FOUND          no live record under that key at the session's own level
    ├── Refused           REFUSED            the policy refuses: session ended, ceiling, sink, identity
    └── StorageError      STORAGE            the store cannot be read or written

Messages name the argument and say what to do. They never carry engine text, SQL, paths or content (P12).
"""

from __future__ import annotations

from typing import ClassVar

from tidegate.policy.decisions import Deny, PolicyRule

INTERNAL_ERROR = "internal error: the call failed; try again, and if it fails again, tell the owner"
"""The message about an error whose own text may hold content (P12)."""


class TidegateError(Exception):
    """The root of the tree: `code` is stable, `message` is for people, `details` for programs."""

    code: ClassVar[str] = "ERROR"

    def __init__(self, message: str, **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def to_dict(self) -> dict[str, object]:
        """Return `{code, message, …details}`, as every surface shows it under `error`."""
        return {"code": self.code, "message": self.message, **self.details}


class InvalidArgument(TidegateError):
    """An argument is of the wrong kind or out of range; `details["argument"]` names it."""

    code = "INVALID_ARGUMENT"


class LimitExceeded(TidegateError):
    """An argument is too long or has too many items; `details` has `argument`, `limit` and `actual`."""

    code = "LIMIT"


class NotFound(TidegateError):
    """No live record under that key at the session's own level. `details["visible_at"]`: where a lower one is."""

    code = "NOT_FOUND"


class Refused(TidegateError):
    """The policy refuses; `rule`, and `details["rule"]` as text, name the property of the policy.

    reason: the message without the tool's name.
    """

    code = "REFUSED"

    def __init__(self, reason: str, *, rule: PolicyRule, tool: str | None = None, **details: object) -> None:
        super().__init__(reason if tool is None else f"{tool}: {reason}", rule=rule.value, **details)
        self.rule = rule
        self.reason = reason


class StorageError(TidegateError):
    """The store cannot be read or written. Nothing was changed, unless the message says otherwise."""

    code = "STORAGE"


def refused(deny: Deny, *, tool: str | None = None) -> Refused:
    """Return the error of a decision."""
    return Refused(deny.hint, rule=deny.rule, tool=tool)
