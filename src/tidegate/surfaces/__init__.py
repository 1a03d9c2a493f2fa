"""What people and programs meet: the command line and the MCP server."""
