"""The tools that a server lists: those that can be used, and why each of the others cannot.

One bad entry does not spoil the list. It is left out and named, and is never pinned: the owner's pin on a tool that has
become unusable stays as it is, so the tool cannot come back with another definition unnoticed (P14).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as types
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from tidegate.gateway.diagnostics import CutOffError
from tidegate.gateway.pins import Definition

TOOLS_MAX = 500
DEFINITION_BYTES_MAX = 256 * 1024

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
        self._count = 0

    def sift(self, page: dict[str, Any]) -> dict[str, Any]:
        """Return one page of the list without its bad entries. Raises: CutOffError when there are too many tools."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            return page  # the library refuses it
        if self._count + len(tools) > TOOLS_MAX:
            raise CutOffError(f"lists more than {TOOLS_MAX} tools")
        good = []
        for tool in tools:
            self._count += 1
            why = _fault(page, tool, self._version)
            if why:
                self._leave_out(_name(tool) or f"(tool {self._count})", why)
            else:
                good.append(tool)
        self._offered = [_name(tool) for tool in good]
        return {**page, "tools": good}

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


def _fault(page: Mapping[str, Any], tool: object, version: str) -> str:
    """Return why an entry is no tool by the protocol, in our own words; "" if it is one."""
    try:
        alone = {**page, "tools": [tool], "nextCursor": None}
        validate_server_result("tools/list", version, {key: each for key, each in alone.items() if each is not None})
        types.Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        return _why(error)
    return "" if _name(tool) else "name: missing"


def _why(error: ValidationError) -> str:
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
