"""Importers: one file per source, with `sniff` and `reader`; `registry.py` lists them."""
