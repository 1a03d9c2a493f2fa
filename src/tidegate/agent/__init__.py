"""The agent: a conversation with a model, around the memory and behind the same gate."""
