"""The configuration: what can be set, how it is read, and where the home is."""
