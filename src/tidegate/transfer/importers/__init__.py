"""Importers: one file for each source; what each tells, before anything of it is checked."""
