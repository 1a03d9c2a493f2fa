"""Labels of results: what a server claims about its answer, and what Tidegate says about its own (P14, P18).

A claim can raise a level and never lower it. The level comes from the configuration; a label only adds to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tidegate.policy.levels import Level, read_label

LEVEL_LABEL = "com.tidegate/level"
"""The name of our own label, which gives the exact level."""

IFC_LABEL = "ifc"
"""The name of the label that GitHub's MCP server sends and Microsoft's FIDES reads."""

_NOT_UNDERSTOOD = Level.RESTRICTED  # P17: it may mean anything, so it means the most
_CONFIDENTIALITIES = {"public": Level.PUBLIC, "private": Level.INTERNAL}
_SENSITIVITIES = {"low": Level.INTERNAL, "medium": Level.CONFIDENTIAL, "high": Level.RESTRICTED}


def result_label(level: Level, *, trusted: bool) -> dict[str, object]:
    """Return the labels of a result, for its `_meta`. trusted: all of it is the owner's."""
    return {
        LEVEL_LABEL: str(level),
        IFC_LABEL: {
            "integrity": "trusted" if trusted else "untrusted",
            "confidentiality": "public" if level is Level.PUBLIC else "private",
        },
    }


def claimed_level(said: Iterable[object]) -> Level:
    """Return the highest level that a server claims for its answer; PUBLIC if it claims none.

    said: the `_meta` and `annotations` of the answer and of its parts. A label that is not understood claims
    RESTRICTED.
    """
    return max((level for each in said for level in _claims(each)), default=Level.PUBLIC)


def _claims(said: object) -> Iterator[Level]:
    if said is None:
        return
    if not isinstance(said, Mapping):
        yield _NOT_UNDERSTOOD
        return
    for name, read in _LABELS.items():
        if (value := said.get(name)) is not None:
            yield read(value)


def _level(value: object) -> Level:
    level = read_label(value)
    return _NOT_UNDERSTOOD if level is None else level


def _ifc(value: object) -> Level:
    if not isinstance(value, Mapping):
        return _NOT_UNDERSTOOD
    confidentiality = value.get("confidentiality")
    if confidentiality is None:
        return Level.PUBLIC  # integrity alone: whatever it says, the origin is `tool`
    if isinstance(confidentiality, list):
        return _readers(confidentiality)
    return _named(confidentiality, _CONFIDENTIALITIES)


def _readers(readers: list[object]) -> Level:
    """Return the level of a list of readers, as earlier versions of GitHub's server send it."""
    if readers == ["public"]:
        return Level.PUBLIC
    named = readers and all(isinstance(reader, str) for reader in readers)
    return Level.INTERNAL if named else _NOT_UNDERSTOOD  # nobody may read what has no readers


def _sensitivity(value: object) -> Level:
    return Level.PUBLIC if value is False else _named(value, _SENSITIVITIES)


def _privacy(value: object) -> Level:
    if not isinstance(value, bool):
        return _NOT_UNDERSTOOD
    return Level.INTERNAL if value else Level.PUBLIC


def _named(value: object, levels: Mapping[str, Level]) -> Level:
    return levels.get(value.lower(), _NOT_UNDERSTOOD) if isinstance(value, str) else _NOT_UNDERSTOOD


# `security_label` is what FIDES reads on a part of an answer. The hints are those of the draft SEP-1913.
_LABELS: Mapping[str, Callable[[object], Level]] = {
    LEVEL_LABEL: _level,
    IFC_LABEL: _ifc,
    "security_label": _ifc,
    "sensitiveHint": _sensitivity,
    "privateHint": _privacy,
}
