"""A tool: one value for every surface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tidegate.records.validation import check_names, require

if TYPE_CHECKING:
    from tidegate.session import Session

Schema = dict[str, Any]
"""A JSON Schema, as hosts read it."""

Arguments = dict[str, Any]
"""Arguments as a model sent them, without the optional ones that say nothing."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """A host's hints about a tool, for its dialogs. They enforce nothing here."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False  # memory is closed: nothing is sent anywhere

    def to_dict(self) -> dict[str, bool]:
        """Return all four hints, by the protocol's names."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: its description for hosts and models, and its work.

    work: gets arguments with checked names, with all required ones, without optional ones that say nothing.
    """

    name: str
    title: str
    description: str
    input_schema: Schema
    output_schema: Schema
    annotations: Annotations
    work: Callable[[Session, Arguments], dict[str, Any]]

    @property
    def read_only(self) -> bool:
        """Return whether the tool changes nothing."""
        return self.annotations.read_only

    def run(self, session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result as one JSON object. Raises: InvalidArgument, and what the verb raises."""
        required = self.input_schema["required"]
        check_names(arguments, self.input_schema["properties"])
        require(arguments, *required)
        return self.work(session, {name: each for name, each in arguments.items() if name in required or _says(each)})


def _says(value: object) -> bool:
    """Return whether an optional argument says anything.

    Clients with strict schemas send every argument, so a model leaves one out as null, as a blank text or as an empty
    list.
    """
    return value is not None and value != [] and not (isinstance(value, str) and not value.strip())
