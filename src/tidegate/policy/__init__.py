"""The policy: pure decisions over levels. Standard library only; no clock, no I/O, no storage."""
