"""The in-memory provider: the executable specification of storage."""
