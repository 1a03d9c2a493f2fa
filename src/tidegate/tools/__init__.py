"""The tools that a model can call, the same at every taint: a list that varied would reveal what was read (P5)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tidegate.tools import jobs, memory, todos
from tidegate.tools.tool import Tool

TOOLS: Mapping[str, Tool] = MappingProxyType(
    {tool.name: tool for tool in (memory.SAVE, memory.GET, memory.SEARCH, memory.LIST, memory.DELETE)}
)
"""The five memory tools, for any client."""

_MORE = (todos.READ, todos.WRITE, jobs.CREATE, jobs.LIST, jobs.DELETE)

AGENT_TOOLS: Mapping[str, Tool] = MappingProxyType({**TOOLS, **{tool.name: tool for tool in _MORE}})
"""The tools of Tidegate's own agent: the memory tools and a few more."""
