"""The tools that a server lists: those that can be used, and why each of the others cannot.

One bad entry does not spoil the list. It is left out and named, and is never pinned: the owner's pin on a tool that has
become unusable stays as it is, so the tool cannot come back with another definition unnoticed (P14).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.pins import Definition
from tidegate.gateway.wire_guard import count_values

TOOLS_MAX = 500
DEFINITION_BYTES_MAX = 256 * 1024

ENTRY_VALUES_MAX = 20_000
"""The maximum number of JSON values in one entry. Validating one of a million takes seconds and 800 MB."""

LIST_VALUES_MAX = 200_000
"""The maximum number of JSON values in all entries of one list."""

ERRORS_MAX = 100
"""Of an entry with more errors, none is named: the library can only name all, and that takes longest."""

_ENVELOPE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""A valid rest of a page, in any revision."""

_PAGE_FIELDS = frozenset(types.ListToolsResult.model_json_schema(by_alias=True)["properties"]) - {"_meta"}
"""The parts of a page that anyone reads."""

_FIELDS = frozenset(types.Tool.model_json_schema(by_alias=True)["properties"]) | {"type", "properties", "required"}
"""The protocol's names. All others in an error's path are the server's own text (P12)."""


class ToolList:
    """One answer to the question for tools. definitions: by name. unusable: why, by name or place.

    version: the revision of the protocol that it must keep to.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._offered: list[str] = []
        self.definitions: dict[str, Definition] = {}
        self.unusable: dict[str, str] = {}
        self._count = self._values = 0

    def sift(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return one page of the list without its bad entries. Raises: CutOffError for too many tools or values."""
        tools = page.get("tools")
        rest = {name: page[name] for name in _PAGE_FIELDS & page.keys()}
        if not isinstance(tools, list):
            return rest  # the library refuses it
        if self._count + len(tools) > TOOLS_MAX:
            raise CutOffError(f"lists more than {TOOLS_MAX} tools")
        good = []
        for tool in tools:
            self._count += 1
            why = self._too_large(tool) or _fault(tool, self._version)
            if why:
                self._leave_out(_name(tool) or f"(tool {self._count})", why)
            else:
                good.append(tool)
        self._offered = [_name(tool) for tool in good]
        return {**rest, "tools": good}

    def _too_large(self, tool: object) -> str:
        """Return why an entry may not even be validated; "" if it may."""
        count = count_values(tool, ENTRY_VALUES_MAX)
        self._values += count
        if self._values > LIST_VALUES_MAX:
            raise CutOffError(f"lists tools of more than {LIST_VALUES_MAX} values")
        return f"definition: more than {ENTRY_VALUES_MAX} values" if count > ENTRY_VALUES_MAX else ""

    def add(self, tools: Sequence[types.Tool]) -> None:
        """Add the tools of a sifted page that the library could read."""
        read = {tool.name for tool in tools}
        for name in self._offered:
            if name not in read:
                self._leave_out(name, "x-mcp-header: not as the protocol says")
        for tool in tools:
            self._add(tool)

    def _add(self, tool: types.Tool) -> None:
        if tool.name in self.definitions or tool.name in self.unusable:
            self._leave_out(tool.name, "listed more than once")  # nobody can say which definition counts
            return
        try:
            definition = _definition(tool)
        except (ValueError, RecursionError):
            self._leave_out(tool.name, "definition: nested too deeply")
            return
        if definition.size > DEFINITION_BYTES_MAX:
            self._leave_out(tool.name, f"definition: more than {DEFINITION_BYTES_MAX} bytes")
        else:
            self.definitions[tool.name] = definition

    def _leave_out(self, name: str, why: str) -> None:
        self.definitions.pop(name, None)
        self.unusable.setdefault(name, why)


def _fault(tool: object, version: str) -> str:
    """Return why an entry is no tool by the protocol, in our own words; "" if it is one."""
    try:
        validate_server_result("tools/list", version, {**_ENVELOPE, "tools": [tool]})
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        return _why(error)
    return "" if _name(tool) else "name: missing"


def _why(error: ValidationError) -> str:
    if error.error_count() > ERRORS_MAX:
        return "not as the protocol says"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = [str(part) for part in first["loc"] if part in _FIELDS]
    if path[-1:] == ["type"]:
        return f'{path[0]}: must have "type": "object"'
    if not path:
        return "not as the protocol says"
    return f"{path[0]}: missing" if first["type"] == "missing" else f"{path[0]}: not as the protocol says"


def _name(tool: object) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name.strip() else ""


def _definition(tool: types.Tool) -> Definition:
    return Definition(
        tool.name,
        tool.title,
        tool.description,
        tool.input_schema,
        tool.output_schema,
        tool.annotations.model_dump(mode="json", by_alias=True, exclude_none=True) if tool.annotations else None,
    )
