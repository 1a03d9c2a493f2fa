"""The tools a model can call: definitions and results."""
