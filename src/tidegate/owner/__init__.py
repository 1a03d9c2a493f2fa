"""The owner's acts on an agent's memory: commands, never tools."""
