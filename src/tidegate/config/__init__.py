"""The configuration: its settings, its reader, and the place of the home."""
