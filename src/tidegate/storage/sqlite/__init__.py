"""The SQLite provider: one file for each compartment."""
