"""Processes of their own on one home: each runs a script, and all begin at the same moment."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_MAX = 120  # a bound on hanging, not a measurement

PREAMBLE = """
import os, sys, time, random, signal
import tidegate
from tidegate import Level
from tidegate.errors import NotFound, Refused, StorageError
home, number, gate = sys.argv[1], int(sys.argv[2]), sys.argv[3]

def tell(*words):
    sys.stdout.write(" ".join(map(str, words)) + chr(10))
    sys.stdout.flush()

tell("ready")
while not os.path.exists(gate):
    time.sleep(0.001)
"""


@contextmanager
def crowd(home: Path, script: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """As many processes, all ready and none begun; they begin when the block does, and none outlives it."""
    gate = home.parent / f"gate-{time.monotonic_ns()}"
    command = [sys.executable, "-c", PREAMBLE + script, str(home)]
    processes = [
        subprocess.Popen([*command, str(number), str(gate)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
        for number in range(count)
    ]
    try:
        for process in processes:
            assert line_of(process) == "ready"
        gate.touch()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def line_of(process: subprocess.Popen[str]) -> str:
    """The next line that a process says; nothing when it is over."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def said(processes: Iterable[subprocess.Popen[str]]) -> list[list[str]]:
    """All that each says until it ends; each must end well."""
    told = []
    for process in processes:
        out, _ = process.communicate(timeout=SECONDS_MAX)
        assert process.returncode == 0, out
        told.append(out.split("\n")[:-1])
    return told
