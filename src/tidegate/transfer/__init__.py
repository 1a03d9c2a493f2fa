"""Transfer: export, import, backup and restore."""
