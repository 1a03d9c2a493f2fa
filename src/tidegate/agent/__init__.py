"""The agent: a conversation with a model that uses the memory, behind the same gate."""
