"""Foreign MCP servers behind the gate: connections, pins on their tools, marks on their results."""
