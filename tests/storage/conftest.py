"""Homes in memory, where the system offers it: what is tested is what SQLite asks of the files, not the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SHARED = Path("/dev/shm")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home that does not exist yet."""
    folder = tempfile.mkdtemp(prefix="tidegate-", dir=SHARED if os.access(SHARED, os.W_OK) else None)
    yield Path(folder) / "home"
    shutil.rmtree(folder, ignore_errors=True)
