"""The catalogue of seeded leaks: small faults, each a mistake that a maintainer could make, for the harness to find.

The construction makes many of them inexpressible above storage, since code that holds a view can name nothing above
it. Those are put into the provider, where the walls are: `above` and `beside` are what it must never look at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tidegate.records.record import Record, RecordKind
from tidegate.storage.inmemory.provider import InMemoryCompartment, InMemoryProvider

Patch = pytest.MonkeyPatch
Fault = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Leak:
    """One fault.

    channel: of the table in docs/security.md, or the property that it breaks.
    by_model: whether it tells no observer anything new, so that the reference model must find it instead.
    by_put_back: whether only an older control store, put back, brings it out.
    """

    name: str
    channel: str
    install: Callable[[Patch], None]
    by_model: bool = False
    by_put_back: bool = False


LEAKS: list[Leak] = []


def leak(
    channel: str, *, by_model: bool = False, by_put_back: bool = False
) -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Enters a fault in the catalogue, under its function's name."""

    def enter(install: Callable[[Patch], None]) -> Callable[[Patch], None]:
        LEAKS.append(Leak(install.__name__, channel, install, by_model, by_put_back))
        return install

    return enter


def replaced(patch: Patch, owner: object, name: str) -> Callable[[Fault], Fault]:
    """Puts a fault in the place of a function of `owner`; the fault gets the real one first, then the arguments."""

    def put(fault: Fault) -> Fault:
        real = getattr(owner, name)
        patch.setattr(owner, name, lambda *args, **kwargs: fault(real, *args, **kwargs))
        return fault

    return put


# What a provider must never look at


def know_the_home(patch: Patch) -> None:
    """Let compartments find their neighbours. No fault by itself: what they then look at is."""

    @replaced(patch, InMemoryProvider, "_visible")
    def visible(real: Fault, self: InMemoryProvider, *args: Any) -> Any:
        found = real(self, *args)
        for compartment in (*found, *self._compartments.values()):
            compartment.home = self
        return found


def everyone(compartment: Any) -> Iterator[InMemoryCompartment]:
    """Every compartment of the home."""
    home: InMemoryProvider = compartment.home
    return iter(home._compartments.values())


def above(compartment: Any) -> list[InMemoryCompartment]:
    """The same agent's compartments at higher levels, lowest first."""
    mine = (other for other in everyone(compartment) if other.agent == compartment.agent)
    return sorted((other for other in mine if other.level > compartment.level), key=lambda other: other.level)


def below(compartment: Any) -> list[InMemoryCompartment]:
    """The same agent's compartments at lower levels."""
    mine = (other for other in everyone(compartment) if other.agent == compartment.agent)
    return [other for other in mine if other.level < compartment.level]


def beside(compartment: Any) -> list[InMemoryCompartment]:
    """Other agents' compartments at the same level."""
    others = (other for other in everyone(compartment) if other.agent != compartment.agent)
    return [other for other in others if other.level == compartment.level]


def live(compartments: list[InMemoryCompartment]) -> list[Record]:
    """The live memories of some compartments."""
    records = (record for each in compartments for record in each._records.values())
    return [record for record in records if record.live and record.kind is RecordKind.MEMORY]


def holding(compartments: list[InMemoryCompartment], key: str) -> list[Record]:
    """The live memories under a key in some compartments."""
    return [record for record in live(compartments) if record.key == key]


def fresh_in_every_world(patch: Patch, cache: dict[Any, Any]) -> None:
    """Empty a cache of the process when a new home is made."""

    @replaced(patch, InMemoryProvider, "__init__")
    def made(real: Fault, self: InMemoryProvider, **rest: Any) -> None:
        cache.clear()
        real(self, **rest)
