"""Fixtures of the tests of tools."""

from __future__ import annotations

from tests.reported.conftest import session, store

__all__ = ["session", "store"]
