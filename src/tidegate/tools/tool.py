"""What a tool is: the same value for every surface."""

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
"""What a model sent, with null taken as left out."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """What a host may assume of a tool. Hints for its dialogs; nothing here is enforced by them."""

    read_only: bool
    destructive: bool
    idempotent: bool
    open_world: bool = False  # memory is closed: nothing is sent anywhere

    def to_dict(self, title: str) -> dict[str, object]:
        """All four hints, by the protocol's names."""
        return {
            "title": title,
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive,
            "idempotentHint": self.idempotent,
            "openWorldHint": self.open_world,
        }


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: what hosts and models read about it, and what it does.

    work: gets arguments whose names are checked, without nulls, with everything required.
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
        """Return whether it changes nothing."""
        return self.annotations.read_only

    def run(self, session: Session, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The result as one JSON object. Raises: InvalidArgument, and what the verb raises."""
        check_names(arguments, tuple(self.input_schema["properties"]))
        require(arguments, *self.input_schema["required"])
        return self.work(session, {name: value for name, value in arguments.items() if value is not None})
