"""Importers: one file a source, with `sniff` and `reader`; `registry.py` knows them all."""
