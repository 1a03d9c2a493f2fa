"""Where a new session starts: at the level that was given, at its parent's taint, or at the default."""

from __future__ import annotations

from tidegate.errors import InvalidArgument
from tidegate.policy.levels import Level
from tidegate.records.validation import check_level


def check_levels(level: Level | None, ceiling: Level | None) -> None:
    """Raise InvalidArgument if one of them was given and is no level."""
    for argument, given in (("level", level), ("ceiling", ceiling)):
        if given is not None:
            check_level(given, argument)


def not_lowered(name: str, at: str, level: Level) -> str:
    """Return what the owner reads when they gave a level below that of a session that exists. at: where it stands."""
    return (
        f"{name} is already {at}; --level {level} does not lower it: give another name with --session, or start a new "
        "conversation under this name with `tidegate session renew`"
    )


def starting_level(level: Level | None, ceiling: Level, parent_taint: Level | None, default: Level) -> Level:
    """Return the level at which a new session asks to start. The policy judges it.

    No other code chooses a level for a caller who gave none. Raises: InvalidArgument (default above the ceiling).
    """
    if level is not None:
        return level
    if parent_taint is not None:  # P15
        return parent_taint
    if not default.can_flow_to(ceiling):
        raise InvalidArgument(
            f"ceiling: is below {default}, the level of new sessions (defaults.level in config.toml); give a level too",
            argument="ceiling",
        )
    return default
