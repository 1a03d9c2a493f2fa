"""Fixtures of the tests of jobs."""

from __future__ import annotations

from tests.worker.conftest import scene

__all__ = ["scene"]
