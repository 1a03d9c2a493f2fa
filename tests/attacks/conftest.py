"""Fixtures of the tests of attacks."""

from __future__ import annotations

from tests.worker.conftest import scene

__all__ = ["scene"]
