"""A test that hangs ends, and says where it hung."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
HANGS = """
import threading
import pytest

@pytest.mark.timeout(1)
def test_that_waits_for_ever():
    threading.Event().wait()
"""


def test_a_test_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    (tmp_path / "test_hanging.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", str(tmp_path)], capture_output=True, timeout=60, check=False
    )
    assert ran.returncode != 0
    assert b"Timeout" in ran.stdout + ran.stderr
    assert b"test_that_waits_for_ever" in ran.stdout + ran.stderr


def test_every_test_has_two_minutes(pytestconfig: object) -> None:
    assert pytestconfig.getini("timeout") == "120"  # type: ignore[attr-defined]
