"""Leaks in pins and in similar keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.yardstick.leaks import Fault, Patch, above, beside, fresh_in_every_world, leak, replaced

from tidegate import session
from tidegate.core import similar
from tidegate.core import variants as records
from tidegate.core.gate import Answer
from tidegate.errors import LimitExceeded
from tidegate.owner import pinning
from tidegate.records.memory import Saved
from tidegate.records.record import Origin, Record
from tidegate.search import nearness
from tidegate.storage.base import View, WritableView

PINS = "pins (P5, P18)"
SIMILAR = "similar keys"
CACHES = "caches keyed without agent and taint (P11)"


@leak(PINS)
def pins_are_counted_over_levels(patch: Patch) -> None:
    patch.setattr(pinning, "PINNED_MAX", 1)

    @replaced(patch, pinning, "_require_room")
    def require_room(real: Fault, view: WritableView) -> None:
        if any(each.pinned(chars_max=0) for each in above(view.own._inner)):  # type: ignore[attr-defined]
            raise LimitExceeded("key: too many are pinned", argument="key", limit=1, actual=2)
        real(view)


@leak(PINS, by_model=True)
def a_tool_pins(patch: Patch) -> None:
    @replaced(patch, records, "keeps_pin")
    def keeps_pin(_: Fault, _before: Record | None, _origin: Origin) -> bool:
        return True


@leak(PINS, by_model=True)
def a_pin_survives_a_less_trusted_version(patch: Patch) -> None:
    @replaced(patch, records, "keeps_pin")
    def keeps_pin(_: Fault, before: Record | None, _origin: Origin) -> bool:
        return before is not None and before.live and before.pinned


@leak(PINS, by_model=True)
def a_pin_survives_a_deletion(patch: Patch) -> None:
    @replaced(patch, records, "keeps_pin")
    def keeps_pin(real: Fault, before: Record | None, origin: Origin) -> Any:
        return real(before, origin) or (before is not None and not before.live)


@leak(SIMILAR)
def similar_keys_are_computed_at_a_later_taint(patch: Patch) -> None:
    _wider(patch, above)


@leak(SIMILAR)
def similar_keys_are_those_of_another_agent(patch: Patch) -> None:
    _wider(patch, beside)


def _wider(patch: Patch, elsewhere: Callable[[Any], Any]) -> None:
    @replaced(patch, session, "with_similar")
    def with_similar(real: Fault, view: View, saved: Saved, **rest: Any) -> Any:
        wider = View((*elsewhere(view.visible[0]), *view.visible))
        return Answer(real(wider, saved, **rest).value, ())


@leak(CACHES)
def similar_keys_come_from_a_cache_over_levels(patch: Patch) -> None:
    cache: dict[Any, Any] = {}

    @replaced(patch, session, "with_similar")
    def with_similar(real: Fault, view: View, saved: Saved, **rest: Any) -> Any:
        fresh = real(view, saved, **rest)
        place = view.visible[0].agent
        return Answer(replace(fresh.value, similar=cache.setdefault(place, fresh.value.similar)), ())

    fresh_in_every_world(patch, cache)


@leak(SIMILAR)
def a_word_is_common_because_of_what_is_hidden(patch: Patch) -> None:
    patch.setattr(nearness, "RARE_MAX", 2)

    @replaced(patch, similar, "_holders")
    def holders(real: Fault, view: View, key: str, terms: Any) -> Any:
        hidden = [each.holders(terms, limit=100) for each in above(view.visible[0])]
        return real(view, key, terms) + [(-1, other) for keys in hidden for other in keys]
