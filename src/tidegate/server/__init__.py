"""The MCP server: one session, over standard input and output."""
