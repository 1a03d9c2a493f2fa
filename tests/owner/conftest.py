"""Fixtures of the tests of the owner's acts."""

from __future__ import annotations

from tests.core.conftest import opening, scene

__all__ = ["opening", "scene"]
