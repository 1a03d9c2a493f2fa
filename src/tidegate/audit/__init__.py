"""Audit: chains of entries, anchors kept outside them, and the proof from both. Pure."""
