"""Foreign MCP servers behind the gate: connections, pins of their tools, marks on their results."""
