"""Audit: chains of entries, anchors outside them, and what both prove. Pure."""
